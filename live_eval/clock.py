"""Read time, sleep and pace frames. No other module reads time or sleeps."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import itertools
import os
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

__all__ = ["Clock", "FrameSlots", "Pacer", "SystemClock", "Tick", "wait_until"]


_T = TypeVar("_T")


class Clock(Protocol):
    """A time source shared by all timed code of a session."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds, comparable across processes on the same machine."""
        ...

    def wall_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        ...

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep until `at_ns`; if `at_ns` has passed, only yield to other tasks."""
        ...

    def run_at(self, at_ns: int, action: Callable[[], _T]) -> Awaitable[_T]:
        """Call `action` at `at_ns`, before tasks that sleep until `at_ns`; return or raise its result."""
        ...

    def catch_up(self) -> None:
        """Call due actions; long jobs must call this between steps."""
        ...


class SystemClock:
    """The machine's monotonic clock.

    All sleepers of an event loop share one kernel timer, because the loop's own timers are up to a
    millisecond off: asyncio rounds up, uvloop rounds to the nearest.
    """

    __slots__ = ()

    # Not wrapped in methods, since these are called a dozen times per frame.
    now_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep on the event loop until `at_ns`."""
        if at_ns <= time.monotonic_ns():
            await asyncio.sleep(0)
        else:
            await _timetable().add(at_ns, _nothing)

    def run_at(self, at_ns: int, action: Callable[[], _T]) -> asyncio.Future[_T]:
        """See `Clock.run_at`."""
        return _timetable().add(at_ns, action)

    def catch_up(self) -> None:
        """See `Clock.catch_up`."""
        _timetable().run_due()


async def wait_until(
    is_done: Callable[[], bool], changed: asyncio.Event, clock: Clock, timeout_ns: int
) -> bool:
    """Wait until a condition holds; return whether it did within the time.

    Args:
        changed: Event that is set whenever the condition may have changed; it is cleared here.
    """
    deadline_ns = clock.now_ns() + timeout_ns
    while not is_done():
        if clock.now_ns() >= deadline_ns:
            return False
        changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((deadline_ns - clock.now_ns()) / 1e9):
                await changed.wait()
    return True


def _nothing() -> None:
    pass


class _Timetable:
    """The timed actions of an event loop, and the timer that wakes the loop for the next one."""

    def __init__(self) -> None:
        self._timer: _Timer = (_KernelTimer if sys.platform == "linux" else _LoopTimer)(self.run_due)
        self._entries: list[tuple[int, int, Callable[[], Any], asyncio.Future[Any]]] = []
        self._order = itertools.count()
        self._prune_at = _MAX_UNPRUNED

    def add(self, at_ns: int, action: Callable[[], _T]) -> asyncio.Future[_T]:
        """Schedule `action` at `at_ns` and return a future for its result."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        entry = (at_ns, next(self._order), action, future)
        if len(self._entries) >= self._prune_at:  # remove the entries of cancelled sleepers
            self._entries = [each for each in self._entries if not each[-1].done()]
            heapq.heapify(self._entries)
            self._prune_at = max(_MAX_UNPRUNED, 2 * len(self._entries))
        heapq.heappush(self._entries, entry)
        if self._entries[0] is entry:
            self._timer.set(at_ns)
        return future

    def run_due(self) -> None:
        """Call the actions that are due, in chronological order."""
        entries = self._entries
        if not entries or entries[0][0] > time.monotonic_ns():
            return
        try:
            while entries and entries[0][0] <= time.monotonic_ns():
                _, _, action, future = heapq.heappop(entries)
                if future.done():  # cancelled
                    continue
                try:
                    future.set_result(action())
                except Exception as error:
                    future.set_exception(error)
                except BaseException:
                    future.cancel()
                    raise
        finally:
            self._timer.set(entries[0][0] if entries else None)


class _Timer(Protocol):
    def set(self, at_ns: int | None) -> None:
        """Wake the loop at `at_ns` or later, replacing the previous time; None disarms the timer."""
        ...


class _KernelTimer:
    """A kernel timer; see timerfd_create(2)."""

    class _Itimerspec(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns"))

    def __init__(self, wake: Callable[[], None]) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self._descriptor = libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        weakref.finalize(self, os.close, self._descriptor)
        self._spec = self._Itimerspec()
        self._reference = ctypes.byref(self._spec)
        asyncio.get_running_loop().add_reader(self._descriptor, wake)

    def set(self, at_ns: int | None) -> None:
        # Zero disarms the timer. Setting it clears the expiration count, so the descriptor is never read.
        self._spec.at_s, self._spec.at_ns = divmod(at_ns or 0, 1_000_000_000)
        self._settime(self._descriptor, _ABSOLUTE, self._reference, None)


class _LoopTimer:
    """A timer of the event loop, for systems without timerfd."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_ns: int | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if at_ns is not None:
            left_s = max(0, at_ns - time.monotonic_ns()) / 1e9
            self._handle = asyncio.get_running_loop().call_later(left_s, self._fire, at_ns)

    def _fire(self, at_ns: int) -> None:
        if time.monotonic_ns() < at_ns:  # too early
            self.set(at_ns)
        else:
            self._wake()


_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_MAX_UNPRUNED = 1_000
_SLOT_NS = 2_000_000
_TIMETABLE = "_live_eval_timetable"


def _timetable() -> _Timetable:
    """Return the running loop's timetable, which is stored as an attribute of the loop."""
    attributes = asyncio.get_running_loop().__dict__
    timetable: _Timetable | None = attributes.get(_TIMETABLE)
    if timetable is None:
        timetable = attributes[_TIMETABLE] = _Timetable()
    return timetable


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline of a frame.

    Args:
        deadline_ns: Time at which the frame's last sample is spoken.
        skipped: Number of silence frames skipped before the frame.
    """

    deadline_ns: int
    skipped: int = 0


class FrameSlots:
    """Spread the frames of a process's sessions over one frame length.

    A slot lasts two milliseconds. The sessions in a slot share their deadlines, so that the loop wakes once
    for all their frames; separate wakes would cost a third of a session's CPU time.
    """

    def __init__(self, clock: Clock) -> None:
        self._origin_ns = clock.now_ns()
        self._taken: dict[int, list[int]] = {}

    @contextlib.contextmanager
    def slot(self, frame_ns: int) -> Iterator[Callable[[int], int]]:
        """Occupy the slot that has the fewest sessions.

        Yields:
            A function that returns the first time of the slot at or after a given time.
        """
        taken = self._taken.setdefault(frame_ns, [0] * max(1, frame_ns // _SLOT_NS))
        # Multiples of the golden ratio keep consecutive slots far apart.
        slot = min(range(len(taken)), key=lambda slot: (taken[slot], slot * 0.618_034 % 1))
        phase_ns = self._origin_ns + slot * frame_ns // len(taken)
        taken[slot] += 1
        try:
            yield lambda at_ns: at_ns + (phase_ns - at_ns) % frame_ns
        finally:
            taken[slot] -= 1


class Pacer:
    """Compute absolute frame deadlines on the monotonic clock.

    Frame k of a stream that starts at `t0_ns` contains the samples spoken from ``t0 + k·frame`` to
    ``t0 + (k+1)·frame`` and is sent at the latter time, when its last sample is spoken, as from a microphone.

    Late speech catches up: overdue frames are sent immediately, so that no speech sample is moved or lost.
    Late silence does not: overdue frames are skipped, like the samples of a microphone that was not read, and
    the deadlines remain on the grid. Late and skipped frames are counted.
    """

    def __init__(self, clock: Clock, t0_ns: int, frame_ns: int) -> None:
        self._clock = clock
        self._t0_ns = t0_ns
        self._frame_ns = frame_ns
        self._next = 0
        self.late_speech_frames = 0
        self.skipped_silence_frames = 0

    @property
    def next_ns(self) -> int:
        """Time at which the first sample of the next frame is spoken."""
        return self._t0_ns + self._next * self._frame_ns

    def restart(self, t0_ns: int) -> None:
        """Start a new grid, on which the next frame's first sample is spoken at `t0_ns`."""
        self._t0_ns, self._next = t0_ns, 0

    def next(self, *, speech: bool) -> Tick:
        """Return the deadline of the next frame."""
        skipped = 0
        if not speech:
            overdue_ns = self._clock.now_ns() - self._deadline_ns(self._next)
            skipped = max(0, overdue_ns // self._frame_ns)
            self._next += skipped
            self.skipped_silence_frames += skipped
        tick = Tick(self._deadline_ns(self._next), skipped)
        self._next += 1
        return tick

    def left(self, tick: Tick, at_ns: int, *, speech: bool) -> int:
        """Record that a frame was sent at `at_ns`, and return its lateness."""
        late_ns = max(0, at_ns - tick.deadline_ns)
        if speech and late_ns > self._frame_ns:
            self.late_speech_frames += 1
        return late_ns

    def _deadline_ns(self, index: int) -> int:
        return self._t0_ns + (index + 1) * self._frame_ns
