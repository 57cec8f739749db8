import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.campaigns.latency.arrivals import ArrivalKind, Arrivals
from live_eval.errors import UsageError


def test_a_closed_loop_has_no_schedule() -> None:
    arrivals = Arrivals.parse("closed")
    assert (arrivals.kind, arrivals.open_loop, arrivals.starts(0)) == (ArrivalKind.CLOSED, False, None)
    assert str(arrivals) == "closed"


def test_constant_arrivals_do_not_drift() -> None:
    starts = Arrivals.parse("constant:3").starts(0)
    assert starts is not None
    assert next(itertools.islice(starts, 30_000, None)) == 10_000 * 1_000_000_000


def test_poisson_gaps_are_exponential_and_depend_only_on_the_seed() -> None:
    def gaps(seed: int) -> NDArray[np.float64]:
        starts = Arrivals.parse("poisson:4").starts(seed)
        assert starts is not None
        return np.diff(np.fromiter(starts, np.float64, 20_000)) / 1e9

    first = gaps(1)
    assert np.array_equal(first, gaps(1))
    assert not np.array_equal(first, gaps(2))
    assert first.mean() == pytest.approx(0.25, rel=0.03)
    assert first.std() == pytest.approx(0.25, rel=0.05)
    assert np.mean(first > 0.25) == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize("text", ["closed", "poisson:0.5", "constant:20"])
def test_the_printed_form_can_be_parsed(text: str) -> None:
    assert str(Arrivals.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "open", "poisson", "poisson:", "constant:0", "constant:-1", "poisson:nan", "poisson:inf", "x:1"],
)
def test_an_error_contains_the_expected_and_the_actual_text(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected closed, poisson:RATE or constant:RATE") as error:
        Arrivals.parse(text)
    assert repr(text) in str(error.value)


def test_a_closed_loop_takes_no_rate() -> None:
    with pytest.raises(UsageError, match="expected no rate after closed"):
        Arrivals.parse("closed:3")
