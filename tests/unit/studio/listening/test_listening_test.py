"""Plans of listening tests: balanced orders and positions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from live_eval.studio.listening.listening_test import (
    ListeningKind,
    rating_scales,
    trials_for,
)
from tests.unit.studio.listening.listeners import a_test

AB, ABX, RATING = ListeningKind.PREFERENCE, ListeningKind.IDENTITY, ListeningKind.RATING

ROOT = Path(__file__).resolve().parents[4]


SCALES = tuple(rating_scales())


@pytest.mark.parametrize("cases", [1, 2, 3, 7, 8, 20])
def test_positions_are_balanced_for_each_listener_and_swapped_for_the_next(cases: int) -> None:
    test = a_test(cases=cases)
    one, two = trials_for(test, 0), trials_for(test, 1)
    first = Counter(trial.runs[0] for trial in one)
    assert abs(first["one"] - first["two"]) <= 1
    assert [trial.case for trial in two] == [trial.case for trial in reversed(one)]
    turned = {trial.case: trial.runs for trial in two}
    assert all(turned[trial.case] == trial.runs[::-1] for trial in one)
    assert trials_for(test, 0) == one  # the same at every call
    assert {trial.case for trial in one} == set(test.cases)


def test_x_is_balanced_over_replies_and_positions() -> None:
    combinations = Counter((trial.runs, trial.x) for trial in trials_for(a_test(ABX, cases=12), 4))
    assert sorted(combinations.values()) == [3, 3, 3, 3]


def test_each_pair_of_listeners_has_its_own_order() -> None:
    test = a_test(cases=20)
    assert len({tuple(trial.case for trial in trials_for(test, listener)) for listener in range(6)}) == 6


def test_all_cases_are_rated_once_before_any_is_repeated() -> None:
    trials = trials_for(a_test(RATING), 0)
    assert len(trials) == 20
    assert len({trial.case for trial in trials[:10]}) == 10
    assert Counter(trial.runs for trial in trials[:10]) == {("one",): 5, ("two",): 5}
    assert len({trial.key for trial in trials}) == 20


def test_rating_scales_use_the_questions_and_anchors_of_the_prompts() -> None:
    """Models and listeners answer the same question on the same scale."""
    prompts = "\n".join(path.read_text("utf-8") for path in (ROOT / "judges" / "prompts").glob("*.md"))
    assert len(SCALES) == 5
    for output in rating_scales().values():
        assert output.by_people is not None
        assert (output.low, output.high) == (1, len(output.by_people.anchors))
        assert output.by_people.question in prompts
        assert output.by_people.note in prompts
        anchors = "\n".join(f"{n} - {anchor}" for n, anchor in enumerate(output.by_people.anchors, 1))
        assert anchors in prompts
