"""The turns of a run as rows: read once, then filtered, sorted and paged in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from live_eval.analysis.summary import (
    LATENCIES,
    ScoreColumn,
    ScoreTable,
    judges_asked_for,
    latency,
    read_scores,
)
from live_eval.errors import UsageError
from live_eval.recording import RUN_FILE, SCORES_FILE, RunReader, ScoreReader, TurnHead
from live_eval.text.wording import natural_order

__all__ = [
    "BY_NAME",
    "CHOICES",
    "RECORDED",
    "Stamp",
    "TurnIndex",
    "TurnQuery",
    "read_index",
    "score_columns",
    "stamp_of",
]

Stamp: TypeAlias = tuple[tuple[int, int], ...]
"""Time and size of a run's databases: what was read of a run holds until it changes."""

RECORDED = "recorded"
"""The order in which the turns were recorded."""
BY_NAME = "turn"
"""The order of their names; numbers in them count as numbers."""

_KEPT_RUNS = 8
CHOICES = ("status", "task", "variant", "cue", "speech")
"""What turns can be chosen by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuery:
    """Which turns to list.

    Args:
        text: Words that the turn's id, texts, cue or failure contain, in any case; empty for all turns.
        choices: The value of each of `CHOICES` that matters.
        flagged: Only turns with this value of ``flagged``; None for all.
        sort: `RECORDED`, `BY_NAME`, a latency or a score.
        descending: Whether the greatest comes first. Turns without the figure are last in either direction.
        offset: Turns to skip.
        limit: Most turns to return.
    """

    text: str = ""
    choices: Mapping[str, str]
    flagged: bool | None = None
    sort: str = RECORDED
    descending: bool = False
    offset: int = 0
    limit: int = 100


@dataclass(frozen=True, slots=True)
class TurnIndex:
    """The turns of a run.

    Args:
        rows: The turns as JSON values, in the order in which they were recorded.
        words: What a search looks through in each, in lower case.
        table: The scores.
    """

    rows: tuple[dict[str, Any], ...]
    words: tuple[str, ...]
    table: ScoreTable

    def select(self, query: TurnQuery) -> dict[str, Any]:
        """Return the page of turns that a query asks for, and what can be asked for.

        Raises:
            UsageError: The query names no figure of the run.
        """
        wanted = query.text.lower().split()
        found = [
            row
            for row, words in zip(self.rows, self.words, strict=True)
            if all(word in words for word in wanted)
            and all(row[name] == value for name, value in query.choices.items())
            and query.flagged in (None, row["flagged"])
        ]
        found = self._sorted(found, query)
        return {
            "total": len(self.rows),
            "matching": len(found),
            "offset": query.offset,
            "limit": query.limit,
            "rows": found[query.offset : query.offset + query.limit],
            "scores": score_columns(self.table.columns),
            "choices": {name: _values(row[name] for row in self.rows) for name in CHOICES},
        }

    def _sorted(self, rows: list[dict[str, Any]], query: TurnQuery) -> list[dict[str, Any]]:
        if query.sort == RECORDED:
            return rows[::-1] if query.descending else rows
        if query.sort == BY_NAME:
            return sorted(rows, key=lambda row: natural_order(row["turn_id"]), reverse=query.descending)
        scores = [column.name for column in self.table.columns]
        if query.sort not in (*LATENCIES, *scores):
            names = ", ".join((RECORDED, BY_NAME, *LATENCIES, *scores))
            raise UsageError(f"sort: expected one of {names}, found {query.sort[:40]!r}")
        part = "latency_ms" if query.sort in LATENCIES else "scores"
        with_figure = [row for row in rows if row[part][query.sort] is not None]
        without = [row for row in rows if row[part][query.sort] is None]
        with_figure.sort(key=lambda row: row[part][query.sort], reverse=query.descending)
        return with_figure + without


def stamp_of(folder: Path) -> Stamp:
    """Return when the databases of a run last changed."""
    stamp = []
    for name in (RUN_FILE, SCORES_FILE):
        for suffix in ("", "-wal"):
            try:
                found = (folder / f"{name}{suffix}").stat()
                stamp.append((found.st_mtime_ns, found.st_size))
            except OSError:
                stamp.append((0, 0))
    return tuple(stamp)


def read_index(folder: Path) -> TurnIndex:
    """Return the turns of a run; read them again only if the run has changed.

    Raises:
        StoreError: The folder holds no run, or it cannot be read.
    """
    return _read(folder, stamp_of(folder))


@lru_cache(maxsize=_KEPT_RUNS)
def _read(folder: Path, _stamp: Stamp) -> TurnIndex:
    with RunReader.open(folder) as run, ScoreReader.open(folder) as scores:
        table = read_scores(scores, judges_asked_for(run.manifest))
        heads = run.heads()
    return TurnIndex(
        rows=tuple(_row(head, table) for head in heads),
        words=tuple(map(_words, heads)),
        table=table,
    )


def score_columns(columns: Iterable[ScoreColumn]) -> list[dict[str, Any]]:
    """Return the columns of scores as JSON values."""
    return [
        {
            "name": column.name,
            "title": column.title,
            "unit": column.unit,
            "judge": column.judge,
            "version": column.version,
            "higher_is_better": column.higher_is_better,
        }
        for column in columns
    ]


def _row(head: TurnHead, table: ScoreTable) -> dict[str, Any]:
    case, timing, failure = head.case, head.timing, head.failure
    captured = failure is None
    times = {name: latency(timing, name).ns if captured else None for name in LATENCIES}
    return {
        "turn_id": head.turn_id,
        "status": "captured" if captured else "failed",
        "failure": None if failure is None else {"kind": failure.kind.value, "message": failure.message},
        "warnings": [warning.kind.value for warning in head.warnings],
        "task": case.task.value,
        "variant": case.variant.value,
        "cue": case.cue.name if case.cue is not None else None,
        "speech": case.speech.value,
        "topic": case.topic,
        "text": case.text,
        "heard_text": head.heard_text,
        "reply_text": head.reply_text,
        "dialogue_id": case.dialogue_id,
        "turn_index": None if case.dialogue_id is None else case.turn_index,
        "repeat": head.repeat,
        "attempt": head.attempt,
        "wall_ms": head.wall_ns // 1_000_000,
        "flagged": timing.flagged,
        "uncertain": timing.uncertain,
        "latency_ms": {name: None if ns is None else round(ns / 1e6, 3) for name, ns in times.items()},
        "scores": {
            column.name: table.cell(head.turn_id, case.task, column).value if captured else None
            for column in table.columns
        },
        "seconds": round(head.both_sides_s, 3),
    }


def _words(head: TurnHead) -> str:
    case = head.case
    cue = "" if case.cue is None else f"{case.cue.name} {case.cue.phrase}"
    failure = "" if head.failure is None else f"{head.failure.kind.value} {head.failure.message}"
    parts = (head.turn_id, case.text, head.heard_text, head.reply_text, case.topic, cue, failure)
    return " ".join(part for part in parts if part).lower()


def _values(values: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value is not None))
