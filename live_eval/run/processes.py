"""Sessions held by processes of their own (``--processes N``), which do nothing else.

Only the holding moves: plan, rate limits, retries, decoding, timing and storing stay in this process, whose
interpreter then no longer competes with the event loops that time sessions. An order goes to the process with
the fewest sessions, through a pair of sockets: never on a command line, in the environment or in a file.

A process that dies costs its sessions (`FailureKind.PROCESS_DIED`); the next order starts another in its
place. Where none starts, the others take the sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from tempfile import TemporaryFile
from typing import IO, Any

from live_eval.clock import Clock
from live_eval.dialect import ClientSpec
from live_eval.errors import FailureKind, LiveEvalError, TurnError, UsageError
from live_eval.redaction import SECRETS
from live_eval.run.held_sessions import Cpu, HeldSession, SessionHolder, SessionOrder, local_sessions
from live_eval.run.pipe import Pipe
from live_eval.run.session_process import Assignment, ProcessSettings, Ready, SessionAnswer
from live_eval.session.event_loop import Priority
from live_eval.transport import Transport
from live_eval.types import Failure

__all__ = ["SessionProcesses", "hold_sessions", "session_processes"]

_PROGRAM = "from live_eval.run.session_process import main; main()"
_START_S = 60.0
_STOP_S = 5.0
_TAIL_CHARACTERS = 500


def hold_sessions(
    spec: ClientSpec,
    clock: Clock,
    *,
    processes: int = 0,
    transport: Callable[[Clock], Transport] | None = None,
) -> contextlib.AbstractAsyncContextManager[SessionHolder]:
    """Hold sessions with an endpoint; end those under way with the block.

    Args:
        spec: The client.
        clock: Their clock.
        processes: How many processes of their own hold them; 0 to hold them on this event loop.
        transport: What makes their transports, instead of the client's; only without processes.

    Raises:
        UsageError: As `session_processes`.
        LiveEvalError: As `session_processes`.
    """
    if not processes:
        return local_sessions(clock, spec.transport_kind, transport)
    settings = ProcessSettings(
        kind=spec.transport_kind,
        implementations=(spec.dialect, spec.transport),
        secrets=SECRETS.copy(),
    )
    return session_processes(processes, settings)


@contextlib.asynccontextmanager
async def session_processes(number: int, settings: ProcessSettings) -> AsyncIterator[SessionProcesses]:
    """Start processes that hold sessions; end them, and the sessions under way, with the block.

    Args:
        number: How many.
        settings: Those of each.

    Raises:
        UsageError: This system has no Unix sockets.
        LiveEvalError: A process did not start.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise UsageError("turns.processes: expected 0 on this system, which has no Unix sockets")
    places = [_Place(settings) for _ in range(number)]
    try:
        async with asyncio.TaskGroup() as tasks:
            for place in places:
                tasks.create_task(place.process())
        yield SessionProcesses(places)
    finally:
        await asyncio.gather(*(place.close() for place in places))


class SessionProcesses:
    """Spreads sessions over processes; a `SessionHolder`. See `session_processes`."""

    def __init__(self, places: list[_Place]) -> None:
        self._places = places

    @property
    def priority(self) -> Priority:
        """The lowest priority that a process got."""
        return max((place.priority for place in self._places), key=list(Priority).index)

    @property
    def process_ids(self) -> list[int]:
        """Of the processes that are there."""
        return [place.running.process_id for place in self._places if place.running is not None]

    async def hold(self, order: SessionOrder) -> HeldSession:
        """As `SessionHolder.hold`.

        Raises:
            TurnError: As in the other process; or that process died.
        """
        while True:
            place = min(self._places, key=lambda place: (place.is_down, place.sessions))
            place.sessions += 1
            try:
                return await place.hold(order)
            except _DownError as error:
                if all(place.is_down for place in self._places):
                    raise TurnError(FailureKind.PROCESS_DIED, str(error)) from error
            finally:
                place.sessions -= 1

    def cpu(self) -> Cpu:
        """As `SessionHolder.cpu`: since each process was ready, until its last session ended."""
        spent = [place.cpu() for place in self._places]
        total_s = time.process_time() + sum(cpu.total_s for cpu in spent)
        return Cpu(total_s, sum(cpu.loops_s for cpu in spent))


class _DownError(LiveEvalError):
    """No process starts in a place; the order can go to another."""


class _Place:
    """Where a process runs, and another one after it has died."""

    def __init__(self, settings: ProcessSettings) -> None:
        self._settings = settings
        self._starting = asyncio.Lock()
        self.running: _Process | None = None
        self.sessions = 0
        self.is_down = False
        """Whether no process could be started here when it was last tried."""
        self.priority = Priority.NORMAL
        self._before = Cpu(0.0, 0.0)  # spent by those that died

    def cpu(self) -> Cpu:
        now = self.running.spent if self.running is not None else Cpu(0.0, 0.0)
        return Cpu(self._before.total_s + now.total_s, self._before.loops_s + now.loops_s)

    async def process(self) -> _Process:
        """Return the process that runs here; start one if none does.

        Raises:
            LiveEvalError: It does not start.
        """
        async with self._starting:
            if self.running is None or self.running.ended:
                self._before, died, self.running = self.cpu(), self.running, None
                if died is not None:
                    await died.close()
                process = _Process(self._settings)
                try:
                    self.priority = (await process.start()).priority
                except BaseException:
                    self.is_down = True
                    await process.close()
                    raise
                self.running, self.is_down = process, False
            return self.running

    async def hold(self, order: SessionOrder) -> HeldSession:
        """Hold a session here.

        Raises:
            TurnError: As in the process; or it died meanwhile.
            _DownError: No process starts here.
        """
        try:
            process = await self.process()
        except LiveEvalError as error:
            raise _DownError(str(error)) from error
        outcome = (await process.answer(order)).outcome
        if isinstance(outcome, Failure):
            raise TurnError(outcome.kind, outcome.message)
        return outcome

    async def close(self) -> None:
        if self.running is not None:
            await self.running.close()


class _Process:
    """One process, from its start to its end."""

    def __init__(self, settings: ProcessSettings) -> None:
        self._settings = settings
        self._numbers = itertools.count()
        self._awaited: dict[int, asyncio.Future[SessionAnswer]] = {}
        self._ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._pipe: Pipe | None = None
        self._errors: IO[bytes] | None = None
        self._at_start = self.spent = Cpu(0.0, 0.0)
        self.ended = False

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> Ready:
        """Start it, and wait until it can hold sessions.

        Raises:
            LiveEvalError: It ended, or took too long.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._errors = await asyncio.to_thread(TemporaryFile)
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-c", _PROGRAM),  # -P: import nothing from the current folder
                    stdin=theirs.fileno(),
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=self._errors,
                    start_new_session=True,  # Ctrl-C is for this process, which then ends that one
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )
        except OSError as error:
            ours.close()
            raise LiveEvalError(f"a process for sessions cannot be started: {error}") from None
        loop = asyncio.get_running_loop()
        _, self._pipe = await loop.create_unix_connection(lambda: Pipe(self._take, self._end), sock=ours)
        self._pipe.send(self._settings)
        try:
            async with asyncio.timeout(_START_S):
                return await self._ready
        except TimeoutError:
            raise LiveEvalError(f"a process for sessions was not ready within {_START_S:g} s") from None
        except EOFError:
            raise LiveEvalError(await self._obituary("before it was ready")) from None

    async def answer(self, order: SessionOrder) -> SessionAnswer:
        """Let it hold a session.

        Raises:
            TurnError: It died.
        """
        assert self._pipe is not None
        number = next(self._numbers)
        future: asyncio.Future[SessionAnswer] = asyncio.get_running_loop().create_future()
        self._awaited[number] = future
        try:
            if self.ended:
                raise EOFError
            self._pipe.send(Assignment(number, order))
            return await future
        except EOFError:
            why = await self._obituary("while it held the session")
            raise TurnError(FailureKind.PROCESS_DIED, why) from None
        finally:
            del self._awaited[number]

    async def close(self) -> None:
        """End it, and its sessions."""
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

    def _take(self, value: Ready | SessionAnswer) -> None:
        if isinstance(value, Ready):
            self._at_start = value.cpu
            if not self._ready.done():
                self._ready.set_result(value)
            return
        self.spent = Cpu(*(now - then for now, then in zip(value.cpu, self._at_start, strict=True)))
        future = self._awaited.get(value.number)
        if future is not None and not future.done():
            future.set_result(value)

    def _end(self) -> None:
        self.ended = True
        awaited: list[asyncio.Future[Any]] = [self._ready, *self._awaited.values()]
        for future in awaited:
            if not future.done():
                future.set_exception(EOFError())
                future.exception()  # nobody may be waiting for it

    async def _obituary(self, when: str) -> str:
        """Return how it ended, in words."""
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        status = self._process.returncode
        how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
        said = await asyncio.to_thread(self._last_words)
        return f"the process that holds sessions ended {when}, with {how}{': ' if said else ''}{said}"

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        with contextlib.suppress(OSError, ValueError):
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace").strip()
            return SECRETS.text(text)[-_TAIL_CHARACTERS:]
        return ""
