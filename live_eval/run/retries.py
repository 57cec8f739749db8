"""Define retry rules and health evidence by failure kind, backoff, and rate limits."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum, auto
from types import MappingProxyType

from live_eval.clock import Clock
from live_eval.dialect import RateLimit
from live_eval.errors import FailureKind

__all__ = ["PATIENCE_S", "RETRIES", "Backoff", "Patience", "RateGate", "Retry", "Sign", "retry_of", "sign_of"]


class Retry(StrEnum):
    """How to retry a failed turn as long as attempts and patience remain.

    A wait requested by the endpoint is never shortened.
    """

    IMMEDIATELY = "immediately"
    """Retry immediately: the cause does not affect the next session."""
    BACKOFF = "after a backoff"
    """Exponential backoff from 1 s to 1 min, with jitter."""
    AS_ASKED = "as the endpoint requests"
    """Wait as long as the endpoint requests; back off if it requests nothing."""
    NEVER = "never"
    """Do not retry: rejected keys or settings, a wrong address, a broken recording or an overlong reply would
    fail again.
    """


class Sign(Enum):
    """What a failure indicates about the endpoint's health."""

    ANSWER = auto()
    """The endpoint itself responded, so it is reachable."""
    NOT_OPENED = auto()
    """No server responded, or only a proxy."""
    LOST = auto()
    """The endpoint may have become unreachable during the session."""
    NONE = auto()


_FAILURES: Mapping[FailureKind, tuple[Retry, Sign]] = MappingProxyType(
    {
        FailureKind.RATE_LIMITED: (Retry.AS_ASKED, Sign.ANSWER),
        FailureKind.BUSY: (Retry.AS_ASKED, Sign.ANSWER),
        FailureKind.UNAVAILABLE: (Retry.AS_ASKED, Sign.NOT_OPENED),
        FailureKind.SERVER_ERROR: (Retry.AS_ASKED, Sign.NOT_OPENED),
        FailureKind.SESSION_EXPIRED: (Retry.IMMEDIATELY, Sign.NONE),
        FailureKind.PROCESS_DIED: (Retry.IMMEDIATELY, Sign.NONE),
        FailureKind.AUTHENTICATION: (Retry.NEVER, Sign.ANSWER),
        FailureKind.UNKNOWN_MODEL: (Retry.NEVER, Sign.ANSWER),
        FailureKind.SESSION_REFUSED: (Retry.NEVER, Sign.ANSWER),
        FailureKind.SDP_REFUSED: (Retry.NEVER, Sign.ANSWER),
        FailureKind.CODEC_REFUSED: (Retry.NEVER, Sign.ANSWER),
        FailureKind.HANDSHAKE: (Retry.NEVER, Sign.NOT_OPENED),
        FailureKind.CONNECTION_REFUSED: (Retry.BACKOFF, Sign.NOT_OPENED),
        FailureKind.CONNECT_FAILED: (Retry.BACKOFF, Sign.NOT_OPENED),
        FailureKind.CONNECT_TIMEOUT: (Retry.BACKOFF, Sign.NOT_OPENED),
        FailureKind.ICE_FAILED: (Retry.BACKOFF, Sign.LOST),
        FailureKind.DTLS_FAILED: (Retry.BACKOFF, Sign.LOST),
        FailureKind.NO_SESSION: (Retry.BACKOFF, Sign.LOST),
        FailureKind.NO_RESPONSE: (Retry.BACKOFF, Sign.LOST),
        FailureKind.STALLED: (Retry.BACKOFF, Sign.LOST),
        FailureKind.CLOSED: (Retry.BACKOFF, Sign.LOST),
        FailureKind.CHANNEL_CLOSED: (Retry.BACKOFF, Sign.LOST),
        FailureKind.NO_RTP: (Retry.BACKOFF, Sign.LOST),
        FailureKind.ENDPOINT_ERROR: (Retry.BACKOFF, Sign.ANSWER),
        FailureKind.RESPONSE_FAILED: (Retry.BACKOFF, Sign.NONE),
        FailureKind.MALFORMED_MESSAGE: (Retry.BACKOFF, Sign.NONE),
        FailureKind.MALFORMED_AUDIO: (Retry.BACKOFF, Sign.NONE),
    }
)

RETRIES: Mapping[FailureKind, Retry] = MappingProxyType(
    {kind: how for kind, (how, _) in _FAILURES.items() if how is not Retry.NEVER}
)
"""Temporary failures and how to retry them; other failures are not retried."""

PATIENCE_S = 600.0
"""Default limit on how long a turn waits in total, before and between attempts."""

_STAGGER_NS = 250_000_000
_MAX_BACKOFF_S = 60.0
_MAX_RESET_S = 1e9  # about thirty years; an endpoint may report an infinite time


def retry_of(kind: FailureKind) -> Retry:
    """Return the retry rule for a failure kind."""
    return RETRIES.get(kind, Retry.NEVER)


def sign_of(kind: FailureKind) -> Sign:
    """Return what a failure of this kind indicates about the endpoint's health."""
    return _FAILURES.get(kind, (Retry.NEVER, Sign.NONE))[1]


class Backoff:
    """Compute the wait between attempts: exponential with jitter, or as requested by the endpoint."""

    def __init__(self, seed: int, first_s: float = 1.0) -> None:
        self._random = random.Random(seed)
        self._first_s = first_s

    def delay_s(self, attempt: int, retry_after_s: float | None, how: Retry = Retry.BACKOFF) -> float:
        """Return the wait in seconds after an attempt (from 1), at least `retry_after_s`."""
        if how is Retry.IMMEDIATELY and retry_after_s is None:
            return 0.0
        ceiling = min(_MAX_BACKOFF_S, self._first_s * 2.0 ** (attempt - 1))
        jitter = self._random.uniform(0.5, 1.0) * ceiling
        # jitter, because sessions must not all return at the same time
        return jitter if retry_after_s is None else retry_after_s + 0.1 * jitter


class Patience:
    """The remaining time that a turn may wait; initially `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.left_s = seconds

    def fits(self, seconds: float) -> bool:
        """Return whether a wait fits in the remaining time."""
        return seconds <= self.left_s

    def spend(self, seconds: float) -> None:
        """Subtract a wait from the remaining time."""
        self.left_s -= seconds


class RateGate:
    """Delay new sessions while the endpoint's rate limits are exhausted.

    A limit counts as exhausted if less remains than the turns have used at most. A limit that takes longer
    than `patience_s` to reset does not close the gate, so the endpoint itself refuses sessions.
    """

    def __init__(self, clock: Clock, patience_s: float = PATIENCE_S) -> None:
        self._clock = clock
        self._patience_s = patience_s
        self._opens_ns = 0
        self._waiting = 0
        self._remaining: dict[str, float] = {}
        self._use: dict[str, float] = {}
        self._resets_ns: dict[str, int] = {}

    def close_for(self, seconds: float) -> None:
        """Close the gate for `seconds` unless that exceeds the patience."""
        if 0 < seconds <= self._patience_s:
            self._opens_ns = max(self._opens_ns, self._clock.now_ns() + round(seconds * 1e9))

    def update(self, limits: Sequence[RateLimit]) -> None:
        """Record rate limits reported by the endpoint."""
        for limit in limits:
            before = self._remaining.get(limit.name)
            if before is not None and before > limit.remaining:
                self._use[limit.name] = max(self._use.get(limit.name, 0.0), before - limit.remaining)
            self._remaining[limit.name] = limit.remaining
            if limit.remaining < max(1.0, self._use.get(limit.name, 0.0)) and limit.reset_s > 0:
                self._resets_ns[limit.name] = self._clock.now_ns() + round(
                    min(limit.reset_s, _MAX_RESET_S) * 1e9
                )
                self.close_for(limit.reset_s)
            else:
                self._resets_ns.pop(limit.name, None)

    @property
    def closed_s(self) -> float:
        """Seconds until the gate opens; 0 if it is open."""
        return max(0.0, (self._opens_ns - self._clock.now_ns()) / 1e9)

    @property
    def resets_s(self) -> float | None:
        """Seconds until the last exhausted limit resets, as reported; None if no limit is exhausted."""
        left_ns = max(self._resets_ns.values(), default=0) - self._clock.now_ns()
        return left_ns / 1e9 if left_ns > 0 else None

    async def wait(self, patience_s: float | None = None) -> bool:
        """Wait until a new session may be opened. Waiting sessions pass the gate one at a time.

        Returns:
            True if the session may be opened; False if the wait exceeds `patience_s` (the gate's by default).
        """
        if self.closed_s == 0:
            return True
        patience_s = self._patience_s if patience_s is None else patience_s
        until_ns = self._clock.now_ns() + round(patience_s * 1e9)
        position = self._waiting
        self._waiting += 1
        try:
            while self.closed_s > 0:
                if self._opens_ns > until_ns:
                    return False
                await self._clock.sleep_until(self._opens_ns + position * _STAGGER_NS)
        finally:
            self._waiting -= 1
        return True
