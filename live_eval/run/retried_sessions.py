"""A session from its first attempt to its last, with the waits for rate limits, backoffs and outages."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from live_eval.clock import Clock
from live_eval.dialect import TransportKind
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord
from live_eval.run.held_sessions import SessionHolder
from live_eval.run.observers import Observer
from live_eval.run.outages import LOST_CONTACT, Contact, OutageGate
from live_eval.run.plan import Plan
from live_eval.run.retries import Backoff, Patience, RateGate, Retry, retry_of
from live_eval.run.session_attempt import SessionAttempts, unplayed_turns
from live_eval.run.session_queue import DueSession
from live_eval.types import Failure

__all__ = ["FinalAttempt", "RetriedSessions"]

_LAST_BUSY_TRY = 4  # an endpoint without a free session is asked every few seconds


class FinalAttempt(NamedTuple):
    """The attempt at a session that no other follows, unless an outage excuses it.

    Args:
        records: Of the turns of its last attempt.
        doubt_since_ns: None if they count; else they are due to an outage, unless a session that is dialled
            then or later can be opened.
    """

    records: Sequence[TurnRecord]
    doubt_since_ns: int | None


class _Attempt(NamedTuple):
    records: list[TurnRecord]
    contact: Contact
    entered_ns: int


@dataclass(slots=True, kw_only=True)
class RetriedSessions:
    """Plays the sessions of a run, each until no further attempt can help it.

    Args:
        plan: The run's plan.
        attempts: Plays one attempt.
        holder: Holds the sessions.
        base_url: Of the endpoint.
        outages: Lets sessions begin while the endpoint can be reached.
        backoff: How long to wait between attempts.
        clock: The clock.
        observer: Follows the run.
        store_failed: Stores the failure of an attempt at a turn that is not the last.
    """

    plan: Plan
    attempts: SessionAttempts
    holder: SessionHolder
    base_url: str
    outages: OutageGate
    backoff: Backoff
    clock: Clock
    observer: Observer
    store_failed: Callable[[TurnRecord], Awaitable[None]]
    _gate: RateGate = field(init=False)
    _stays_busy: bool = False  # a turn waited for a free session in vain, and none has been free since

    def __post_init__(self) -> None:
        self._gate = RateGate(self.clock, self.plan.config.turns.patience)

    async def play(self, session: DueSession) -> FinalAttempt | None:
        """Play one session, trying again if its failure may pass.

        An endpoint without a free session is asked again until it has one; that is not an attempt. Neither
        is one that an outage excuses: the attempts are counted from the beginning when that is over.

        Returns:
            What came of the last attempt; None if an outage has outlasted the run's patience.
        """
        patience = Patience(self.plan.config.turns.patience)
        tries, busy_tries, noted = 1, 0, False
        while True:
            made = await self._play_when_admitted(session, patience)
            await self._note_failed(session.excused)
            session.excused = ()
            if made is None:
                return None
            records, contact, entered_ns = made
            failed = _failed(records)
            kind = failed.failure.kind if failed is not None and failed.failure is not None else None
            lost = kind in LOST_CONTACT
            session.cut = contact is not Contact.NO_DOUBT and (session.cut or lost)
            if contact is Contact.OUTAGE and session.excuse(self.outages.number):
                if not noted or lost:  # but not every probe
                    await self._note_failed(records)
                    session.attempt += 1
                tries, noted = 1, True
                continue
            noted = False
            doubt_since_ns = None
            if contact is Contact.DOUBT:
                doubt_since_ns = self.clock.now_ns() if lost else entered_ns
            # A schedule does not wait for a free session.
            busy = kind is FailureKind.BUSY and session.due_ns is None
            limited = kind is FailureKind.RATE_LIMITED
            how = Retry.NEVER if kind is None else retry_of(kind)
            self._stays_busy &= busy
            session.attempt += not busy
            since_ns = session.asks_since_ns
            answered = since_ns is not None and self.outages.opened_since(since_ns)
            if failed is None or how is Retry.NEVER or answered:
                return FinalAttempt(records, doubt_since_ns)
            if self._stays_busy:
                why = "another turn has waited for a free session in vain"
                return _explained(records, failed, why, doubt_since_ns)
            asked_s = self._requested_wait_s(failed)
            backoffs = min(busy_tries + 1, _LAST_BUSY_TRY) if busy else tries
            delay_s = self.backoff.delay_s(backoffs, asked_s, how)
            if limited:  # the gate keeps other sessions from the same limit; this one waits there too
                self._gate.close_for(delay_s)
            if not busy and tries > self.plan.config.turns.retries:
                return FinalAttempt(records, doubt_since_ns)
            if not patience.fits(delay_s):
                self._stays_busy = busy
                wait = (
                    f"it asks to wait {min(asked_s, 1e9):.0f} s" if asked_s is not None else "no wait is left"
                )
                why = f"{wait}, and turns.patience is {patience.seconds:g} s"
                return _explained(records, failed, why, doubt_since_ns)
            if not busy or not busy_tries:
                await self._note_failed(records)
            if not limited:
                if busy and not busy_tries:
                    why = f"at most, until {self.plan.spec.name} has a free session"
                    self.observer.waiting(patience.left_s, why)
                patience.spend(delay_s)
                await self.clock.sleep_until(self.clock.now_ns() + round(delay_s * 1e9))
            busy_tries += busy
            tries += not busy

    async def _note_failed(self, records: Sequence[TurnRecord]) -> None:
        """Store the failures of an attempt that is not the last."""
        for record in records:
            if record.failure is not None:
                await self.store_failed(record)

    async def _play_when_admitted(self, session: DueSession, patience: Patience) -> _Attempt | None:
        """Play one session once the endpoint's rate limits allow it; fail it if that takes too long.

        Returns:
            The attempt; None if an outage has outlasted the run's patience.
        """
        began_ns = self.clock.now_ns()
        if self._gate.closed_s > 0:
            self.observer.waiting(self._gate.closed_s, "for the endpoint's rate limit")
        if not await self._gate.wait(patience.left_s):
            failure = Failure(
                FailureKind.RATE_LIMITED,
                f"not played: the endpoint's rate limit asks to wait another {self._gate.closed_s:.0f} s, "
                f"and turns.patience is {patience.seconds:g} s",
            )
            records = unplayed_turns(session.jobs, session.attempt, failure, self.clock)
            return _Attempt(self._with_schedule(records, session), Contact.NO_DOUBT, began_ns)
        patience.spend((self.clock.now_ns() - began_ns) / 1e9)
        entered_ns = await self.outages.enter()
        if entered_ns is None:
            return None
        records = await self.attempts.play(
            session.jobs, self.holder, self.base_url, session.attempt, session.due_ns
        )
        for record in records:
            self._gate.update(record.rate_limits)
        failed = _failed(records)
        contact = self.outages.report(
            entered_ns,
            None if failed is None else failed.failure,
            ready=records[0].trace.ready_ns is not None,
            away=failed is not None and self._is_away(failed),
            asked_s=None if failed is None else self._requested_wait_s(failed),
            heard_ns=max((at_ns for record in records for at_ns in _heard(record)), default=None),
        )
        return _Attempt(self._with_schedule(records, session), contact, entered_ns)

    def _is_away(self, failed: TurnRecord) -> bool:
        """Return whether the endpoint, or a proxy in its place, said that it is away.

        Over HTTP, where each turn is a request, an error of the server may be due to what is in the request.
        """
        assert failed.failure is not None
        over_http = self.plan.spec.transport_kind is TransportKind.HTTP
        kind = failed.failure.kind
        return kind is FailureKind.UNAVAILABLE or (kind is FailureKind.SERVER_ERROR and not over_http)

    def _with_schedule(self, records: list[TurnRecord], session: DueSession) -> list[TurnRecord]:
        """Return the records of a session with when it was due; later turns follow from the first."""
        first, *later = records
        trace = replace(first.trace, intended_ns=session.due_ns)
        return [replace(first, trace=trace), *later]

    def _requested_wait_s(self, failed: TurnRecord) -> float | None:
        """Return the seconds that the endpoint asks to wait after a failure, or None."""
        asked_s = failed.retry_after_s
        if asked_s is not None and not math.isnan(asked_s):
            return asked_s
        limited = failed.failure is not None and failed.failure.kind is FailureKind.RATE_LIMITED
        return self._gate.resets_s if limited else None


def _failed(records: Sequence[TurnRecord]) -> TurnRecord | None:
    """Return the turn that ended a session; those after it fail too, but only because of it."""
    return next((record for record in records if record.failure is not None), None)


def _heard(record: TurnRecord) -> Iterator[int]:
    """Yield when the endpoint was heard in a turn: its session became ready, and audio arrived."""
    if record.trace.ready_ns is not None:
        yield record.trace.ready_ns
    for response in record.trace.responses:
        if len(response.chunk_arrival_ns):
            yield int(response.chunk_arrival_ns[-1])


def _explained(
    records: Sequence[TurnRecord], failed: TurnRecord, why: str, doubt_since_ns: int | None
) -> FinalAttempt:
    """Return the records of an attempt, saying of the failed one why no attempt follows."""
    assert failed.failure is not None
    failure = replace(failed.failure, message=f"{failed.failure.message}; {why}")
    explained = [replace(each, failure=failure) if each is failed else each for each in records]
    return FinalAttempt(explained, doubt_since_ns)
