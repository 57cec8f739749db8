"""A clock whose time passes only when everybody waits for it."""

from __future__ import annotations

import asyncio
import heapq
import itertools

__all__ = ["FakeClock"]

_QUIET_CYCLES = 25


class FakeClock:
    """A `Clock` for tests: sleeping costs no time.

    When every task of the event loop waits, time jumps to the earliest moment that somebody sleeps until.
    "Waits" means that nothing became ready during some cycles of the loop, so tasks that wait for real
    threads or sockets do not hold the time back: use it with memory transports only.

    Args:
        start_ns: The first time it shows.
    """

    def __init__(self, start_ns: int = 1_000_000_000_000) -> None:
        self._now_ns = start_ns
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._jumper: asyncio.Task[None] | None = None

    def now_ns(self) -> int:
        """Return the present moment."""
        return self._now_ns

    def wall_ns(self) -> int:
        """Return the present moment on a wall clock that began with ours."""
        return self._now_ns

    def advance(self, ns: int) -> None:
        """Let time pass at once, as if the process had been stopped; sleepers wake late."""
        self._now_ns += ns

    async def sleep_until(self, at_ns: int) -> None:
        """Wait until the others have brought time to `at_ns`."""
        if at_ns <= self._now_ns:
            await asyncio.sleep(0)
            return
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (at_ns, next(self._order), waiter))
        if self._jumper is None or self._jumper.done():
            self._jumper = asyncio.create_task(self._jump())
        await waiter

    async def _jump(self) -> None:
        while self._sleepers:
            for _ in range(_QUIET_CYCLES):
                await asyncio.sleep(0)
            if not self._sleepers:
                return
            at_ns, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                self._now_ns = max(self._now_ns, at_ns)
                waiter.set_result(None)
