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
        records: Sequence[TurnRecord],
        health: Health = Health.UP,
        outcome: AttemptOutcome | None = None,
    ) -> FinalAttempt | _RetryAt:
        """Classify an attempt; `outcome` is None if the endpoint was not dialled."""
        now_ns, failed = self.clock.now_ns(), _failed(records)
        kind = None if failed is None or failed.failure is None else failed.failure.kind
        # In an open loop, a refusal is a failed attempt; in a closed loop, the session waits.
        busy = kind is FailureKind.BUSY and session.due_ns is None
        self._stays_busy &= busy
        sign = Sign.NONE if kind is None else sign_of(kind)
        opened = outcome is None or outcome.heard_ns is not None
        refused = not opened and sign in (Sign.NOT_OPENED, Sign.LOST)
        # Pause a refused slot, since the endpoint may serve fewer sessions than there are slots.
        limited = kind is FailureKind.RATE_LIMITED
        rests = self.health.may_answer if refused else limited and not opened and self.health.serves
        slot.refused = slot.refused + 1 if rests and session.due_ns is None else 0
        session.cut = health is not Health.UP and (session.cut or sign is Sign.LOST)
        if health is Health.DOWN and session.excuse(len(self.health.outages)):
            session.attempt += not refused  # a refused probe does not count as an attempt
            return _RetryAt(now_ns, () if refused else records)
        session.count(busy=busy, dialled=outcome is not None)
        final = FinalAttempt(records, now_ns if health is Health.SUSPECT else None)
        if failed is None or kind is None:
            return final
        delay_s = self._delay_s(session, slot, failed, kind)
        if self._is_final(session, kind):
            return final
        if why := self._why_no_wait(session, failed, kind, delay_s):
            return _explained(final, failed, why)
        if busy and session.busy == 1:
            until = f"trying again for up to {duration_in_words(round(session.patience.left_s))}"
            self.observer.note(f"{self.plan.spec.name} has no free session yet; {until}")
        if not limited:
            session.patience.spend(delay_s)
            now_ns += round(delay_s * 1e9)
        return _RetryAt(now_ns, () if session.busy > 1 and busy else records)

    def _delay_s(self, session: DueSession, slot: Slot, failed: TurnRecord, kind: FailureKind) -> float:
        """Return the wait in seconds before the next attempt; close the gate or pause the slot if needed."""
        asked_s, how = self._requested_wait_s(failed), retry_of(kind)
        limited = kind is FailureKind.RATE_LIMITED
        if kind is FailureKind.BUSY and session.due_ns is None:
            tries = min(session.busy, _LAST_BUSY_BACKOFF)
        else:  # a rate limit delays all slots, so this slot's refusals must not lengthen the wait
            tries = session.tries if limited else max(session.tries, slot.refused)
        delay_s = self.backoff.delay_s(tries, asked_s, how)
        if limited:  # all sessions, including this one, wait at the gate
            self._gate.close_for(delay_s)
        if slot.refused:
            rest_s = self.backoff.delay_s(slot.refused, asked_s, how)
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

    def _why_no_wait(self, session: DueSession, failed: TurnRecord, kind: FailureKind, delay_s: float) -> str:
        """Return the reason why the session cannot wait for another attempt; an empty string if it can."""
        if self._stays_busy:
            return "another turn has already waited too long for a free session"
        if session.patience.fits(delay_s):
            return ""
        self._stays_busy = kind is FailureKind.BUSY and session.due_ns is None
        asked_s = self._requested_wait_s(failed)
        limit = f"--patience is {duration_in_words(session.patience.seconds)}"
        if asked_s is None:
            return f"the turn's waiting time is used up; {limit}"
        return f"the endpoint requests a wait of {min(asked_s, 1e9):.0f} s, but {limit}"

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
            return self._verdict(session, slot, records)
        dialled_ns = await self._dial()
        if dialled_ns is None:
            return None

        def opened() -> None:
            self.health.opened(dialled_ns)
            self.queue.wake()

        records = await self.attempts.run(session.jobs, session.attempt, session.due_ns, on_ready=opened)
        for record in records:
            self._gate.update(record.rate_limits)
        failed = _failed(records)
        outcome = AttemptOutcome(
            self.clock.now_ns(),
            None if failed is None else failed.failure,
            max((at_ns for record in records for at_ns in _heard(record)), default=None),
            None if failed is None else self._requested_wait_s(failed),
        )
        health = self.health.observe(dialled_ns, outcome)
        if self.health.down:
            await self.store_failed(self.queue.excuse(len(self.health.outages)))
        self.queue.wake()
        return self._verdict(session, slot, records, health, outcome)

    async def _dial(self) -> int | None:
        """Wait until a session may be dialled; return the time, or None after giving up on the endpoint."""
        while not self.health.given_up:
            now_ns, opens_ns = self.clock.now_ns(), self.health.opens_ns()
            if opens_ns is not None and opens_ns <= now_ns:
                self.health.dial(now_ns)
                return now_ns
            await self.queue.wait(opens_ns)
        return None

    def _requested_wait_s(self, failed: TurnRecord) -> float | None:
        """Return the wait in seconds that the endpoint requests after a failure, or None."""
        asked_s = failed.retry_after_s
        if asked_s is not None and not math.isnan(asked_s):
            return asked_s
        limited = failed.failure is not None and failed.failure.kind is FailureKind.RATE_LIMITED
        return self._gate.resets_s if limited else None


def _failed(records: Sequence[TurnRecord]) -> TurnRecord | None:
    """Return the first failed turn, which ended the session."""
    return next((record for record in records if record.failure is not None), None)


def _heard(record: TurnRecord) -> Iterator[int]:
    """Yield times at which the endpoint was alive during a turn: when it was ready and when audio arrived."""
    if record.trace.ready_ns is not None:
        yield record.trace.ready_ns
    for response in record.trace.responses:
        if len(response.chunk_arrival_ns):
            yield int(response.chunk_arrival_ns[-1])


def _explained(final: FinalAttempt, failed: TurnRecord, why: str) -> FinalAttempt:
    """Append the reason why no further attempt follows to the failure's message."""
    if failed.failure is None:
        return final
    failure = replace(failed.failure, message=f"{failed.failure.message}; {why}")
    return final._replace(records=[replace(r, failure=failure) if r is failed else r for r in final.records])
