"""Keep the turns of a run as rows in memory; filter, sort and page them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from live_eval.analysis.summary.latencies import LATENCIES, is_certain_only
from live_eval.analysis.summary.main_scores import main_columns
from live_eval.analysis.summary.observations import Observation, read_observations
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.analysis.summary.score_table import ScoreColumn, ScoreTable, run_scores
from live_eval.analysis.summary.vocal_sounds import TITLES_OF_A_TURN, VOCAL_SOUND_TITLES
from live_eval.analysis.turn_view import TurnView
from live_eval.errors import StoreError, UsageError
from live_eval.export.rows import csv_rows
from live_eval.recording import (
    RUN_FILE,
    SCORES_FILE,
    Review,
    RunReader,
    TurnRecord,
    read_reviews,
)
from live_eval.studio.turn_filter import FilterError, FilterField, FilterFields, parse_filter
from live_eval.studio.turn_rows import ListedTurn, TurnRows
from live_eval.text.mappings import flattened
from live_eval.text.wording import natural_order

__all__ = [
    "BY_NAME",
    "CHOICES",
    "RECORDED",
    "RowQuery",
    "RunIndex",
    "Stamp",
    "counted_value",
    "forget_summary",
    "missing_last",
    "read_index",
    "read_page",
    "read_summary",
    "stamp_of",
]

_R = TypeVar("_R")

Stamp: TypeAlias = tuple[tuple[int, int], ...]
"""Modification times and sizes of a run's databases; cached values are valid until they change."""

RECORDED = "recorded"
"""The sort key for recording order."""
BY_NAME = "turn"
"""The sort key for names, with numbers in names sorted by value."""

_KEPT_RUNS = 8
_MOST_AT_ONCE = 1_000
_READING = threading.Lock()  # prevents two requests from reading the same run twice
_INDEXES: dict[Path, tuple[Stamp, RunIndex]] = {}
_LAST: dict[tuple[Path, Stamp], RunSummary] = {}
CHOICES = ("status", "task", "variant", "cue", "speech")
"""The fields of a turn that can be filtered by value."""


_FIELDS: FilterFields = {
    "turn": FilterField("text", itemgetter("turn_id")),
    **{name: FilterField("text", itemgetter(name)) for name in CHOICES},
    "topic": FilterField("text", itemgetter("topic")),
    "text": FilterField("text", itemgetter("text")),
    "heard": FilterField("text", itemgetter("heard_text")),
    "reply": FilterField("text", itemgetter("reply_text")),
    "dialogue": FilterField("text", itemgetter("dialogue_id")),
    "failure": FilterField("text", lambda row: row["failure"] and row["failure"]["kind"]),
    "warning": FilterField("texts", itemgetter("warnings")),
    "flagged": FilterField("truth", itemgetter("flagged")),
    "uncertain": FilterField("truth", itemgetter("uncertain")),
    "repeat": FilterField("number", itemgetter("repeat")),
    "attempt": FilterField("number", itemgetter("attempt")),
    "seconds": FilterField("number", itemgetter("seconds")),
}
"""The names allowed in expressions besides latencies and scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """A query for one page of the turn list.

    Args:
        text: Words to find in a turn's ID, texts, cue or failure, ignoring case; empty for all turns.
        where: Expression (see `live_eval.studio.turn_filter`); empty for all turns.
        choices: Requested values by name (see `CHOICES`).
        flagged: Requested value of ``flagged``; None for both.
        sort: `RECORDED`, `BY_NAME`, a latency or a score.
        descending: Whether to sort in descending order. Turns without a value are last in either order.
    """

    text: str = ""
    where: str = ""
    choices: Mapping[str, str]
    flagged: bool | None = None
    sort: str = RECORDED
    descending: bool = False
    offset: int = 0
    limit: int = 100

    @property
    def selects_all(self) -> bool:
        """Whether the query selects all turns, in recording order."""
        conditions = self.text.strip() or self.where.strip() or self.choices or self.flagged is not None
        return self.sort == RECORDED and not self.descending and not conditions


@dataclass(frozen=True, slots=True)
class RunIndex:
    """The turns of a run.

    Args:
        rows: Turns as JSON values, in recording order.
        words: Searchable text of each turn, in lower case.
        main: Names of the main scores of the run's tasks.
        reviews: The reviewers' labels and notes, by turn ID.
        problem: Reason why the reviews cannot be read, or None.
    """

    rows: TurnRows
    words: tuple[str, ...]
    columns: tuple[ScoreColumn, ...]
    main: tuple[str, ...] = ()
    reviews: Mapping[str, Review] = field(default_factory=dict)
    problem: str | None = None

    def select(self, query: RowQuery) -> dict[str, Any]:
        """Return the page of turns that a query selects, with the run's scores and choices.

        If the expression is invalid, as while a user is typing, the page is empty and ``invalid`` is the
        reason.

        Raises:
            UsageError: The sort key is unknown.
        """
        found, invalid = [], None
        try:
            found = self.matching(query)
        except FilterError as error:
            invalid = str(error)
        page = found[query.offset : query.offset + query.limit]
        counts = {"total": len(self.rows), "matching": len(found)}
        return {**counts, **self.page(page, query), "invalid": invalid}

    def page(self, rows: Iterable[ListedTurn], query: RowQuery) -> dict[str, Any]:
        """Return a page of turns with the run's scores and choices."""
        return {
            "offset": query.offset,
            "limit": query.limit,
            "rows": [{**row, **self.review_of(row["turn_id"])} for row in rows],
            "titles": dict(TITLES_OF_A_TURN),
            "certain_only": list(filter(is_certain_only, self.latencies)),
            "scores": [column.as_json() for column in self.columns],
            "main": self.main,
            "choices": {name: _values(self.rows.columns.get(name, ())) for name in CHOICES},
            "names": self.names,
            "problem": self.problem,
        }

    def csv(self, query: RowQuery) -> str:
        """Return all rows that match a query as CSV, with all latencies and scores.

        As in the output of ``export``, latencies from an uncertain end of speech are included; the column
        ``uncertain`` tells them apart.

        Raises:
            UsageError: The sort key is unknown, or the expression is invalid.
        """
        rows = [{**row, **self.review_of(row["turn_id"])} for row in self.matching(query)]
        for row in rows:
            row["failure"] = row["failure"] or {"kind": None, "message": None}
        names = [name for name, _ in flattened(rows[0])] if rows else ["turn_id"]
        return "".join(csv_rows(names, rows))

    def review_of(self, turn_id: str) -> dict[str, Any]:
        """Return the labels and the note of a turn as JSON values."""
        review = self.reviews.get(turn_id)
        return {"labels": review.labels if review else [], "note": review.note if review else ""}

    def around(self, turn_id: str, query: RowQuery) -> dict[str, Any]:
        """Return the IDs of a turn's neighbours in the query's order, and the turn's position from 1.

        The values are None if the turn does not match; the first and the last turn have one neighbour.

        Raises:
            UsageError: See `csv`.
        """
        found = [row["turn_id"] for row in self.matching(query)]
        if turn_id not in found:
            return {"before": None, "after": None, "place": None, "matching": len(found)}
        place = found.index(turn_id)
        return {
            "before": found[place - 1] if place else None,
            "after": found[place + 1] if place + 1 < len(found) else None,
            "place": place + 1,
            "matching": len(found),
        }

    def matching(self, query: RowQuery) -> list[ListedTurn]:
        """Return all rows that match a query, in the query's order.

        Conditions and orders use the values that statistics count (see `counted_value`). Latencies that they
        exclude follow the others, in the same order.

        Raises:
            UsageError: See `csv`.
        """
        wanted = query.text.lower().split()
        test = parse_filter(query.where, self._fields) if query.where.strip() else None
        found = [
            row
            for row, words in zip(self.rows, self.words, strict=True)
            if all(word in words for word in wanted)
            and all(row[name] == value for name, value in query.choices.items())
            and query.flagged in (None, row["flagged"])
            and (test is None or test(row))
        ]
        return self._sorted(found, query)

    @property
    def latencies(self) -> tuple[str, ...]:
        """The latencies of the rows; those of vocal sounds are included only if a turn has them."""
        return tuple(self.rows.numbers["latency_ms"]) or LATENCIES

    @property
    def names(self) -> list[str]:
        """The names allowed in an expression."""
        return list(self._fields)

    @property
    def _fields(self) -> FilterFields:
        scores = (column.name for column in self.columns)
        return {
            **{name: FilterField("number", _counted("latency_ms", name)) for name in self.latencies},
            **{name: FilterField("number", _counted("scores", name)) for name in scores},
            **_FIELDS,
            "label": FilterField("texts", lambda row: self.review_of(row["turn_id"])["labels"]),
            "note": FilterField("text", lambda row: self.review_of(row["turn_id"])["note"]),
        }

    def _sorted(self, rows: list[ListedTurn], query: RowQuery) -> list[ListedTurn]:
        if query.sort == RECORDED:
            return rows[::-1] if query.descending else rows
        if query.sort == BY_NAME:
            return sorted(rows, key=lambda row: natural_order(row["turn_id"]), reverse=query.descending)
        scores = [column.name for column in self.columns]
        if query.sort not in (*self.latencies, *scores):
            names = ", ".join((RECORDED, BY_NAME, *self.latencies, *scores))
            raise UsageError(f"sort: expected one of {names}, got {query.sort[:40]!r}")
        part = "latency_ms" if query.sort in self.latencies else "scores"
        for value in (lambda row: row.number(part, query.sort), _counted(part, query.sort)):  # stable sorts
            rows = missing_last(rows, value, descending=query.descending)
        return rows


def counted_value(row: ListedTurn, part: str, name: str) -> float | None:
    """Return a latency (in ``latency_ms``) or a score (in ``scores``) of a turn as statistics count it.

    A latency from an uncertain end of speech is missing, as in the summaries.
    """
    excluded = part == "latency_ms" and row["uncertain"] and is_certain_only(name)
    return None if excluded else row.number(part, name)


def missing_last(rows: Iterable[_R], value: Callable[[_R], Any], *, descending: bool) -> list[_R]:
    """Sort rows by a value; rows without a value are last in either order."""
    valued = [(value(row), row) for row in rows]
    known = [each for each in valued if each[0] is not None]
    known.sort(key=itemgetter(0), reverse=descending)
    return [row for _, row in known] + [row for found, row in valued if found is None]


def stamp_of(folder: Path) -> Stamp:
    """Return the modification times and sizes of a run's databases."""
    stamp = []
    for name in (RUN_FILE, SCORES_FILE):
        for suffix in ("", "-wal"):
            try:
                found = (folder / f"{name}{suffix}").stat()
                stamp.append((found.st_mtime_ns, found.st_size))
            except OSError:
                stamp.append((0, 0))
    return tuple(stamp)


def read_page(folder: Path, query: RowQuery, *, most_at_once: int = _MOST_AT_ONCE) -> dict[str, Any]:
    """Return the page of turns that a query selects (see `RunIndex.select`).

    If no condition or order requires the values of all turns, a page of a run with more than `most_at_once`
    turns is read alone, with one turn of each kind, which determine the choices and the columns.

    Raises:
        UsageError: The sort key is unknown.
        StoreError: The folder contains no run, or the run cannot be read.
    """
    if not query.selects_all or _known(folder, stamp_of(folder)) is not None:
        return read_index(folder).select(query)
    with RunReader.open(folder) as run:
        total = len(run)
        if total <= most_at_once:
            return read_index(folder).select(query)
        page = run.turn_ids(skip=query.offset, most=query.limit)
        turn_ids = list(dict.fromkeys([*run.first_of_each_kind(), *page]))
        table = run_scores(run, turn_ids=turn_ids)
        turns = list(run.turns_of(turn_ids, finds_data=False))
    listed = _Listed(folder)
    for turn in turns:
        listed.add(turn, table)
    index = _with_reviews(folder, listed.index(table, read_observations(turns)))
    rows = map(dict(zip(turn_ids, index.rows, strict=True)).__getitem__, page)
    return {"total": total, "matching": total, **index.page(rows, query), "invalid": None}


def read_index(folder: Path) -> RunIndex:
    """Return the turns and reviews of a run; turns are cached until the run changes.

    Raises:
        StoreError: The folder contains no run, or the run cannot be read.
    """
    stamp = stamp_of(folder)
    with _READING:
        index = _known(folder, stamp) or _read(folder, stamp)
    return _with_reviews(folder, index)


def read_summary(folder: Path) -> RunSummary:
    """Return the summary of a run, from the cache if it was the last run read.

    Raises:
        StoreError: The folder contains no run, or the run cannot be read.
    """
    stamp = stamp_of(folder)
    with _READING:
        if (folder, stamp) not in _LAST:
            _read(folder, stamp)
        return _LAST[folder, stamp]


def forget_summary() -> None:
    """Forget the cached summary, to free memory."""
    _LAST.clear()


def _known(folder: Path, stamp: Stamp) -> RunIndex | None:
    """Return the cached index of a run, unless the run has changed."""
    known, index = _INDEXES.get(folder, (None, None))
    return index if known == stamp else None


def _read(folder: Path, stamp: Stamp) -> RunIndex:
    """Read a run, and cache its index and its summary.

    The summary of one run only is cached, because a summary contains all scores.
    """
    listed = _Listed(folder)
    with RunReader.open(folder) as run:
        summary = summarise(run, seen=listed.add)
    _LAST.clear()
    _LAST[folder, stamp] = summary
    index = listed.index(summary.table, summary.turns)
    _INDEXES.pop(folder, None)
    _INDEXES[folder] = stamp, index
    if len(_INDEXES) > _KEPT_RUNS:
        del _INDEXES[next(iter(_INDEXES))]
    return index


def _with_reviews(folder: Path, index: RunIndex) -> RunIndex:
    try:
        return replace(index, reviews=read_reviews(folder))
    except StoreError as error:  # the turns can be displayed without reviews
        return replace(index, problem=str(error))


class _Listed:
    """Turns of a run that are added to an index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = TurnRows()
        self._words: list[str] = []

    def add(self, turn: TurnRecord, table: ScoreTable) -> None:
        self._rows.append(_row(TurnView(turn, table, self._folder)))
        self._words.append(_words(turn))

    def index(self, table: ScoreTable, turns: Sequence[Observation]) -> RunIndex:
        rows = self._rows
        rows.drop_empty("latency_ms", VOCAL_SOUND_TITLES)
        captured = np.array([turn.captured for turn in turns], bool)
        for column in table.columns:  # all turns at once; failed turns have no scores
            values = table.scored_values.of(rows.columns.get("turn_id", ()), column)
            rows.fill("scores", column.name, np.where(captured, values, np.nan))
        main = tuple(column.name for column in main_columns(table, turns))
        return RunIndex(rows=rows, words=tuple(self._words), columns=table.columns, main=main)


def _row(view: TurnView) -> dict[str, Any]:
    turn = view.record
    case, timing, failure = turn.case, turn.timing, turn.failure
    return {
        "turn_id": turn.turn_id,
        "script_id": case.script_id,
        "status": view.status,
        "failure": None if failure is None else {"kind": failure.kind.value, "message": failure.message},
        "warnings": view.warnings,
        "task": case.task.value,
        "variant": case.variant.value,
        "cue": case.cue.name if case.cue is not None else None,
        "speech": case.speech.value,
        "topic": case.topic,
        "text": case.text,
        "heard_text": turn.heard_text,
        "reply_text": turn.reply_text,
        "dialogue_id": case.dialogue_id,
        "turn_index": view.dialogue_index,
        "repeat": turn.repeat,
        "attempt": turn.attempt,
        "wall_ms": turn.wall_ns // 1_000_000,
        "flagged": timing.flagged,
        "uncertain": timing.uncertain,
        "latency_ms": view.counted_ms,
        "scores": {},
        "seconds": round(view.seconds, 3),
    }


def _counted(part: str, name: str) -> Callable[[Any], float | None]:
    return lambda row: counted_value(row, part, name)


def _words(turn: TurnRecord) -> str:
    case = turn.case
    cue = "" if case.cue is None else f"{case.cue.name} {case.cue.phrase}"
    failure = "" if turn.failure is None else f"{turn.failure.kind.value} {turn.failure.message}"
    parts = (turn.turn_id, case.text, turn.heard_text, turn.reply_text, case.topic, cue, failure)
    return " ".join(part for part in parts if part).lower()


def _values(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value is not None))
