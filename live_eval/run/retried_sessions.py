"""Run all attempts at a session: classify the outcome of each, and wait between them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from live_eval.clock import Clock
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord
from live_eval.run.endpoint_health import AttemptOutcome, EndpointHealth, Health
from live_eval.run.observers import Observer
from live_eval.run.plan import Plan
from live_eval.run.retries import Backoff, RateGate, Retry, Sign, retry_of, sign_of
from live_eval.run.session_attempt import SessionAttempts
from live_eval.run.session_queue import DueSession, SessionQueue
from live_eval.text.durations import duration_in_words
from live_eval.types import Failure

__all__ = ["FinalAttempt", "RetriedSessions", "Slot"]

_LAST_BUSY_BACKOFF = 4  # caps the backoff, to poll a busy endpoint every few seconds


@dataclass(slots=True)
class Slot:
    """A slot for one of a run's concurrent sessions. `refused` counts consecutive refusals."""

    opens_ns: int
    refused: int = 0


class FinalAttempt(NamedTuple):
    """The last attempt at a session.

    Its records are final immediately if `undecided_since_ns` is None, otherwise once a session that was
    dialled at this time or later has been opened.
    """

    records: Sequence[TurnRecord]
    undecided_since_ns: int | None = None


class _Failed(NamedTuple):
    records: Sequence[TurnRecord]
    turn: TurnRecord  # the one that ended the session
    failure: Failure
    asked_s: float | None  # wait that the endpoint requests
    busy: bool  # in a closed loop, the session waits; in an open loop, a refusal is a failed attempt


class _RetryAt(NamedTuple):
    at_ns: int
    failed: Sequence[TurnRecord]  # records to be stored


@dataclass(slots=True, kw_only=True)
class RetriedSessions:
    """Run sessions, and retry each until it is captured or another attempt cannot help.

    Args:
        store_failed: Function that stores the failures of all attempts except the last one.
    """

    plan: Plan
    attempts: SessionAttempts
    health: EndpointHealth
    queue: SessionQueue
    backoff: Backoff
    clock: Clock
    observer: Observer
    store_failed: Callable[[Sequence[TurnRecord]], Awaitable[None]]
    _gate: RateGate = field(init=False)
    _stays_busy: bool = False  # a turn waited too long for a free session, and none has become free since

    def __post_init__(self) -> None:
        self._gate = RateGate(self.clock, self.plan.config.turns.patience)

    async def run(self, session: DueSession, slot: Slot) -> FinalAttempt | None:
        """Run a session, retrying it while its failure may be temporary.

        Returns:
            The last attempt; None if an outage has exceeded the run's patience.
        """
        while isinstance(verdict := await self._attempt(session, slot), _RetryAt):
            await self.store_failed(verdict.failed)
            turn_id, attempts = session.jobs[0].turn_id, 1 + self.plan.config.turns.retries
            self.observer.retry_due(turn_id, min(1 + session.tries, attempts), attempts)
            await self.clock.sleep_until(verdict.at_ns)
            self.observer.retry_began(turn_id)
        return verdict

    def _verdict(
        self,
        session: DueSession,
        slot: Slot,
        failed: _Failed,
        health: Health = Health.UP,
        outcome: AttemptOutcome | None = None,
    ) -> FinalAttempt | _RetryAt:
        """Classify a failed attempt; `outcome` is None if the endpoint was not dialled."""
        now_ns, kind, sign = self.clock.now_ns(), failed.failure.kind, sign_of(failed.failure.kind)
        self._stays_busy &= failed.busy
        opened = outcome is None or outcome.heard_ns is not None
        refused = not opened and sign in (Sign.NOT_OPENED, Sign.LOST)
        # Pause a refused slot, since the endpoint may serve fewer sessions than there are slots.
        limited = kind is FailureKind.RATE_LIMITED
        rests = self.health.may_answer if refused else limited and not opened and self.health.serves
        slot.refused = slot.refused + 1 if rests and session.due_ns is None else 0
        session.cut = health is not Health.UP and (session.cut or sign is Sign.LOST)
        if health is Health.DOWN and session.excuse(len(self.health.outages)):
            session.attempt += not refused  # a refused probe does not count as an attempt
            return _RetryAt(now_ns, () if refused else failed.records)
        session.count(busy=failed.busy, dialled=outcome is not None)
        final = FinalAttempt(failed.records, now_ns if health is Health.SUSPECT else None)
        delay_s = self._delay_s(session, slot, failed)
        if self._is_final(session, kind):
            return final
        if why := self._why_no_wait(session, failed, delay_s):
            return final._replace(records=_explained(failed, why))
        if failed.busy and session.busy == 1:
            until = f"trying again for up to {duration_in_words(round(session.patience.left_s))}"
            self.observer.note(f"{self.plan.spec.name} has no free session yet; {until}")
        if not limited:
            session.patience.spend(delay_s)
            now_ns += round(delay_s * 1e9)
        return _RetryAt(now_ns, () if session.busy > 1 and failed.busy else failed.records)

    def _delay_s(self, session: DueSession, slot: Slot, failed: _Failed) -> float:
        """Return the wait in seconds before the next attempt; close the gate or pause the slot if needed."""
        how, limited = retry_of(failed.failure.kind), failed.failure.kind is FailureKind.RATE_LIMITED
        if failed.busy:
            tries = min(session.busy, _LAST_BUSY_BACKOFF)
        else:  # a rate limit delays all slots, so this slot's refusals must not lengthen the wait
            tries = session.tries if limited else max(session.tries, slot.refused)
        delay_s = self.backoff.delay_s(tries, failed.asked_s, how)
        if limited:  # all sessions, including this one, wait at the gate
            self._gate.close_for(delay_s)
        if slot.refused:
            rest_s = self.backoff.delay_s(slot.refused, failed.asked_s, how)
            slot.opens_ns = self.clock.now_ns() + round(min(rest_s, session.patience.seconds) * 1e9)
        return delay_s

    def _is_final(self, session: DueSession, kind: FailureKind) -> bool:
        """Return whether another attempt is not allowed or would not change the result."""
        return (
            bool(session.undecided)
            or kind in self.plan.results
            or session.tries > self.plan.config.turns.retries
            or retry_of(kind) is Retry.NEVER
        )

    def _why_no_wait(self, session: DueSession, failed: _Failed, delay_s: float) -> str:
        """Return the reason why the session cannot wait for another attempt; an empty string if it can."""
        if self._stays_busy:
            return "another turn has already waited too long for a free session"
        if session.patience.fits(delay_s):
            return ""
        self._stays_busy = failed.busy
        limit = f"--patience is {duration_in_words(session.patience.seconds)}"
        if failed.asked_s is None:
            return f"the turn's waiting time is used up; {limit}"
        return f"the endpoint requests a wait of {min(failed.asked_s, 1e9):.0f} s, but {limit}"

    async def _attempt(self, session: DueSession, slot: Slot) -> FinalAttempt | _RetryAt | None:
        """Run a session once, as soon as the endpoint's rate limits and health allow."""
        began_ns = self.clock.now_ns()
        if self._gate.closed_s > 0:
            self.observer.waiting(self._gate.closed_s, "for the endpoint's rate limit")
        passed = await self._gate.wait(session.patience.left_s)
        session.patience.spend((self.clock.now_ns() - began_ns) / 1e9)
        if not passed:
            failure = Failure(FailureKind.RATE_LIMITED, "not run: the endpoint's rate limit is exhausted")
            records = await self.attempts.run(session.jobs, session.attempt, session.due_ns, failure)
            failed = self._failed(session, records)
            assert failed is not None
            return self._verdict(session, slot, failed)
        dialled_ns = await self._dial()
        if dialled_ns is None:
            return None
        if session.undecided and not session.tries:
            self.observer.note(
                f"the last session failed; running {session.jobs[0].turn_id} again to test for an outage "
                "(without one, the failure stands and this attempt is not stored)"
            )

        def opened() -> None:
            self.health.opened(dialled_ns)
            self.queue.wake()

        records = await self.attempts.run(session.jobs, session.attempt, session.due_ns, on_ready=opened)
        for record in records:
            self._gate.update(record.rate_limits)
        failed = self._failed(session, records)
        outcome = AttemptOutcome(
            self.clock.now_ns(),
            None if failed is None else failed.failure,
            max((at_ns for record in records for at_ns in _heard(record)), default=None),
            None if failed is None else failed.asked_s,
        )
        health = self.health.observe(dialled_ns, outcome)
        if self.health.down:
            await self.store_failed(self.queue.excuse(len(self.health.outages)))
        self.queue.wake()
        if failed is None:
            self._stays_busy, slot.refused = False, 0
            return FinalAttempt(records)
        return self._verdict(session, slot, failed, health, outcome)

    async def _dial(self) -> int | None:
        """Wait until a session may be dialled; return the time, or None after giving up on the endpoint."""
        while not self.health.given_up:
            now_ns, opens_ns = self.clock.now_ns(), self.health.opens_ns()
            if opens_ns is not None and opens_ns <= now_ns:
                self.health.dial(now_ns)
                return now_ns
            await self.queue.wait(opens_ns)
        return None

    def _failed(self, session: DueSession, records: Sequence[TurnRecord]) -> _Failed | None:
        """Return the attempt's first failure, which ended the session; None if every turn was captured."""
        for turn in records:
            if turn.failure is not None:
                asked_s, kind = turn.retry_after_s, turn.failure.kind
                if asked_s is None or math.isnan(asked_s):
                    asked_s = self._gate.resets_s if kind is FailureKind.RATE_LIMITED else None
                busy = kind is FailureKind.BUSY and session.due_ns is None
                return _Failed(records, turn, turn.failure, asked_s, busy)
        return None


def _heard(record: TurnRecord) -> Iterator[int]:
    """Yield times at which the endpoint was alive during a turn: when it was ready and when audio arrived."""
    if record.trace.ready_ns is not None:
        yield record.trace.ready_ns
    for response in record.trace.responses:
        if len(response.chunk_arrival_ns):
            yield int(response.chunk_arrival_ns[-1])


def _explained(failed: _Failed, why: str) -> list[TurnRecord]:
    """Append the reason why no further attempt follows to the failure's message."""
    failure = replace(failed.failure, message=f"{failed.failure.message}; {why}")
    return [replace(each, failure=failure) if each is failed.turn else each for each in failed.records]
