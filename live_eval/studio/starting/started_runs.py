"""Run ``live-eval run`` in a child process, one run at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from live_eval.redaction import SECRETS
from live_eval.studio.answers import BusyError, NotFoundError
from live_eval.studio.library import ListedFolder

__all__ = ["RESUME", "StartedRun", "StartedRuns"]

RESUME = "--resume"
_FOLLOWS_US = "--until-stdin-ends"
"""Ends the run if the studio is killed, because no page could stop it any more."""
_MOST_LINES = 40
_MOST_CHARACTERS = 2_000  # maximum length of a line
_MOST_KEPT = 100
_STOP_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 3.0
_INTERRUPTED = 130  # exit status after Ctrl-C


@dataclass(slots=True, eq=False)
class StartedRun:
    """A run started from a page.

    Args:
        folder: Run folder, which does not exist until the run has begun.
        arguments: Arguments of ``live-eval``.
        lines: Last lines of the command's output, without secrets.
        status: Exit status; None while the command runs.
        stopping: Whether the command has been asked to stop.
    """

    folder: ListedFolder
    arguments: Sequence[str]
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_LINES))
    status: int | None = None
    stopping: bool = False
    process: asyncio.subprocess.Process | None = None
    task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether the command is running."""
        return self.task is not None and not self.task.done()

    @property
    def command(self) -> str:
        """The equivalent command line, without secrets."""
        return SECRETS.text(shlex.join(("live-eval", *self.arguments)))

    def begin(self) -> None:
        """Start the command in the background."""
        self.status, self.stopping, self.process = None, False, None
        self.lines.clear()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "live_eval", *self.arguments, _FOLLOWS_US),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=1 << 20,
                start_new_session=True,  # Ctrl-C must reach only the studio, which stops the run itself
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            self.lines.append(f"cannot start live-eval: {error.strerror}")
            self.status = -1
            return
        if self.stopping:  # asked while the process was being created
            self._send(signal.SIGINT)
        assert self.process.stdout is not None
        while True:
            try:
                line = await self.process.stdout.readline()
            except ValueError:  # the line exceeds the limit; the rest is read as the next line
                continue
            if not line:
                break
            text = SECRETS.text(line.decode(errors="replace").rstrip()[:_MOST_CHARACTERS])
            if text:
                self.lines.append(text)
        status = await self.process.wait()
        # While it starts, Python does not handle the signal yet and is ended by it.
        self.status = _INTERRUPTED if self.stopping and status == -signal.SIGINT else status

    def stop(self) -> None:
        """Ask the command to end, which abandons the turns in progress; a second call ends it immediately.

        If the process is still being created, it is asked as soon as it exists.
        """
        if self.running:
            self._send(signal.SIGTERM if self.stopping else signal.SIGINT)
            self.stopping = True

    def _send(self, asked: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(asked)


class StartedRuns:
    """The runs that this studio process has started from pages. Call the methods on the event loop."""

    def __init__(self) -> None:
        self._runs: dict[str, StartedRun] = {}

    def listed(self) -> list[StartedRun]:
        """Return the runs, the latest first."""
        return list(reversed(self._runs.values()))

    def start(self, folder: ListedFolder, arguments: Sequence[str]) -> StartedRun:
        """Start a run.

        Raises:
            BusyError: Another run is in progress.
        """
        self._check_idle()
        run = StartedRun(folder, tuple(arguments))
        self._runs[folder.id] = run
        for oldest in list(self._runs)[:-_MOST_KEPT]:
            del self._runs[oldest]
        run.begin()
        return run

    def resume(self, run: StartedRun, *, recorded: bool) -> None:
        """Resume a run, or start it again if nothing was `recorded`.

        Raises:
            BusyError: Another run is in progress.
        """
        self._check_idle()
        if recorded and RESUME not in run.arguments:
            run.arguments = (*run.arguments, RESUME)
        run.begin()

    def find(self, run_id: str) -> StartedRun:
        """Find a run by ID.

        Raises:
            NotFoundError: This studio did not start the run.
        """
        if run_id not in self._runs:
            raise NotFoundError(f"this studio has not started a run with the ID {run_id[:40]!r}")
        return self._runs[run_id]

    async def close(self) -> None:
        """Stop the run in progress, and wait until it has stored its turns."""
        for patience_s in (_STOP_TIMEOUT_S, _KILL_TIMEOUT_S):
            running = [run for run in self._runs.values() if run.task is not None and run.running]
            if not running:
                return
            for run in running:
                run.stop()
            await asyncio.wait([run.task for run in running if run.task is not None], timeout=patience_s)
        for run in self._runs.values():
            if run.process is not None and run.running:
                with contextlib.suppress(ProcessLookupError):
                    run.process.kill()

    def _check_idle(self) -> None:
        if any(run.running for run in self._runs.values()):
            raise BusyError(
                "another run is in progress, and a second one would disturb its timing: wait, or stop it"
            )
