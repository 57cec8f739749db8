"""Prices and budgets of calls."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from live_eval.judging import (
    Scored,
    Unscored,
)
from live_eval.scoring.llm import (
    Budget,
    CallProblem,
    Price,
)
from tests.loopback.scoring.llm.chat_server import (
    PRICE,
    KindJudge,
    Server,
    ask,
    completion,
    driver,
    error,
    failed,
    turns,
)

KEY = "sk-test-3fb1c0de"


PAYLOAD = b"RIFF....WAVE"


Answer = Callable[[dict[str, Any]], web.StreamResponse]


async def test_spending_is_counted_in_money(server: Server) -> None:
    async with driver(server, price=PRICE) as llm:
        await llm.judge(KindJudge(), turns("a", "b"))
    assert llm.usage.cost == pytest.approx(2 * 0.041)
    async with driver(server) as llm:
        assert llm.usage.cost == 0.0
        await llm.judge(KindJudge(), turns("a"))
    assert llm.usage.cost is None, "the price is not known"
    server.answers = [completion(usage=None)]
    async with driver(server, price=PRICE) as llm:
        await llm.judge(KindJudge(), turns("a"))
    assert llm.usage.cost is None, "the endpoint did not count"


async def test_audio_and_cached_input_have_their_own_prices(server: Server) -> None:
    details = {"audio_tokens": 6, "cached_tokens": 2}
    usage = {"prompt_tokens": 11, "completion_tokens": 3, "prompt_tokens_details": details}
    server.answers = [completion(usage=usage)]
    price = replace(PRICE, audio_input=100_000.0, cached_input=0.0)
    async with driver(server, price=price) as llm:
        await llm.judge(KindJudge(), turns("a"))
    assert llm.usage.cost == pytest.approx((3 * 1_000 + 6 * 100_000 + 3 * 10_000) / 1e6)


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_calls_stop_at_the_budget(server: Server, concurrency: int) -> None:
    async with driver(server, budget=Budget(max_calls=5), concurrency=concurrency) as llm:
        judgements = await llm.judge(KindJudge(), turns(*"abcdefgh"))
    assert len(server.requests) == 5
    assert [judgement for judgement in judgements if not isinstance(judgement, Scored)] == [
        Unscored("the budget is spent: 5 calls")
    ] * 3


async def test_calls_at_once_do_not_overshoot_together(server: Server) -> None:
    """If a limit depends on the answer's length, the first call runs alone; others reserve what it used."""
    server.hold = asyncio.Event()
    budget = Budget(max_tokens=3_000)
    async with driver(server, budget=budget, concurrency=8) as llm:
        asking = asyncio.create_task(llm.judge(KindJudge(), turns(*"abcdefgh")))
        await server.asked(at_once=1)
        await asyncio.sleep(0.1)
        assert len(server.requests) == 1
        server.hold.set()
        judgements = await asking
    assert all(isinstance(judgement, Scored) for judgement in judgements), "what they did not take came free"
    assert budget.spent.tokens == 8 * 14


async def test_long_answers_do_not_overspend_by_many_calls_at_once(server: Server) -> None:
    usage = {"prompt_tokens": 60, "completion_tokens": 50_000}
    server.answers = [completion(usage=usage)] * 20
    budget = Budget(max_cost=0.6)
    async with driver(server, budget=budget, price=Price(input=2.5, output=10.0), concurrency=8) as llm:
        judgements = await llm.judge(KindJudge(), turns(*map(str, range(20))))
    assert len(server.requests) == 1, "a second would take half a dollar again, and half as much more"
    assert sum(isinstance(judgement, Scored) for judgement in judgements) == 1


@pytest.mark.parametrize("price", [{"input": -1.0, "output": 1.0}, {"input": 1.0, "output": float("nan")}])
def test_a_negative_price_is_refused(price: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected 0 or more"):
        Price(**price)


async def test_the_budget_is_not_exceeded(server: Server) -> None:
    usage = {"prompt_tokens": 60, "completion_tokens": 10}
    server.answers = [completion(usage=usage)] * 200
    budget = Budget(max_cost=1.0)
    price = Price(input=100.0, output=400.0)  # 0.01 US$ a call
    async with driver(server, budget=budget, price=price, concurrency=8) as llm:
        judgements = await llm.judge(KindJudge(), turns(*map(str, range(200))))
    reached = sum(isinstance(judgement, Scored) for judgement in judgements)
    assert {judgement for judgement in judgements if isinstance(judgement, Unscored)} == {
        Unscored("the budget is spent: 1.00 US$")
    }
    assert llm.usage.cost == pytest.approx(0.01 * reached)
    assert 0.97 < budget.spent.cost <= 1.0


async def test_attempts_and_repairs_are_calls_too(server: Server) -> None:
    server.answers = [error(500), completion("what?")]
    async with driver(server, budget=Budget(max_calls=2)) as llm:
        assert await llm.judge(KindJudge(), turns("a")) == [Unscored("the budget is spent: 2 calls")]


async def test_a_call_without_a_response_costs_its_estimate(server: Server) -> None:
    budget = Budget()
    failed(await ask(server, [error(500)], budget=budget, attempts=1), CallProblem.SERVER_ERROR)
    assert (budget.spent.calls, budget.spent.tokens) == (1, 0)
    server.hold = asyncio.Event()
    failed(await ask(server, [], budget=budget, timeout_s=0.1, attempts=1), CallProblem.TIMEOUT)
    assert budget.spent.calls == 2
    assert budget.spent.tokens > 1_000, "the endpoint may have worked on it"


async def test_drivers_share_a_budget(server: Server) -> None:
    budget = Budget(max_calls=3)
    async with driver(server, budget=budget) as llm:
        await llm.judge(KindJudge(), turns("a", "b"))
    async with driver(server, budget=budget) as llm:
        judgements = await llm.judge(KindJudge(), turns("c", "d"))
    assert sorted(type(judgement).__name__ for judgement in judgements) == ["Scored", "Unscored"]
