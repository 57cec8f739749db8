import asyncio
import math
import re
from pathlib import Path

import pytest

from live_eval.dialect import RateLimit
from live_eval.errors import FailureKind
from live_eval.run.retries import RETRIES, Backoff, Patience, RateGate, Retry, retry_of
from live_eval.testing.fake_clock import FakeClock

S = 1_000_000_000


def test_delays_double_up_to_a_minute_and_are_reproducible() -> None:
    delays = [Backoff(7).delay_s(attempt, None) for attempt in range(1, 12)]
    for attempt, delay in enumerate(delays, 1):
        ceiling = min(60.0, 2.0 ** (attempt - 1))
        assert ceiling / 2 <= delay <= ceiling
    assert delays == [Backoff(7).delay_s(attempt, None) for attempt in range(1, 12)]


def test_an_immediate_retry_waits_only_if_the_endpoint_requests_it() -> None:
    assert Backoff(0).delay_s(3, None, Retry.IMMEDIATELY) == 0
    assert Backoff(0).delay_s(1, 2.0, Retry.IMMEDIATELY) >= 2


def test_the_docs_say_how_each_kind_is_retried() -> None:
    page = Path(__file__).parents[3] / "docs/reference/failures.md"
    rows = re.findall(r"^\| `(\w+)` \| .* \| ([\w ]*)\|$", page.read_text("utf-8"), re.MULTILINE)
    said = {kind: how.strip() or Retry.NEVER.value for kind, how in rows}
    warnings = set(list(FailureKind)[list(FailureKind).index(FailureKind.AUDIO_ODD) :])
    assert said == {kind.value: retry_of(kind).value for kind in FailureKind if kind not in warnings}
    assert Retry.NEVER not in RETRIES.values()


@pytest.mark.parametrize("asked", [0.5, 20.0, 300.0])
def test_the_delay_that_the_endpoint_asks_for_is_never_shortened(asked: float) -> None:
    assert asked <= Backoff(0).delay_s(1, asked) <= asked + 1


async def test_the_gate_closes_when_less_remains_than_a_turn_uses() -> None:
    clock = FakeClock(start_ns=0)
    gate = RateGate(clock)
    gate.update([RateLimit("tokens", 1000, 900, 30.0)])
    assert gate.closed_s == 0
    gate.update([RateLimit("tokens", 1000, 300, 30.0)])  # one turn used 600, so another does not fit
    assert gate.closed_s == 30
    await gate.wait()
    assert clock.now_ns() == 30 * S


def test_the_gate_stays_open_while_enough_remains() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    for remaining in (10, 9, 8, 1):
        gate.update([RateLimit("requests", 10, remaining, 60.0)])
        assert gate.closed_s == (60 if remaining == 1 else 0), remaining


def test_a_used_up_limit_closes_the_gate_at_the_first_report() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    gate.update([RateLimit("requests", 10, 0, 6.0)])
    assert gate.closed_s == 6


def test_the_longest_closing_applies() -> None:
    gate = RateGate(FakeClock(start_ns=0))
    gate.close_for(5)
    gate.close_for(2)
    assert gate.closed_s == 5


@pytest.mark.parametrize("asked", [601.0, 86_400.0, 1e300, math.inf, math.nan, -math.inf])
def test_a_wait_beyond_the_patience_does_not_close_the_gate(asked: float) -> None:
    gate = RateGate(FakeClock(start_ns=0), 600)
    gate.update([RateLimit("tokens", 10, 0, asked)])
    gate.close_for(asked)
    assert gate.closed_s == 0


def test_the_gate_says_when_a_used_up_limit_resets() -> None:
    gate = RateGate(FakeClock(start_ns=0), 600)
    assert gate.resets_s is None
    gate.update([RateLimit("tokens", 10, 0, 86_400.0), RateLimit("requests", 10, 9, 1e6)])
    assert gate.resets_s == 86_400
    gate.update([RateLimit("tokens", 10, 10, 86_400.0)])
    assert gate.resets_s is None


async def test_waiting_at_a_gate_that_keeps_closing_ends_with_the_patience() -> None:
    clock = FakeClock(start_ns=0)
    gate = RateGate(clock, 600)
    gate.close_for(10)

    async def close_again() -> None:
        while clock.now_ns() < 100 * S:
            await clock.sleep_until(clock.now_ns() + 5 * S)
            gate.close_for(10)

    async with asyncio.TaskGroup() as tasks:
        closing = tasks.create_task(close_again())
        assert not await gate.wait(30)
        assert 20 * S <= clock.now_ns() <= 30 * S
        closing.cancel()


@pytest.mark.parametrize(("wait", "fits"), [(0, True), (10, True), (10.1, False), (math.nan, False)])
def test_patience_covers_all_waits_together(wait: float, fits: bool) -> None:
    patience = Patience(30)
    patience.spend(20)
    assert patience.fits(wait) is fits


async def test_waiting_sessions_are_let_through_one_after_the_other() -> None:
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
