"""Build a board for another benchmark: the values of runs by part, above the published values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from live_eval.analysis.leaderboard_columns import TableColumn
from live_eval.analysis.statistics.intervals import Estimate, Interval
from live_eval.analysis.summary.benchmark_parts import PartSummary
from live_eval.data.benchmarks import BenchmarkSpec, benchmark_named
from live_eval.data.benchmarks.published import OVERALL, PublishedTable, published_tables
from live_eval.errors import UsageError
from live_eval.judging import JudgeRole
from live_eval.report.leaderboard.board import (
    Board,
    BoardCell,
    BoardRow,
    BoardTable,
    latency_table,
    notes_on_runs,
)
from live_eval.report.leaderboard.entries import (
    RUN_COLUMNS,
    Entry,
    Source,
    read_entries,
    sources_of,
)
from live_eval.text.wording import sentence
from live_eval.types import ScoringRule

__all__ = ["build_benchmark_board"]

_NOTE = (
    "The runs' values use the benchmark's rule or, without one, live-eval's rule or a language model, with "
    "95 % intervals, resampled by script. Items that the endpoint failed to answer count as 0, or as the "
    "lowest rating. Published values have no intervals."
)
_TO_PERCENT = 20
_RATED = frozenset({ScoringRule.RATING, ScoringRule.GUIDED_RATING})


def build_benchmark_board(paths: Sequence[Path], name: str) -> Board:
    """Build a board for runs of a benchmark.

    Raises:
        UsageError: The benchmark is unknown, or no run has items of it.
        StoreError: A folder contains no run.
    """
    spec, part = benchmark_named(name)
    if "/" in part:
        raise UsageError(f"expected a benchmark or one of its parts, got the split {name}")
    entries = read_entries(paths)
    parts = {entry: _parts(entry, spec, part) for entry in entries}
    if not any(parts.values()):
        raise UsageError(f"expected a run with items of {name}; none of these has any")
    published = [_limited(table, part) for table in published_tables(spec.name)] or [_unpublished(spec)]
    listed = {column for table in published for column in table.columns}
    found = {name for of_run in parts.values() for name in of_run}
    tables = [_table(table, spec, parts) for table in published if found & set(table.columns)]
    if others := [name for name in spec.parts if name in found - listed]:
        tables.append(_table(replace(_unpublished(spec), columns=others), spec, parts))
    return Board(
        subject=spec.title,
        tables=(*tables, latency_table(entries)),
        runs=tuple(replace(entry.run, differences=entry.conditions) for entry in entries),
        maps=(),
        plots=(),
        notes=(
            _NOTE,
            *dict.fromkeys([f"{spec.licence_note(part)}.", *notes_on_runs(entries)]),
            *([f"{spec.unverified}."] if spec.unverified else []),
        ),
        run_columns=(*RUN_COLUMNS[:-1], "special conditions"),
    )


def _unpublished(spec: BenchmarkSpec) -> PublishedTable:
    title = f"{spec.title}, published values not included"
    return PublishedTable(
        benchmark=spec.name,
        title=title,
        source="",
        judge="",
        percent=False,
        columns=list(spec.parts),
        rows={},
    )


def _limited(table: PublishedTable, part: str) -> PublishedTable:
    """Return a table with only a part's column, or the whole table if the part's name is empty."""
    if not part:
        return table
    kept = [place for place, column in enumerate(table.columns) if column == part]
    rows = {model: [values[place] for place in kept] for model, values in table.rows.items()}
    return replace(table, columns=[part for _ in kept], rows=rows)


def _parts(entry: Entry, spec: BenchmarkSpec, selected: str) -> Mapping[str, PartSummary]:
    found = [part for task in entry.summary.tasks for part in task.parts if part.benchmark == spec.name]
    return {part.part: part for part in found if selected in ("", part.part)}


def _table(
    published: PublishedTable, spec: BenchmarkSpec, parts: Mapping[Entry, Mapping[str, PartSummary]]
) -> BoardTable:
    runs = [entry for entry, of_run in parts.items() if of_run.keys() & set(published.columns)]
    rows = [
        BoardRow(source, tuple(_cells(parts[entry], published, spec)))
        for source, entry in zip(sources_of(runs, prompted=False), runs, strict=True)
    ]
    theirs = [
        BoardRow(Source(model), tuple(BoardCell(value) for value in values))
        for model, values in published.rows.items()
    ]
    columns = tuple(_column(name, published, spec) for name in published.columns)
    used = [part for entry in runs for name, part in parts[entry].items() if name in published.columns]
    notes = (
        *_notes(published, runs, rows, used),
        *(
            note
            for row, entry in zip(rows, runs, strict=True)
            for note in _by_our_rule(
                row, [parts[entry][name] for name in published.columns if name in parts[entry]]
            )
        ),
    )
    judge = published.judge if published.rows else ""
    return BoardTable(published.title, columns, (*rows, *theirs), notes, judge)


def _column(name: str, published: PublishedTable, spec: BenchmarkSpec) -> TableColumn:
    part = spec.parts.get(name)
    rated = part is not None and part.rule in _RATED and not published.percent
    about = "the mean over the columns; ratings × 20" if part is None else part.about
    return TableColumn(title=name, heading=name, unit="" if rated else "%", definition=sentence(about))


def _cells(
    parts: Mapping[str, PartSummary], published: PublishedTable, spec: BenchmarkSpec
) -> Iterator[BoardCell]:
    whole: list[float | None] = []
    for name in published.columns:
        if name == OVERALL:
            value = _mean(whole)
            reason = "the mean over the parts has no interval"
            yield BoardCell(value, None if value is None else Estimate(value, len(whole), 0, reason=reason))
            continue
        part = parts.get(name)
        if part is None:
            whole.append(None)
            yield BoardCell(None)
            continue
        estimate = _estimate(part)
        times = _TO_PERCENT if part.rule in _RATED else 1
        whole.append(None if estimate.value is None else times * estimate.value)
        shown = _times(estimate, times) if published.percent else estimate
        yield BoardCell(shown.value, shown, max(spec.parts[name].items, part.items))


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean if every part has a value."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _estimate(part: PartSummary) -> Estimate:
    """Return a part's value: by the benchmark's rule, or else by a language model or our rule."""
    if part.rated is not None:
        return part.rated
    return part.ours if part.official.value is None else part.official


def _times(estimate: Estimate, times: float) -> Estimate:
    found = estimate.interval
    interval = None if found is None else Interval(found.low * times, found.high * times)
    value = None if estimate.value is None else estimate.value * times
    return replace(estimate, value=value, interval=interval)


def _notes(
    published: PublishedTable, runs: Sequence[Entry], rows: Sequence[BoardRow], used: Sequence[PartSummary]
) -> Iterator[str]:
    if published.rows:
        yield f"Published values: {published.source}."
    rated = list(dict.fromkeys(part.part for part in used if part.rated is not None and part.rated.n))
    models = sorted({model for entry in runs for model in _models(entry)})
    if rated:
        ours = f"by {' and '.join(models) or 'an unknown model'}, once per item at temperature 0"
        if published.rows:
            yield (
                f"Different judges in {', '.join(rated)}: the published rows were judged by "
                f"{published.judge}; your runs {ours}, with live-eval's prompt. Compare your runs with each "
                "other, not with the published rows."
            )
        else:
            yield f"Your runs were judged {ours}, with live-eval's prompt, in {', '.join(rated)}."
    ruled = [part.part for part in used if part.rated is None and part.official.value is None and part.ours.n]
    if ruled and published.rows:
        yield (
            f"Different rules in {', '.join(dict.fromkeys(ruled))}: the published rows were judged by "
            f"{published.judge}; your runs' values are by live-eval's rule."
        )
    heard = [part.part for part in used if part.rule is ScoringRule.REPETITION]
    if heard and published.rows:
        yield (
            f"Different texts in {', '.join(dict.fromkeys(heard))}: the published values use a recogniser's "
            "transcripts of the replies, the runs' values the endpoints' own."
        )
    if any(cell.n_of_turns for row in rows for cell in row.cells):
        yield "n of N: the mean is over n of the part's N items; the others were not run or have no score."


def _by_our_rule(row: BoardRow, parts: Sequence[PartSummary]) -> Iterator[str]:
    """Yield a note with a run's values by our rule, and the replies for which the official rule guesses."""
    ruled = [part for part in parts if part.official.value is not None and part.ours.value is not None]
    if not ruled:
        return
    ours = ", ".join(f"{part.part} {part.ours.value:.1f} %" for part in ruled)
    guessed = [
        f"{part.part} {part.official_unparsed} of {part.official.n}"
        for part in ruled
        if part.official_unparsed
    ]
    guesses = (
        f"; replies without a readable answer, for which the benchmark's rule guesses: {', '.join(guessed)}"
    )
    yield f"{row.source.name} by live-eval's rule: {ours}{guesses if guessed else ''}."


def _models(entry: Entry) -> Iterator[str]:
    table = entry.summary.table
    names = {column.judge for column in table.columns if column.role is JudgeRole.BENCHMARK_MODEL}
    for judge in entry.summary.judges:
        if judge.name in names:
            yield from judge.models
