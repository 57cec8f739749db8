"""Sessions spread over several workers: processes of this machine (`live_eval.run.processes`), or of others.

The sessions of a worker that dies fail with `FailureKind.PROCESS_DIED`; the next order starts another worker
in its place. If none starts there, the other workers take its sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

from live_eval.errors import FailureKind, LiveEvalError, TurnError
from live_eval.run.session_process import Ready, SessionAnswer
from live_eval.run.sessions import Cpu, SessionOrder, SessionResult
from live_eval.session.event_loop import Priority
from live_eval.types import Failure

__all__ = ["DownError", "Place", "SessionWorker", "SpreadSessions", "spread_sessions"]


class SessionWorker(Protocol):
    """A process that runs sessions, from its start to its end."""

    ended: bool
    """Whether it is known to have died."""
    spent: Cpu
    """Its processor time since it was ready."""

    @property
    def process_id(self) -> int:
        """On its machine."""
        ...

    async def start(self) -> Ready:
        """Start it, and wait until it can run sessions.

        Raises:
            LiveEvalError: It ended, or took too long.
        """
        ...

    async def answer(self, order: SessionOrder) -> SessionAnswer:
        """Run a session there.

        Raises:
            TurnError: The worker died.
        """
        ...

    async def close(self) -> None:
        """End it and its sessions."""
        ...


class Place:
    """Where a worker runs, and another one after it has died; `new` makes a worker."""

    def __init__(self, new: Callable[[], SessionWorker]) -> None:
        self._new = new
        self._starting = asyncio.Lock()
        self.running: SessionWorker | None = None
        self.sessions = 0
        self.is_down = False
        """Whether the last attempt to start a worker here failed."""
        self.priority = Priority.NORMAL
        self._before = Cpu(0.0, 0.0)  # spent by those that died

    def cpu(self) -> Cpu:
        """Return the processor time of its workers."""
        now = self.running.spent if self.running is not None else Cpu(0.0, 0.0)
        return Cpu(self._before.total_s + now.total_s, self._before.loops_s + now.loops_s)

    async def worker(self) -> SessionWorker:
        """Return the worker that runs here; start one if there is none.

        Raises:
            LiveEvalError: It does not start.
        """
        async with self._starting:
            if self.running is None or self.running.ended:
                self._before, died, self.running = self.cpu(), self.running, None
                if died is not None:
                    await died.close()
                worker = self._new()
                try:
                    self.priority = (await worker.start()).priority
                except BaseException:
                    self.is_down = True
                    await worker.close()
                    raise
                self.running, self.is_down = worker, False
            return self.running

    async def run(self, order: SessionOrder) -> SessionResult:
        """Run a session here.

        Raises:
            TurnError: The session failed, or the worker died.
            DownError: No worker starts here.
        """
        try:
            worker = await self.worker()
        except LiveEvalError as error:
            raise DownError(str(error)) from error
        outcome = (await worker.answer(order)).outcome
        if isinstance(outcome, Failure):
            raise TurnError(outcome.kind, outcome.message)
        return outcome

    async def close(self) -> None:
        """End the worker that runs here."""
        if self.running is not None:
            await self.running.close()


class DownError(LiveEvalError):
    """No worker starts in a place; another place can take the order."""


class SpreadSessions:
    """A `SessionRunner` that gives each session to the worker with the fewest; see `spread_sessions`."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places

    @property
    def priority(self) -> Priority:
        """The lowest priority that a worker got."""
        return max((place.priority for place in self._places), key=list(Priority).index)

    @property
    def facts(self) -> Mapping[str, Any]:
        """As in `SessionRunner`."""
        return {"priority": self.priority.value}

    @property
    def process_ids(self) -> list[int]:
        """Of the workers that run."""
        return [place.running.process_id for place in self._places if place.running is not None]

    async def run(self, order: SessionOrder) -> SessionResult:
        """As in `SessionRunner`."""
        while True:
            place = min(self._places, key=lambda place: (place.is_down, place.sessions))
            place.sessions += 1
            try:
                return await place.run(order)
            except DownError as error:
                if all(place.is_down for place in self._places):
                    raise TurnError(FailureKind.PROCESS_DIED, str(error)) from error
            finally:
                place.sessions -= 1

    def cpu(self) -> Cpu:
        """As in `SessionRunner`: of each worker from when it was ready to the end of its last session."""
        spent = [place.cpu() for place in self._places]
        total_s = time.process_time() + sum(cpu.total_s for cpu in spent)
        return Cpu(total_s, sum(cpu.loops_s for cpu in spent))


@contextlib.asynccontextmanager
async def spread_sessions(places: Sequence[Place]) -> AsyncIterator[SpreadSessions]:
    """Start a worker in each place; end them, and the sessions in progress, with the block.

    Raises:
        LiveEvalError: A worker did not start.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            for place in places:
                tasks.create_task(place.worker())
        yield SpreadSessions(places)
    finally:
        await asyncio.gather(*(place.close() for place in places))
