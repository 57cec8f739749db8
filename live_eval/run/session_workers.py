"""Distribute sessions over worker processes on this machine (`live_eval.run.processes`) or on others.

If a worker dies, its sessions fail with `FailureKind.PROCESS_DIED`, and the next order starts a replacement.
If the replacement fails to start, the other workers take over.
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
    """A session process, from start to exit."""

    ended: bool
    """Whether the worker is known to have died."""
    spent: Cpu
    """The worker's CPU time since it was ready."""

    @property
    def process_id(self) -> int:
        """Process ID on the worker's machine."""
        ...

    async def start(self) -> Ready:
        """Start the worker, and wait until it can run sessions.

        Raises:
            LiveEvalError: The worker ended or timed out.
        """
        ...

    async def answer(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionAnswer:
        """Run a session in the worker; see `SessionRunner.run` for `on_ready`.

        Raises:
            TurnError: The worker died.
        """
        ...

    async def close(self) -> None:
        """End the worker and its sessions."""
        ...


class Place:
    """A slot for a worker and its replacements; `new` creates a worker."""

    def __init__(self, new: Callable[[], SessionWorker]) -> None:
        self._new = new
        self._starting = asyncio.Lock()
        self.running: SessionWorker | None = None
        self.sessions = 0
        self.is_down = False
        """Whether the last attempt to start a worker in this slot failed."""
        self.priority = Priority.NORMAL
        self._before = Cpu(0.0, 0.0)  # CPU time of dead workers

    def cpu(self) -> Cpu:
        """Return the CPU time used by the slot's workers."""
        now = self.running.spent if self.running is not None else Cpu(0.0, 0.0)
        return Cpu(self._before.total_s + now.total_s, self._before.loops_s + now.loops_s)

    async def worker(self) -> SessionWorker:
        """Return the running worker; start one if there is none.

        Raises:
            LiveEvalError: The worker failed to start.
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

    async def run(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionResult:
        """Run a session in this slot; see `SessionRunner.run`.

        Raises:
            TurnError: The session failed, or the worker died.
            DownError: No worker could be started in this slot.
        """
        try:
            worker = await self.worker()
        except LiveEvalError as error:
            raise DownError(str(error)) from error
        outcome = (await worker.answer(order, on_ready)).outcome
        if isinstance(outcome, Failure):
            raise TurnError(outcome.kind, outcome.message)
        return outcome

    async def close(self) -> None:
        """End the running worker."""
        if self.running is not None:
            await self.running.close()


class DownError(LiveEvalError):
    """A slot's worker failed to start; another slot can run the session."""


class SpreadSessions:
    """A `SessionRunner` that assigns each session to the least busy worker; see `spread_sessions`."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places

    @property
    def priority(self) -> Priority:
        """The lowest priority of any worker."""
        return max((place.priority for place in self._places), key=list(Priority).index)

    @property
    def facts(self) -> Mapping[str, Any]:
        """See `SessionRunner`."""
        return {"priority": self.priority.value}

    @property
    def process_ids(self) -> list[int]:
        """The process IDs of the running workers."""
        return [place.running.process_id for place in self._places if place.running is not None]

    async def run(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionResult:
        """See `SessionRunner`."""
        while True:
            place = min(self._places, key=lambda place: (place.is_down, place.sessions))
            place.sessions += 1
            try:
                return await place.run(order, on_ready)
            except DownError as error:
                if all(place.is_down for place in self._places):
                    raise TurnError(FailureKind.PROCESS_DIED, str(error)) from error
            finally:
                place.sessions -= 1

    def cpu(self) -> Cpu:
        """See `SessionRunner`. A worker's time counts from when it is ready until its last session ends."""
        spent = [place.cpu() for place in self._places]
        total_s = time.process_time() + sum(cpu.total_s for cpu in spent)
        return Cpu(total_s, sum(cpu.loops_s for cpu in spent))


@contextlib.asynccontextmanager
async def spread_sessions(places: Sequence[Place]) -> AsyncIterator[SpreadSessions]:
    """Start a worker in each slot; on exit, stop the workers and their sessions.

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
