import asyncio

import pytest

from live_eval.dialect import RateLimit
from live_eval.retry import LONGEST_WAIT_S, Backoff, RateGate
from live_eval.testing.clock import FakeClock

S = 1_000_000_000


def test_delays_double_up_to_a_minute_and_are_reproducible() -> None:
    delays = [Backoff(7).delay_s(attempt, None) for attempt in range(1, 12)]
    for attempt, delay in enumerate(delays, 1):
        ceiling = min(60.0, 2.0 ** (attempt - 1))
        assert ceiling / 2 <= delay <= ceiling
    assert delays == [Backoff(7).delay_s(attempt, None) for attempt in range(1, 12)]


@pytest.mark.parametrize("asked", [0.5, 20.0, 300.0])
def test_the_endpoints_own_delay_is_never_cut_short(asked: float) -> None:
    assert asked <= Backoff(0).delay_s(1, asked) <= asked + 1


async def test_the_gate_closes_when_less_remains_than_a_turn_uses() -> None:
    clock = FakeClock(start_ns=0)
    gate = RateGate(clock)
    gate.told([RateLimit("tokens", 1000, 900, 30.0)])
    assert gate.closed_s == 0
    gate.told([RateLimit("tokens", 1000, 300, 30.0)])  # a turn used 600: another does not fit
    assert gate.closed_s == 30
    await gate.wait()
    assert clock.now_ns() == 30 * S


def test_the_gate_stays_open_while_enough_remains() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    for remaining in (10, 9, 8, 1):
        gate.told([RateLimit("requests", 10, remaining, 60.0)])
        assert gate.closed_s == (60 if remaining == 1 else 0), remaining


def test_a_used_up_limit_closes_the_gate_at_the_first_word() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    gate.told([RateLimit("requests", 10, 0, 6.0)])
    assert gate.closed_s == 6


def test_the_longest_closing_holds() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    gate.close_for(5)
    gate.close_for(2)
    assert gate.closed_s == 5


def test_an_absurd_wait_is_bounded() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    gate.told([RateLimit("tokens", 10, 0, 1e300)])
    assert gate.closed_s == LONGEST_WAIT_S
    gate.told([RateLimit("tokens", 10, 0, float("nan"))])
    assert gate.closed_s == LONGEST_WAIT_S


async def test_those_who_wait_leave_one_after_the_other() -> None:
    clock = FakeClock(start_ns=0)
    gate = RateGate(clock)
    gate.close_for(10)
    left: list[float] = []

    async def worker() -> None:
        await gate.wait()
        left.append(clock.now_ns() / S)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(3):
            tasks.create_task(worker())
    assert left == [10, 10.25, 10.5]
