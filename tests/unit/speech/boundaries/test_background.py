"""Segments of background."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from live_eval.speech.boundaries._background import maximal_segments


def brute_force(scores: list[int]) -> list[tuple[int, int, float]]:
    """Return the maximal segments by definition: better than all segments inside or around them."""
    total = np.concatenate(([0], np.cumsum(scores)))

    def grows(start: int, end: int) -> bool:
        """Return whether all proper prefixes and suffixes have a positive sum."""
        inner = range(start + 1, end)
        return total[end] > total[start] and all(total[start] < total[at] < total[end] for at in inner)

    found = [(a, b) for a, b in combinations(range(len(total)), 2) if grows(a, b)]
    return [
        (a, b, float(total[b] - total[a]))
        for a, b in found
        if not any((c <= a and b <= d and (c, d) != (a, b)) for c, d in found)
    ]


@given(st.lists(st.integers(-5, 5), max_size=24))
def test_maximal_segments_match_the_definition(scores: list[int]) -> None:
    assert maximal_segments(scores) == brute_force(scores)
