"""Prices, and budgets that are never exceeded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.scoring.llm import Budget, Expense, Price, Tokens


def test_without_limits_every_call_fits() -> None:
    budget = Budget()
    assert budget.reserve(Expense(1_000_000, 10**12, 1e9))
    assert budget.refusal(Expense(1_000_000, 10**12, 1e9)) is None


@pytest.mark.parametrize(
    ("bound", "step", "times", "reason"),
    [
        ({"max_calls": 3}, Expense(calls=1), 3, "the budget is spent: 3 calls"),
        ({"max_tokens": 100}, Expense(1, tokens=40), 2, "the budget is spent: 100 tokens"),
        ({"max_cost": 0.3}, Expense(1, 1, cost=0.1), 3, "the budget is spent: 0.30 US$"),
        ({"max_calls": 0}, Expense(calls=1), 0, "the budget is spent: 0 calls"),
    ],
)
def test_each_limit_has_its_message(bound: dict[str, float], step: Expense, times: int, reason: str) -> None:
    budget = Budget(**bound)  # type: ignore[arg-type]  # of the right type each
    assert [budget.reserve(step) for _ in range(times + 1)] == [True] * times + [False]
    if times:
        assert budget.refusal(step) is None, "what is in flight may turn out to be free"
    for _ in range(times):
        budget.settle(step, step)
    assert budget.refusal(step) == reason
    assert not budget.reserve(step)


def test_an_unused_reservation_is_released() -> None:
    budget = Budget(max_tokens=100)
    large = Expense(1, 90)
    assert budget.reserve(large)
    assert not budget.reserve(large)
    budget.settle(large, Expense(1, 10))
    assert budget.reserve(large)
    assert budget.spent == Expense(1, 10)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans()), max_size=60),
    st.integers(0, 300),
)
def test_no_order_of_calls_exceeds_the_budget(calls: list[tuple[int, int, bool]], bound: int) -> None:
    """If no call exceeds its estimate."""
    budget = Budget(max_tokens=bound)
    flying: list[tuple[Expense, Expense]] = []
    for one, other, lands in calls:
        estimate = Expense(1, max(one, other))
        if budget.reserve(estimate):
            flying.append((estimate, Expense(1, min(one, other))))
        else:
            assert flying or budget.refusal(estimate) is not None
        if lands and flying:
            budget.settle(*flying.pop(0))
        assert budget.spent.tokens <= bound
    for estimate, spent in flying:
        budget.settle(estimate, spent)
    assert budget.spent.tokens <= bound


def test_each_kind_of_token_has_its_price() -> None:
    tokens = Tokens(input=1_000_000, output=100_000, audio_input=300_000, cached_input=200_000)
    assert Price(input=2.0, output=8.0).cost(tokens) == pytest.approx(2.0 + 0.8)
    price = Price(input=2.0, output=8.0, audio_input=40.0, cached_input=0.5)
    assert price.cost(tokens) == pytest.approx(0.5 * 2.0 + 0.3 * 40.0 + 0.2 * 0.5 + 0.8)


def test_overlapping_parts_are_not_charged_twice() -> None:
    price = Price(input=1.0, output=0.0, audio_input=10.0, cached_input=0.0)
    assert price.cost(Tokens(input=100, audio_input=500)) == pytest.approx(1e-3)
    assert price.cost(Tokens(input=100, audio_input=100, cached_input=100)) == 0.0
