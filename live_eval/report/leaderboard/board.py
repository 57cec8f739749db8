"""Build the board: tables with published rows and rows for runs, and heat maps.

The values of a run are means over the task's scored turns, with 95 % intervals bootstrapped by script.
Unanswered questions count as wrong. As in the paper, a model with several prompts is represented by its best
prompt (by C4 for text, by VES for audio), with a note on the choice. If no score can rank the prompts, every
prompt has a row.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from live_eval.analysis.leaderboard_columns import BoardColumn, TableColumn, leaderboard_columns
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.latencies import LATENCY_TITLES
from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.analysis.summary.score_table import JudgeFacts
from live_eval.judging import LeaderboardTable
from live_eval.report.glossary import defined_terms
from live_eval.report.leaderboard.entries import (
    RUN_COLUMNS,
    BoardRun,
    Chosen,
    Entry,
    Source,
    choose_prompts_of,
    entries_of,
    read_entries,
    sources_of,
)
from live_eval.report.leaderboard.level_plots import LevelPlot, level_plots
from live_eval.report.leaderboard.paper import JUDGES, PUBLISHED
from live_eval.types import Task

__all__ = [
    "PUBLISHED_NOTE",
    "Best",
    "Board",
    "BoardCell",
    "BoardRow",
    "BoardTable",
    "HeatMap",
    "Rival",
    "build_board",
    "find_best",
    "latency_table",
    "notes_on_runs",
    "tables_with_runs",
]

_CONVERSATION = Task.CONVERSATION


@dataclass(frozen=True, slots=True)
class BoardCell:
    """A value with its estimate; published values have no estimate.

    Args:
        judge: Judge of the value; None for latencies and for published or missing values.
        mark: Letter of the judge; empty if not needed.
        best: Whether this is the best comparable value of the runs.
        digits: Number of decimals to show.
    """

    value: float | None
    estimate: Estimate | None = None
    turns: int = 0
    judge: JudgeFacts | None = None
    mark: str = ""
    best: bool = False
    digits: int = 2

    @property
    def n_of_turns(self) -> str:
        """The text "n of total" if some turns are missing; empty otherwise."""
        if self.estimate is None or self.value is None or self.estimate.n >= self.turns:
            return ""
        return f"n {self.estimate.n:,} of {self.turns:,}"

    @property
    def count(self) -> str:
        """The text "n", or "n of total", for a run's value; empty for other cells."""
        if self.estimate is None or self.value is None:
            return ""
        return self.n_of_turns or f"n {self.estimate.n}"

    @property
    def share(self) -> float:
        """The share of turns with a value, from 0 to 1."""
        return self.estimate.n / self.turns if self.estimate is not None and self.turns else 0.0


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A row for a model."""

    source: Source
    cells: tuple[BoardCell, ...]

    @property
    def published(self) -> bool:
        """Whether the row is from the paper."""
        return self.source.run is None


@dataclass(frozen=True, slots=True)
class BoardTable:
    """One of the published tables, or the latency table.

    Args:
        judge: Judge of the published rows, if it is the same for all columns.
    """

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[BoardRow, ...]
    notes: tuple[str, ...]
    judge: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A heat map with a column for each run and a row for each attribute or question type."""

    title: str
    column: BoardColumn
    columns: tuple[Source, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[BoardCell, ...], ...]
    notes: tuple[str, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """The letter of each run's judge; empty if not needed."""
        return tuple(max(cell.mark for cell in column) for column in zip(*self.cells, strict=True))


@dataclass(frozen=True, slots=True)
class Board:
    """A leaderboard: published tables, latencies, the runs, heat maps and level plots.

    Args:
        subject: Name of the benchmark.
        maps: Heat maps; only EchoMind has any.
        plots: Plots of levels against each other; only EchoMind has any.
        run_columns: Headings of the run table.
    """

    subject: str
    tables: tuple[BoardTable, ...]
    runs: tuple[BoardRun, ...]
    maps: tuple[HeatMap, ...]
    plots: tuple[LevelPlot, ...]
    notes: tuple[str, ...]
    run_columns: tuple[str, ...] = RUN_COLUMNS


PUBLISHED_NOTE = (
    "Rows marked as published are the paper's (Zhou et al., ICLR 2026): means over all of EchoMind, without "
    "intervals. The runs' rows are comparable with them only if data, judges and judge versions are equal."
)
_NOTES = (
    PUBLISHED_NOTE,
    "The runs' values are means over scored turns (unanswered questions count as wrong) with 95 % intervals, "
    "resampled by script. There is no interval for fewer than 8 scripts or for equal values.",
    "The runs' best row is bold if all have the same cases and judges and none has a value for a larger "
    "share of its turns. live-eval compare tests whether it differs from the next best.",
)
_HUMAN_NOTE = (
    "The published rows are measured on EchoMind's synthesised recordings; runs on EchoMind-Human are not "
    "comparable with them."
)
_SHORT_NOTE = (
    "n of N: the mean is over n of N turns; the others failed or have no score, so it may be biased upwards."
)
_LATENCY_NOTE = (
    "Latencies cover all tasks and start at the measured end of the user's speech, as in live-eval show. "
    "To compare endpoints under equal load, use live-eval latency."
)
_NONE_PUBLISHED = "The paper publishes no latencies."
_LATENCIES = (("voice_to_voice", "p50"), ("voice_to_voice", "p95"), ("first_byte", "p50"))
"""The latency and percentile in each column."""
_TABLES = (
    ("Understanding and reasoning", LeaderboardTable.UNDERSTANDING),
    ("Response: audio", LeaderboardTable.RESPONSE_SOUND),
    ("Response: text", LeaderboardTable.RESPONSE_WORDS),
)


def build_board(paths: Sequence[Path], *, all_prompts: bool = False) -> Board:
    """Build a board for runs.

    Args:
        all_prompts: Whether every prompt has a row, instead of only the best prompt of each model.

    Raises:
        UsageError: A run is repeated.
        StoreError: A folder contains no run.
    """
    entries = read_entries(paths)
    human = any("human" in entry.run.source for entry in entries)
    latencies = latency_table(entries)
    latencies = replace(latencies, notes=(*latencies.notes, _NONE_PUBLISHED))
    return Board(
        subject="EchoMind",
        tables=(*_paper_tables(entries, all_prompts=all_prompts), latencies),
        runs=tuple(entry.run for entry in entries),
        maps=tuple(_maps(entries)),
        plots=level_plots(entries),
        notes=(*_NOTES, *([_HUMAN_NOTE] if human else []), *notes_on_runs(entries)),
    )


def _paper_tables(entries: Sequence[Entry], *, all_prompts: bool) -> list[BoardTable]:
    """Return the paper's tables with rows for the runs; for `all_prompts`, see `build_board`."""
    everything = Chosen(tuple(entries), ())
    columns = leaderboard_columns()
    return [
        _table(
            title,
            tuple(column for column in columns if column.table is table),
            everything if all_prompts else choose_prompts_of(table, entries),
        )
        for title, table in _TABLES
    ]


def tables_with_runs(read: Sequence[tuple[Path, RunSummary, Mapping[str, Any]]]) -> list[BoardTable]:
    """Return those of the paper's tables for which runs have values, with a row for every run.

    Args:
        read: See `entries_of`.
    """
    tables = _paper_tables(entries_of(read), all_prompts=True)
    return [table for table in tables if any(not row.published for row in table.rows)]


def _table(title: str, columns: tuple[BoardColumn, ...], chosen: Chosen) -> BoardTable:
    prompted = any(column.task is _CONVERSATION for column in columns)
    entries, sources = chosen.entries, sources_of(chosen.entries, prompted=prompted)
    found = {column: [_cell(entry, column, entry.turns(column)) for entry in entries] for column in columns}
    judged = _name_judges((column, _judges_of(cells)) for column, cells in found.items())
    best = {column: _best(column, entries, cells) for column, cells in found.items()}
    shown = [
        [
            replace(_marked(cell, judged), best=row in best[column].rows)
            for row, cell in enumerate(found[column])
        ]
        for column in columns
    ]
    by_entry = [tuple(cells[row] for cells in shown) for row in range(len(entries))]
    ours = [
        BoardRow(source, cells)
        for source, cells in zip(sources, by_entry, strict=True)
        if any(cell.value is not None for cell in cells)
    ]
    published = [
        BoardRow(Source(name), tuple(BoardCell(figures.get(column.title)) for column in columns))
        for name, figures in PUBLISHED.items()
        if any(column.title in figures for column in columns)
    ]
    without = [
        f"{entry.label} ({entry.run.folder})"
        for entry, cells in zip(entries, by_entry, strict=True)
        if all(cell.value is None for cell in cells)
    ]
    notes = [
        " ".join(column.note for column in columns if column.note),
        judged.note,
        *chosen.notes,
        *_without_best(best),
        _SHORT_NOTE if any(cell.n_of_turns for row in ours for cell in row.cells) else "",
        f"omitted, without values in this table: {', '.join(without)}" if without else "",
    ]
    return BoardTable(title, columns, (*ours, *published), tuple(filter(None, notes)))


def notes_on_runs(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Return which scores cannot be read, and the different licences of the runs' data, as sentences."""
    unread = {entry.run.folder: entry.summary.table.unread for entry in entries}
    damaged = [f"{folder}: {reason}." for folder, reason in unread.items() if reason]
    licences = dict.fromkeys(entry.summary.facts.licence for entry in entries)
    return (*damaged, *(f"{licence}." for licence in licences if licence))


def latency_table(entries: Sequence[Entry]) -> BoardTable:
    """Return the latency table, with a row for every run."""
    rows = []
    for source, entry in zip(sources_of(entries, prompted=True), entries, strict=True):
        summaries = [(entry.summary.latencies[name].measured, p) for name, p in _LATENCIES]
        cells = [BoardCell(found[p].value, found[p], entry.run.total, digits=0) for found, p in summaries]
        rows.append(BoardRow(source, tuple(cells)))
    meanings = defined_terms()
    titles = [f"{LATENCY_TITLES[name]} {percentile}" for name, percentile in _LATENCIES]
    columns = [
        TableColumn(
            title=title,
            heading=title,
            unit="ms",
            higher_is_better=False,
            definition=meanings[LATENCY_TITLES[name]],
        )
        for title, (name, _) in zip(titles, _LATENCIES, strict=True)
    ]
    return BoardTable("Latency, ms", tuple(columns), tuple(rows), (_LATENCY_NOTE,))


def _cell(entry: Entry, column: BoardColumn, turns: Sequence[Observation]) -> BoardCell:
    """Return the cell with a run's value over the given turns."""
    estimate = entry.mean(column, turns)
    judge = entry.judge(column) if estimate.value is not None else None
    return BoardCell(estimate.value, estimate, len(turns), judge)


def _judges_of(cells: Iterable[BoardCell]) -> list[JudgeFacts]:
    return [cell.judge for cell in cells if cell.judge is not None]


def _marked(cell: BoardCell, judged: _JudgeLabels) -> BoardCell:
    return cell if cell.judge is None else replace(cell, mark=judged.letters.get(cell.judge, ""))


def _best(column: BoardColumn, entries: Sequence[Entry], cells: Sequence[BoardCell]) -> Best:
    """Find the best row of the runs, excluding rows whose prompt states the cue."""
    rivals = [
        Rival(row, cell.value, cell.share, (entry.data, entry.cases(column.task)), cell.judge)
        for row, (entry, cell) in enumerate(zip(entries, cells, strict=True))
        if cell.value is not None and not (entry.states_cue and column.task is _CONVERSATION)
    ]
    return find_best(rivals, higher_is_better=column.higher_is_better)


@dataclass(frozen=True, slots=True)
class Rival:
    """A candidate for the best row of a column; `heard` identifies its data and cases."""

    row: int
    value: float
    share: float
    heard: tuple[str, frozenset[str]]
    judge: JudgeFacts | None


@dataclass(frozen=True, slots=True)
class Best:
    """The best rows of a column: several if their values are equal up to rounding.

    Args:
        rows: Positions of the best rows, if any.
        reason: Reason why no row is the best; empty if there is one.
    """

    rows: frozenset[int]
    reason: str = ""


def find_best(rivals: Sequence[Rival], *, higher_is_better: bool) -> Best:
    """Find the best candidates, if all are comparable."""
    if len(rivals) < 2:
        return Best(frozenset())
    if len({rival.heard for rival in rivals}) > 1:
        return Best(frozenset(), "the runs have different data or cases; live-eval compare shows differences")
    if len({rival.judge for rival in rivals}) > 1:
        return Best(frozenset(), "the runs were scored by different judges, judge models or judge versions")
    top = (max if higher_is_better else min)(rival.value for rival in rivals)
    most = max(rival.share for rival in rivals)
    ahead = [rival for rival in rivals if math.isclose(rival.value, top, rel_tol=1e-9)]
    best = frozenset(rival.row for rival in ahead if rival.share == most)
    return Best(best, "" if best else "the leading row covers a smaller share of its turns than another")


def _without_best(best: Mapping[BoardColumn, Best]) -> Iterator[str]:
    """Yield a note on each column without a best row."""
    for reason in dict.fromkeys(found.reason for found in best.values() if found.reason):
        titles = ", ".join(column.heading for column, found in best.items() if found.reason == reason)
        yield f"no row is bold in {titles}: {reason}"


def _maps(entries: Sequence[Entry]) -> list[HeatMap]:
    mapped = [column for column in leaderboard_columns() if column.heat_map and column.scale is not None]
    mapped.sort(key=lambda column: (not column.task.asks, not column.rated))
    found = [_map(column, entries) for column in mapped]
    return [each for each in found if each is not None]


def _map(column: BoardColumn, entries: Sequence[Entry]) -> HeatMap | None:
    """Return a heat map of a column, or None if no run has a value."""

    def row_of(turn: Observation) -> str | None:
        if column.task.asks:
            return turn.question_kind
        return turn.cue.name if turn.cue is not None else None

    turns: dict[Entry, dict[str, list[Observation]]] = {entry: defaultdict(list) for entry in entries}
    for entry, of_row in turns.items():
        for turn in entry.turns(column):
            if name := row_of(turn):
                of_row[name].append(turn)
    names = sorted({name for of_row in turns.values() for name in of_row})
    by_run = {
        entry: [_cell(entry, column, of_row.get(name, ())) for name in names]
        for entry, of_row in turns.items()
    }
    runs = [entry for entry, cells in by_run.items() if any(cell.value is not None for cell in cells)]
    if not runs:
        return None
    cells = [by_run[entry] for entry in runs]
    judged = _name_judges([(column, [judge for of_run in cells for judge in _judges_of(of_run)])])
    rows = {
        name: tuple(_marked(cell, judged) for cell in row)
        for name, row in zip(names, zip(*cells, strict=True), strict=True)
        if any(cell.value is not None for cell in row)
    }
    short = any(cell.n_of_turns for row in rows.values() for cell in row)
    about = f"Accuracy by type: {column.heading}" if column.task.asks else f"{column.heading} by attribute"
    return HeatMap(
        f"{about}, {column.unit}" if column.unit == "%" else about,
        column,
        tuple(sources_of(runs, prompted=column.task is _CONVERSATION)),
        tuple(rows),
        tuple(rows.values()),
        (judged.note, _SHORT_NOTE) if short else (judged.note,),
    )


@dataclass(frozen=True, slots=True)
class _JudgeLabels:
    """The judges of a table."""

    letters: Mapping[JudgeFacts, str]
    note: str


def _name_judges(columns: Iterable[tuple[BoardColumn, Iterable[JudgeFacts]]]) -> _JudgeLabels:
    """Return a note on the judges of each heading, and a letter for each judge.

    Judges have letters if a column has several judges, or if a model judged the published values.
    """
    titles: dict[tuple[tuple[JudgeFacts, ...], str], list[str]] = {}
    for column, judges in columns:
        if different := tuple(dict.fromkeys(judges)):
            titles.setdefault((different, JUDGES.get(column.title, "")), []).append(column.heading)
    apart = dict.fromkeys(judge for judges, paper in titles for judge in judges if paper or len(judges) > 1)
    letters = {judge: _letter(place) for place, judge in enumerate(apart)}
    parts = []
    for (judges, paper), of in titles.items():
        names = [
            f"{letters[judge]}) {judge.in_words}" if judge in letters else judge.in_words for judge in judges
        ]
        published = f" (published: by {paper})" if paper else ""
        parts.append(f"{', '.join(of)}: {', '.join(names)}{published}")
    return _JudgeLabels(letters, f"Judges. {'; '.join(parts)}" if parts else "")


def _letter(place: int) -> str:
    """Return the letters for a position: a, b, …, z, aa, bb, …"""
    turn, letter = divmod(place, len(ascii_lowercase))
    return ascii_lowercase[letter] * (turn + 1)
