"""Define durations for comparisons in tests, such as ``assert turn.voice_to_voice < ms(1200)``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Duration", "ms"]


@dataclass(frozen=True, slots=True, eq=False)
class Duration:
    """A measured or expected duration. It cannot be compared with a number, which has no unit.

    Comparisons with a missing duration are false, so ``assert turn.voice_to_voice < ms(1200)`` fails and
    shows the reason.

    Args:
        ns: Nanoseconds, possibly negative; None if the duration is missing.
        error_bar_ns: Maximum error due to live-eval's own lag; None if unknown or not measured.
        reason: Why the duration is missing; empty otherwise.

    >>> ms(900) < ms(1200)
    True
    >>> Duration(902_345_678, error_bar_ns=410_000)
    902.3 ms (error bar 0.4 ms)
    """

    ns: int | None
    error_bar_ns: int | None = None
    reason: str = ""

    @property
    def ms(self) -> float | None:
        """Milliseconds, or None."""
        return None if self.ns is None else self.ns / 1e6

    def __lt__(self, other: Duration) -> bool:
        return self._compared(operator.lt, other)

    def __le__(self, other: Duration) -> bool:
        return self._compared(operator.le, other)

    def __gt__(self, other: Duration) -> bool:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Duration) -> bool:
        return self._compared(operator.ge, other)

    def _compared(self, compare: Callable[[int, int], bool], other: Duration) -> bool:
        if not isinstance(other, Duration):
            raise TypeError(f"expected a duration, such as ms(1200), got {other!r}: a number has no unit")
        return self.ns is not None and other.ns is not None and compare(self.ns, other.ns)

    def __repr__(self) -> str:
        if self.ns is None:
            return f"missing ({self.reason})"
        bar = "" if self.error_bar_ns is None else f" (error bar {self.error_bar_ns / 1e6:.1f} ms)"
        return f"{self.ns / 1e6:.1f} ms{bar}"


def ms(value: float) -> Duration:
    """Return a duration in milliseconds."""
    return Duration(round(value * 1e6))
