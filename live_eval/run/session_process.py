"""A process that holds sessions for a run and does nothing else; its parent is `live_eval.run.processes`.

Standard input is its end of a `Pipe`. It ends when the pipe does, so it never outlives its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import socket
import sys
import traceback
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from live_eval.clock import SystemClock
from live_eval.dialect import TransportKind
from live_eval.errors import FailureKind, TurnError
from live_eval.redaction import SECRETS, Redactor
from live_eval.registry import load as load_object
from live_eval.run.held_sessions import Cpu, HeldSession, SessionHolder, SessionOrder, local_sessions
from live_eval.run.pipe import Pipe
from live_eval.session.event_loop import Priority, describe, run
from live_eval.types import Failure

__all__ = ["BEAT_S", "Alive", "Assignment", "ProcessSettings", "Ready", "SessionAnswer", "main"]

BEAT_S = 1.0
"""How often it says that it is alive, in seconds."""

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProcessSettings:
    """The first object that a process gets.

    Args:
        kind: The kind of transport of its sessions.
        implementations: What it loads before it is ready, each ``"module:Class"``.
        secrets: What its parent knows of secrets.
    """

    kind: TransportKind
    implementations: tuple[str, ...]
    secrets: Redactor = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ready:
    """Its answer: it can hold sessions, at this priority, and starting took so much."""

    priority: Priority
    cpu: Cpu


@dataclass(frozen=True, slots=True)
class Alive:
    """What it says every `BEAT_S` seconds: its event loop runs."""


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """A session to hold, with a number for the answer."""

    number: int
    order: SessionOrder


@dataclass(frozen=True, slots=True, eq=False)
class SessionAnswer:
    """What came of it: the session, or why there was none; and the processor time spent so far."""

    number: int
    outcome: HeldSession | Failure
    cpu: Cpu


def main() -> None:
    """Hold sessions until the pipe on standard input ends."""
    sys.excepthook = _print_redacted
    if sys.platform == "linux":  # even if this process is stuck
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
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
    async with local_sessions(SystemClock(), settings.kind) as sessions, asyncio.TaskGroup() as tasks:
        pipe.send(Ready(sessions.priority, sessions.cpu()))
        beating = tasks.create_task(_beat(pipe))
        held: set[asyncio.Task[None]] = set()
        while (assignment := await inbox.get()) is not None:
            task = tasks.create_task(_hold(sessions, assignment, pipe))
            held.add(task)
            task.add_done_callback(held.discard)
        for task in (beating, *held):
            task.cancel()


async def _beat(pipe: Pipe) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        pipe.send(Alive())


async def _hold(sessions: SessionHolder, assignment: Assignment, pipe: Pipe) -> None:
    outcome: HeldSession | Failure
    try:
        outcome = await sessions.hold(assignment.order)
    except TurnError as error:
        outcome = Failure(error.kind, error.message)
    except Exception as error:  # a bug costs this session
        outcome = Failure(FailureKind.INTERNAL, describe(error))
    pipe.send(SessionAnswer(assignment.number, outcome, sessions.cpu()))


def _print_redacted(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(SECRETS.text("".join(traceback.format_exception(kind, error, where))))
