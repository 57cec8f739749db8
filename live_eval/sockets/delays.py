"""Delay actions and bytes without reordering them."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Iterator

from live_eval.clock import Clock
from live_eval.impair.paths import StreamPath
from live_eval.sockets.stamps import Stamp

__all__ = ["DelayLine", "DelayedBytes"]


class DelayLine:
    """A queue of timed actions. Actions due at the same time run in insertion order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: set[asyncio.Future[None]] = set()

    def put(self, due_ns: int, action: Callable[[], None]) -> None:
        """Call an action at `due_ns`, or immediately if this time has passed and none is pending."""
        if not self._waiting and due_ns <= self._clock.now_ns():
            action()
            return
        task = asyncio.ensure_future(self._clock.run_at(due_ns, action))
        self._waiting.add(task)
        task.add_done_callback(self._done)

    def close(self) -> None:
        """Drop pending actions."""
        for task in self._waiting:
            task.cancel()

    def _done(self, task: asyncio.Future[None]) -> None:
        self._waiting.discard(task)
        _report(task)


class DelayedBytes:
    """A delay queue for a stream's bytes in one direction, and for actions that follow them.

    Each piece is split off only after the previous one has been delivered, so small pieces take no extra
    memory.

    Args:
        deliver: Callback for each piece and its delivery timestamp.
        ends: Callback for the time at which the path ends the connection.
    """

    def __init__(
        self,
        path: StreamPath,
        clock: Clock,
        deliver: Callable[[bytes, Stamp], None],
        ends: Callable[[int], None],
    ) -> None:
        self._path, self._clock, self._deliver, self._ends = path, clock, deliver, ends
        self._entries: deque[Iterator[tuple[int, Callable[[], None]]]] = deque()
        self._head: tuple[int, Callable[[], None]] | None = None
        self._task: asyncio.Future[None] | None = None  # task that sleeps until the first item is due
        self._delivering = False
        self._latest_ns = 0  # delivery time of the last byte
        self.size = 0
        """Number of pending bytes."""

    def put(self, data: bytes, stamp: Stamp) -> None:
        """Add bytes with their send time or, on the receiving side, their unimpaired arrival time."""
        self.size += len(data)
        self._add(self._pieces(data, stamp))

    def then(self, action: Callable[[], None], *, closes: bool = False) -> None:
        """Call an action once all earlier bytes have been delivered and all earlier actions called.

        Args:
            closes: Whether the action ends the stream, which may occur later than the last byte.
        """
        self._add(self._end(action, self._clock.now_ns(), self._path.closes_later_ns if closes else 0))

    def close(self) -> None:
        """Drop pending bytes and actions."""
        self._entries.clear()
        self._head = None
        self.size = 0
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _add(self, entry: Iterator[tuple[int, Callable[[], None]]]) -> None:
        self._entries.append(entry)
        if self._task is None and not self._delivering:
            self._advance_due()

    def _pieces(self, data: bytes, stamp: Stamp) -> Iterator[tuple[int, Callable[[], None]]]:
        begin = 0
        for due_ns, end in self._path.push(len(data), stamp.at_ns):
            yield due_ns, functools.partial(self._pass_on, data[begin:end], Stamp(due_ns, stamp.kind))
            begin = end
        self.size -= len(data) - begin
        if self._path.ends_ns is not None:
            self._ends(self._path.ends_ns)

    def _end(
        self, action: Callable[[], None], at_ns: int, later_ns: int
    ) -> Iterator[tuple[int, Callable[[], None]]]:
        yield max(self._latest_ns, at_ns) + later_ns if later_ns else self._latest_ns, action

    def _pass_on(self, data: bytes, stamp: Stamp) -> None:
        self.size -= len(data)
        self._latest_ns = stamp.at_ns
        self._deliver(data, stamp)

    def _advance_due(self) -> None:
        """Deliver all due pieces, and schedule the next piece."""
        self._task, self._delivering = None, True
        try:
            while self._advance() and self._head is not None:
                due_ns, action = self._head
                if due_ns > self._clock.now_ns():
                    self._task = asyncio.ensure_future(self._clock.run_at(due_ns, self._advance_due))
                    self._task.add_done_callback(self._done)
                    return
                self._head = None
                action()
        finally:
            self._delivering = False

    def _advance(self) -> bool:
        """Return whether bytes or actions are pending; if so, make the first one the head."""
        while self._head is None and self._entries:
            self._head = next(self._entries[0], None)
            if self._head is None and self._entries:
                self._entries.popleft()
        return self._head is not None

    def _done(self, task: asyncio.Future[None]) -> None:
        if _report(task) and self._task is None:
            self._advance_due()


def _report(task: asyncio.Future[None]) -> bool:
    """Report the error of a finished task, and return whether it had one."""
    if task.cancelled() or (error := task.exception()) is None:
        return False
    context = {"message": "delivery of delayed traffic failed", "exception": error, "task": task}
    task.get_loop().call_exception_handler(context)
    return True
