"""When to try a turn again, and when to hold back. Pure but for the gate's wait."""

from __future__ import annotations

import random
from collections.abc import Sequence

from live_eval.clock import Clock
from live_eval.dialect import RateLimit
from live_eval.errors import FailureKind

__all__ = ["LONGEST_WAIT_S", "PASSING", "Backoff", "RateGate"]

PASSING = frozenset(
    {
        FailureKind.RATE_LIMITED,
        FailureKind.CONNECTION_REFUSED,
        FailureKind.CONNECT_FAILED,
        FailureKind.CONNECT_TIMEOUT,
        FailureKind.HANDSHAKE,
        FailureKind.ICE_FAILED,
        FailureKind.DTLS_FAILED,
        FailureKind.NO_SESSION,
        FailureKind.NO_RESPONSE,
        FailureKind.STALLED,
        FailureKind.CLOSED,
        FailureKind.CHANNEL_CLOSED,
        FailureKind.NO_RTP,
        FailureKind.SESSION_EXPIRED,
        FailureKind.ENDPOINT_ERROR,
        FailureKind.RESPONSE_FAILED,
        FailureKind.MALFORMED_MESSAGE,
        FailureKind.MALFORMED_AUDIO,
    }
)
"""Failures that may pass. The others (a refused key, a broken recording, a reply that is incomplete by the
endpoint's own bound) would only fail again."""

LONGEST_WAIT_S = 600.0
"""An endpoint that asks for more patience than this is not waited for: its turn fails."""

_STAGGER_NS = 250_000_000
_FIRST_S = 1.0
_LONGEST_S = 60.0


class Backoff:
    """How long to wait before the next attempt: doubling, with full jitter, or as the endpoint asks.

    Args:
        seed: Seed of the jitter.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def delay_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Return the seconds to wait after attempt number `attempt` (from 1) failed.

        Never less than the endpoint asks for; a little more, so that not all come back at once.
        """
        ceiling = min(_LONGEST_S, _FIRST_S * 2.0 ** (attempt - 1))
        jitter = self._random.uniform(0.5, 1.0) * ceiling
        return jitter if retry_after_s is None else retry_after_s + 0.1 * jitter


class RateGate:
    """Holds new sessions back while the endpoint's limits are used up.

    A limit counts as used up where less remains than a turn has been seen to use of it.

    Args:
        clock: The clock to wait on.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._opens_ns = 0
        self._waiting = 0
        self._remaining: dict[str, float] = {}
        self._use: dict[str, float] = {}

    def close_for(self, seconds: float) -> None:
        """Let nobody through for `seconds` from now, or for the longest wait."""
        if seconds > 0:
            until_ns = self._clock.now_ns() + round(min(seconds, LONGEST_WAIT_S) * 1e9)
            self._opens_ns = max(self._opens_ns, until_ns)

    def told(self, limits: Sequence[RateLimit]) -> None:
        """The endpoint told where we stand."""
        for limit in limits:
            before = self._remaining.get(limit.name)
            if before is not None and before > limit.remaining:
                self._use[limit.name] = max(self._use.get(limit.name, 0.0), before - limit.remaining)
            self._remaining[limit.name] = limit.remaining
            if limit.remaining < max(1.0, self._use.get(limit.name, 0.0)):
                self.close_for(limit.reset_s)

    @property
    def closed_s(self) -> float:
        """Seconds until the gate opens; 0 where it is open."""
        return max(0.0, (self._opens_ns - self._clock.now_ns()) / 1e9)

    async def wait(self) -> None:
        """Return when a new session may be opened; those who wait leave one after the other."""
        if self.closed_s == 0:
            return
        place = self._waiting
        self._waiting += 1
        try:
            while self.closed_s > 0:
                await self._clock.sleep_until(self._opens_ns + place * _STAGGER_NS)
        finally:
            self._waiting -= 1
