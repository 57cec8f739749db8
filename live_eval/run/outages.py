"""Pause a run while its endpoint cannot be reached, so that an outage costs no turn.

Pure except for the gate's wait. Three sessions in a row that cannot be opened are an outage: no session
begins any more, except for one at a time that finds out whether the endpoint is back. Attempts that fell into
the outage do not count, and neither do those that were cut off by it: sessions that lost contact after the
last one that was opened. An endpoint that has never answered is not an outage but a wrong address: its turns
fail.

An endpoint under load may refuse sessions while it holds others, and those that measure it must not wait
until it has recovered. There, refusals count while a session may be alive; they are an outage once none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from live_eval.clock import Clock
from live_eval.errors import FailureKind
from live_eval.run.retries import Backoff
from live_eval.types import Failure

__all__ = ["LOST_CONTACT", "MISSES_OF_OUTAGE", "UNREACHABLE", "Contact", "Outage", "OutageGate"]

UNREACHABLE = frozenset(
    {
        FailureKind.CONNECTION_REFUSED,
        FailureKind.CONNECT_FAILED,
        FailureKind.CONNECT_TIMEOUT,
        FailureKind.HANDSHAKE,
    }
)
"""The failures of a session that could not be opened."""

LOST_CONTACT = frozenset(
    {
        FailureKind.CLOSED,
        FailureKind.CHANNEL_CLOSED,
        FailureKind.STALLED,
        FailureKind.NO_RESPONSE,
        FailureKind.NO_RTP,
        FailureKind.NO_SESSION,
        FailureKind.ICE_FAILED,
        FailureKind.DTLS_FAILED,
    }
)
"""The failures of a session whose endpoint may have gone away meanwhile."""

_ANSWERS = frozenset(
    {
        FailureKind.AUTHENTICATION,
        FailureKind.RATE_LIMITED,
        FailureKind.BUSY,
        FailureKind.SDP_REFUSED,
        FailureKind.CODEC_REFUSED,
        FailureKind.UNKNOWN_MODEL,
        FailureKind.ENDPOINT_ERROR,
    }
)
"""The failures of a session that an endpoint refused, and so was there."""

MISSES_OF_OUTAGE = 3
"""So many sessions in a row that cannot be opened are an outage."""
_LONGEST_PROBE = 4  # the backoff after attempt 4: 4 to 8 s
_LONGEST_NS = 10**18  # about thirty years


class Contact(Enum):
    """What an attempt at a session says about the endpoint."""

    NO_DOUBT = auto()
    """It answered, or the attempt ended before it could be asked."""
    DOUBT = auto()
    """The session could not be opened or was cut off, which may be the beginning of an outage."""
    OUTAGE = auto()
    """The session could not be opened or was cut off because of an outage: the attempt does not count."""


@dataclass(slots=True)
class Outage:
    """A time during which the endpoint could not be reached.

    Args:
        began_ns: When the first session that failed was dialled, on the monotonic clock.
        wall_ns: The same, in nanoseconds since the Unix epoch.
        failure: Why sessions failed.
        seconds: How long it lasted: until the dialling that succeeded, or the last that failed.
        over: Whether the endpoint came back.
        asked_s: How long the endpoint still asks to wait, where that is longer than the patience.
    """

    began_ns: int
    wall_ns: int
    failure: Failure
    seconds: float = 0.0
    over: bool = False
    asked_s: float | None = None


class OutageGate:
    """Lets sessions begin while the endpoint can be reached; during an outage, one at a time to probe it.

    Call `enter` before each session and `report` after it.

    Args:
        clock: The clock.
        backoff: How long to wait between probes.
        patience_s: How long an outage may last; 0 for no pause: each failure counts.
        reached: Whether the endpoint has answered before.
        announce: Called when an outage begins, when it is over, and when patience has run out.
        counts_refusals: Whether there is no outage as long as a session may be alive.
    """

    def __init__(
        self,
        clock: Clock,
        backoff: Backoff,
        patience_s: float,
        *,
        reached: bool,
        announce: Callable[[Outage], None],
        counts_refusals: bool = False,
    ) -> None:
        self._clock = clock
        self._backoff = backoff
        self._patience_ns = round(patience_s * 1e9)
        self._announce = announce
        self._counts_refusals = counts_refusals
        self._under_way: list[int] = []  # when the sessions were dialled whose attempt has not ended
        self._reached_ns: int | None = clock.now_ns() if reached else None  # dialled then, or later
        self._missed: list[int] = []  # when the sessions were dialled that failed in a row
        self._suspected_ns = 0  # when these were enough for an outage
        self._refusal: Failure | None = None  # why the last of them failed
        self._outage: Outage | None = None
        self._last: Outage | None = None  # of those that are over
        self._probe_ns: int | None = None  # when the probe under way was dialled
        self._next_ns = 0  # when the next one is due
        self._probes = 0
        self._asked_ns = 0  # the endpoint asks for no probe before
        self._changed = asyncio.Event()
        self.number = 0
        """How many outages there have been."""
        self.given_up: Outage | None = None
        """The outage that outlasted the patience."""

    async def enter(self) -> int | None:
        """Wait until a session may be opened.

        Returns:
            The time, to be passed to `report`; None if the endpoint stays unreachable: no session is opened
            any more.
        """
        now_ns = self._clock.now_ns()
        while self._outage is not None and self.given_up is None:
            if self._probe_ns is not None:
                await self._changed.wait()
                now_ns = self._clock.now_ns()
            elif now_ns < self._next_ns:
                await self._clock.sleep_until(self._next_ns)
                now_ns = self._clock.now_ns()
            else:
                self._probe_ns = now_ns
                break
        if self.given_up is not None:
            return None
        self._under_way.append(now_ns)
        return now_ns

    def report(
        self,
        entered_ns: int,
        failure: Failure | None,
        *,
        ready: bool = False,
        away: bool = False,
        asked_s: float | None = None,
        heard_ns: int | None = None,
    ) -> Contact:
        """Take note of the end of an attempt.

        Args:
            entered_ns: What `enter` returned.
            failure: Why it failed, or None.
            ready: Whether the endpoint's session was ready before that.
            away: Whether the failure means that the endpoint is away, although its kind need not mean so: a
                proxy in its place answers.
            asked_s: How long the answer asks to wait, in seconds; the next probe is not earlier.
            heard_ns: When the endpoint was last heard in its session, or None.
        """
        if entered_ns in self._under_way:
            self._under_way.remove(entered_ns)
        if failure is None:  # it was alive to its end: the close of its connection, just now
            heard_ns = self._clock.now_ns()
        if heard_ns is not None:
            self._take_heard(heard_ns)
        probe = entered_ns == self._probe_ns
        if probe:
            self._probe_ns = None
        contact = Contact.NO_DOUBT
        if failure is not None and (away or failure.kind in UNREACHABLE):
            self._note_wait(asked_s)
            contact = self._take_missed(entered_ns, failure)
        elif failure is None or ready or failure.kind in _ANSWERS:
            self._take_reached(entered_ns)
        self._begin_outage()  # which the session that has ended may have kept from beginning
        if failure is not None and failure.kind in LOST_CONTACT:
            contact = self._take_lost(entered_ns)
        if probe and self._outage is not None:
            self._schedule()
        self._changed.set()
        self._changed = asyncio.Event()
        return contact

    @property
    def reached(self) -> bool:
        """Whether the endpoint has answered."""
        return self._reached_ns is not None

    def opened_since(self, at_ns: int) -> bool:
        """Return whether a session that was dialled at `at_ns` or later has been opened."""
        return self._reached_ns is not None and self._reached_ns >= at_ns

    def _note_wait(self, asked_s: float | None) -> None:
        if asked_s is not None:
            asked_ns = self._clock.now_ns() + round(min(asked_s * 1e9, _LONGEST_NS))  # it may be infinite
            self._asked_ns = max(self._asked_ns, asked_ns)

    def _take_heard(self, heard_ns: int) -> None:
        """Take note that a session was alive: those refused before then met no outage."""
        if self._counts_refusals and self._outage is None and self.reached:
            self._reached_ns = max(heard_ns, self._reached_ns or 0)
            self._missed = [at_ns for at_ns in self._missed if at_ns > heard_ns]

    def _take_reached(self, entered_ns: int) -> None:
        if self._missed and entered_ns < self._missed[-1]:
            return  # it began before others failed
        self._reached_ns = max(entered_ns, self._reached_ns or 0)
        self._missed.clear()
        self._asked_ns = 0
        if self._outage is not None and self.given_up is None:
            self._end(self._outage, entered_ns, over=True)

    def _take_missed(self, entered_ns: int, failure: Failure) -> Contact:
        if self._last is not None and entered_ns < _end_ns(self._last):
            return Contact.OUTAGE if entered_ns >= self._last.began_ns else self._doubt
        if not self._watches or self.opened_since(entered_ns + 1):
            return self._doubt
        self._missed = sorted([*self._missed, entered_ns])
        if len(self._missed) == MISSES_OF_OUTAGE:
            self._suspected_ns = self._clock.now_ns()
        self._refusal = failure
        self._begin_outage()
        return Contact.DOUBT if self._outage is None else Contact.OUTAGE

    def _begin_outage(self) -> None:
        """Begin an outage if there is one."""
        if self._outage is not None or len(self._missed) < MISSES_OF_OUTAGE or self._maybe_alive:
            return
        assert self._refusal is not None
        began_ns = self._missed[0]
        wall_ns = self._clock.wall_ns() - (self._clock.now_ns() - began_ns)
        self._outage = Outage(began_ns, wall_ns, self._refusal)
        self.number += 1
        self._probes = 0
        self._announce(self._outage)
        self._schedule()

    @property
    def _maybe_alive(self) -> bool:
        """Whether a session under way when the outage was suspected may show that the endpoint is there."""
        return self._counts_refusals and any(at_ns <= self._suspected_ns for at_ns in self._under_way)

    def _take_lost(self, entered_ns: int) -> Contact:
        if self._outage is not None or (self._last is not None and entered_ns < self._last.began_ns):
            return Contact.OUTAGE
        return self._doubt

    @property
    def _watches(self) -> bool:
        """Whether an endpoint that cannot be reached is an outage."""
        return self._patience_ns > 0 and self.reached

    @property
    def _doubt(self) -> Contact:
        return Contact.DOUBT if self._watches else Contact.NO_DOUBT

    def _schedule(self) -> None:
        """Set when the next probe is due, the last one when patience runs out; or give up."""
        assert self._outage is not None
        now_ns, ends_ns = self._clock.now_ns(), self._outage.began_ns + self._patience_ns
        if self._asked_ns > ends_ns:
            self._outage.asked_s = (self._asked_ns - now_ns) / 1e9
        if now_ns >= ends_ns or self._outage.asked_s is not None:
            self._end(self._outage, now_ns, over=False)
            return
        self._probes += 1
        delay_s = self._backoff.delay_s(min(self._probes, _LONGEST_PROBE), None)
        self._next_ns = min(max(now_ns + round(delay_s * 1e9), self._asked_ns), ends_ns)

    def _end(self, outage: Outage, at_ns: int, *, over: bool) -> None:
        outage.seconds, outage.over = (at_ns - outage.began_ns) / 1e9, over
        if over:
            self._outage, self._last = None, outage
        else:
            self.given_up = outage
        self._announce(outage)


def _end_ns(outage: Outage) -> int:
    return outage.began_ns + round(outage.seconds * 1e9)
