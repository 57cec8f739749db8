"""Choose the turns whose audio is embedded in a page of limited size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TypeVar

from live_eval.analysis.summary.latencies import has_uncertain_start
from live_eval.analysis.summary.observations import Observation, TurnKey
from live_eval.report.tables import RunView

__all__ = ["turns_to_hear"]

_T = TypeVar("_T")


def turns_to_hear(runs: Sequence[RunView], scores: Sequence[str]) -> Iterator[TurnKey]:
    """Yield the keys of all turns, those most useful to hear first.

    Failed turns, the slowest turns, the worst turns by any score, flagged turns, and turns with each cue
    alternate, so that even a small page contains all kinds, the slowest no less with many scores. A case
    precedes its repetitions. A key selects the same turn in every run, so that runs can be compared by ear.

    Args:
        scores: Names of the scores to consider.
    """
    rankings = [ranking for view in runs for ranking in _rankings(view, scores)]
    yield from dict.fromkeys(turn.key for turn in _alternating(rankings))


def _rankings(view: RunView, scores: Sequence[str]) -> Iterator[Iterable[Observation]]:
    turns, table = view.summary.turns, view.summary.table
    yield [turn for turn in turns if not turn.captured]
    certain = [turn for turn in turns if not has_uncertain_start(turn.timing, "voice_to_voice")]
    timed = [(ms, turn) for turn in certain if (ms := turn.milliseconds("voice_to_voice")) is not None]
    yield _sorted(timed, descending=True)
    lowest = []
    for name in scores:
        if (column := table.column(name)) is not None and column.higher_is_better is not None:
            scored = [(value, turn) for turn, value in table.scored(turns, column) if turn.captured]
            lowest.append(_sorted(scored, descending=not column.higher_is_better))
    yield _alternating(lowest)
    yield [turn for turn in turns if turn.captured and turn.timing.flagged]
    by_cue: dict[tuple[str, str], list[Observation]] = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: turn.repeat):
        by_cue[turn.cue.name if turn.cue is not None else "", turn.variant].append(turn)
    yield _alternating(list(by_cue.values()))


def _sorted(valued: Sequence[tuple[float, Observation]], *, descending: bool) -> list[Observation]:
    return [turn for _, turn in sorted(valued, key=lambda pair: pair[0], reverse=descending)]


def _alternating(rankings: Sequence[Iterable[_T]]) -> Iterator[_T]:
    """Yield the first item of each ranking, then the second item of each, and so on."""
    for place in zip_longest(*rankings):
        yield from (each for each in place if each is not None)
