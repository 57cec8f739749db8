"""Compute metrics for each part of other benchmarks, by the benchmark's rule and by live-eval's rule.

A turn that failed because of the endpoint counts as 0 by both rules, unlike an empty reply, for which the
benchmark's rule decides. Turns that failed for any other reason are excluded; their number is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_mean,
    estimate_share,
    estimate_statistic,
)
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreTable
from live_eval.errors import FailureCause
from live_eval.judging import JudgeRole
from live_eval.types import ScoringRule

__all__ = ["PartSummary", "summarise_parts"]

_RATED = {
    ScoringRule.RATING: ("rating", 1.0),
    ScoringRule.GUIDED_RATING: ("rating", 1.0),
    ScoringRule.REFERENCE: ("correct", 0.0),
    ScoringRule.RUBRICS: ("passed", 0.0),
}
"""The output of a language-model judge and its lowest value, by scoring rule."""

_UNOFFICIAL = {
    ScoringRule.FINAL_ANSWER: "the benchmark's own scorer is a language model",
    ScoringRule.OPTION: "the benchmark's own scorer is unverified",
}
"""The reason why a rule has no official score."""

_NOT_BY_RULE = frozenset({*_RATED, ScoringRule.NONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartSummary:
    """The results of one part of a benchmark.

    Args:
        part: Name of the part, or the benchmark's name if it has no parts.
        items: Number of turns with an item of the part, including failed turns.
        official: Percentage by the benchmark's rule; resampled by script. It has no value if the benchmark's
            own scorer is a language model.
        ours: Percentage by live-eval's rule; resampled by script.
        rated: Mean rating (1 to 5) or percentage of correct answers according to a language model; None if no
            model rates the part. For criteria, the percentage of items that meet all of theirs (APR).
        met: Mean percentage of criteria that an item meets (ARS); None for other rules.
        failed: Number of turns without a reply due to the endpoint, which count as 0.
        excluded: Number of turns that failed for a reason unrelated to the model.
        unscored: Number of captured turns without a score.
        reason: Most frequent reason for unscored turns; empty if there are none.
        official_unparsed: Number of replies that the benchmark's rule cannot parse and for which it guesses.
        unparsed: Number of replies that live-eval's rule cannot parse; they count as wrong.
    """

    benchmark: str
    part: str
    rule: ScoringRule
    items: int
    official: Estimate
    ours: Estimate
    rated: Estimate | None
    met: Estimate | None
    failed: int
    excluded: int
    unscored: int
    reason: str
    official_unparsed: int
    unparsed: int

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``show --json``."""
        return {
            "benchmark": self.benchmark,
            "rule": self.rule.value,
            "items": self.items,
            "official": self.official.as_json(),
            "ours": self.ours.as_json(),
            "rated": None if self.rated is None else self.rated.as_json(),
            "met": None if self.met is None else self.met.as_json(),
            "failed": self.failed,
            "excluded": self.excluded,
            "unscored": self.unscored,
            "reason": self.reason,
            "official_unparsed": self.official_unparsed,
            "unparsed": self.unparsed,
        }


def summarise_parts(table: ScoreTable, turns: Sequence[Observation]) -> tuple[PartSummary, ...]:
    """Summarise each part, in the order of the turns; earlier turns of scored dialogues are not items."""
    parts: dict[tuple[str, str, ScoringRule], list[Observation]] = {}
    for turn in turns:
        if turn.item is not None:
            parts.setdefault((turn.item.benchmark, turn.item.part, turn.item.rule), []).append(turn)
    scored = {(benchmark, part) for benchmark, part, rule in parts if rule is not ScoringRule.NONE}
    return tuple(
        _part(table, of_part, benchmark, part or benchmark, rule)
        for (benchmark, part, rule), of_part in parts.items()
        if rule is not ScoringRule.NONE or (benchmark, part) not in scored
    )


def _part(
    table: ScoreTable, turns: Sequence[Observation], benchmark: str, part: str, rule: ScoringRule
) -> PartSummary:
    scripts: list[str] = []
    official: list[float] = []
    instructions: list[tuple[float, ...]] = []
    ours: list[float] = []
    reasons: list[str] = []
    failed = official_unparsed = unparsed = 0
    for turn in turns:
        row = table.row(turn.turn_id, JudgeRole.BENCHMARK) if turn.captured else None
        if row is not None and row.status == "scored":
            ours.append(row.values["ours"])
            if "official" in row.values:
                official.append(row.values["official"])
            official_unparsed += row.values.get("official_parsed") == 0
            instructions.append(_followed(row.detail))
            unparsed += row.values["parsed"] == 0
        elif turn.failed_by is FailureCause.ENDPOINT:
            failed += 1
            if rule in _NOT_BY_RULE:
                continue
            ours.append(0.0)
            if rule not in _UNOFFICIAL:
                official.append(0.0)
            instructions.append(_followed({"instructions": _number_of_instructions(turn)}))
        else:
            if turn.captured:
                reasons.append(row.reason if row is not None else "not judged")
            continue
        scripts.append(turn.script_id)
    return PartSummary(
        benchmark=benchmark,
        part=part,
        rule=rule,
        items=len(turns),
        official=_official(official, instructions, scripts, rule),
        ours=estimate_share(ours, scripts),
        rated=_rated(table, turns, rule, *_RATED[rule]) if rule in _RATED else None,
        met=_rated(table, turns, rule, "met", 0.0) if rule is ScoringRule.RUBRICS else None,
        failed=failed,
        excluded=sum(turn.is_excluded for turn in turns),
        unscored=len(reasons),
        reason=max(sorted(reasons), key=reasons.count, default=""),
        official_unparsed=official_unparsed,
        unparsed=unparsed,
    )


def _rated(
    table: ScoreTable, turns: Sequence[Observation], rule: ScoringRule, output: str, lowest: float
) -> Estimate:
    """Return the mean of a language model's output; an item without a reply gets the lowest value.

    There is no value if the model judged none of the replies. Verdicts on another number of criteria than
    the item has are excluded.
    """
    values: list[float] = []
    scripts: list[str] = []
    judged = not any(turn.captured for turn in turns)
    for turn in turns:
        row = table.row(turn.turn_id, JudgeRole.BENCHMARK_MODEL) if turn.captured else None
        if row is not None and row.status == "scored" and output in row.values:
            if rule is ScoringRule.RUBRICS and row.detail.get("criteria") != _number_of_criteria(turn):
                continue
            values.append(row.values[output])
            judged = True
        elif turn.failed_by is FailureCause.ENDPOINT:
            values.append(lowest)
        else:
            continue
        scripts.append(turn.script_id)
    if not judged:
        return Estimate(None, 0, 0, reason="not judged")
    return estimate_mean(values, scripts) if output == "rating" else estimate_share(values, scripts)


def _official(
    values: Sequence[float],
    instructions: Sequence[tuple[float, ...]],
    scripts: Sequence[str],
    rule: ScoringRule,
) -> Estimate:
    if rule in _UNOFFICIAL:
        return Estimate(None, 0, 0, reason=_UNOFFICIAL[rule])
    if rule is not ScoringRule.INSTRUCTIONS:
        return estimate_share(values, scripts)
    sums = np.asarray(instructions, np.float64).reshape(-1, 6)

    def four_shares(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of the strict and loose shares, of prompts and of instructions, in percent."""
        items, count, strict, loose, strict_all, loose_all = (drawn @ sums).T
        shares = strict_all / items + strict / count + loose_all / items + loose / count
        return np.asarray(25.0 * shares, np.float64)

    return estimate_statistic(four_shares, scripts)


def _followed(detail: Mapping[str, Any]) -> tuple[float, ...]:
    """Return 1, the number of instructions (all, strictly and loosely followed), and if all are followed."""
    count, strict, loose = (float(detail.get(name) or 0) for name in ("instructions", "strict", "loose"))
    return 1.0, count, strict, loose, float(strict == count), float(loose == count)


def _number_of_criteria(turn: Observation) -> int:
    listed = turn.item.details.get("rubrics") if turn.item is not None else None
    return len(listed) if isinstance(listed, list) else 0


def _number_of_instructions(turn: Observation) -> int:
    listed = turn.item.details.get("instruction_id_list") if turn.item is not None else None
    return len(listed) if isinstance(listed, list) else 0
