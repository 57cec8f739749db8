"""Build the tables of a report, for all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.statistics.intervals import OVER_SCRIPTS, Estimate
from live_eval.analysis.summary.groups import Group
from live_eval.analysis.summary.latencies import LATENCY_TITLES, LatencySummary
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreSummary
from live_eval.analysis.summary.vocal_sounds import VOCAL_SOUND_TITLES
from live_eval.report.cells import (
    DIRECTIONS,
    NONE,
    Cell,
    Column,
    Table,
    difference_cell,
    interval,
    median_and_n,
    missing_cell,
    number,
    ranged,
)
from live_eval.report.compare import RunDifferences
from live_eval.report.glossary import defined_terms, term_id
from live_eval.types import Task

__all__ = [
    "RunView",
    "assert_table",
    "audit_table",
    "columns_of",
    "cue_tables",
    "failure_table",
    "judges_in_words",
    "latency_table",
    "run_cell",
    "score_columns",
    "score_table",
]

_AUDIT_NOTE = (
    "A judge sees a degradation if the 95 % interval of the mean change, paired by turn and resampled by "
    "script, is on the worse side of 0. Its scores do not measure degradations that it does not see."
)
_CUE_NOTE = "Scores are means over all captured turns, or over n turns if n is given."

GroupKey: TypeAlias = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class RunView:
    """A run in a report.

    Args:
        index: Position among the runs, which determines the colour on the page.
        comparison: Differences from the first run; None for the first run itself.
    """

    index: int
    label: str
    summary: RunSummary
    comparison: RunDifferences | None = None


def latency_table(runs: Sequence[RunView]) -> Table:
    """Return a table of each run's latencies in milliseconds."""
    headings = ("p50", "95 % interval", "p95", "p99", "n", "p50 without flagged", "p50 of uncertain turns")
    columns = columns_of(runs, ["latency, ms"], [*headings, "missing"])
    columns += _difference_column(runs)
    if _is_flagged(runs):
        columns.append(Column("difference without flagged turns"))
    names = [
        name
        for name in LATENCY_TITLES
        if name != "barge_in_stop" or any(view.summary.latencies[name].n for view in runs)
    ]
    rows = [
        _latency_row(name, LATENCY_TITLES[name], view.summary.latencies[name], view, runs)
        for name in names
        for view in runs
    ]
    rows += [
        _latency_row(name, title, view.summary.vocal_sounds[name], view, runs)
        for name, title in VOCAL_SOUND_TITLES.items()
        for view in runs
        if name in view.summary.vocal_sounds
    ]
    heard = [view.summary.latencies["voice_to_voice"].measured for view in runs]
    reasons = {
        "No intervals": {latency["p50"].reason for latency in heard},
        "No p95": {latency["p95"].reason for latency in heard if latency["p95"].value is None},
        "No p99": {latency["p99"].reason for latency in heard if latency["p99"].value is None},
    }
    notes = [
        f"{what}: {', '.join(sorted(given))}."
        for what, found in reasons.items()
        if (given := found - {"", "no values"})
    ]
    return Table(tuple(columns), tuple(rows), " ".join(notes))


def _latency_row(
    name: str, title: str, latency: LatencySummary, view: RunView, runs: Sequence[RunView]
) -> tuple[Cell, ...]:
    measured, clear, apart = latency.measured, latency.without_flagged, latency.uncertain
    p50, p95, p99 = (measured[share] for share in ("p50", "p95", "p99"))
    cells = [
        Cell(title, strong=name == "voice_to_voice", href=_definition_of(title)),
        *run_cell(view, runs),
        Cell(number(p50.value), strong=name == "voice_to_voice"),
        Cell(interval(p50), note=p50.reason),
        Cell(number(p95.value), note="" if p95.value is not None else p95.reason),
        Cell(number(p99.value), note="" if p99.value is not None else p99.reason),
        Cell(str(latency.n)),
        Cell(NONE if clear.n == latency.n else median_and_n(clear)),
        Cell(NONE if apart.n == 0 else median_and_n(apart)),
        missing_cell(measured),
    ]
    if _is_compared(runs):
        cells.append(_difference(view.comparison.latencies.get(name) if view.comparison else None, 0))
    if _is_flagged(runs):
        cells.append(_difference(view.comparison.without_flagged.get(name) if view.comparison else None, 0))
    return tuple(cells)


def _definition_of(title: str) -> str:
    """Return the link to a term's definition on the page; empty if it has none."""
    return f"#{term_id(title)}" if title in defined_terms() else ""


def score_table(runs: Sequence[RunView], *, named: bool = False) -> Table:
    """Return each run's scores; with `named`, also the names by which commands accept them."""
    columns = columns_of(runs, ["score"], ["mean", "95 % interval", "n", "unscored", "failed"])
    columns += [Column("unit", numeric=False), *_difference_column(runs)]
    columns += [Column("name", numeric=False)] if named else []
    names = list(dict.fromkeys(name for view in runs for name in view.summary.scores))
    rows = [
        (*_score_row(view.summary.scores[name], view, runs), *([Cell(name)] if named else []))
        for name in names
        for view in runs
        if name in view.summary.scores
    ]
    return Table(tuple(columns), tuple(rows))


def _score_row(score: ScoreSummary, view: RunView, runs: Sequence[RunView]) -> tuple[Cell, ...]:
    arrow, better = DIRECTIONS[score.column.higher_is_better]
    reasons = "; ".join(f"{reason}: {count}" for reason, count in score.reasons.items())
    cells = [
        Cell(score.label, score=score.column),
        *run_cell(view, runs),
        Cell(number(score.mean.value, 2), strong=True),
        Cell(interval(score.mean, 2), note=score.mean.reason),
        Cell(str(score.n)),
        Cell(str(score.n_unscored), note=reasons),
        Cell(str(score.n_failed), note=reasons),
        Cell(" ".join(part for part in (score.column.unit, arrow) if part), note=better),
    ]
    if _is_compared(runs):
        scores = view.comparison.scores if view.comparison else {}
        cells.append(_difference(scores.get(score.column.name), 2))
    return tuple(cells)


def score_columns(runs: Sequence[RunView]) -> dict[str, ScoreColumn]:
    """Return the runs' scores by name."""
    return {column.name: column for view in reversed(runs) for column in view.summary.table.columns}


def judges_in_words(runs: Sequence[RunView]) -> list[str]:
    """Describe the judges with their versions and models, grouping runs with the same judges."""
    labels_of: dict[str, list[str]] = {}
    for view in runs:
        if view.summary.judges:
            words = "; ".join(judge.in_words for judge in view.summary.judges)
            labels_of.setdefault(words, []).append(view.label)
    return [f"Judges{_of(labels, runs)}: {words}." for words, labels in labels_of.items()]


def _of(labels: Sequence[str], runs: Sequence[RunView]) -> str:
    return f" of {', '.join(labels)}" if len(labels) < len(runs) else ""


def audit_table(runs: Sequence[RunView]) -> Table:
    """Return a table of the audits of every run's judges."""
    texts = ("repeatability", "sees", "does not see", "order", "human labels", "other judge")
    columns = [*columns_of(runs, ["judge"], []), *(Column(label, numeric=False) for label in texts)]
    # judges in score order, then judges without scores of single turns
    scored = [score.column.judge for view in runs for score in view.summary.scores.values()]
    audited = [name for view in runs for name in view.summary.audits]
    names = list(dict.fromkeys([*(name for name in scored if name in audited), *audited]))
    rows = [
        (
            Cell(name, note=f"version {audit.version}"),
            *run_cell(view, runs),
            Cell(audit.repeats),
            Cell(audit.sees),
            Cell(audit.does_not_see, strong=True),
            Cell(audit.order),
            Cell(audit.labels),
            Cell(audit.other_judge),
        )
        for name in names
        for view in runs
        if (audit := view.summary.audits.get(name)) is not None
    ]
    return Table(tuple(columns), tuple(rows), _AUDIT_NOTE if rows else "")


def cue_tables(runs: Sequence[RunView]) -> list[Table]:
    """Return tables of each task's turns, by variant and by cue (from coarse to fine)."""
    present = {summary.task for view in runs for summary in view.summary.tasks}
    return [_cue_table(task, runs) for task in Task if task in present]


def _cue_table(task: Task, runs: Sequence[RunView]) -> Table:
    groups = [(view, group) for view in runs for group in view.summary.groups if group.task is task]
    given = {name for _, group in groups for name, mean in group.scores.items() if mean.n}
    names = [
        name for name in dict.fromkeys(name for view in runs for name in view.summary.scores) if name in given
    ]
    scores = score_columns(runs)
    columns = columns_of(runs, ["turns by"], ["turns", "failed", "voice to voice, p50 ms"])
    columns += [Column(scores[name].heading or name, score=scores[name]) for name in names]
    rows = [
        _cue_row(view, group, label, depth, runs, names)
        for key, label, depth in _outline(list(dict.fromkeys(_group_key(group) for _, group in groups)))
        for view, group in groups
        if _group_key(group) == key
    ]
    return Table(tuple(columns), tuple(rows), _CUE_NOTE, task.value)


def _outline(keys: Sequence[GroupKey]) -> Iterator[tuple[GroupKey, str, int]]:
    """Yield each group once, in order, with its label and depth."""
    below = Counter((level, labels[:-1]) for level, labels in keys)
    for level, labels in sorted(keys, key=_cue_order):
        label, depth = labels[-1], len(labels) - 1
        if level == "variant":
            yield (level, labels), f"all {label}", 0
            continue
        if depth and label == labels[-2]:
            continue  # the labels of unlabelled speech are the same at every level
        if level == "fine" and below["attribute", labels] == 1:
            continue  # the row of its only attribute has the same values
        if level == "attribute_variant" and below[level, labels[:-1]] == 1:
            continue
        if level == "attribute" and below[level, labels[:-1]] == 1 and labels[1] != labels[0]:
            label, depth = f"{labels[1]}: {label}", 1
        yield (level, labels), label, depth


def _group_key(group: Group) -> GroupKey:
    return group.level, group.labels


def _cue_order(key: GroupKey) -> tuple[object, ...]:
    """Return a sort key: variants in their order, then cues by dimension, unlabelled speech last."""
    level, labels = key
    variants = {"target": 0, "neutral": 1, "alternative": 2}
    if level == "variant":
        return (0, variants.get(labels[0], 9))
    unlike = {"neutral": 1, "unlabelled": 2}
    first = (unlike.get(labels[0], 0), 0, labels[0])
    return (1, first, *((0, variants.get(label, 9), label) for label in labels[1:]))


def _cue_row(
    view: RunView, group: Group, label: str, depth: int, runs: Sequence[RunView], names: Sequence[str]
) -> tuple[Cell, ...]:
    return (
        Cell(label, indent=depth, strong=depth == 0),
        *run_cell(view, runs),
        Cell(str(group.turns)),
        Cell(str(group.turns - group.captured)),
        _cue_value(group, group.voice_to_voice, 0, " from the last sound" if group.from_last_sound else ""),
        *(_cue_value(group, group.scores[name], 2) if name in group.scores else Cell(NONE) for name in names),
    )


def _cue_value(group: Group, estimate: Estimate, digits: int, since: str = "") -> Cell:
    of = f" (n {estimate.n})" if estimate.n not in (0, group.captured) else ""
    return Cell(
        f"{number(estimate.value, digits)}{since if estimate.n else ''}{of}",
        note=f"n {estimate.n}, 95 % interval {interval(estimate, digits)}",
    )


def failure_table(runs: Sequence[RunView]) -> Table:
    """Return a table of failed turns, retried attempts and warnings, by kind."""
    columns = [Column("kind", numeric=False), Column("outcome", numeric=False)]
    columns += [Column(view.label if len(runs) > 1 else "count") for view in runs]
    outcomes = (
        ("turn failed", [view.summary.failures for view in runs]),
        ("attempt retried", [view.summary.retried for view in runs]),
        ("warning", [view.summary.warnings for view in runs]),
    )
    rows = [
        (Cell(kind), Cell(outcome), *(Cell(str(one.get(kind, 0))) for one in counts))
        for outcome, counts in outcomes
        for kind in dict.fromkeys(kind for one in counts for kind in one)
    ]
    return Table(tuple(columns), tuple(rows))


def columns_of(runs: Sequence[RunView], texts: Sequence[str], values: Sequence[str]) -> list[Column]:
    """Return a run column (if there are several runs), text columns, and numeric columns."""
    named = [*texts, "run"] if len(runs) > 1 else texts
    return [*(Column(label, numeric=False) for label in named), *map(Column, values)]


def run_cell(view: RunView, runs: Sequence[RunView]) -> list[Cell]:
    """Return a cell with the run's name if there are several runs, else no cell."""
    return [Cell(view.label, run=view.index)] if len(runs) > 1 else []


def _is_compared(runs: Sequence[RunView]) -> bool:
    return any(view.comparison is not None and not view.comparison.problem for view in runs)


def _is_flagged(runs: Sequence[RunView]) -> bool:
    """Return whether flagged turns affect any comparison of latencies."""
    return any(
        view.comparison is not None and view.comparison.flagged and view.comparison.latencies for view in runs
    )


def _difference_column(runs: Sequence[RunView]) -> list[Column]:
    return [Column(f"against {runs[0].label}, paired, {OVER_SCRIPTS}")] if _is_compared(runs) else []


def _difference(estimate: Estimate | None, digits: int) -> Cell:
    return Cell(NONE) if estimate is None or estimate.value is None else difference_cell(estimate, digits)


def assert_table(asserts: Sequence[CheckedAssertion]) -> Table:
    """Return a campaign's assertions and their results."""
    columns = [Column(name, numeric=False) for name in ("assertion", "condition", "holds")]
    columns += [Column("n"), Column("value"), Column("error bar, ms"), Column("", numeric=False)]
    rows = [
        (
            Cell(each.assertion.expression),
            Cell(each.point),
            Cell("yes" if each.holds else "no", strong=not each.holds),
            Cell(str(each.n)),
            Cell(f"{ranged(each.value, each.interval)} {each.assertion.unit}".rstrip(), strong=True),
            Cell(number(each.error_bar_ms, 1)),
            Cell(each.reason),
        )
        for each in asserts
    ]
    return Table(tuple(columns), tuple(rows))
