"""Group the turns of each task by variant and by vocal cue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from live_eval.analysis.statistics.intervals import Estimate, estimate_quantile
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.score_table import ScoreTable, means
from live_eval.analysis.summary.vocal_sounds import has_vocal_sound
from live_eval.types import Task, Variant

__all__ = ["LABELS_WITHOUT_CUE", "Group", "group_turns"]

_UNLABELLED = "unlabelled"
_NEUTRAL = "neutral"
LABELS_WITHOUT_CUE = frozenset({_UNLABELLED, _NEUTRAL})
"""Labels for speech without a cue, used instead of a coarse or fine dimension."""
# The labels that the turns of a group share.
_LEVELS = {
    "variant": slice(3, 4),
    "coarse": slice(1),
    "fine": slice(2),
    "attribute": slice(3),
    "attribute_variant": slice(4),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The turns of a task that share a cue or part of a cue.

    Args:
        level: Grouping level: ``variant``, ``coarse``, ``fine``, ``attribute`` or ``attribute_variant``.
        labels: Shared values, coarsest first.
        voice_to_voice: Median in milliseconds, over turns with a certain end of speech or, with
            `from_last_sound`, over all turns.
        from_last_sound: Whether the group's cue is a vocal sound.
        scores: Means of the task's scores.
    """

    task: Task
    level: str
    labels: tuple[str, ...]
    turns: int
    captured: int
    voice_to_voice: Estimate
    from_last_sound: bool
    scores: Mapping[str, Estimate]


def group_turns(turns: Sequence[Observation], table: ScoreTable) -> tuple[Group, ...]:
    """Group each task's turns by variant, by each dimension of the cue, and by attribute and variant."""
    return tuple(
        group
        for task in Task
        for group in _group_task(task, [turn for turn in turns if turn.task is task], table)
    )


def _group_task(task: Task, turns: Sequence[Observation], table: ScoreTable) -> Iterator[Group]:
    columns = [column for column in table.columns if task in column.tasks]
    values = table.values(turns, columns)
    order = {variant.value: index for index, variant in enumerate(Variant)}
    for level, part in _LEVELS.items():
        members: dict[tuple[str, ...], list[int]] = {}
        for place, turn in enumerate(turns):
            members.setdefault(_labels(turn)[part], []).append(place)
        for labels in sorted(
            members, key=lambda labels: (*labels[:-1], order.get(labels[-1], 9), labels[-1])
        ):
            places = members[labels]
            of_group = [turns[place] for place in places]
            scores = means(values[places], [turn.script_id for turn in of_group], columns)
            yield _group(task, level, labels, of_group, scores)


def _labels(turn: Observation) -> tuple[str, ...]:
    """Return the coarse and fine dimensions of a turn's cue, its attribute, and the variant."""
    cue = turn.cue
    if cue is None:
        return _UNLABELLED, _UNLABELLED, _UNLABELLED, turn.variant.value
    # Neutral speech has no dimension, but it is labelled.
    without = _NEUTRAL if cue.attribute == _NEUTRAL else _UNLABELLED
    coarse = cue.coarse.value if cue.coarse else without
    return coarse, cue.fine or without, cue.name, turn.variant.value


def _group(
    task: Task,
    level: str,
    labels: tuple[str, ...],
    turns: Sequence[Observation],
    scores: Mapping[str, Estimate],
) -> Group:
    sounds = level != "variant" and all(map(has_vocal_sound, turns))
    timed = [
        (value, turn.script_id)
        for turn in turns
        if (value := turn.milliseconds("voice_to_voice")) is not None
        and (sounds or not turn.timing.uncertain)
    ]
    return Group(
        task=task,
        level=level,
        labels=labels,
        turns=len(turns),
        captured=sum(turn.captured for turn in turns),
        voice_to_voice=estimate_quantile([value for value, _ in timed], [script for _, script in timed], 0.5),
        from_last_sound=sounds,
        scores=scores,
    )
