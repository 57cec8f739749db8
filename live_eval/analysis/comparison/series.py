"""Represent a run as one series per metric, by case and repetition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from live_eval.analysis.comparison.boundaries import SpeechEnd, speech_ends
from live_eval.analysis.summary.latencies import LATENCY_TITLES, has_uncertain_start
from live_eval.analysis.summary.observations import Observation, TurnKey, read_observations
from live_eval.analysis.summary.score_table import JudgeFacts, ScoreColumn, ScoreTable, run_scores
from live_eval.analysis.summary.vocal_sounds import (
    VOCAL_SOUND_TITLES,
    has_vocal_sound,
    vocal_sound_milliseconds,
)
from live_eval.errors import FailureCause, UsageError
from live_eval.recording import RunReader
from live_eval.text.suggestions import did_you_mean
from live_eval.types import Task

__all__ = [
    "CAPTURED",
    "ComparedRun",
    "Series",
    "compared_run",
    "find_series",
    "read_runs",
    "score_series",
    "series_of",
]

_K = TypeVar("_K")
_V = TypeVar("_V")

CAPTURED = "captured"
"""1 for a captured turn, 0 for a failed turn, and no value if live-eval itself caused the failure."""


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one metric in one run.

    Args:
        name: Metric: `CAPTURED`, one of `LATENCIES` or of a vocal sound's latencies, or a score
            (``dnsmos.ovrl``), with its task (``mcq.accuracy:reasoning``) if it is split by task.
        title: Name for readers; for a score, its heading.
        values: Value (or None) of each turn that the metric applies to.
        higher_is_better: Better direction; None if there is none or it is unknown.
        version: Judge version; empty for other metrics.
    """

    name: str
    title: str
    kind: Literal["turns", "latency", "score"]
    values: Mapping[TurnKey, float | None]
    unit: str = ""
    higher_is_better: bool | None = None
    version: str = ""

    def without(self, turns: Collection[TurnKey]) -> Series:
        """Return the metric without the given turns."""
        kept = {key: value for key, value in self.values.items() if key not in turns}
        return replace(self, values=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run prepared for comparison.

    Args:
        name: Name, unique among the compared runs.
        path: Run folder.
        ended: Whether the run has ended.
        contents: Speech and question of each turn.
        timing_version: Version of the latency definitions; None if there are several.
        flagged: Captured turns whose lag exceeds the bound.
        speech_ends: End of the user's speech in each turn.
        judges: The judges that judged turns.
        unread_scores: Reason why the scores cannot be read; empty if they were read.
        session_starts: Wall time at which the user's recording began in each session, in ns since 1970.
    """

    name: str
    path: Path
    manifest: Mapping[str, Any]
    ended: bool
    scripts: Mapping[TurnKey, str]
    contents: Mapping[TurnKey, object]
    tasks: frozenset[Task]
    timing_version: int | None
    series: Mapping[str, Series]
    flagged: frozenset[TurnKey] = frozenset()
    speech_ends: Mapping[TurnKey, SpeechEnd] = field(default_factory=dict)
    session_starts: Mapping[TurnKey, int] = field(default_factory=dict)
    judges: tuple[JudgeFacts, ...] = ()
    unread_scores: str = ""


def read_runs(paths: Sequence[Path], *, retime: bool = False) -> list[ComparedRun]:
    """Read runs for comparison; with `retime`, recompute the latencies with the current definitions.

    Raises:
        UsageError: A run is repeated.
        StoreError: A folder is not a run.
    """
    folders = [path.resolve() for path in paths]
    if len(set(folders)) < len(folders):
        raise UsageError("expected different runs, got a duplicate run")
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    return [_read(path, name, retime) for path, name in zip(paths, names, strict=True)]


def _read(path: Path, name: str, retime: bool) -> ComparedRun:
    with RunReader.open(path) as run:
        return compared_run(run, name, read_observations(run.turns(retime=retime)), run_scores(run))


def compared_run(run: RunReader, name: str, turns: Sequence[Observation], table: ScoreTable) -> ComparedRun:
    """Prepare a run for comparison under the name `name`."""
    versions = {turn.timing_version for turn in turns}
    return ComparedRun(
        name=name,
        path=run.path,
        manifest=run.manifest,
        ended=run.ended,
        scripts=_Deferred(lambda: {turn.key: turn.script_id for turn in turns}),
        contents=_Deferred(lambda: {turn.key: (turn.text, turn.question) for turn in turns}),
        tasks=frozenset(turn.task for turn in turns),
        timing_version=versions.pop() if len(versions) == 1 else None,
        series=_Deferred(lambda: series_of(turns, table)),
        flagged=frozenset(turn.key for turn in turns if turn.captured and turn.timing.flagged),
        speech_ends=_Deferred(lambda: speech_ends(turns)),
        session_starts={
            turn.key: turn.speech_start_wall_ns
            for turn in turns
            if turn.speech_start_wall_ns is not None and turn.turn_index == 0
        },
        judges=table.judges,
        unread_scores=table.unread,
    )


class _Deferred(Mapping[_K, _V]):
    """A mapping that is built on first access, since only compared runs need their series."""

    def __init__(self, make: Callable[[], Mapping[_K, _V]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Mapping[_K, _V]:
        return self._make()

    def __getitem__(self, key: _K) -> _V:
        return self._made[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def series_of(turns: Sequence[Observation], table: ScoreTable, *, by_task: bool = True) -> dict[str, Series]:
    """Return all metrics of a run by name; `by_task` splits scores that cover several tasks.

    Latencies measured from an uncertain end of speech are None.
    """
    captured = {
        turn.key: None if turn.failed_by is FailureCause.HARNESS else float(turn.captured) for turn in turns
    }
    made = [Series(CAPTURED, "captured turns", "turns", captured, unit="share", higher_is_better=True)]
    for name, title in LATENCY_TITLES.items():
        if any(turn.milliseconds(name) is not None for turn in turns):
            values = {
                turn.key: None if has_uncertain_start(turn.timing, name) else turn.milliseconds(name)
                for turn in turns
            }
            made.append(Series(name, title, "latency", values, unit="ms", higher_is_better=False))
    if sounds := [turn for turn in turns if has_vocal_sound(turn)]:
        for name, title in VOCAL_SOUND_TITLES.items():
            values = {turn.key: vocal_sound_milliseconds(turn, name) for turn in sounds}
            if any(value is not None for value in values.values()):
                made.append(Series(name, title, "latency", values, unit="ms", higher_is_better=False))
    for column in table.columns:
        concerned = [turn for turn in turns if turn.task in column.tasks]
        tasks = sorted({turn.task for turn in concerned}) if by_task else []
        if len(tasks) > 1:
            made += [
                score_series([turn for turn in concerned if turn.task is task], table, column, task)
                for task in tasks
            ]
        else:
            made.append(score_series(concerned, table, column))
    return {series.name: series for series in made}


def score_series(
    turns: Sequence[Observation], table: ScoreTable, column: ScoreColumn, task: Task | None = None
) -> Series:
    """Return one score of a run for the turns it applies to, including failed turns.

    The name includes the `task` of the turns if the score is split by task.
    """
    heading = column.heading or column.name
    return Series(
        column.name if task is None else f"{column.name}:{task}",
        heading if task is None else f"{heading} ({task})",
        "score",
        {turn.key: table.value(turn, column) for turn in turns},
        unit=column.unit,
        higher_is_better=column.higher_is_better,
        version=column.version,
    )


def find_series(run: ComparedRun, wanted: str) -> Series:
    """Find the metric with a name given by the user, ignoring case.

    `wanted` is a full name or its last part (``C4`` for ``rubric.c4``); the task may be omitted if there is
    only one.

    Raises:
        UsageError: No metric or several metrics match; the message lists the candidates.
    """
    key = wanted.casefold()
    for name, series in run.series.items():
        if name.casefold() == key:
            return series
    ends = [name for name in run.series if key in _short_names(name.casefold(), run.tasks)]
    if len(ends) == 1:
        return run.series[ends[0]]
    unknown = (
        f"unknown{did_you_mean(wanted, run.series)}; expected one of {', '.join(run.series)}, or a score "
        "added by live-eval score"
    )
    if run.unread_scores:
        unknown = f"unknown: {run.unread_scores}"
    problem = f"ambiguous; expected one of {', '.join(ends)}" if ends else unknown
    raise UsageError(f"{run.name}: metric {wanted!r}: {problem}")


def _short_names(name: str, tasks: Collection[Task]) -> set[str]:
    """Return a metric's short names: its last part, and variants without the task or with the only task."""
    names = {name, name.partition(":")[0]}
    if ":" not in name and len(tasks) == 1:
        names.update(f"{name}:{task.value}" for task in tasks)
    return names | {each.rpartition(".")[2] for each in names}
