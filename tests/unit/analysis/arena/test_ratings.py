"""Win rates and ratings compared with closed forms, another fit, and simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from numpy.typing import NDArray

from live_eval.analysis.arena.ratings import MIDDLE, NO_RATING, POINTS, Match, bradley_terry, rate


def another_fit(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the maximum-likelihood estimate of a general optimiser."""

    def loss(strengths: NDArray[np.float64]) -> float:
        ahead = strengths[:, None] - strengths[None]
        return float((points * np.logaddexp(0, -ahead)).sum() + strengths.mean() ** 2)

    found = scipy.optimize.minimize(loss, np.zeros(len(points)), method="BFGS", options={"gtol": 1e-10})
    return np.asarray(found.x - found.x.mean())


def test_two_runs_are_the_log_of_their_odds() -> None:
    [one, two] = bradley_terry(np.array([[0.0, 30.0], [10.0, 0.0]]))
    assert one - two == pytest.approx(math.log(3))


@pytest.mark.parametrize("seed", range(4))
def test_strengths_are_those_of_another_fit(seed: int) -> None:
    random = np.random.default_rng(seed)
    points = random.integers(0, 12, size=(5, 5)).astype(float)
    points[0, 1:] += 0.5
    points[1:, 0] += 0.5  # ties with the first keep all connected
    np.fill_diagonal(points, 0)
    np.testing.assert_allclose(bradley_terry(points), another_fit(points), atol=1e-5)
    # A batch gives the same results as single calls.
    both = bradley_terry(np.stack([points, points.T]))
    np.testing.assert_allclose(both[1], bradley_terry(points.T), atol=1e-8)


def test_nearly_separated_runs_are_still_fitted() -> None:
    points = np.array([[0.0, 2000.0, 2000.0], [0.5, 0.0, 2000.0], [0.0, 0.5, 0.0]])
    np.testing.assert_allclose(bradley_terry(points), another_fit(points), atol=1e-3)


def test_a_run_that_never_lost_has_no_finite_rating() -> None:
    assert np.isnan(bradley_terry(np.array([[0.0, 3.0], [0.0, 0.0]]))).all()
    ratings = rate([Match(str(n), "a", "b", 1.0) for n in range(20)], ["a", "b"])
    assert [run.name for run in ratings.runs] == ["a", "b"]
    assert [run.rating.value for run in ratings.runs] == [None, None]
    assert ratings.runs[0].rating.reason == NO_RATING
    assert ratings.runs[0].win_rate.value == 1.0


def test_ties_are_half_a_win_of_each() -> None:
    verdicts = [1.0] * 6 + [0.0] * 8 + [-1.0] * 2 + [0.5] * 4
    matches = [Match(str(n), "a", "b", verdict) for n, verdict in enumerate(verdicts)]
    ratings = rate(matches, ["a", "b"])
    [pair] = ratings.pairs
    assert (pair.wins, pair.ties, pair.losses) == (10, 8, 2)
    assert pair.win_rate.value == pytest.approx((6 + 4 + 3) / 20)
    better, worse = ratings.runs
    assert (better.name, better.wins, worse.losses) == ("a", 10, 10)
    assert better.rating.value is not None
    assert better.rating.value - MIDDLE == pytest.approx(POINTS * math.log(13 / 7) / 2)
    swapped = rate([Match(m.script_id, "b", "a", -m.verdict) for m in matches], ["a", "b"])
    assert swapped == ratings


def test_intervals_resample_scripts() -> None:
    random = np.random.default_rng(1)
    verdicts = random.choice([-1.0, 0.0, 1.0], size=40, p=[0.2, 0.3, 0.5])
    once = rate([Match(str(n), "a", "b", v) for n, v in enumerate(verdicts)], ["a", "b"])
    # Three equal verdicts per script do not narrow the interval.
    thrice = rate([Match(str(n), "a", "b", v) for n, v in enumerate(verdicts) for _ in "123"], ["a", "b"])
    assert once.runs[0].rating == thrice.runs[0].rating
    assert once.runs[0].win_rate.interval is not None
    few = rate([Match(str(n % 3), "a", "b", v) for n, v in enumerate(verdicts)], ["a", "b"])
    assert few.runs[0].rating.interval is None
    assert few.runs[0].rating.reason == "fewer than 8 scripts"
    nothing = rate([], ["a", "b"])
    assert (nothing.matches, nothing.pairs) == (0, ())
    assert nothing.runs[0].rating.reason == "no values"


@pytest.mark.slow
def test_intervals_of_ratings_cover_the_truth() -> None:
    true = {"a": 0.5, "b": 0.0, "c": -0.5}
    random = np.random.default_rng(3)
    held = trials = 0
    for trial in range(60):
        matches = [
            Match(str(script), one, two, 1.0 if random.random() < 1 / (1 + math.exp(b - a)) else -1.0)
            for script in range(60)
            for one, a in true.items()
            for two, b in true.items()
            if one < two
        ]
        for run in rate(matches, list(true), seed=trial).runs:
            interval = run.rating.interval
            assert interval is not None
            trials += 1
            held += interval.low <= MIDDLE + POINTS * true[run.name] <= interval.high
    assert 0.88 <= held / trials <= 1.0


def test_runs_that_never_differ_have_ratings_without_interval() -> None:
    ratings = rate([Match(f"s{number}", "a", "b", 0.0) for number in range(20)], ["a", "b"])
    for run in ratings.runs:
        assert (run.rating.value, run.rating.interval) == (MIDDLE, None)
        assert run.rating.reason == "all resamples are equal"
        assert (run.win_rate.value, run.win_rate.interval) == (0.5, None)
        assert run.win_rate.reason == "all values are equal"


def test_a_win_rate_of_all_has_the_exact_interval_of_a_share() -> None:
    best, worst = rate([Match(str(number), "a", "b", 1.0) for number in range(20)], ["a", "b"]).runs
    theirs = scipy.stats.binomtest(20, 20).proportion_ci(0.95, method="exact")
    assert best.win_rate.interval is not None
    assert worst.win_rate.interval is not None
    assert (best.win_rate.interval.low, best.win_rate.interval.high) == pytest.approx((theirs.low, 1.0))
    assert (worst.win_rate.interval.low, worst.win_rate.interval.high) == pytest.approx((0.0, 1 - theirs.low))


def test_infinite_resamples_at_one_end_leave_no_interval() -> None:
    matches = [Match(f"s{number}", "a", "b", 1.0 if number >= 3 else -1.0) for number in range(60)]
    [best, _] = rate(matches, ["a", "b"]).runs
    assert best.rating.value == pytest.approx(1000 + 200 * math.log10(57 / 3))
    assert best.rating.interval is None, "about 5 % of resamples have no loss at all"
    assert best.rating.reason.startswith("undefined in")
    assert best.win_rate.interval is not None
    assert best.win_rate.interval.high == pytest.approx(1.0)
