"""Choose a run's number of session processes, and check the machine's capacity. Pure."""

from __future__ import annotations

import os
import socket

from live_eval.dialect import TransportKind

__all__ = ["core_count", "default_processes", "overload"]

_MAX_IN_MAIN = 4
"""Maximum number of sessions in the main process, since session processes take half a second to start."""
_PER_PROCESS = {
    TransportKind.WEBSOCKET: 150,
    TransportKind.HTTP: 150,
    TransportKind.HTTP2: 10,
    TransportKind.WEBRTC: 20,
}
"""Number of sessions that one process times accurately, as measured (docs/explanation/time-accuracy.md)."""
_ESTIMATED = frozenset({TransportKind.HTTP2})
"""Kinds whose number is an estimate: Amazon's SDK takes 40 to 70 ms of CPU time for a second of audio."""


def default_processes(kind: TransportKind, sessions: int, cores: int | None = None) -> int:
    """Return the default number of processes for concurrent sessions; 0 means the main process.

    `cores` defaults to the number of cores available to this process.
    """
    if sessions <= _MAX_IN_MAIN or not hasattr(socket, "AF_UNIX"):
        return 0
    return min(core_count() if cores is None else cores, -(-sessions // _PER_PROCESS[kind]))


def overload(kind: TransportKind, sessions: int, cores: int | None = None) -> str:
    """Return a warning if a machine may be too slow for this many sessions, otherwise an empty string."""
    cores = core_count() if cores is None else cores
    most = cores * _PER_PROCESS[kind]
    if sessions <= most:
        return ""
    warning = f"{sessions} concurrent sessions over {kind.value} may not be timed accurately: {most} is "
    if kind in _ESTIMATED:
        return f"{warning}an estimate for {cores} cores; check the lag of the turns"
    return (
        f"{warning}the highest number measured on {cores} cores; measure the error with live-eval calibrate "
        f"--concurrency {sessions}"
    )


def core_count() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
