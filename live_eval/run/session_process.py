"""Run sessions in a dedicated process, started by `live_eval.run.processes`.

Standard input is this process's end of a `Pipe`. The process exits when the pipe is closed, so it never
outlives its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

from live_eval.clock import SystemClock
from live_eval.errors import FailureKind, TurnError
from live_eval.redaction import SECRETS, Redactor
from live_eval.registry import load as load_object
from live_eval.run.sessions import Cpu, SessionOrder, SessionResult, SessionRunner, local_runner
from live_eval.run.stop_signals import end_with_parent
from live_eval.session.event_loop import Priority, describe, run
from live_eval.types import Failure

__all__ = [
    "BEAT_S",
    "Alive",
    "Assignment",
    "Opened",
    "Pipe",
    "ProcessSettings",
    "Ready",
    "SessionAnswer",
    "main",
]

BEAT_S = 1.0
"""Interval between the process's `Alive` messages."""

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessSettings:
    """The first object that a session process receives.

    Args:
        implementations: Classes to import before the process is ready, each as ``"module:Class"``.
    """

    implementations: tuple[str, ...]
    secrets: Redactor = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ready:
    """The process's first message: its priority when it runs sessions, and its CPU time so far."""

    priority: Priority
    cpu: Cpu


@dataclass(frozen=True, slots=True)
class Alive:
    """A heartbeat, sent by the event loop every `BEAT_S` seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A session to run; `number` identifies the response."""

    number: int
    order: SessionOrder


@dataclass(frozen=True, slots=True)
class Opened:
    """The endpoint is ready for an assignment's session."""

    number: int


@dataclass(frozen=True, slots=True, eq=False)
class SessionAnswer:
    """A session's result or failure, and the CPU time used so far."""

    number: int
    outcome: SessionResult | Failure
    cpu: Cpu


class Pipe(asyncio.Protocol):
    """One end of a socket pair for pickled objects. The ends must trust each other.

    Args:
        ended: Called when either side closes the pipe.
    """

    def __init__(self, take: Callable[[Any], None], ended: Callable[[], None]) -> None:
        self._take = take
        self._ended = ended
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = bytearray()

    def send(self, value: object) -> None:
        """Send an object; no-op if the pipe is closed."""
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_LENGTH.pack(len(data)))
            self._transport.write(data)

    def close(self) -> None:
        """Close the pipe, and discard unsent data."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's transports are not subclasses

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as whole, whole[_LENGTH.size : end] as body:
                value = pickle.loads(body)
            del self._buffer[:end]
            self._take(value)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._ended()


def main() -> None:
    """Run sessions until the pipe on standard input is closed."""
    sys.excepthook = _print_redacted
    end_with_parent()
    run(_serve(socket.socket(fileno=sys.stdin.fileno())))


async def _serve(end: socket.socket) -> None:
    inbox: asyncio.Queue[Any] = asyncio.Queue()  # None once the pipe has ended
    loop = asyncio.get_running_loop()
    _, pipe = await loop.create_unix_connection(
        lambda: Pipe(inbox.put_nowait, lambda: inbox.put_nowait(None)), sock=end
    )
    settings = await inbox.get()
    if settings is None:
        return
    SECRETS.learn_all(settings.secrets)
    for implementation in settings.implementations:
        load_object(implementation)
    async with local_runner(SystemClock()) as runner, asyncio.TaskGroup() as tasks:
        pipe.send(Ready(runner.priority, runner.cpu()))
        beating = tasks.create_task(_beat(pipe))
        sessions: set[asyncio.Task[None]] = set()
        while (assignment := await inbox.get()) is not None:
            task = tasks.create_task(_run(runner, assignment, pipe))
            sessions.add(task)
            task.add_done_callback(sessions.discard)
        for task in (beating, *sessions):
            task.cancel()


async def _beat(pipe: Pipe) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        pipe.send(Alive())


async def _run(runner: SessionRunner, assignment: Assignment, pipe: Pipe) -> None:
    outcome: SessionResult | Failure
    try:
        outcome = await runner.run(assignment.order, lambda: pipe.send(Opened(assignment.number)))
    except TurnError as error:
        outcome = Failure(error.kind, error.message)
    except Exception as error:  # a bug must fail only this session
        outcome = Failure(FailureKind.INTERNAL, describe(error))
    pipe.send(SessionAnswer(assignment.number, outcome, runner.cpu()))


def _print_redacted(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(SECRETS.text("".join(traceback.format_exception(kind, error, where))))
