"""Store this machine's calibrations; reports use the latest one for each transport and load."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from live_eval.recording.machine_records import MachineRecords
from live_eval.recording.reader import part_of
from live_eval.text.wording import counted

__all__ = ["FEWEST_TURNS", "FILE_VARIABLE", "KeptCalibration", "keep", "kept_in", "nearest"]

FILE_VARIABLE = "LIVE_EVAL_CALIBRATIONS"
FEWEST_TURNS = 50
"""Minimum number of turns for storing a calibration; with fewer, the 99th percentile is unreliable."""


class KeptCalibration(BaseModel):
    """The error of latencies measured on this machine, compared with known times.

    Args:
        transport: ``websocket`` or ``webrtc``.
        noise: Whether all cores were kept busy.
        processes: Number of processes that ran the sessions; 0 for the main process.
        stamps: Source of the arrival timestamps: ``kernel`` or ``user``.
        errors_p99_ms: 99th percentile of the absolute error, for each latency.
        floor_p99_ms: 99th percentile of the lateness of a bare timer loop.
        turns: Number of compared turns; 0 if stored by an older version without it.
        node: Cluster node; None for this machine.
    """

    model_config = ConfigDict(frozen=True)

    date: str
    transport: str
    sessions: int
    noise: bool
    stamps: str
    errors_p99_ms: Mapping[str, float]
    floor_p99_ms: float
    processes: int = 0
    turns: int = 0
    node: str | None = None

    @property
    def load(self) -> tuple[str, int, bool, int]:
        """The key of the calibration; a later one with the same key replaces it."""
        return self.transport, self.sessions, self.noise, self.processes

    def in_words(self) -> str:
        """Summarise the calibration in one sentence without a full stop."""
        errors = ", ".join(f"{name} within {ms:.1f} ms" for name, ms in sorted(self.errors_p99_ms.items()))
        load = counted(self.sessions, "concurrent session")
        load += f" (processes: {self.processes})" if self.processes else ""
        load += " and busy cores" if self.noise else ""
        load += f" over {self.turns} turns" if self.turns else ""
        where = "this machine" if self.node is None else f"node {self.node}, the worst in use,"
        return (
            f"timing error of live-eval (p99), calibrated on {where} on {self.date[:10]} with {load}: "
            f"{errors}; a bare timer loop was {self.floor_p99_ms:.1f} ms late"
        )


_KEPT = MachineRecords(KeptCalibration, "calibrations.json", FILE_VARIABLE)


def keep(calibration: KeptCalibration) -> Path:
    """Store a calibration, replacing any with the same transport and load; return the file.

    Raises:
        DataError: The file cannot be written.
    """
    return _KEPT.keep(calibration, lambda each: each.load)


def nearest(transport: str, sessions: int, processes: int = 0) -> KeptCalibration | None:
    """Return the calibration with the load nearest to `sessions`, preferably a heavier one, or None.

    Calibrations of other transports, with less than half the sessions, or with a different number of
    processes are ignored.
    """
    found = [each for each in _KEPT.read() if each.transport == transport and each.processes == processes]
    heavier = [each for each in found if each.sessions >= sessions]
    if heavier:
        return min(heavier, key=lambda each: (each.sessions, each.noise))
    lighter = [each for each in found if 2 * each.sessions >= sessions]
    return max(lighter, key=lambda each: (each.sessions, not each.noise), default=None)


def kept_in(manifest: Mapping[str, Any]) -> KeptCalibration | None:
    """Return the calibration in a run's manifest; None if missing or invalid."""
    try:
        return KeptCalibration.model_validate(part_of(manifest, "machine").get("calibration"))
    except ValidationError:
        return None
