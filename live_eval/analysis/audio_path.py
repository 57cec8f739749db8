"""Distinguish an endpoint that does not hear the user from one that hears but answers badly.

An endpoint that hears nothing can still guess. It guesses half of the items with two possible answers
correctly, but rarely a number. The number of correct answers is therefore compared with guessing, for all
items and for the items that ask for a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from live_eval.analysis.statistics.intervals import LEVEL, Interval, interval_json, rounded

__all__ = ["AudioPathCheck", "AudioPathVerdict", "CategoryCount", "check_audio_path", "exact_interval"]

_GUESSED_NUMBER = 0.1  # probability; counts range from 1 to about 20, and small ones are the most frequent
_SURE = 0.01
_MOST_BY_GUESSING = 60.0  # percent; even a weak endpoint is expected to exceed it if it hears the user
_FEWEST_NUMBERS = 8


class AudioPathVerdict(StrEnum):
    """Whether the endpoint hears the user."""

    HEARS = "hears"
    """More answers are correct than guessing can explain."""
    DOES_NOT_HEAR = "does not hear"
    """The answers are no better than guesses; an endpoint that hears would do better."""
    UNCLEAR = "unclear"
    """The answers are inconclusive."""


@dataclass(frozen=True, slots=True)
class CategoryCount:
    """The answers of one category.

    Args:
        items: Number of items, including those without a reply.
        correct: Number of correct answers.
        answers: Number of possible answers; 0 if the items ask for a number.
        unreadable: Number of replies without a readable answer, which is not a guess.
    """

    items: int
    correct: int
    answers: int
    unreadable: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPathCheck:
    """The result of the check.

    Args:
        correct: Percentage of correct answers. interval: Exact 95 % interval of `correct`.
        by_guessing: Percentage expected from guessing.
        chance: Probability of at least as many correct answers by guessing.
        chance_numbers: The same for the items that ask for a number; None without such items.
    """

    verdict: AudioPathVerdict
    items: int
    correct: float
    interval: Interval
    by_guessing: float
    chance: float
    chance_numbers: float | None
    categories: Mapping[str, CategoryCount]

    def as_json(self) -> dict[str, Any]:
        """Return the result as printed by ``doctor --json``."""
        return {
            "verdict": self.verdict.value,
            "items": self.items,
            "correct": round(self.correct, 6),
            "interval": interval_json(self.interval),
            "by_guessing": round(self.by_guessing, 6),
            "chance": round(self.chance, 6),
            "chance_numbers": rounded(self.chance_numbers),
            "categories": {
                name: {"items": count.items, "correct": count.correct, "unreadable": count.unreadable}
                for name, count in self.categories.items()
            },
        }


def check_audio_path(categories: Mapping[str, CategoryCount]) -> AudioPathCheck:
    """Infer whether the endpoint hears the user, from its answers by category.

    Raises:
        ValueError: There are no items.

    >>> check_audio_path({"yes or no": CategoryCount(30, 15, 2), "number": CategoryCount(10, 0, 0)}).verdict
    <AudioPathVerdict.DOES_NOT_HEAR: 'does not hear'>
    """
    counts = list(categories.values())
    items, correct = sum(each.items for each in counts), sum(each.correct for each in counts)
    if not items:
        raise ValueError("expected at least one item")
    chance = _chance([(each.items, _guess(each)) for each in counts], correct)
    numbers = [each for each in counts if each.answers == 0 and each.items]
    right_numbers = sum(each.correct for each in numbers)
    chance_numbers = (
        _chance([(each.items, _guess(each)) for each in numbers], right_numbers) if numbers else None
    )
    interval = exact_interval(correct, items)
    if min(chance, 1.0 if chance_numbers is None else chance_numbers) < _SURE:
        verdict = AudioPathVerdict.HEARS
    elif (
        interval.high < _MOST_BY_GUESSING
        and sum(each.items for each in numbers) >= _FEWEST_NUMBERS
        and right_numbers <= 1
        and 2 * sum(each.unreadable for each in counts) <= items
    ):
        verdict = AudioPathVerdict.DOES_NOT_HEAR
    else:
        verdict = AudioPathVerdict.UNCLEAR
    return AudioPathCheck(
        verdict=verdict,
        items=items,
        correct=100.0 * correct / items,
        interval=interval,
        by_guessing=100.0 * sum(each.items * _guess(each) for each in counts) / items,
        chance=chance,
        chance_numbers=chance_numbers,
        categories=dict(categories),
    )


def exact_interval(correct: int, items: int) -> Interval:
    """Return the exact 95 % interval of a binomial share, in percent (Clopper and Pearson, Biometrika 26:4).

    >>> exact_interval(0, 10)  # doctest: +ELLIPSIS
    Interval(low=0.0, high=30.84...)
    """
    from scipy.stats import binomtest

    low, high = binomtest(correct, items).proportion_ci(LEVEL, "exact")
    return Interval(100.0 * low, 100.0 * high)


def _guess(category: CategoryCount) -> float:
    return 1 / category.answers if category.answers else _GUESSED_NUMBER


def _chance(groups: list[tuple[int, float]], correct: int) -> float:
    """Return the probability of at least `correct` successes from independent guesses."""
    from scipy.stats import binom

    total = np.ones(1)
    for items, share in groups:
        total = np.convolve(total, binom.pmf(range(items + 1), items, share))
    return min(1.0, float(total[correct:].sum()))
