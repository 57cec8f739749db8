"""The event loop that times sessions: how it is made, kept undisturbed, and probed for how late it is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import sys
from collections import deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import Clock
from live_eval.errors import LiveEvalError

__all__ = ["LoopProbe", "ProbeReading", "describe", "run", "undisturbed"]

_T = TypeVar("_T")

_INTERVAL_NS = 5_000_000
_KEPT = 200_000_000_000 // _INTERVAL_NS


@dataclass(frozen=True, slots=True, eq=False)
class ProbeReading:
    """What the probe read over a span of time.

    Args:
        at_ns: When each probe was due, int64, shape (probes,).
        lag_ns: How late the loop came to it, int64, shape (probes,).
    """

    at_ns: NDArray[np.int64]
    lag_ns: NDArray[np.int64]


class LoopProbe:
    """Asks the event loop every 5 ms to wake it, and keeps how late that was, for the last 200 s.

    Args:
        clock: The clock to sleep on.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readings: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    async def run(self) -> None:
        """Probe until cancelled."""
        due_ns = self._clock.now_ns()
        while True:
            due_ns = max(due_ns + _INTERVAL_NS, self._clock.now_ns())
            await self._clock.sleep_until(due_ns)
            self._readings.append((due_ns, self._clock.now_ns() - due_ns))

    def between(self, start_ns: int, end_ns: int) -> ProbeReading:
        """Return the readings that were due from `start_ns` to `end_ns`."""
        # Sessions ask right after their turn: walking back from the newest reading is short.
        found: list[tuple[int, int]] = []
        for due_ns, lag_ns in reversed(self._readings):
            if due_ns < start_ns:
                break
            if due_ns <= end_ns:
                found.append((due_ns, lag_ns))
        array = np.asarray(found[::-1], np.int64).reshape(-1, 2)
        return ProbeReading(array[:, 0].copy(), array[:, 1].copy())


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine on a new event loop: uvloop's where it is installed, Python's otherwise.

    Raises:
        LiveEvalError: As the coroutine raised it, also from within a task group.
    """
    factory = None
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop  # takes a while to load, and only runs need it

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        try:
            return runner.run(main)
        except ExceptionGroup as errors:
            ours = errors.subgroup(LiveEvalError)
            if ours is None:
                raise
            raise _innermost(ours) from None


def describe(error: BaseException) -> str:
    """Return the innermost errors of a group in words."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(map(describe, error.exceptions))
    return f"{type(error).__name__}: {error}"


def _innermost(error: BaseException) -> BaseException:
    return _innermost(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python's own pauses out of what is timed.

    The garbage collector is off (what lives long is frozen; callers collect between turns), and a thread
    that computes gives the interpreter back within half a millisecond.
    """
    interval = sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(0.0005)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.enable()
        gc.unfreeze()
