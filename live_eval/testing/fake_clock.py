"""Provide a fake clock that advances only when every task is waiting."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import TypeVar

__all__ = ["FakeClock"]

_QUIET_CYCLES = 25
_T = TypeVar("_T")


class FakeClock:
    """A `Clock` for tests, on which sleeping takes no time.

    When every task on the event loop is waiting, the time jumps to the earliest wake-up time. The clock also
    advances while real threads or sockets are busy: use it only with in-memory transports.

    Args:
        start_ns: Initial time.
        quiet_cycles: Number of loop cycles after which the time jumps although a task is still ready.
    """

    def __init__(self, start_ns: int = 1_000_000_000_000, *, quiet_cycles: int = _QUIET_CYCLES) -> None:
        self._now_ns = start_ns
        self._quiet_cycles = quiet_cycles
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._jumper: asyncio.Task[None] | None = None

    def now_ns(self) -> int:
        """Return the current time."""
        return self._now_ns

    def wall_ns(self) -> int:
        """Return the current time as wall time."""
        return self._now_ns

    def advance(self, ns: int) -> None:
        """Advance the time at once, as if the process had been suspended; sleeping tasks wake late."""
        self._now_ns += ns

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep until `at_ns`."""
        if at_ns <= self._now_ns:
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (at_ns, next(self._order), waiter))
        if self._jumper is None or self._jumper.done():
            self._jumper = asyncio.create_task(self._jump())
        await waiter

    async def run_at(self, at_ns: int, action: Callable[[], _T]) -> _T:
        """Sleep until `at_ns`, then return the result of `action`."""
        await self.sleep_until(at_ns)
        return action()

    def catch_up(self) -> None:
        """Do nothing, because no time passes while a task runs."""

    async def _jump(self) -> None:
        ready = getattr(asyncio.get_running_loop(), "_ready", None)
        while self._sleepers:
            for _ in range(self._quiet_cycles):
                await asyncio.sleep(0)
                if ready is not None and not ready:
                    break  # no other task is ready
            if not self._sleepers:
                return
            at_ns, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                self._now_ns = max(self._now_ns, at_ns)
                waiter.set_result(None)
