"""Run sessions in dedicated processes (``--processes N``).

Planning, rate limits, retries, decoding, timing and storage stay in the main process, where they do not
compete with the event loops that time sessions. Session orders contain keys, so they are sent only over a
socket pair, never on a command line, in the environment or in a file. `live_eval.run.session_workers` assigns
sessions to processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from tempfile import TemporaryFile
from typing import IO, Any

from live_eval.clock import Clock
from live_eval.errors import FailureKind, LiveEvalError, TurnError, UsageError
from live_eval.redaction import SECRETS
from live_eval.registry import ClientSpec
from live_eval.run.session_process import (
    BEAT_S,
    Alive,
    Assignment,
    Opened,
    Pipe,
    ProcessSettings,
    Ready,
    SessionAnswer,
)
from live_eval.run.session_workers import Place, SpreadSessions, spread_sessions
from live_eval.run.sessions import Cpu, SessionOrder, SessionRunner, local_runner
from live_eval.transport import Transport

__all__ = ["session_processes", "session_runner"]

_PROGRAM = "from live_eval.run.session_process import main; main()"
_START_S = 60.0
_STOP_S = 5.0
_TAIL_CHARACTERS = 500
_MISSED_BEATS = 20
"""Number of missed heartbeats after which a process counts as stuck; a busy machine misses far fewer."""


def session_runner(
    spec: ClientSpec,
    clock: Clock,
    *,
    processes: int = 0,
    transport: Callable[[Clock], Transport] | None = None,
) -> contextlib.AbstractAsyncContextManager[SessionRunner]:
    """Return a context manager that yields a session runner and, on exit, cancels sessions in progress.

    Args:
        processes: Number of session processes; 0 to run sessions on this event loop.
        transport: Factory that replaces the client's transport; allowed only if `processes` is 0.

    Raises:
        UsageError: On entry: this system has no Unix sockets for processes.
        LiveEvalError: On entry: a process failed to start.
    """
    if not processes:
        return local_runner(clock, transport)
    settings = ProcessSettings(
        implementations=(spec.dialect, spec.transport),
        secrets=SECRETS.copy(),
    )
    return session_processes(processes, settings)


@contextlib.asynccontextmanager
async def session_processes(number: int, settings: ProcessSettings) -> AsyncIterator[SpreadSessions]:
    """Start session processes; on exit, end them and any sessions in progress.

    Raises:
        UsageError: This system has no Unix sockets.
        LiveEvalError: A process did not start.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("turns.processes: expected 0 on this system, which has no Unix sockets")
    async with spread_sessions([Place(lambda: _Process(settings)) for _ in range(number)]) as sessions:
        yield sessions


class _Process:
    """A session process, as a `SessionWorker`."""

    def __init__(self, settings: ProcessSettings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._awaited: dict[int, asyncio.Future[SessionAnswer]] = {}
        self._on_ready: dict[int, Callable[[], None]] = {}
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._pipe: Pipe | None = None
        self._errors: IO[bytes] | None = None
        self._at_start = self.spent = Cpu(0.0, 0.0)
        self.ended = False
        self._silent_beats = 0
        self._stuck = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> Ready:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._errors = await asyncio.to_thread(TemporaryFile)
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-c", _PROGRAM),  # -P: no imports from the current folder
                    stdin=theirs.fileno(),
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=self._errors,
                    start_new_session=True,  # Ctrl-C must reach only the parent, which ends the process
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
        except OSError as error:
            ours.close()
            raise LiveEvalError(f"cannot start a session process: {error}") from None
        loop = asyncio.get_running_loop()
        _, self._pipe = await loop.create_unix_connection(
            lambda: Pipe(self._receive, self._closed), sock=ours
        )
        self._pipe.send(self._settings)
        try:
            async with asyncio.timeout(_START_S):
                ready = await self._ready
        except TimeoutError:
            raise LiveEvalError(f"a session process was not ready within {_START_S:g} s") from None
        except EOFError:
            raise LiveEvalError(await self._why_ended("before it was ready")) from None
        self._watching = asyncio.create_task(self._watch())
        return ready

    async def answer(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionAnswer:
        assert self._pipe is not None
        number = next(self._numbers)
        future: asyncio.Future[SessionAnswer] = asyncio.get_running_loop().create_future()
        self._awaited[number] = future
        if on_ready is not None:
            self._on_ready[number] = on_ready
        try:
            if self.ended:
                raise EOFError
            self._pipe.send(Assignment(number, order))
            return await future
        except EOFError:
            why = await self._why_ended("during the session")
            raise TurnError(FailureKind.PROCESS_DIED, why) from None
        finally:
            del self._awaited[number]
            self._on_ready.pop(number, None)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            try:
                async with asyncio.timeout(_STOP_S):
                    await self._process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        if self._errors is not None:
            await asyncio.to_thread(self._errors.close)
            self._errors = None

    async def _watch(self) -> None:
        """Kill the process if it is stuck."""
        # Count heartbeats instead of measuring time, since time also passes while this process is suspended.
        assert self._process is not None
        while not self.ended:
            await asyncio.sleep(BEAT_S)
            self._silent_beats += 1
            if self._silent_beats > _MISSED_BEATS:
                self._stuck = True
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                return

    def _receive(self, value: Ready | Opened | SessionAnswer | Alive) -> None:
        self._silent_beats = 0
        if isinstance(value, Alive):
            return
        if isinstance(value, Opened):
            if (on_ready := self._on_ready.get(value.number)) is not None:
                on_ready()
            return
        if isinstance(value, Ready):
            self._at_start = value.cpu
            if not self._ready.done():
                self._ready.set_result(value)
            return
        self.spent = Cpu(*(now - then for now, then in zip(value.cpu, self._at_start, strict=True)))
        future = self._awaited.get(value.number)
        if future is not None and not future.done():
            future.set_result(value)

    def _closed(self) -> None:
        self.ended = True
        awaited: list[asyncio.Future[Any]] = [self._ready, *self._awaited.values()]
        for future in awaited:
            if not future.done():
                future.set_exception(EOFError())
                future.exception()  # avoids a warning if nothing awaits the future

    async def _why_ended(self, when: str) -> str:
        """Describe the process's exit status, and include the end of its standard error."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        status = self._process.returncode
        how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        if self._stuck:
            how += f", because it had not responded for {_MISSED_BEATS * BEAT_S:g} s"
        tail = await asyncio.to_thread(self._error_tail)
        return f"the session process ended {when}, with {how}{': ' if tail else ''}{tail}"

    def _error_tail(self) -> str:
        if self._errors is None:
            return ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace").strip()
            return SECRETS.text(text)[-_TAIL_CHARACTERS:]
        return ""
