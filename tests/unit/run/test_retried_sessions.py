import asyncio
from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from live_eval.dialect import RateLimit
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord, finish
from live_eval.run.endpoint_health import EndpointHealth
from live_eval.run.observers import Observer
from live_eval.run.plan import Job
from live_eval.run.retried_sessions import RetriedSessions, Slot
from live_eval.run.retries import Backoff, Patience
from live_eval.run.run_file import TurnsTable
from live_eval.run.session_queue import DueSession, SessionQueue
from live_eval.session.capture import TurnCapture
from live_eval.testing.fake_clock import FakeClock
from live_eval.timing import TurnTrace
from live_eval.types import Failure
from tests.support.campaigns import a_case

S = 1_000_000_000
UNAVAILABLE = Failure(FailureKind.UNAVAILABLE, "overloaded")
RATE_LIMITED = Failure(FailureKind.RATE_LIMITED, "slow down")


class Endpoint:
    """An endpoint with a session limit and sessions of 5 s, and the slots that dial it."""

    def __init__(self, serves: int, *, refusal: Failure = UNAVAILABLE, **asks: Any) -> None:
        self.clock = FakeClock(start_ns=0)
        self.serves = serves
        self.refusal = refusal
        self.asks = asks
        self.dialled: list[int] = []
        self.records: list[TurnRecord] = []
        self.counts_refusals = True
        self.retried: list[TurnRecord] = []

    async def run_session(
        self,
        jobs: Sequence[Job],
        attempt: int,
        due_ns: int | None,
        unusable: Failure | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> list[TurnRecord]:
        """See `SessionAttempts.run`."""
        dial_ns, failure, ready_ns = self.clock.now_ns(), unusable, None
        if unusable is None:
            self.dialled.append(dial_ns)
            failure = None if self.serves else self.refusal
        if failure is None:
            ready_ns, self.serves = dial_ns, self.serves - 1
            await self.clock.sleep_until(dial_ns + 5 * S)
            self.serves += 1
        trace = TurnTrace(dial_ns=dial_ns, ready_ns=ready_ns, intended_ns=due_ns)
        capture = TurnCapture(
            trace=trace, wall_ns=dial_ns, failure=failure, **(self.asks if failure is self.refusal else {})
        )
        return [finish(capture, jobs[0].case, None, repeat=0, attempt=attempt)]

    async def run(
        self,
        number: int,
        *,
        slots: int = 4,
        due_ns: Callable[[int], int | None] = lambda _: None,
        observer: Observer | None = None,
        results: Collection[FailureKind] = (),
        **turns: Any,
    ) -> None:
        """Run this many sessions like a campaign."""
        table = TurnsTable(**{"retries": 0, **turns})
        said: list[object] = []
        health = EndpointHealth(
            table.patience, Backoff(0), said.append, reached_ns=None, counts_refusals=self.counts_refusals
        )
        sessions = [
            DueSession([Job(a_case(at), 0)], due_ns(at), patience=Patience(table.patience))
            for at in range(number)
        ]
        queue = SessionQueue(sessions, health.opened_since, self.clock)

        async def store_failed(records: Sequence[TurnRecord]) -> None:
            self.retried += records

        retried = RetriedSessions(
            plan=cast(
                "Any", SimpleNamespace(config=SimpleNamespace(turns=table), spec=None, results=results)
            ),
            attempts=cast("Any", SimpleNamespace(run=self.run_session)),
            health=health,
            queue=queue,
            backoff=Backoff(0),
            clock=self.clock,
            observer=observer or Observer(),
            store_failed=store_failed,
        )

        async def work(slot: Slot) -> None:
            while (session := await queue.next(slot.opens_ns)) is not None:
                await self.clock.sleep_until(session.due_ns or 0)
                final = await retried.run(session, slot)
                assert final is not None
                for records in queue.ended(session, *final):
                    self.records += records

        async with asyncio.TaskGroup() as tasks:
            for _ in range(slots):
                tasks.create_task(work(Slot(0)))
        assert not said
        assert len(self.records) == number

    @property
    def failed(self) -> list[str]:
        return [record.failure.message for record in self.records if record.failure is not None]


@pytest.mark.parametrize("asks", [{}, {"retry_after_s": 4.0}, {"retry_after_s": 86_400.0}])
async def test_a_surplus_slot_leaves_the_turns_to_the_other_slots(asks: dict[str, Any]) -> None:
    endpoint = Endpoint(3, **asks)
    await endpoint.run(24)
    assert 1 <= len(endpoint.failed) <= 7
    assert 30 * S <= endpoint.clock.now_ns() <= 45 * S  # no slot waits when no turn remains


@pytest.mark.parametrize("asks", [{}, {"retry_after_s": 4.0}])
async def test_a_slot_refused_with_a_rate_limit_pauses_while_others_are_served(asks: dict[str, Any]) -> None:
    endpoint = Endpoint(3, refusal=RATE_LIMITED, **asks)
    await endpoint.run(24)
    assert 1 <= len(endpoint.failed) <= 9
    assert 30 * S <= endpoint.clock.now_ns() <= 45 * S


async def test_no_slot_pauses_if_the_rate_limit_refuses_all_of_them() -> None:
    endpoint = Endpoint(0, refusal=RATE_LIMITED)
    await endpoint.run(24)
    assert len(endpoint.failed) == 24
    assert endpoint.clock.now_ns() <= 60 * S


async def test_a_schedule_does_not_wait_for_a_slot_that_was_refused() -> None:
    endpoint = Endpoint(3)
    await endpoint.run(24, slots=24, due_ns=lambda at: at * S)
    assert sorted(record.trace.dial_ns for record in endpoint.records) == [at * S for at in range(24)]


async def test_no_slot_waits_for_an_endpoint_that_never_answered() -> None:
    endpoint = Endpoint(0)
    await endpoint.run(24)
    assert (len(endpoint.failed), endpoint.clock.now_ns()) == (24, 0)


async def test_a_turn_that_cannot_wait_for_the_rate_limit_reports_it_once() -> None:
    endpoint = Endpoint(0, refusal=RATE_LIMITED, rate_limits=(RateLimit("requests", 10, 0, 30.0),))
    await endpoint.run(6, slots=2, patience=40, retries=9)
    assert all(
        message.count("the endpoint requests a wait of 30 s, but --patience is 40 s") == 1
        for message in endpoint.failed
    )
    assert any(message.startswith("not run: ") for message in endpoint.failed)
    assert endpoint.clock.now_ns() < 3 * 40 * S


async def test_a_turn_that_waits_for_its_next_attempt_is_announced() -> None:
    class Watch(Observer):
        def __init__(self) -> None:
            self.seen: list[tuple[object, ...]] = []

        def retry_due(self, turn_id: str, attempt: int, attempts: int) -> None:
            self.seen.append((turn_id, attempt, attempts))

        def retry_began(self, turn_id: str) -> None:
            self.seen.append((turn_id,))

    watch = Watch()
    endpoint = Endpoint(0, refusal=RATE_LIMITED)
    await endpoint.run(1, slots=1, observer=watch, retries=2)
    turn_id = endpoint.records[0].turn_id
    assert watch.seen == [(turn_id, 2, 3), (turn_id,), (turn_id, 3, 3), (turn_id,)]


@pytest.mark.parametrize(("results", "sessions"), [((), 3), ([FailureKind.NO_RESPONSE], 1)])
async def test_a_failure_that_the_run_measures_is_not_retried(
    results: Collection[FailureKind], sessions: int
) -> None:
    endpoint = Endpoint(0, refusal=Failure(FailureKind.NO_RESPONSE, "silent"))
    await endpoint.run(1, slots=1, retries=2, results=results)
    assert len(endpoint.dialled) == sessions
    assert endpoint.failed == ["silent"]


async def test_a_test_for_an_outage_is_announced() -> None:
    """The last session fails and is repeated; on success, there was no outage and the failure is kept."""

    class Stumbles(Endpoint):
        async def run_session(self, *given: Any, **more: Any) -> list[TurnRecord]:
            self.serves = len(self.dialled) != 1
            return await super().run_session(*given, **more)

    class Watch(Observer):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    watch, endpoint = Watch(), Stumbles(1)
    endpoint.counts_refusals = False
    await endpoint.run(2, slots=1, observer=watch)
    assert (len(endpoint.dialled), endpoint.failed) == (3, ["overloaded"])
    (note,) = watch.notes
    assert f"running {endpoint.records[1].turn_id} again to test for an outage" in note
