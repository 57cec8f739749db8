import asyncio
import itertools
from collections.abc import Callable

import pytest

from live_eval.errors import FailureKind
from live_eval.run.endpoint_health import AttemptOutcome, EndpointHealth, Health, Outage
from live_eval.run.retries import Backoff
from live_eval.testing.fake_clock import FakeClock
from live_eval.types import Failure

S = 1_000_000_000
REFUSED = Failure(FailureKind.CONNECTION_REFUSED, "nothing listens there")
CLOSED = Failure(FailureKind.CLOSED, "gone")
STALLED = Failure(FailureKind.STALLED, "nothing more came")


def test_others_may_dial_as_soon_as_a_probe_is_ready() -> None:
    health = EndpointHealth(600, Backoff(0), lambda _: None, reached_ns=0)
    for at_ns in (1 * S, 2 * S, 3 * S):
        health.dial(at_ns)
        health.observe(at_ns, AttemptOutcome(at_ns, REFUSED))
    assert health.down
    probe_ns = health.opens_ns()
    assert probe_ns is not None
    health.dial(probe_ns)
    assert health.opens_ns() is None, "one probe at a time"
    health.opened(1 * S)
    assert health.down, "an older session proves nothing"
    health.opened(probe_ns)
    assert (health.down, health.opens_ns()) == (False, 0)
    assert health.outages[-1].ended_ns == probe_ns
    health.observe(probe_ns, AttemptOutcome(probe_ns + 9 * S))
    assert len(health.outages) == 1


class Gate:
    """An endpoint's health over time, and sessions that wait until they may dial."""

    def __init__(
        self,
        clock: FakeClock,
        announce: Callable[[Outage], None],
        *,
        patience_s: float = 600,
        reached: bool = True,
        counts_refusals: bool = False,
    ) -> None:
        self.clock = clock
        reached_ns = clock.now_ns() if reached else None
        self.health = EndpointHealth(
            patience_s, Backoff(0), announce, reached_ns=reached_ns, counts_refusals=counts_refusals
        )
        self.opened_since = self.health.opened_since

    @property
    def given_up(self) -> Outage | None:
        return self.health.outages[-1] if self.health.given_up else None

    async def enter(self) -> int | None:
        """Wait until a session may dial; return the time, or None if dialling has stopped."""
        while not self.health.given_up:
            now_ns, opens_ns = self.clock.now_ns(), self.health.opens_ns()
            if opens_ns is not None and opens_ns <= now_ns:
                self.health.dial(now_ns)
                return now_ns
            await self.clock.sleep_until(opens_ns or now_ns + S // 10)
        return None

    def report(
        self,
        entered_ns: int,
        failure: Failure | None,
        *,
        ready: bool = False,
        asked_s: float | None = None,
        heard_ns: int | None = None,
    ) -> Health:
        heard_ns = entered_ns if heard_ns is None and ready else heard_ns
        return self.health.observe(
            entered_ns, AttemptOutcome(self.clock.now_ns(), failure, heard_ns, asked_s)
        )


class Endpoint:
    """An endpoint that cannot be reached at certain times, and the workers that dial it."""

    def __init__(
        self, away: Callable[[float], bool], *, patience_s: float = 600, reached: bool = True
    ) -> None:
        self.clock = FakeClock(start_ns=0)
        self.away = away
        self.said: list[tuple[bool, float]] = []
        self.dialled: list[float] = []
        self.gate = Gate(self.clock, self._announce, patience_s=patience_s, reached=reached)

    def _announce(self, outage: Outage) -> None:
        self.said.append((outage.over, outage.seconds))

    async def dial(self, takes_s: float = 5.0) -> Health | None:
        """Run a session, or report that the endpoint is unreachable."""
        entered_ns = await self.gate.enter()
        if entered_ns is None:
            return None
        self.dialled.append(entered_ns / S)
        failure = REFUSED if self.away(entered_ns / S) else None
        await self.clock.sleep_until(self.clock.now_ns() + (0 if failure else round(takes_s * S)))
        return self.gate.report(entered_ns, failure, ready=failure is None)

    async def workers(self, number: int, turns: int) -> list[Health | None]:
        """Let each worker run this many sessions in sequence; return the outcome of each attempt."""
        contacts: list[Health | None] = []

        async def work() -> None:
            left = turns
            while left and (contact := await self.dial()) is not None:
                contacts.append(contact)
                left -= contact is Health.UP
                if contact is Health.SUSPECT:
                    await self.clock.sleep_until(self.clock.now_ns() + S)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(number):
                tasks.create_task(work())
        return contacts


async def test_an_outage_costs_no_attempt_but_the_two_before_it_is_known() -> None:
    endpoint = Endpoint(lambda at_s: 12 <= at_s < 132)
    contacts = await endpoint.workers(4, 6)
    assert contacts.count(Health.UP) == 24
    assert contacts.count(Health.SUSPECT) == 2
    assert [over for over, _ in endpoint.said] == [False, True]
    assert 117 <= endpoint.said[1][1] <= 130


async def test_one_session_at_a_time_probes_with_backoff() -> None:
    endpoint = Endpoint(lambda at_s: at_s < 60)
    await endpoint.workers(8, 1)
    probes = [at_s for at_s in endpoint.dialled if 0 < at_s < 60]
    waits = [after - before for before, after in itertools.pairwise(probes)]
    assert all(4 <= wait <= 8 for wait in waits[2:])
    assert 8 <= len(probes) <= 16


async def test_the_gate_closes_for_good_when_patience_has_run_out() -> None:
    endpoint = Endpoint(lambda at_s: at_s >= 12, patience_s=30)
    contacts = await endpoint.workers(4, 6)
    assert contacts.count(Health.UP) == 12
    assert endpoint.gate.given_up is not None
    assert endpoint.gate.given_up.seconds == 30
    assert endpoint.dialled[-1] == endpoint.gate.given_up.began_ns / S + 30
    assert await endpoint.dial() is None


async def test_an_endpoint_that_never_answered_is_not_an_outage() -> None:
    endpoint = Endpoint(lambda _: True, reached=False)
    assert [await endpoint.dial() for _ in range(9)] == [Health.UP] * 9
    assert not endpoint.said


async def test_without_patience_there_is_no_pause() -> None:
    endpoint = Endpoint(lambda _: True, patience_s=0)
    assert [await endpoint.dial() for _ in range(9)] == [Health.UP] * 9


@pytest.mark.parametrize("failure", [REFUSED, CLOSED])
async def test_single_failures_among_others_are_no_outage(failure: Failure) -> None:
    gate = Endpoint(lambda _: False).gate
    for dialled_ns in range(1, 100, 2):
        assert gate.report(dialled_ns, failure) is Health.SUSPECT
        assert not gate.opened_since(dialled_ns)
        assert gate.report(dialled_ns + 1, None) is Health.UP
        assert gate.opened_since(dialled_ns)


async def test_sessions_that_an_outage_cuts_off_do_not_count() -> None:
    gate = Endpoint(lambda _: False).gate
    assert gate.report(9, CLOSED, ready=True) is Health.SUSPECT  # the outage is not detected yet
    for at_ns in (10, 11, 12):
        gate.report(at_ns, REFUSED)
    assert gate.report(8, STALLED, ready=True) is Health.DOWN
    gate.report(20, None)
    assert gate.report(7, STALLED, ready=True) is Health.DOWN
    assert gate.report(21, CLOSED, ready=True) is Health.SUSPECT


async def test_a_proxy_in_place_of_the_endpoint_is_not_an_endpoint() -> None:
    endpoint = Endpoint(lambda _: False)
    unavailable = Failure(FailureKind.UNAVAILABLE, "bad gateway")
    assert [endpoint.gate.report(at_ns, unavailable) for at_ns in (1, 2, 3)][-1] is Health.DOWN


async def test_no_probe_is_earlier_than_the_endpoint_asks_for() -> None:
    endpoint = Endpoint(lambda _: False)
    unavailable = Failure(FailureKind.UNAVAILABLE, "maintenance")
    for at_ns in (1, 2, 3):
        endpoint.gate.report(at_ns, unavailable, asked_s=40)
    entered_ns = await endpoint.gate.enter()
    assert entered_ns == 40 * S
    endpoint.gate.report(entered_ns, unavailable)
    entered_ns = await endpoint.gate.enter()
    assert entered_ns is not None
    assert 40.5 * S <= entered_ns <= 42 * S


@pytest.mark.parametrize("asked_s", [601.0, float("inf")])
async def test_an_outage_announced_beyond_the_patience_is_not_awaited(asked_s: float) -> None:
    endpoint = Endpoint(lambda _: False)
    unavailable = Failure(FailureKind.UNAVAILABLE, "maintenance")
    for at_ns in (1, 2, 3):
        endpoint.gate.report(at_ns, unavailable, asked_s=asked_s)
    assert await endpoint.gate.enter() is None
    assert endpoint.gate.given_up is not None
    assert endpoint.clock.now_ns() == 0


async def test_a_probe_that_is_cut_off_at_once_is_not_repeated_at_once() -> None:
    endpoint = Endpoint(lambda _: False)
    for at_ns in (1, 2, 3):
        endpoint.gate.report(at_ns, REFUSED)
    probes = []
    for _ in range(5):
        entered_ns = await endpoint.gate.enter()
        assert entered_ns is not None
        probes.append(entered_ns / S)
        assert endpoint.gate.report(entered_ns, CLOSED) is Health.DOWN
    assert all(after - before >= 0.5 for before, after in itertools.pairwise([0, *probes]))


async def test_a_session_dialled_before_the_outage_does_not_end_it() -> None:
    endpoint = Endpoint(lambda at_s: at_s >= 1)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(endpoint.dial(takes_s=10))
        await endpoint.clock.sleep_until(2 * S)
        for _ in range(3):
            last = await endpoint.dial()
        assert last is Health.DOWN
        await endpoint.clock.sleep_until(11 * S)
    assert [over for over, _ in endpoint.said] == [False]


async def test_an_attempt_that_timed_out_after_the_outage_does_not_count() -> None:
    gate = Endpoint(lambda _: False).gate
    assert [gate.report(at_ns, REFUSED) for at_ns in (10, 11, 12)][-1] is Health.DOWN
    gate.report(20, None)
    assert gate.report(13, REFUSED) is Health.DOWN
    assert gate.report(9, REFUSED) is Health.SUSPECT


async def under_load(endpoint: Endpoint) -> tuple[Gate, int]:
    """A gate that counts refusals; three sessions were refused since a fourth was dialled."""
    gate = Gate(endpoint.clock, endpoint._announce, counts_refusals=True)
    alive_ns = await gate.enter()
    assert alive_ns is not None
    for at_s in (1, 2, 3):
        await endpoint.clock.sleep_until(at_s * S)
        entered_ns = await gate.enter()
        assert entered_ns == at_s * S
        assert gate.report(entered_ns, REFUSED) is Health.SUSPECT
    return gate, alive_ns


async def test_refusals_count_while_a_session_is_alive() -> None:
    endpoint = Endpoint(lambda _: False)
    gate, alive_ns = await under_load(endpoint)
    assert not gate.opened_since(1 * S)
    assert gate.report(alive_ns, None, ready=True, heard_ns=4 * S) is Health.UP
    assert gate.opened_since(3 * S)
    assert not endpoint.said


async def test_refusals_count_while_a_session_is_alive_that_was_dialled_after_them() -> None:
    endpoint = Endpoint(lambda _: False)
    gate = Gate(endpoint.clock, endpoint._announce, counts_refusals=True)
    refused, alive_ns = [], 0
    for at_s in (1, 2, 3, 4):
        await endpoint.clock.sleep_until(at_s * S)
        entered_ns = await gate.enter()
        assert entered_ns is not None
        alive_ns = entered_ns
        refused.append(entered_ns)
    for entered_ns in refused[:3]:
        assert gate.report(entered_ns, REFUSED) is Health.SUSPECT
    assert gate.report(alive_ns, None, ready=True) is Health.UP
    assert not endpoint.said


async def test_a_session_that_was_captured_was_alive_to_its_end() -> None:
    endpoint = Endpoint(lambda _: False)
    gate, alive_ns = await under_load(endpoint)
    assert gate.report(alive_ns, None, ready=True, heard_ns=S // 2) is Health.UP
    assert gate.opened_since(3 * S)
    assert not endpoint.said


@pytest.mark.parametrize("kind", [FailureKind.NO_RESPONSE, FailureKind.STALLED])
async def test_refusals_count_during_a_session_that_is_open_but_mute(kind: FailureKind) -> None:
    endpoint = Endpoint(lambda _: False)
    gate, alive_ns = await under_load(endpoint)
    gate.report(alive_ns, Failure(kind, "no reply"), ready=True, heard_ns=S // 2)
    assert gate.opened_since(3 * S)
    assert not endpoint.said


async def test_refusals_after_the_last_sign_of_life_are_an_outage() -> None:
    endpoint = Endpoint(lambda _: False)
    gate, alive_ns = await under_load(endpoint)
    assert gate.report(alive_ns, CLOSED, ready=True, heard_ns=S // 2) is Health.DOWN
    assert not gate.opened_since(1 * S)
    assert [over for over, _ in endpoint.said] == [False]


@pytest.mark.parametrize("kind", [FailureKind.RATE_LIMITED, FailureKind.BUSY, FailureKind.AUTHENTICATION])
async def test_an_endpoint_that_refuses_is_up(kind: FailureKind) -> None:
    endpoint = Endpoint(lambda _: False)
    for at_ns in (10, 11, 12):
        endpoint.gate.report(at_ns, REFUSED)
    endpoint.gate.report(20, Failure(kind, "no"))
    assert [over for over, _ in endpoint.said] == [False, True]
