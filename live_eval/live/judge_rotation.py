"""Let the judges of a conversation take turns, so that few run at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

__all__ = ["JudgeRotation"]


class _Waiting(NamedTuple):
    number: int
    judge: str
    free: asyncio.Future[None]


class JudgeRotation:
    """A lock that the judges hold in turn, each for the newest turn that waits for it.

    A judge scores a turn of all runs before the next judge. A judge that holds the lock for `patience_s`
    loses it, so that the others continue, and gets it again only after it has finished.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._taken = False
        self._aside: set[str] = set()  # judges that have lost the lock
        self._waiting: list[_Waiting] = []
        self._held = 0
        self._last = (0, "")  # turn and judge
        self._held_at: dict[str, int] = {}  # by judge

    @contextlib.asynccontextmanager
    async def held(self, number: int, judge: str) -> AsyncIterator[None]:
        """Hold the lock for a judge and a turn."""
        loop = asyncio.get_running_loop()
        if self._taken or judge in self._aside:
            free: asyncio.Future[None] = loop.create_future()
            self._waiting.append(_Waiting(number, judge, free))
            try:
                await free
            except asyncio.CancelledError:
                if not free.cancelled():
                    self._release()
                raise
        self._taken = True
        self._held += 1
        self._last, self._held_at[judge] = (number, judge), self._held
        losing = loop.call_later(self._patience_s, self._set_aside, judge)
        try:
            yield
        finally:
            losing.cancel()
            # later, so that the judge's turn of another run waits too
            loop.call_soon(self._return, judge)

    def _set_aside(self, judge: str) -> None:
        self._aside.add(judge)
        self._release()

    def _return(self, judge: str) -> None:
        if judge in self._aside:
            self._aside.remove(judge)
            self._pass_on()
        else:
            self._release()

    def _release(self) -> None:
        self._taken = False
        self._pass_on()

    def _pass_on(self) -> None:
        self._waiting = [each for each in self._waiting if not each.free.cancelled()]
        ready = [each for each in self._waiting if each.judge not in self._aside]
        if ready and not self._taken:
            self._taken = True
            chosen = max(ready, key=self._urgency)
            self._waiting.remove(chosen)
            chosen.free.set_result(None)

    def _urgency(self, waiting: _Waiting) -> tuple[bool, int, int]:
        same = (waiting.number, waiting.judge) == self._last  # of another run
        return same, -self._held_at.get(waiting.judge, 0), waiting.number
