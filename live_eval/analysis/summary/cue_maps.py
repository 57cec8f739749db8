"""Arrange each task's scores by cue, for heat maps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.statistics.intervals import MIN_CLUSTERS, Estimate
from live_eval.analysis.summary.groups import LABELS_WITHOUT_CUE, Group
from live_eval.analysis.summary.main_scores import MainScore
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreTable
from live_eval.types import Task

__all__ = ["CueMap", "cue_maps"]


@dataclass(frozen=True, slots=True)
class CueMap:
    """A task's scores by cue; a cell with fewer than `MIN_CLUSTERS` scripts is too small to compare.

    A row is a cue's name, which is unique in the map, and its turns. `main` is the task's main score, or
    None. If it is a substitute, `missing` has the headings of the scores
    that the benchmark prefers and the run does not have.
    """

    task: Task
    columns: tuple[ScoreColumn, ...]
    rows: tuple[tuple[str, Group], ...]
    main: ScoreColumn | None = None
    missing: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """The cues with the worst and the best main score, or why they are unknown, as a sentence.

        A substitute, such as the similarity to one reference, does not say which cue is heard worst, so the
        sentence then names what was not judged.
        """
        if self.main is None or self.main.higher_is_better is None:
            return ""
        if self.missing:
            return (
                f"Which cue is heard worst is unknown, because nothing judged {', '.join(self.missing)}; "
                f"{self.main.heading} does not measure it."
            )
        found = [
            (estimate.value, estimate.n, cue)
            for cue, row in self.rows
            if row.labels[0] not in LABELS_WITHOUT_CUE
            and (estimate := row.scores[self.main.name]).value is not None
            and not _is_thin(estimate)
        ]
        if len(found) < 2:
            return (
                "Which cue is heard worst is unknown, because fewer than two cues have "
                f"{MIN_CLUSTERS} scripts with {self.main.heading}."
            )
        worst, *_, best = sorted(found, reverse=not self.main.higher_is_better)
        named = [f"{cue}, {value:.2f} (n {n})" for value, n, cue in (worst, best)]
        return f"Worst cue by {self.main.heading}: {named[0]}; best: {named[1]}."

    def as_json(self) -> dict[str, Any]:
        """Return the map as printed by ``show --json``."""
        return {
            "task": self.task.value,
            "in_words": self.in_words,
            "fewest_scripts": MIN_CLUSTERS,
            "scores": [column.as_json() for column in self.columns],
            "rows": [
                {
                    "cue": cue,
                    "turns": row.turns,
                    "voice_to_voice": _cell(row.voice_to_voice, 3),
                    "from_last_sound": row.from_last_sound,
                    "scores": [_cell(row.scores[column.name]) for column in self.columns],
                }
                for cue, row in self.rows
            ],
        }


def _is_thin(estimate: Estimate) -> bool:
    """Return whether an estimate has too few scripts for an interval."""
    return estimate.clusters < MIN_CLUSTERS


def cue_maps(
    groups: Sequence[Group], table: ScoreTable, main: Mapping[Task, MainScore]
) -> tuple[CueMap, ...]:
    """Return the maps of the tasks with labelled cues, in level order; `main` contains the main scores.

    A map contains the directional scores, and the cues in the order of the groups, with speech without a cue
    last.
    """
    found = (_map(task, groups, table, main.get(task)) for task in Task)
    return tuple(each for each in found if each is not None)


def _map(task: Task, groups: Sequence[Group], table: ScoreTable, main: MainScore | None) -> CueMap | None:
    of_task = [group for group in groups if group.task is task and group.level == "attribute"]
    of_task.sort(key=lambda group: group.labels[0] in LABELS_WITHOUT_CUE)  # stable
    if not of_task or of_task[0].labels[0] in LABELS_WITHOUT_CUE:
        return None
    columns = tuple(
        column
        for column in table.columns
        if column.higher_is_better is not None
        and any(column.name in group.scores and group.scores[column.name].n for group in of_task)
    )
    names = Counter(group.labels[-1] for group in of_task)
    rows = [
        (group.labels[-1] if names[group.labels[-1]] == 1 else " / ".join(group.labels[1:]), group)
        for group in of_task
    ]
    if main is None or main.column not in columns:
        return CueMap(task, columns, tuple(rows))
    return CueMap(task, columns, tuple(rows), main.column, () if main.preferred else main.missing)


def _cell(estimate: Estimate, digits: int = 6) -> dict[str, Any]:
    return estimate.as_json(digits, scripts=True) | {"thin": _is_thin(estimate)}
