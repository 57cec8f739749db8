"""How many processes hold the sessions of a run, and how many sessions a machine can hold. Pure."""

from __future__ import annotations

import os
import socket

from live_eval.dialect import TransportKind

__all__ = ["core_count", "default_processes", "overload"]

_IN_OWN = 4
"""So many sessions need no process, whose start takes half a second."""
_PER_PROCESS = {TransportKind.WEBSOCKET: 150, TransportKind.HTTP: 150, TransportKind.WEBRTC: 20}
"""Sessions that one process was measured to time well: docs/time-accuracy.md."""


def default_processes(kind: TransportKind, sessions: int, cores: int | None = None) -> int:
    """Return how many processes hold sessions unless the user says it; 0 for the process of the run.

    Args:
        kind: The kind of their transport.
        sessions: How many are held at a time.
        cores: How many cores there are; None for those that this process may use.
    """
    if sessions <= _IN_OWN or not hasattr(socket, "AF_UNIX"):
        return 0
    return min(core_count() if cores is None else cores, -(-sessions // _PER_PROCESS[kind]))


def overload(kind: TransportKind, sessions: int, cores: int | None = None) -> str:
    """Say that a machine may not carry so many sessions; empty if it can.

    Args:
        kind: As in `default_processes`.
        sessions: As in `default_processes`.
        cores: As in `default_processes`.
    """
    cores = core_count() if cores is None else cores
    most = cores * _PER_PROCESS[kind]
    if sessions <= most:
        return ""
    return (
        f"{sessions} sessions at a time are more than the {most} that {cores} cores are known to time well "
        f"over {kind.value}; live-eval calibrate --sessions {sessions} measures the error"
    )


def core_count() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
