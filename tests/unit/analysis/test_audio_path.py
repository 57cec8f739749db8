import random
from dataclasses import replace

import pytest
from scipy.stats import binomtest

from live_eval.analysis.audio_path import AudioPathVerdict, CategoryCount, check_audio_path, exact_interval


def counts(logic: int, numbers: int, *, items: int = 10) -> dict[str, CategoryCount]:
    """Return counts with `logic` correct answers in each yes-or-no category, and `numbers` in counting."""
    return {
        **{name: CategoryCount(items, logic, 2) for name in ("formal_fallacies", "navigate", "web_of_lies")},
        "object_counting": CategoryCount(items, numbers, 0),
    }


@pytest.mark.parametrize(
    ("logic", "numbers", "verdict"),
    [
        (10, 10, AudioPathVerdict.HEARS),
        (8, 6, AudioPathVerdict.HEARS),
        (5, 5, AudioPathVerdict.HEARS),  # guesses in logic, but counts correctly
        (5, 0, AudioPathVerdict.DOES_NOT_HEAR),
        (3, 0, AudioPathVerdict.DOES_NOT_HEAR),
        (0, 0, AudioPathVerdict.DOES_NOT_HEAR),
        (6, 1, AudioPathVerdict.UNCLEAR),
        (5, 3, AudioPathVerdict.UNCLEAR),
    ],
)
def test_40_items_distinguish_a_broken_audio_path_from_a_weak_model(
    logic: int, numbers: int, verdict: AudioPathVerdict
) -> None:
    assert check_audio_path(counts(logic, numbers)).verdict is verdict


def test_the_interval_is_the_exact_binomial_one() -> None:
    for correct, items in ((0, 10), (3, 40), (20, 40), (40, 40)):
        expected = binomtest(correct, items).proportion_ci(method="exact")
        found = exact_interval(correct, items)
        assert (found.low, found.high) == pytest.approx((100 * expected.low, 100 * expected.high))


def test_the_chance_is_that_of_independent_guesses() -> None:
    drawn = random.Random(1)
    check = check_audio_path(counts(6, 2))
    reached = 0
    for _ in range(20_000):
        right = sum(drawn.random() < 0.5 for _ in range(30)) + sum(drawn.random() < 0.1 for _ in range(10))
        reached += right >= 20
    assert check.chance == pytest.approx(reached / 20_000, abs=0.01)
    assert check.by_guessing == pytest.approx(40.0)


@pytest.mark.slow
def test_an_endpoint_that_guesses_rarely_counts_as_hearing() -> None:
    drawn = random.Random(2)
    wrong = 0
    for _ in range(2_000):
        guessed = {
            "navigate": CategoryCount(30, sum(drawn.random() < 0.5 for _ in range(30)), 2),
            "object_counting": CategoryCount(10, sum(drawn.random() < 0.1 for _ in range(10)), 0),
        }
        wrong += check_audio_path(guessed).verdict is AudioPathVerdict.HEARS
    assert wrong / 2_000 < 0.025


def test_few_items_are_unclear_and_none_are_refused() -> None:
    assert check_audio_path(counts(0, 0, items=3)).verdict is AudioPathVerdict.UNCLEAR
    with pytest.raises(ValueError, match="expected at least one item"):
        check_audio_path({})


def test_the_json() -> None:
    found = check_audio_path(counts(10, 10)).as_json()
    assert found["categories"]["navigate"] == {"items": 10, "correct": 10, "unreadable": 0}
    assert found["interval"][1] == 100.0
    assert (found["verdict"], found["items"], found["correct"]) == ("hears", 40, 100.0)


def test_replies_without_a_readable_answer_are_not_guesses() -> None:
    for unreadable, verdict in ((5, AudioPathVerdict.DOES_NOT_HEAR), (6, AudioPathVerdict.UNCLEAR)):
        found = {name: replace(count, unreadable=unreadable) for name, count in counts(0, 0).items()}
        assert check_audio_path(found).verdict is verdict
