"""Turns are stored in the order of completion: neither metrics nor random draws depend on it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from live_eval.analysis.agreement import kendall, krippendorff, spearman
from live_eval.analysis.arena.ratings import Match, rate
from live_eval.analysis.audit.reliability import Repeated, consistency
from live_eval.analysis.comparison.difference import difference_of
from live_eval.analysis.comparison.series import Series
from live_eval.analysis.statistics.intervals import (
    estimate_mean,
    estimate_quantile,
    estimate_share,
    paired_difference,
)
from live_eval.analysis.statistics.paired import (
    cluster_means,
    sign_flip,
    standard_deviation,
    standardised_mean,
)
from live_eval.analysis.summary.observations import TurnKey

SCRIPTS = [f"le_{number}" for number in range(97, 109)]

numbers = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
rows = st.lists(st.tuples(st.sampled_from(SCRIPTS), numbers, numbers), min_size=30, max_size=60)


Rows: TypeAlias = list[tuple[str, float, float]]
"""The script of a turn, and two of its values."""


def columns(told: Rows) -> tuple[list[str], list[float], list[float]]:
    return [row[0] for row in told], [row[1] for row in told], [row[2] for row in told]


def figures(told: Rows) -> list[object]:
    scripts, first, second = columns(told)
    differences = np.subtract(second, first)
    return [
        estimate_mean(first, scripts),
        estimate_share([100.0 * (value > 0) for value in first], scripts),
        estimate_quantile(first, scripts, 0.5),
        paired_difference(first, second, scripts),
        cluster_means(first, scripts).tolist(),
        # Here, scripts differ only in their values.
        sign_flip(differences, flips=199),
        standardised_mean(differences),
        standard_deviation(differences),
        rate([Match(script, "a", "b", np.sign(one)) for script, one, _ in told], ["a", "b"]),
        spearman(first, second, scripts),
        kendall(first, second, scripts),
        krippendorff(np.transpose([first, second]), scripts),
        consistency([Repeated(repr(row), row[0], row[1:]) for row in told]),
    ]


@pytest.mark.slow
@settings(max_examples=20)
@given(rows, st.randoms(use_true_random=False))
def test_no_statistic_depends_on_the_order_of_its_values(told: Rows, random: Any) -> None:
    shuffled = random.sample(told, len(told))
    assert figures(shuffled) == figures(told)


@settings(max_examples=10)
@given(st.lists(st.tuples(numbers, numbers), min_size=36, max_size=36), st.randoms(use_true_random=False))
def test_no_comparison_depends_on_the_order_in_which_turns_finished(
    values: list[tuple[float, float]], random: Any
) -> None:
    keys: list[TurnKey] = [(f"{script}/{variant}", 0) for script in SCRIPTS for variant in "tna"]
    scripts = {key: key[0].partition("/")[0] for key in keys}

    def series(side: int, order: list[int]) -> Series:
        held = {keys[place]: values[place][side] for place in order}
        return Series(
            name="x", title="x", kind="score", unit="", higher_is_better=True, version="", values=held
        )

    def shuffled() -> list[int]:
        return list(random.sample(range(len(keys)), len(keys)))

    in_order = list(range(len(keys)))
    assert difference_of(series(0, shuffled()), series(1, shuffled()), scripts) == difference_of(
        series(0, in_order), series(1, in_order), scripts
    )
