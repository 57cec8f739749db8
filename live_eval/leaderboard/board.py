"""What stands on the board: for each table the published rows and ours, with intervals, and heat maps.

A figure of ours is a mean over the turns of its task that were scored, with a 95 % interval resampled by
script; a question that was not answered is wrong. Of several runs of one model with different prompts, the
paper shows the best: so does the board, by C4 for words and by VES for sound, and says which it took and of
how many. Where the judge of that choice gave nothing, every prompt has a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from live_eval.leaderboard.columns import (
    C4,
    RESPONSE_SOUND,
    RESPONSE_WORDS,
    UNDERSTANDING,
    VES,
    BoardColumn,
)
from live_eval.leaderboard.entries import Chosen, Entry, Source, choose_prompts, read_entries, sources_of
from live_eval.leaderboard.plots import LevelPlot, level_plots
from live_eval.leaderboard.published import PUBLISHED
from live_eval.statistics import Estimate
from live_eval.summary import ACCURACY, TurnFacts
from live_eval.types import Task

__all__ = ["Board", "BoardCell", "BoardRow", "BoardTable", "HeatMap", "build_board"]

_CONVERSATION = Task.CONVERSATION


@dataclass(frozen=True, slots=True)
class BoardCell:
    """A figure with what it rests on; `estimate` is None for a published one.

    Args:
        value: The figure, or None where there is none.
        estimate: Mean, interval and counts.
        turns: Turns of the task, scored or not.
        best: Whether no other of ours is better.
    """

    value: float | None
    estimate: Estimate | None = None
    turns: int = 0
    best: bool = False


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A model.

    Args:
        source: Where its figures come from.
        cells: A cell for each column.
    """

    source: Source
    cells: tuple[BoardCell, ...]

    @property
    def published(self) -> bool:
        """Whether the paper says it."""
        return self.source.folder is None


@dataclass(frozen=True, slots=True)
class BoardTable:
    """One of the paper's tables.

    Args:
        title: What it is about.
        columns: Its figures.
        rows: Ours first, then the published ones.
        notes: What to know to read it.
    """

    title: str
    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A figure by attribute or by type of question, for each run.

    Args:
        title: What it shows.
        low: Where the scale begins.
        high: Where it ends.
        columns: The runs.
        rows: Names of the rows.
        cells: For each row, an estimate for each run.
    """

    title: str
    low: float
    high: float
    columns: tuple[Source, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[Estimate, ...], ...]


@dataclass(frozen=True, slots=True)
class Board:
    """The whole."""

    tables: tuple[BoardTable, ...]
    maps: tuple[HeatMap, ...]
    plots: tuple[LevelPlot, ...]
    notes: tuple[str, ...]


_NOTES = (
    "Rows marked as published are the paper's (Zhou et al., ICLR 2026): means over all of EchoMind, without "
    "intervals. A row of ours compares with them only as far as its data, its judges and their versions do.",
    "Figures of ours are means over scored turns (a question that was not answered is wrong); intervals are "
    "95 %, resampled by script; without one a figure rests on fewer than 8 scripts. Bold is the best of our "
    "rows, which says nothing of whether it differs from the next: live-eval compare does.",
)
_AUDIO_NOTE = (
    "The paper's table does not say which of DNSMOS's numbers it shows; P.808 fits its values. It publishes "
    "no UTMOS."
)
_WER_NOTE = "WER after Whisper's English normaliser; the paper does not show its own."


def build_board(paths: Sequence[Path], *, all_prompts: bool = False) -> Board:
    """Return the board of some runs.

    Args:
        paths: Their folders.
        all_prompts: Whether every prompt has a row, instead of each model's best.

    Raises:
        UsageError: One is named twice.
        StoreError: One is no run.
    """
    entries = read_entries(paths)
    everything = Chosen(tuple(entries), ())
    by_ves, by_c4 = (everything if all_prompts else choose_prompts(entries, column) for column in (VES, C4))
    tables = [
        _table("Understanding and reasoning", UNDERSTANDING, everything, (_WER_NOTE,)),
        _table("Response: sound", RESPONSE_SOUND, by_ves, (_AUDIO_NOTE,)),
        _table("Response: words", RESPONSE_WORDS, by_c4, ()),
    ]
    return Board(tuple(tables), tuple(_maps(entries)), level_plots(entries), _NOTES)


def _table(
    title: str,
    columns: tuple[BoardColumn, ...],
    chosen: Chosen,
    notes: tuple[str, ...],
) -> BoardTable:
    shown, said = chosen.entries, list(chosen.said)
    prompted = any(column.task is _CONVERSATION for column in columns)
    estimates = [[entry.estimate(column) for column in columns] for entry in shown]
    # An upper bound does not vie with those that had to hear the cue.
    rivals = [not (entry.told and prompted) for entry in shown]
    best: list[float | None] = []
    unlike: list[str] = []
    for place, column in enumerate(columns):
        vying = [
            (entry, value)
            for entry, row, mine in zip(shown, estimates, rivals, strict=True)
            if mine and (value := row[place].value) is not None
        ]
        alike = len({(entry.data, entry.cases(column.task)) for entry, _ in vying}) < 2
        best.append(_best([value for _, value in vying], column) if alike else None)
        unlike += [] if alike else [column.title]
    if unlike:
        said.append(
            f"our rows are of different data or cases, so that none is the best in {', '.join(unlike)}; "
            "live-eval compare says in what they differ"
        )
    ours = [
        BoardRow(
            source,
            tuple(
                BoardCell(
                    estimate.value,
                    estimate,
                    sum(turn.task is column.task for turn in entry.summary.turns),
                    best=mine and estimate.value is not None and estimate.value == top,
                )
                for column, estimate, top in zip(columns, row, best, strict=True)
            ),
        )
        for source, entry, row, mine in zip(
            sources_of(shown, prompted=prompted), shown, estimates, rivals, strict=True
        )
        if any(estimate.value is not None for estimate in row)
    ]
    published = [
        BoardRow(Source(name), tuple(BoardCell(figures.get(column.key)) for column in columns))
        for name, figures in PUBLISHED.items()
        if any(column.key in figures for column in columns)
    ]
    without = [
        f"{entry.label} ({entry.folder})"
        for entry, row in zip(shown, estimates, strict=True)
        if not any(each.n for each in row)
    ]
    if without:
        said.append(f"without a figure here, and so without a row: {', '.join(without)}")
    return BoardTable(title, columns, (*ours, *published), (*notes, *said))


def _best(there: Sequence[float], column: BoardColumn) -> float | None:
    if len(there) < 2:
        return None
    return max(there) if column.higher_is_better else min(there)


def _maps(entries: Sequence[Entry]) -> list[HeatMap]:
    maps = []
    for title, score, task, low, high in (
        ("Accuracy by type: understanding, %", ACCURACY, Task.UNDERSTANDING, 0, 100),
        ("Accuracy by type: reasoning, %", ACCURACY, Task.REASONING, 0, 100),
        ("C4 by attribute", "rubric.c4", _CONVERSATION, 1, 5),
        ("VES by attribute", "ves", _CONVERSATION, 1, 5),
        ("EmoAlign by attribute, %", "emoalign.top1", _CONVERSATION, 0, 100),
    ):
        found = _map(title, score, task, entries)
        if found is not None:
            rows, cells = found
            columns = tuple(sources_of(entries, prompted=task is _CONVERSATION))
            maps.append(HeatMap(title, low, high, columns, rows, cells))
    return maps


def _map(
    title: str, score: str, task: Task, entries: Sequence[Entry]
) -> tuple[tuple[str, ...], tuple[tuple[Estimate, ...], ...]] | None:
    """Return the rows of a map, or None where no run has the score."""

    def row_of(turn: TurnFacts) -> str | None:
        if task.asks:
            return turn.question_kind
        return (turn.cue.attribute or turn.cue.phrase) if turn.cue is not None else None

    names = sorted(
        {
            name
            for entry in entries
            for turn in entry.summary.turns
            if turn.task is task and (name := row_of(turn))
        }
    )
    cells = [
        tuple(
            entry.mean(
                score, [turn for turn in entry.summary.turns if turn.task is task and row_of(turn) == name]
            )
            for entry in entries
        )
        for name in names
    ]
    kept = [(name, row) for name, row in zip(names, cells, strict=True) if any(each.n for each in row)]
    if not kept:
        return None
    return tuple(name for name, _ in kept), tuple(row for _, row in kept)
