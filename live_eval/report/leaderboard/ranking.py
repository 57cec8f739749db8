"""The best of our rows in a column, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.analysis.summary import JudgeFacts

__all__ = ["Best", "Rival", "find_best"]


@dataclass(frozen=True, slots=True)
class Rival:
    """A row that competes to be the best of a column.

    Args:
        heard: The data and the cases behind it.
    """

    row: int
    value: float
    share: float
    heard: tuple[str, frozenset[str]]
    judge: JudgeFacts | None


@dataclass(frozen=True, slots=True)
class Best:
    """The best rows of a column: several if their figures are equal up to rounding.

    Args:
        rows: Their places; empty if none is the best.
        reason: Why there is none among several rows; empty otherwise.
    """

    rows: frozenset[int]
    reason: str = ""


def find_best(rivals: Sequence[Rival], *, higher_is_better: bool) -> Best:
    """Return the best of the rivals, if they were measured in the same way."""
    if len(rivals) < 2:
        return Best(frozenset())
    if len({rival.heard for rival in rivals}) > 1:
        return Best(
            frozenset(), "our rows are of different data or cases; live-eval compare shows how they differ"
        )
    if len({rival.judge for rival in rivals}) > 1:
        return Best(
            frozenset(), "our rows are by different judges, or by different models or versions of one"
        )
    top = (max if higher_is_better else min)(rival.value for rival in rivals)
    most = max(rival.share for rival in rivals)
    ahead = [rival for rival in rivals if math.isclose(rival.value, top, rel_tol=1e-9)]
    best = frozenset(rival.row for rival in ahead if rival.share == most)
    return Best(best, "" if best else "the row ahead rests on a smaller share of its turns than another")
