"""Define the Ray actor that runs sessions on a cluster node, and the calibration that precedes them.

The actor's process contains Ray's threads, so sessions run in a separate process, like those of
``--processes`` (`live_eval.run.session_process`).
"""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from typing import Any, NamedTuple

from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.cluster.nodes import Software, software
from live_eval.cluster.sealing import KeyPair
from live_eval.errors import FailureKind, TurnError
from live_eval.recording.calibrations import KeptCalibration
from live_eval.redaction import SECRETS
from live_eval.run.processes import session_processes
from live_eval.run.session_process import ProcessSettings, Ready, SessionAnswer
from live_eval.session.event_loop import innermost, run
from live_eval.types import Failure

__all__ = ["Measured", "SessionActor", "calibrate_node"]


class Measured(NamedTuple):
    """A node's calibration and its number of failed turns."""

    calibration: KeptCalibration
    failed: int


def calibrate_node(plan: CalibrationPlan) -> Measured:
    """Measure a node's latency error."""
    result = run(calibrate(plan))
    return Measured(result.kept(datetime.now(UTC)), len(result.failed))


class SessionActor:
    """An actor that runs sessions. Arguments and results are encrypted, except those of `introduce`."""

    def __init__(self) -> None:
        self._keys = KeyPair()
        self._stack = contextlib.AsyncExitStack()

    async def introduce(self) -> tuple[Software, int, bytes]:
        """Return this node's software versions, the process ID and the public key."""
        return software(), os.getpid(), self._keys.public

    async def open(self, other: bytes, sealed: bytes) -> bytes:
        """Start the session process with encrypted settings; return an encrypted `Ready` or `Failure`."""
        self._seal = self._keys.seal_with(other)
        settings: ProcessSettings = self._seal.open(sealed)
        SECRETS.learn_all(settings.secrets)
        try:
            self._sessions = await self._stack.enter_async_context(session_processes(1, settings))
        except ExceptionGroup as errors:
            return self._seal.close(Failure(FailureKind.PROCESS_DIED, f"{innermost(errors)}"))
        return self._seal.close(Ready(self._sessions.priority, self._sessions.cpu()))

    async def run(self, sealed: bytes) -> bytes:
        """Run the session of an encrypted `SessionOrder`; return an encrypted `SessionAnswer`."""
        outcome: Any
        try:
            outcome = await self._sessions.run(self._seal.open(sealed))
        except TurnError as error:
            outcome = Failure(error.kind, error.message)
        return self._seal.close(SessionAnswer(0, outcome, self._sessions.cpu()))
