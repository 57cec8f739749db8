"""Schedule the session starts of a campaign: one after another, or at due times. Pure.

A closed loop begins a session when another ends. A stalled endpoint then also delays the sessions that would
have met the stall, and percentiles miss these sessions (coordinated omission). An open loop begins sessions
when they are due, regardless of the endpoint, and measures delays from the due time, like the constant
throughput of wrk2 (github.com/giltene/wrk2) and the arrival-rate executors of k6 (grafana.com/docs/k6, "Open
and closed models").
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from live_eval.errors import UsageError

__all__ = ["ArrivalKind", "Arrivals"]

_EXPECTED = "expected closed, poisson:RATE or constant:RATE, with RATE in turns per second"


class ArrivalKind(StrEnum):
    """The arrival process of sessions."""

    CLOSED = "closed"
    """A session begins when another session ends."""
    POISSON = "poisson"
    """Sessions begin independently, like those of many users, with exponential gaps."""
    CONSTANT = "constant"
    """Sessions begin at equal intervals."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """An arrival process: its kind, and the mean number of sessions per second (None in a closed loop)."""

    kind: ArrivalKind = ArrivalKind.CLOSED
    per_s: float | None = None

    @classmethod
    def parse(cls, text: str) -> Arrivals:
        """Parse ``closed``, ``poisson:RATE`` or ``constant:RATE``.

        Raises:
            UsageError: The text has none of these forms, or the rate is not positive.

        >>> Arrivals.parse("poisson:0.5").per_s
        0.5
        """
        name, colon, rate = text.strip().partition(":")
        try:
            kind = ArrivalKind(name)
        except ValueError:
            raise UsageError(f"--arrivals: {_EXPECTED}, got {text!r}") from None
        if kind is ArrivalKind.CLOSED:
            if colon:
                raise UsageError(f"--arrivals: expected no rate after closed, got {text!r}")
            return cls()
        try:
            per_s = float(rate)
        except ValueError:
            per_s = math.nan
        if not (math.isfinite(per_s) and per_s > 0):
            raise UsageError(f"--arrivals: {_EXPECTED}, got {text!r}")
        return cls(kind, per_s)

    def __str__(self) -> str:
        return self.kind.value if self.per_s is None else f"{self.kind}:{self.per_s:g}"

    @property
    def open_loop(self) -> bool:
        """Whether sessions begin on a schedule."""
        return self.per_s is not None

    def starts(self, seed: int) -> Iterator[int] | None:
        """Return the due time of each session, in nanoseconds from the first; None in a closed loop.

        `seed` is the seed for random gaps.

        >>> list(itertools.islice(Arrivals.parse("constant:4").starts(0), 3))
        [0, 250000000, 500000000]
        """
        if self.per_s is None:
            return None
        if self.kind is ArrivalKind.CONSTANT:
            per_s = self.per_s
            return (round(number * 1e9 / per_s) for number in itertools.count())
        return self._poisson(random.Random(seed), self.per_s)

    @staticmethod
    def _poisson(gaps: random.Random, per_s: float) -> Iterator[int]:
        at_s = 0.0
        while True:
            yield round(at_s * 1e9)
            at_s += gaps.expovariate(per_s)
