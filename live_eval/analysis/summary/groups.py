"""The turns of each task of a run by variant and by vocal cue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from live_eval.analysis.statistics import Estimate, estimate_quantile
from live_eval.analysis.summary.facts import TurnFacts
from live_eval.analysis.summary.scores import ScoreTable
from live_eval.types import Task, Variant

__all__ = ["Group", "group_turns"]

_UNLABELLED = "unlabelled"
_NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The turns of a task that share a cue, or a part of one.

    Args:
        task: The task.
        level: ``variant``, ``coarse``, ``fine``, ``attribute`` or ``attribute_variant``.
        labels: The values that the turns share, from the coarsest.
        turns: Turns.
        captured: How many of them were captured.
        voice_to_voice: Median, in milliseconds, over turns whose end of speech is certain.
        scores: Means, by score that is about the task.
    """

    task: Task
    level: str
    labels: tuple[str, ...]
    turns: int
    captured: int
    voice_to_voice: Estimate
    scores: Mapping[str, Estimate]


def group_turns(turns: Sequence[TurnFacts], table: ScoreTable) -> tuple[Group, ...]:
    """Return each task's turns by variant, by each dimension of the cue, and by attribute and variant."""
    return tuple(
        group
        for task in Task
        for group in _group_task(task, [turn for turn in turns if turn.task is task], table)
    )


def _group_task(task: Task, turns: Sequence[TurnFacts], table: ScoreTable) -> Iterator[Group]:
    def unlabelled(turn: TurnFacts) -> str:
        # Neutral speech has no dimension, but is not unlabelled.
        return _NEUTRAL if turn.cue is not None and turn.cue.attribute == _NEUTRAL else _UNLABELLED

    def coarse(turn: TurnFacts) -> tuple[str, ...]:
        return (turn.cue.coarse.value if turn.cue and turn.cue.coarse else unlabelled(turn),)

    def fine(turn: TurnFacts) -> tuple[str, ...]:
        return (*coarse(turn), (turn.cue.fine if turn.cue else None) or unlabelled(turn))

    def attribute(turn: TurnFacts) -> tuple[str, ...]:
        return (*fine(turn), turn.cue.name if turn.cue else _UNLABELLED)

    def attribute_variant(turn: TurnFacts) -> tuple[str, ...]:
        return (*attribute(turn), turn.variant.value)

    levels: dict[str, Callable[[TurnFacts], tuple[str, ...]]] = {
        "variant": lambda turn: (turn.variant.value,),
        "coarse": coarse,
        "fine": fine,
        "attribute": attribute,
        "attribute_variant": attribute_variant,
    }
    order = {variant.value: index for index, variant in enumerate(Variant)}
    for level, key in levels.items():
        members: dict[tuple[str, ...], list[TurnFacts]] = {}
        for turn in turns:
            members.setdefault(key(turn), []).append(turn)
        for labels in sorted(
            members, key=lambda labels: (*labels[:-1], order.get(labels[-1], 9), labels[-1])
        ):
            yield _group(task, level, labels, members[labels], table)


def _group(
    task: Task, level: str, labels: tuple[str, ...], turns: Sequence[TurnFacts], table: ScoreTable
) -> Group:
    timed = [
        (value, turn.script_id)
        for turn in turns
        if (value := turn.milliseconds("voice_to_voice")) is not None and not turn.timing.uncertain
    ]
    return Group(
        task=task,
        level=level,
        labels=labels,
        turns=len(turns),
        captured=sum(turn.captured for turn in turns),
        voice_to_voice=estimate_quantile([value for value, _ in timed], [script for _, script in timed], 0.5),
        scores={column.name: table.mean(turns, column) for column in table.columns if task in column.tasks},
    )
