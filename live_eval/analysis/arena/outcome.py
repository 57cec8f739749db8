"""Run an arena: collect verdicts of a judge and human raters, rate the runs, and write the verdict file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson

from live_eval.analysis.arena.ratings import Match, Ratings, rate
from live_eval.analysis.arena.verdicts import ArenaPlan, PairVerdicts, judge_pairs
from live_eval.analysis.arena.vote_file import Votes, read_votes
from live_eval.analysis.audit.auditor import Progress
from live_eval.analysis.audit.reliability import BothOrders, order_effect
from live_eval.analysis.comparison.run_comparison import check_same_data
from live_eval.analysis.comparison.series import ComparedRun
from live_eval.analysis.statistics.intervals import Estimate, estimate_mean, estimate_share
from live_eval.errors import JudgeError, StoreError, UsageError
from live_eval.files import atomic_text
from live_eval.scoring.judge_runner import JudgeOptions

__all__ = [
    "ArenaResult",
    "ByJudge",
    "ByPeople",
    "run_arena",
    "verdict_lines",
    "write_verdicts",
]

_SCHEMA_VERSION = 1

_PairKey: TypeAlias = tuple[str, str, str]
"""A case and two runs, in the order in which the runs were given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ByJudge:
    """The runs as rated by a judge, with the judge's order effect."""

    judged: PairVerdicts
    ratings: Ratings
    order: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the results as printed by ``live-eval arena --json``."""
        judged = self.judged
        return {
            "name": judged.judge,
            "version": judged.version,
            "ratings": self.ratings.as_json(),
            "order": self.order,
            "asked": judged.asked,
            "n_failed": judged.n_failed,
            "skipped": dict(judged.skipped.most_common()),
            "usage": asdict(judged.usage),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ByPeople:
    """The runs as rated by people; votes on the same pair are averaged.

    `position` is the mean preference for the reply presented first, from −1 (never) to 1 (always).
    """

    votes: Votes
    ratings: Ratings
    position: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the results as printed by ``live-eval arena --json``."""
        votes = self.votes
        return {
            "file": votes.file,
            "rows": votes.rows,
            "n_unknown": votes.n_unknown,
            "n_other": votes.n_other,
            "votes": len(votes.votes),
            "raters": votes.raters,
            "ratings": self.ratings.as_json(),
            "position": self.position.as_json(scripts=True),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ArenaResult:
    """The results of an arena, by a judge, human votes, or both.

    `agreement` is the share of pairs on which judge and voters agree (first, second or tie).
    """

    runs: tuple[str, ...]
    judge: ByJudge | None
    people: ByPeople | None
    agreement: Estimate | None
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Return the results as printed by ``live-eval arena --json``; its keys are stable."""
        return {
            "runs": list(self.runs),
            "seed": self.seed,
            "judge": None if self.judge is None else self.judge.as_json(),
            "people": None if self.people is None else self.people.as_json(),
            "agreement": None if self.agreement is None else self.agreement.as_json(scripts=True),
        }


def run_arena(
    runs: Sequence[ComparedRun],
    plan: ArenaPlan | None,
    options: JudgeOptions,
    *,
    votes: Path | None = None,
    common: bool = False,
    seed: int = 0,
    progress: Progress = lambda name, done, total: None,
) -> ArenaResult:
    """Compare every pair of runs on the same data, by a judge, human votes, or both.

    Args:
        runs: Runs to compare, at least two.
        plan: Judging plan; None for no judge.
        options: Judge options; the judge's defaults apply to omitted options.
        votes: CSV file with votes, or None.
        common: Whether to compare only the common cases, instead of requiring the same cases in all runs.
        seed: Seed of the resampling.
        progress: Callback for the judge's progress.

    Raises:
        UsageError: The runs have different data, or neither a judge nor votes are given.
        DataError: The votes are invalid.
        JudgeError: The judge cannot run here.
    """
    first, *others = runs
    if not others:
        raise UsageError("expected at least two runs, got one")
    if plan is None and votes is None:
        raise UsageError("expected a judge or votes: select a judge, or pass --votes FILE")
    for other in others:
        check_same_data(first, other, common=common)
    names = tuple(run.name for run in runs)
    # Read votes first, to report errors in the file before calling models.
    scripts = {case: script for run in runs for (case, _), script in run.scripts.items()}
    people = (
        _by_people(read_votes(votes, names, scripts), names, scripts, seed) if votes is not None else None
    )
    judge = None
    if plan is not None:
        folders = {run.name: run.path for run in runs}
        try:
            judged = judge_pairs(folders, plan, options, progress=progress)
        except JudgeError as error:
            if people is None:
                raise
            raise JudgeError(f"{error}; to compute ratings from the votes alone, pass --no-judge") from error
        judge = _by_judge(judged, names, seed)
    return ArenaResult(
        runs=names,
        judge=judge,
        people=people,
        agreement=_agreement(judge, people, names, scripts, seed) if judge and people else None,
        seed=seed,
    )


def _by_judge(judged: PairVerdicts, runs: Sequence[str], seed: int) -> ByJudge:
    matches = [Match(pair.script_id, pair.first, pair.second, pair.verdict) for pair in judged.pairs]
    orders = [BothOrders(pair.turn_id, pair.script_id, pair.forward, pair.backward) for pair in judged.pairs]
    return ByJudge(
        judged=judged, ratings=rate(matches, runs, seed=seed), order=order_effect(orders, seed=seed)
    )


def _by_people(votes: Votes, runs: Sequence[str], scripts: Mapping[str, str], seed: int) -> ByPeople:
    matches = [
        Match(scripts[case], one, two, verdict)
        for (case, one, two), verdict in _of_votes(votes, runs).items()
    ]
    position = estimate_mean(
        [vote.verdict for vote in votes.votes], [vote.script_id for vote in votes.votes], seed=seed
    )
    return ByPeople(votes=votes, ratings=rate(matches, runs, seed=seed), position=position)


def _agreement(
    judge: ByJudge, people: ByPeople, runs: Sequence[str], scripts: Mapping[str, str], seed: int
) -> Estimate:
    pairs = judge.judged.pairs
    said = _means(((pair.case_id, pair.first, pair.second), pair.verdict) for pair in pairs)
    voted = _of_votes(people.votes, runs)
    both = [key for key in voted if key in said]
    same = [float(np.sign(voted[key]) == np.sign(said[key])) for key in both]
    return estimate_share(same, [scripts[case] for case, _, _ in both], whole=1.0, seed=seed)


def _of_votes(votes: Votes, runs: Sequence[str]) -> Mapping[_PairKey, float]:
    """Return the mean vote for each case and pair of runs."""
    turned = [runs.index(vote.first) > runs.index(vote.second) for vote in votes.votes]
    return _means(
        ((vote.case_id, vote.second, vote.first), -vote.verdict)
        if swap
        else ((vote.case_id, vote.first, vote.second), vote.verdict)
        for vote, swap in zip(votes.votes, turned, strict=True)
    )


def _means(verdicts: Iterable[tuple[_PairKey, float]]) -> Mapping[_PairKey, float]:
    found: dict[_PairKey, list[float]] = {}
    for key, verdict in verdicts:
        found.setdefault(key, []).append(verdict)
    return {key: float(np.mean(each)) for key, each in found.items()}


def verdict_lines(arena: ArenaResult) -> Iterator[str]:
    """Yield the lines of the verdict file: a JSON header, then one JSON line per verdict."""
    judged = None if arena.judge is None else arena.judge.judged
    heading: dict[str, Any] = {"arena": _SCHEMA_VERSION, "runs": arena.runs, "seed": arena.seed}
    rows = [heading]
    if judged is not None:
        heading |= {"judge": judged.judge, "version": judged.version}
        rows += [{**asdict(pair), "verdict": pair.verdict} for pair in judged.pairs]
    if arena.people is not None:
        rows += [{"vote": True, **asdict(vote)} for vote in arena.people.votes.votes]
    for row in rows:
        yield orjson.dumps(row).decode() + "\n"


def write_verdicts(arena: ArenaResult, path: Path, *, links: bool = False) -> None:
    """Write the verdict file; for `links`, see `atomic_write`.

    Raises:
        StoreError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_text(path, links=links) as file:
            file.writelines(verdict_lines(arena))
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error
