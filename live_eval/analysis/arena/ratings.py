"""Compute win rates and Bradley–Terry ratings of runs compared in pairs. Pure.

In the model of Bradley and Terry (1952), run i wins against run j with probability ``1 / (1 + 10^((r_j − r_i)
/ 400))``. The ratings r maximise the likelihood, with a tie counted as half a win for each run. Their mean is
1,000; a lead of 400 points means odds of 10 to 1. The model assumes one strength per run. It therefore cannot
represent a cycle (A beats B, B beats C, C beats A), which is visible only in the win rates.

Intervals resample whole scripts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.statistics.intervals import MIN_CLUSTERS, Estimate, estimate_share, estimate_statistic

__all__ = ["Match", "PairRecord", "RatedRun", "Ratings", "Record", "bradley_terry", "rate"]

MIDDLE = 1000.0
POINTS = 400 / math.log(10)
_STEPS = 60
_LONGEST_STEP = 2.0
_SMALL = 1e-9
# Above this share of resamples without a finite rating, no interval is given: its ends are unknown.
_MOST_INFINITE = 0.002
NO_RATING = "no finite rating: a chain of wins must lead from each run to every other"


@dataclass(frozen=True, slots=True)
class Match:
    """The verdict on two runs' replies to the same turn: from 1 (the first is better) to −1; 0 is a tie."""

    script_id: str
    first: str
    second: str
    verdict: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The matches of a run; `win_rate` is points per match: 1 for a win, a half for a tie."""

    wins: int
    ties: int
    losses: int
    win_rate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRecord(Record):
    """The record of a run against another run."""

    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RatedRun(Record):
    """The record of a run against all others, and its rating, which is None if not finite."""

    name: str
    rating: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """All runs, sorted by rating or else by win rate, best first, and each pair of runs with a match."""

    runs: tuple[RatedRun, ...]
    pairs: tuple[PairRecord, ...]
    matches: int
    scripts: int

    def as_json(self) -> dict[str, Any]:
        """Return the standings as printed by ``live-eval arena --json``; its keys are stable."""
        return {
            "n": self.matches,
            "n_scripts": self.scripts,
            "runs": [
                {"name": run.name, "rating": run.rating.as_json(4), **_record_json(run)} for run in self.runs
            ],
            "pairs": [
                {"first": pair.first, "second": pair.second, **_record_json(pair)} for pair in self.pairs
            ],
        }


def _record_json(record: Record) -> dict[str, Any]:
    counts = {"wins": record.wins, "ties": record.ties, "losses": record.losses}
    return {"win_rate": record.win_rate.as_json(4), **counts}


def bradley_terry(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the maximum-likelihood estimates of the log strengths, centred on 0.

    Args:
        points: Points that each run scored against each other run (1 for a win, a half for a tie), shape (…,
            runs, runs).

    Returns:
        Log strengths, shape (…, runs); NaN if some runs never scored against the others, so that there is no
        finite estimate.

    >>> bradley_terry(np.array([[0.0, 3.0], [1.0, 0.0]])).round(3).tolist()  # half of log 3
    [0.549, -0.549]
    """
    count = points.shape[-1]
    matches = points + np.swapaxes(points, -1, -2)
    strengths = np.zeros(points.shape[:-1])
    finite = _connected(points > 0)
    took = points.sum(axis=-1)
    for _ in range(_STEPS):
        ahead = strengths[..., :, None] - strengths[..., None, :]
        expected = 1 / (1 + np.exp(-ahead))
        gradient = took - (matches * expected).sum(axis=-1)
        weights = matches * expected * (1 - expected)
        curvature = np.eye(count) * weights.sum(axis=-1)[..., None] - weights + 1 / count
        # Without a finite solution, the step does not matter.
        curvature = np.where(finite[..., None, None], curvature, np.eye(count))
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        longest = np.abs(step).max(axis=-1, keepdims=True)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _SMALL)) * finite[..., None]
        strengths += step
        if np.abs(step).max(initial=0.0) < _SMALL:
            break
    strengths -= strengths.mean(axis=-1, keepdims=True)
    return np.where(finite[..., None], strengths, np.nan)


def rate(matches: Sequence[Match], runs: Sequence[str], *, seed: int = 0) -> Ratings:
    """Return the runs' win rates and ratings, with intervals over scripts."""
    places = {name: place for place, name in enumerate(runs)}
    scripts = {script: row for row, script in enumerate(sorted({match.script_id for match in matches}))}
    # points per match, by run and opponent
    taken: dict[tuple[int, int], list[tuple[float, str]]] = defaultdict(list)
    points = np.zeros((len(scripts), len(runs), len(runs)))
    # wins, ties and losses of the row's run
    counts = np.zeros((3, len(runs), len(runs)), np.int64)
    for match in sorted(matches, key=attrgetter("verdict")):  # sorted for consistent rounding of sums
        row, one, two = scripts[match.script_id], places[match.first], places[match.second]
        for mine, theirs, verdict in ((one, two, match.verdict), (two, one, -match.verdict)):
            points[row, mine, theirs] += (1 + verdict) / 2
            taken[mine, theirs].append(((1 + verdict) / 2, match.script_id))
        outcome = 1 - int(np.sign(match.verdict))
        counts[outcome, one, two] += 1
        counts[2 - outcome, two, one] += 1
    flat = points.reshape(len(scripts), len(runs) ** 2)

    def rating_of(place: int) -> Estimate:
        def rating(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
            strengths = bradley_terry((drawn @ flat).reshape(len(drawn), len(runs), len(runs)))
            return np.asarray(MIDDLE + POINTS * strengths[:, place], np.float64)

        if 0 < len(scripts) < MIN_CLUSTERS:
            return Estimate(None, len(scripts), len(scripts), reason=f"fewer than {MIN_CLUSTERS} scripts")
        found = estimate_statistic(rating, range(len(scripts)), most_undefined=_MOST_INFINITE, seed=seed)
        if found.value is not None or not scripts:
            return found
        return Estimate(None, found.n, found.clusters, reason=NO_RATING)

    def record(mine: int, others: Sequence[int]) -> dict[str, Any]:
        found = [each for other in others for each in taken[mine, other]]
        wins, ties, losses = (int(count) for count in counts[:, mine, others].sum(axis=1))
        win_rate = estimate_share(
            [value for value, _ in found], [script for _, script in found], whole=1.0, seed=seed
        )
        return {"wins": wins, "ties": ties, "losses": losses, "win_rate": win_rate}

    everyone = range(len(runs))
    rated = [
        RatedRun(name=name, rating=rating_of(place), **record(place, everyone))
        for name, place in places.items()
    ]
    pairs = [
        PairRecord(first=runs[one], second=runs[two], **record(one, [two]))
        for one, two in combinations(everyone, 2)
        if counts[:, one, two].sum()
    ]
    rated.sort(key=lambda run: (-(run.rating.value or 0.0), -(run.win_rate.value or 0.0)))
    return Ratings(runs=tuple(rated), pairs=tuple(pairs), matches=len(matches), scripts=len(scripts))


def _connected(beats: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return, for each matrix, whether a chain of wins leads from each run to every other run."""
    count = beats.shape[-1]
    reach = beats | np.eye(count, dtype=bool)
    for _ in range(max(1, math.ceil(math.log2(max(2, count))))):
        reach = (reach.astype(np.int64) @ reach.astype(np.int64)) > 0
    return np.asarray(reach.all(axis=(-1, -2)), np.bool_)
