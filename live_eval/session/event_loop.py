"""Run the event loop that times sessions, protect it from interruptions, and measure its lag."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import Clock
from live_eval.errors import LiveEvalError

__all__ = [
    "Collector",
    "LoopProbe",
    "Priority",
    "ProbeReading",
    "describe",
    "innermost",
    "raise_priority",
    "run",
    "stagger_ns",
    "uncollected",
    "undisturbed",
    "ungrouped",
]

_T = TypeVar("_T")

_INTERVAL_NS = 5_000_000
_NICE = -10
_MOST_UNCOLLECTED = 128


@dataclass(frozen=True, slots=True, eq=False)
class ProbeReading:
    """The probe's readings over a period.

    Args:
        at_ns: Due time of each probe, int64, shape (probes,).
        lag_ns: Lag of the loop at each probe, int64, shape (probes,).
    """

    at_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    lag_ns: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


class LoopProbe:
    """Measure the event-loop lag every 5 ms; keep the last `kept` readings (200 s)."""

    def __init__(self, clock: Clock, *, kept: int = 200_000_000_000 // _INTERVAL_NS) -> None:
        self._clock = clock
        self._due_ns = np.full(kept, -1, np.int64)
        self._lag_ns = np.full(kept, -1, np.int64)
        self._count = 0

    async def run(self) -> None:
        """Take readings until cancelled."""
        due_ns = self._clock.now_ns()
        while True:
            due_ns = max(due_ns + _INTERVAL_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            at = self._count % len(self._due_ns)
            self._due_ns[at], self._lag_ns[at] = due_ns, self._clock.now_ns() - due_ns
            self._count += 1

    def between(self, start_ns: int, end_ns: int) -> ProbeReading:
        """Return the readings that were due from `start_ns` to `end_ns`."""
        kept = len(self._due_ns)
        order = np.arange(max(0, self._count - kept), self._count) % kept
        due_ns = self._due_ns[order]
        begin, end = np.searchsorted(due_ns, start_ns), np.searchsorted(due_ns, end_ns, side="right")
        return ProbeReading(due_ns[begin:end].copy(), self._lag_ns[order[begin:end]])


class Collector:
    """Collect garbage at the end of sessions while automatic collection is off (see `undisturbed`).

    A full collection blocks the event loop (for 4 ms with 10 WebRTC or 40 WebSocket sessions), so it waits
    until no session is being timed. Each uncollected session leaves up to 60 kB of reference cycles, which
    take time to free, so their number is limited.
    """

    def __init__(self) -> None:
        self._held: set[Callable[[], bool]] = set()
        self._ended = 0
        self._modules = 0

    @contextlib.contextmanager
    def session(self, timed: Callable[[], bool]) -> Iterator[None]:
        """Collect garbage after a session.

        Args:
            timed: Function that returns whether a pause now would distort the session's latencies.
        """
        if not gc.isenabled() and len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            gc.freeze()  # the first session imports its transport, which creates 30,000 permanent objects
        self._held.add(timed)
        try:
            yield
        finally:
            self._held.remove(timed)
            self._ended += 1
            enough = self._ended >= _MOST_UNCOLLECTED
            if not gc.isenabled() and (enough or not any(other() for other in self._held)):
                self._ended = 0
                gc.collect()


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on a new event loop: uvloop if installed, otherwise asyncio.

    Raises:
        LiveEvalError: The coroutine raised it, possibly within a task group.
    """
    factory = None
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop  # slow to import, and needed only by runs

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner, ungrouped():
        return runner.run(main)


@contextlib.contextmanager
def ungrouped() -> Iterator[None]:
    """Convert an exception group raised in the block to its first `LiveEvalError`."""
    try:
        yield
    except ExceptionGroup as errors:
        ours = errors.subgroup(LiveEvalError)
        if ours is None:
            raise
        raise innermost(ours) from None


def describe(error: BaseException) -> str:
    """Return a message that lists an exception group's innermost errors."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(describe, error.exceptions))
    return f"{type(error).__name__}: {error}"


def innermost(error: BaseException) -> BaseException:
    """Return the first innermost error of an exception group, or the error itself."""
    return innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def stagger_ns(worker: int, workers: int) -> int:
    """Return a worker's start delay relative to the first worker.

    Starts are spread over about a second and off the frame grid, so that the frames of different workers are
    not due at the same time.
    """
    return 1_017_000_000 * worker // workers


class Priority(StrEnum):
    """The scheduling priority of a thread."""

    REAL_TIME = "real-time"
    """Real-time priority, which takes precedence over all ordinary threads."""
    RAISED = "raised"
    NORMAL = "normal"


def raise_priority() -> Priority:
    """Raise the calling thread's priority as far as permitted; child processes do not inherit it.

    Real-time priority requires CAP_SYS_NICE or a nonzero RLIMIT_RTPRIO (sched(7)).
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        return Priority.REAL_TIME
    except (AttributeError, OSError):
        pass
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        return Priority.RAISED
    except (AttributeError, OSError):
        return Priority.NORMAL


class _Holders(threading.local):
    """The number of active `undisturbed` contexts in this thread, and the settings to restore."""

    number = 0
    interval_s = 0.0
    niceness = 0


_holders = _Holders()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Pause automatic garbage collection while many permanent objects are created.

    Each collection would visit all of them, which takes a fifth of the time to read a large run.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if _holders.number == 0:
            gc.enable()


@contextlib.contextmanager
def undisturbed() -> Iterator[Priority]:
    """Protect timed code from interpreter pauses and from other programs.

    Automatic garbage collection is off (see `Collector`), CPU-bound threads release the interpreter lock
    within half a millisecond, and the calling thread's priority is raised. If contexts overlap in a thread,
    only the first one collects garbage, and the last one to exit restores all settings.

    Yields:
        The thread's priority.
    """
    if _holders.number == 0:
        _holders.interval_s = sys.getswitchinterval()
        _holders.niceness = os.getpriority(os.PRIO_PROCESS, 0)
        gc.collect()
        gc.freeze()
        gc.disable()
        sys.setswitchinterval(0.0005)
    _holders.number += 1
    try:
        yield raise_priority()
    finally:
        _holders.number -= 1
        if _holders.number == 0:
            with contextlib.suppress(AttributeError, OSError):
                os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _holders.niceness)
            sys.setswitchinterval(_holders.interval_s)
            gc.enable()
            gc.unfreeze()
