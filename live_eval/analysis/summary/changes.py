"""Measure whether replies follow a change of the cue within a dialogue.

A change is a turn whose cue differs from the cue of the previous turn. Neutral turns have no cue. The scores
of its reply are compared with those of the previous reply: cue judges give a lower score to a model that
ignores the change. A score with `fits_cue_from` (C4: 4) also indicates for a single reply whether it takes
the cue into account.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_mean,
    estimate_share,
    paired_difference,
    rounded,
)
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreTable
from live_eval.judging import score_name
from live_eval.registry import installed_judges
from live_eval.types import Task

__all__ = ["CueChange", "DialogueSummary", "summarise_dialogues"]

_NEUTRAL = "neutral"


_Change: TypeAlias = tuple[Observation, Observation]
"""Two consecutive turns of a dialogue with different cues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CueChange:
    """A score's means before and at cue changes, over the changes with both scores.

    `difference` is the paired difference (at minus before), resampled by script.
    """

    score: str
    higher_is_better: bool
    before: Estimate
    at: Estimate
    difference: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``show --json``."""
        return {
            "before": rounded(self.before.value),
            "at": rounded(self.at.value),
            "difference": self.difference.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueSummary:
    """The metrics of a run's dialogues, including repetitions.

    Args:
        changes: Number of turns whose cue differs from that of the previous turn, including failed turns.
        followed: Percentage of cue changes (judged or failed) in which the reply follows the new cue.
        scores: Change of each directional score.
    """

    dialogues: int
    turns: int
    changes: int
    followed: Estimate
    scores: tuple[CueChange, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``show --json``."""
        return {
            "dialogues": self.dialogues,
            "turns": self.turns,
            "changes": self.changes,
            "followed": self.followed.as_json(),
            "scores": {each.score: each.as_json() for each in self.scores},
        }


def summarise_dialogues(table: ScoreTable, turns: Sequence[Observation]) -> DialogueSummary | None:
    """Return the metrics of a run's dialogues; None if there are none."""
    dialogues: dict[tuple[str, int], list[Observation]] = defaultdict(list)
    for turn in turns:
        if turn.dialogue_id is not None:
            dialogues[turn.dialogue_id, turn.repeat].append(turn)
    if not dialogues:
        return None
    changes: list[_Change] = []
    for turns_of_one in dialogues.values():
        turns_of_one.sort(key=lambda turn: turn.turn_index)
        for before, at in pairwise(turns_of_one):
            if before.cue is not None and at.cue is not None and before.cue.name != at.cue.name:
                changes.append((before, at))
    columns = [column for column in table.columns if Task.CONVERSATION in column.tasks]
    scores = [_cue_change(table, column, changes) for column in columns]
    return DialogueSummary(
        dialogues=len(dialogues),
        turns=sum(map(len, dialogues.values())),
        changes=len(changes),
        followed=_followed(table, changes),
        scores=tuple(each for each in scores if each is not None),
    )


def _cue_change(table: ScoreTable, column: ScoreColumn, changes: Sequence[_Change]) -> CueChange | None:
    if column.higher_is_better is None:
        return None
    pairs = [
        (earlier, now, at.script_id)
        for before, at in changes
        if (earlier := table.value(before, column)) is not None
        and (now := table.value(at, column)) is not None
    ]
    if not pairs:
        return None
    first, second, scripts = (list(side) for side in zip(*pairs, strict=True))
    return CueChange(
        score=column.name,
        higher_is_better=column.higher_is_better,
        before=estimate_mean(first, scripts),
        at=estimate_mean(second, scripts),
        difference=paired_difference(first, second, scripts),
    )


def _followed(table: ScoreTable, changes: Sequence[_Change]) -> Estimate:
    column = next((column for column in table.columns if column.fits_cue_from is not None), None)
    if column is None or column.fits_cue_from is None:
        asked = " or ".join(
            score_name(spec.name, output.name)
            for spec in installed_judges()
            for output in spec.outputs
            if output.fits_cue_from is not None
        )
        return Estimate(None, 0, 0, reason=f"not judged by {asked}")
    followed: list[float] = []
    scripts: list[str] = []
    for _, at in changes:
        if at.cue is not None and at.cue.name == _NEUTRAL:
            continue
        value = table.value(at, column)
        if value is not None or not at.captured:  # a missing reply does not follow the change
            followed.append(100.0 * (value is not None and value >= column.fits_cue_from))
            scripts.append(at.script_id)
    return estimate_share(followed, scripts)
