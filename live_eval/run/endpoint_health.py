"""Track whether the endpoint is reachable. Pure: the caller passes all times.

::

    UP ──session not opened──▶ SUSPECT ──three in a row──▶ DOWN ──patience exceeded──▶ given up
     ▲                            │                          │
     └──────────────── a newer session is opened ────────────┘

A session attempt (`live_eval.run.retried_sessions`) ends as

- *done*: the turns were captured, or failed for good;
- *retry at t*: the failure may be temporary, and attempts and patience remain. Attempts during an outage do
    not count, and the next attempt waits for a probe;
- *undecided*: the session could not be opened or lost contact, and no attempts remain. It becomes done once
    a newer session is opened, and is retried once the endpoint is down.

While the endpoint is down, sessions are dialled one at a time, as probes. An endpoint that has never
responded counts as up, so its turns fail: its address may be wrong.

An endpoint under load may refuse sessions while it serves others. Campaigns measure such refusals, so their
endpoint does not count as down as long as a session may be alive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from live_eval.errors import FailureKind
from live_eval.run.retries import Backoff, Sign, sign_of
from live_eval.types import Failure

__all__ = ["MISSES_OF_OUTAGE", "AttemptOutcome", "EndpointHealth", "Health", "Outage"]

MISSES_OF_OUTAGE = 3
"""Number of consecutive unopened sessions after which the endpoint counts as down."""
_LAST_PROBE_BACKOFF = 4  # the backoff after attempt 4 (4 to 8 s) also applies to later probes
_OPEN_TO_THE_END = (FailureKind.NO_RESPONSE, FailureKind.STALLED)
"""Failures of sessions whose connection was still open when the run gave up waiting."""
_MAX_WAIT_NS = 10**18  # about thirty years


class Health(Enum):
    """The endpoint's state during a session attempt."""

    UP = auto()
    """The endpoint responded or was not contacted; a failure is final."""
    SUSPECT = auto()
    """The session could not be opened or lost contact, perhaps because an outage has just begun."""
    DOWN = auto()
    """The session could not be opened or lost contact because of an outage; the attempt does not count."""


class AttemptOutcome(NamedTuple):
    """The outcome of a session attempt.

    Args:
        heard_ns: Time at which the endpoint was last known to be alive; None if the session was never ready.
        asked_s: Wait requested by the endpoint, or None.
    """

    ended_ns: int
    failure: Failure | None = None
    heard_ns: int | None = None
    asked_s: float | None = None


@dataclass(slots=True)
class Outage:
    """A period during which the endpoint was unreachable.

    Args:
        began_ns: Dial time of the first failed session.
        ended_ns: Dial time of the first session that opened again, or when patience ran out.
        over: Whether the endpoint recovered.
        asked_s: Remaining wait requested by the endpoint, if longer than the patience.
        probe_ns: Due time of the next probe or of the probe in progress.
    """

    began_ns: int
    failure: Failure
    ended_ns: int | None = None
    over: bool = False
    asked_s: float | None = None
    probe_ns: int = 0
    probes: int = 0

    @property
    def seconds(self) -> float:
        """Duration of the outage; 0 until it has ended."""
        return 0.0 if self.ended_ns is None else (self.ended_ns - self.began_ns) / 1e9

    def explains(self, at_ns: int, *, lost: bool) -> bool:
        """Return whether the outage explains that a session dialled at `at_ns` was lost or did not open."""
        if not self.over:
            return True
        return at_ns < self.began_ns if lost else self.began_ns <= at_ns < (self.ended_ns or 0)


class _Miss(NamedTuple):
    dialled_ns: int
    ended_ns: int
    until_ns: int  # earliest probe time requested by the endpoint
    failure: Failure


class EndpointHealth:
    """The state of the endpoint, inferred from the outcomes of session attempts.

    Call `dial` when a session is dialled, which must not be before `opens_ns`, and `observe` when it has
    ended.

    Args:
        patience_s: Maximum duration of an outage; with 0, no failure counts as an outage.
        announce: Called when an outage starts and ends.
        reached_ns: Time of an earlier response of the endpoint, if known.
        over_http: Whether each turn is an HTTP request, whose content may cause a server error.
        counts_refusals: Whether refusals count as results, not as an outage, while a session may be alive.
    """

    def __init__(
        self,
        patience_s: float,
        backoff: Backoff,
        announce: Callable[[Outage], None],
        *,
        reached_ns: int | None,
        over_http: bool = False,
        counts_refusals: bool = False,
    ) -> None:
        self._patience_ns = round(patience_s * 1e9)
        self._backoff = backoff
        self._announce = announce
        self._over_http = over_http
        self._counts_refusals = counts_refusals
        self._opened_ns = reached_ns  # dial time of the newest session known to have opened
        self._in_progress: list[int] = []  # dial times
        self._misses: list[_Miss] = []  # consecutive sessions that did not open
        self.outages: list[Outage] = []
        """The outages so far; the last one may be in progress."""

    @property
    def reached(self) -> bool:
        """Whether the endpoint has responded."""
        return self._opened_ns is not None

    @property
    def serves(self) -> bool:
        """Whether a session is in progress."""
        return bool(self._in_progress)

    @property
    def may_answer(self) -> bool:
        """Whether the endpoint has responded, or may still respond to a session in progress."""
        return self.reached or self.serves

    @property
    def down(self) -> bool:
        """Whether the endpoint is unreachable."""
        return bool(self.outages) and not self.outages[-1].over

    @property
    def given_up(self) -> bool:
        """Whether the last outage exceeded the patience; no more sessions are dialled."""
        return self.down and self.outages[-1].ended_ns is not None

    def opened_since(self, at_ns: int) -> bool:
        """Return whether a session dialled at `at_ns` or later has been opened."""
        return self._opened_ns is not None and self._opened_ns >= at_ns

    def opens_ns(self) -> int | None:
        """Return the earliest time at which to dial a session; None while a probe is in progress."""
        if not self.down:
            return 0
        probe_ns = self.outages[-1].probe_ns
        return None if any(at_ns >= probe_ns for at_ns in self._in_progress) else probe_ns

    def dial(self, at_ns: int) -> None:
        """Record that a session is dialled."""
        self._in_progress.append(at_ns)

    def opened(self, at_ns: int) -> None:
        """Record that the session dialled at `at_ns` is ready, which ends an outage immediately."""
        if not self._over_http:  # over HTTP, a session is ready before its first request
            self._mark_opened(at_ns)

    def observe(self, at_ns: int, outcome: AttemptOutcome) -> Health:
        """Record the outcome of the session dialled at `at_ns`; return the endpoint's state at that time."""
        if at_ns in self._in_progress:
            self._in_progress.remove(at_ns)
        failure, now_ns = outcome.failure, outcome.ended_ns
        sign = Sign.ANSWER if failure is None else sign_of(failure.kind)
        if self._over_http and failure is not None and failure.kind is FailureKind.SERVER_ERROR:
            sign = Sign.NONE
        probed = self.down and at_ns >= self.outages[-1].probe_ns
        if failure is not None and sign is Sign.NOT_OPENED:
            if self._detects_outages and not self.opened_since(at_ns + 1):
                asked_ns = round(min((outcome.asked_s or 0.0) * 1e9, _MAX_WAIT_NS))  # may be infinite
                self._misses.append(_Miss(at_ns, now_ns, now_ns + asked_ns, failure))
        elif sign is Sign.ANSWER or outcome.heard_ns is not None:
            self._mark_opened(self._alive_ns(at_ns, outcome))
        # the ended session may have been the last that could disprove an outage
        if not self.down and len(self._misses) >= MISSES_OF_OUTAGE and not self._maybe_alive:
            began_ns = min(miss.dialled_ns for miss in self._misses)
            self.outages.append(Outage(began_ns, self._misses[-1].failure))
            self._announce(self.outages[-1])
            probed = True
        if probed and self.down and not self.given_up:
            self._schedule(self.outages[-1], now_ns)
        if not self._detects_outages or sign not in (Sign.NOT_OPENED, Sign.LOST):
            return Health.UP
        explained = bool(self.outages) and self.outages[-1].explains(at_ns, lost=sign is Sign.LOST)
        return Health.DOWN if explained else Health.SUSPECT

    @property
    def _detects_outages(self) -> bool:
        """Whether an unreachable endpoint counts as an outage."""
        return self._patience_ns > 0 and self.reached

    @property
    def _maybe_alive(self) -> bool:
        """Whether a session that was in progress when the outage was suspected may still succeed."""
        suspected_ns = self._misses[MISSES_OF_OUTAGE - 1].ended_ns
        return self._counts_refusals and any(at_ns <= suspected_ns for at_ns in self._in_progress)

    def _alive_ns(self, at_ns: int, outcome: AttemptOutcome) -> int:
        """Return the latest time at which an open session shows that the endpoint was up."""
        # Under load, an endpoint that refuses sessions is up as long as it serves others. Once it is down,
        # only a new session shows that it has recovered.
        if not self._counts_refusals or self.down:
            return at_ns
        if outcome.failure is None or outcome.failure.kind in _OPEN_TO_THE_END:
            return outcome.ended_ns
        return max(at_ns, outcome.heard_ns or at_ns)

    def _mark_opened(self, at_ns: int) -> None:
        self._opened_ns = max(at_ns, self._opened_ns or at_ns)
        self._misses = [miss for miss in self._misses if miss.dialled_ns > at_ns]
        if self.down and not self.given_up and not self._misses:
            self._end(self.outages[-1], at_ns, over=True)

    def _schedule(self, outage: Outage, now_ns: int) -> None:
        """Schedule the next probe, or give up if no probe is possible before patience runs out."""
        ends_ns = outage.began_ns + self._patience_ns
        asked_ns = max(miss.until_ns for miss in self._misses)
        if asked_ns > ends_ns:
            outage.asked_s = (asked_ns - now_ns) / 1e9
        if now_ns >= ends_ns or outage.asked_s is not None:
            self._end(outage, now_ns, over=False)
            return
        outage.probes += 1
        delay_s = self._backoff.delay_s(min(outage.probes, _LAST_PROBE_BACKOFF), None)
        outage.probe_ns = min(max(now_ns + round(delay_s * 1e9), asked_ns), ends_ns)

    def _end(self, outage: Outage, at_ns: int, *, over: bool) -> None:
        outage.ended_ns, outage.over = at_ns, over
        self._announce(outage)
