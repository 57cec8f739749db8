"""Read a run, even while it is being written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from live_eval.audio import Audio, int16_to_float
from live_eval.errors import StoreError
from live_eval.recording import _encoding as encoding
from live_eval.recording._database import open_for_reading
from live_eval.recording._files import lost_audio, own_file, own_name, read_sound, why_lost
from live_eval.recording.record import TurnRecord, with_heard
from live_eval.recording.schema import AUDIO_FOLDER, KEPT_AUDIO, REPLACED, RUN_FILE, RUN_VERSIONS_READ
from live_eval.session.capture import LoggedMessage
from live_eval.timing import TIMING_VERSION, measure
from live_eval.types import Failure, Task

__all__ = ["FailedAttempt", "RunReader", "part_of", "text_of"]

_STATE: TypeAdapter[Literal["running", "interrupted", "finished"]] = TypeAdapter(
    Literal["running", "interrupted", "finished"]
)
_BATCH = 64
_KIND = """json_extract("case", '$.task'), json_extract("case", '$.variant'),
coalesce(nullif(json_extract("case", '$.cue.attribute'), ''), json_extract("case", '$.cue.phrase')),
json_extract("case", '$.speech'), failure IS NULL"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """A failed attempt at a turn.

    Args:
        attempt: Number of the attempt, from 1.
        wall_ns: Start of dialling, nanoseconds since the Unix epoch.
    """

    turn_id: str
    attempt: int
    retried: bool
    wall_ns: int
    failure: Failure


class RunReader:
    """Read a run folder. A context manager, created by `open`.

    >>> with RunReader.open(Path("recordings/demo")) as run:  # doctest: +SKIP
    ...     print(run.ended, len(run))
    """

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        """The run folder."""
        self._audio = path / AUDIO_FOLDER
        self._file_name = str(path / RUN_FILE)
        self._db = db
        self._lost: dict[str, str] | None = None
        with encoding.decoding(f"{self._file_name}: the row of the run"):
            row = self._fetch("SELECT * FROM run")[0]
            self.manifest: Mapping[str, Any] = encoding.mapping(row["manifest"])
            """Versions, run file, endpoint settings, seed and machine."""
            self._origin = path / row["base"]
            self.state = _STATE.validate_python(row["state"])
            """State of the run when it was opened; a killed run remains ``running``."""
            self.started_at = _iso(row["started_wall_ns"])
            """Start of the run, ISO 8601 in UTC."""
            self.ended_at = None if row["ended_wall_ns"] is None else _iso(row["ended_wall_ns"])
            """End or interruption of the run, ISO 8601 in UTC, or None."""

    @classmethod
    def open(cls, path: Path) -> RunReader:
        """Open the run in folder `path`.

        Raises:
            StoreError: The folder contains no run.
            SchemaVersionError: A different version of live-eval wrote the run.
        """
        db = open_for_reading(path / RUN_FILE, *RUN_VERSIONS_READ)
        try:
            return cls(path, db)
        except BaseException:
            db.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether the run has ended and no longer changes."""
        return self.state == "finished"

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    def __enter__(self) -> RunReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        # count(*) is a single step, which the step limit could not interrupt
        return int(self._fetch("SELECT count(id) FROM turns")[0][0])

    @property
    def failed_turns(self) -> int:
        """The number of failed turns."""
        return int(self._fetch("SELECT count(*) FROM turns WHERE failure IS NOT NULL")[0][0])

    @property
    def models(self) -> tuple[str, ...]:
        """The models reported by the endpoint, most frequent first."""
        rows = self._fetch(
            "SELECT model FROM turns WHERE model <> '' GROUP BY model ORDER BY count(*) DESC, min(id)"
        )
        return tuple(model for (model,) in rows if isinstance(model, str))

    def __contains__(self, turn_id: object) -> bool:
        return bool(self._fetch("SELECT 1 FROM turns WHERE turn_id = ?", str(turn_id)))

    def turns(
        self, *, retime: bool = False, latest: int = -1, skip: int = 0, finds_data: bool = True
    ) -> Iterator[TurnRecord]:
        """Yield the turns in commit order.

        Args:
            retime: Whether to recompute the latencies from the audio with the current definitions.
            latest: Number of most recent turns to yield; all if negative.
            skip: Number of turns to omit at the start.
            finds_data: Whether to resolve the cases' paths to the data, which requires a lookup of every
                file.
        """
        ids = self._fetch(
            "SELECT turn_id FROM (SELECT id, turn_id FROM turns ORDER BY id LIMIT -1 OFFSET ?) "
            "ORDER BY id DESC LIMIT ?",
            skip,
            latest,
        )
        yield from self.turns_of(
            [turn_id for (turn_id,) in reversed(ids)], retime=retime, finds_data=finds_data
        )

    def turn_ids(self, *, skip: int, most: int) -> list[str]:
        """Return the IDs of up to `most` turns after the first `skip`, in commit order."""
        rows = self._fetch("SELECT turn_id FROM turns ORDER BY id LIMIT ? OFFSET ?", most, skip)
        return [turn_id for (turn_id,) in rows]

    def first_of_each_kind(self) -> list[str]:
        """Return the first captured and failed turn of each task, variant, cue and kind of speech, by ID."""
        first = f"SELECT min(id) FROM turns GROUP BY {_KIND}"
        rows = self._fetch(f"SELECT turn_id FROM turns WHERE id IN ({first}) ORDER BY id")
        return [turn_id for (turn_id,) in rows]

    def turns_of(
        self, turn_ids: Sequence[str], *, retime: bool = False, finds_data: bool = True
    ) -> Iterator[TurnRecord]:
        """Yield the turns with these IDs, in this order; faster than calling `turn` for each.

        For `retime` and `finds_data`, see `turns`.

        Raises:
            StoreError: A turn is missing or damaged.
        """
        # read in batches, because a long query would block the writer
        for at in range(0, len(turn_ids), _BATCH):
            rows = {row["turn_id"]: row for row in self._in("turns", "turn_id", turn_ids[at : at + _BATCH])}
            responses: dict[int, list[sqlite3.Row]] = {row["id"]: [] for row in rows.values()}
            for response in self._in("responses", "turn", list(responses)):
                responses[response["turn"]].append(response)
            for turn_id in turn_ids[at : at + _BATCH]:
                with self._decoding(turn_id):
                    row = rows.get(turn_id) or self._row(turn_id)
                    found = responses.get(row["id"], [])
                    turn = self._decode(row, found, retime=retime, finds_data=finds_data)
                yield turn

    def turn(self, turn_id: str, *, retime: bool = False) -> TurnRecord:
        """Return one turn.

        Raises:
            StoreError: The turn is missing or damaged.
        """
        with self._decoding(turn_id):
            row = self._row(turn_id)
            return self._decode(row, self._in("responses", "turn", [row["id"]]), retime=retime)

    def earlier_texts(self, turn: TurnRecord) -> Iterator[tuple[str, str]]:
        """Yield the user's words and the reply of each earlier turn of a dialogue; empty if missing."""
        yield from turn.case.history
        ids = self._fetch(
            """SELECT turn_id FROM turns WHERE json_extract("case", '$.dialogue_id') = ? AND repeat = ?
            AND json_extract("case", '$.turn_index') < ? ORDER BY json_extract("case", '$.turn_index')""",
            turn.case.dialogue_id or "",
            turn.repeat,
            turn.case.turn_index,
        )
        for found in self.turns_of([turn_id for (turn_id,) in ids], finds_data=False):
            yield found.case.text or "", found.reply_text or ""

    def replaced(self, turn_id: str) -> list[TurnRecord]:
        """Return the replaced attempts at a turn, oldest first.

        Their audio is available unless the turn was rerun because its audio was lost.
        """
        if not self._fetch("SELECT 1 FROM sqlite_master WHERE name = ?", f"{REPLACED}turns"):
            return []  # earlier versions did not store replaced attempts
        with self._decoding(turn_id):
            rows = self._fetch(f"SELECT * FROM {REPLACED}turns WHERE turn_id = ? ORDER BY id", turn_id)
            return [
                self._decode(row, self._in(f"{REPLACED}responses", "turn", [row["id"]]), retime=False)
                for row in rows
            ]

    def _decode(
        self, row: sqlite3.Row, rows: Sequence[sqlite3.Row], *, retime: bool, finds_data: bool = True
    ) -> TurnRecord:
        responses = [
            encoding.response_from(response, self._file(response["audio_file"])) for response in rows
        ]
        trace = encoding.trace_from(row, responses)
        if retime:
            audio = [self._pcm(response.audio_file) for response in responses]
            trace = with_heard(trace, audio)
            timing = measure(trace, audio)
        else:
            timing = encoding.decode(encoding.TIMING, row["timing"])
        if timing.headline is not None and not 0 <= timing.headline < len(rows):
            raise ValueError(f"expected a headline among {len(rows)} responses, got {timing.headline}")
        return TurnRecord(
            turn_id=row["turn_id"],
            case=encoding.case_from(row["case"], self._origin if finds_data else None),
            **encoding.fields_in(row, encoding.TURN_FIELDS),
            trace=trace,
            timing=timing,
            timing_version=TIMING_VERSION if retime else row["timing_version"],
            both_file=self._file(row["both_file"]),
            envelope=None
            if row["envelope"] is None
            else np.frombuffer(row["envelope"], np.uint8).reshape(-1, 2),
        )

    def log(self, turn_id: str) -> list[LoggedMessage]:
        """Return a turn's messages with timestamps, in order."""
        with self._decoding(turn_id):
            rows = self._fetch(
                """SELECT at_ns, direction, body FROM events
                   WHERE turn = (SELECT id FROM turns WHERE turn_id = ?) ORDER BY position""",
                turn_id,
            )
            return [
                LoggedMessage(row["at_ns"], row["direction"], encoding.loads(row["body"])) for row in rows
            ]

    def tasks_by_reply_length(self) -> dict[str, Task]:
        """Return each turn's task, sorted by length of reply audio."""
        rows = self._fetch(
            """SELECT turn_id, json_extract("case", '$.task') AS task, chunk_samples AS samples, rate_hz
               FROM turns LEFT JOIN responses ON turn = turns.id AND headline AND audio_file IS NOT NULL
               ORDER BY turns.id"""
        )
        seconds: dict[str, float] = {}
        tasks: dict[str, Task] = {}
        for row in rows:
            with self._decoding(row["turn_id"]):
                samples = int(encoding.from_blob(row["samples"]).sum()) if row["samples"] else 0
                seconds.setdefault(row["turn_id"], samples / (row["rate_hz"] or 1))
                tasks.setdefault(row["turn_id"], Task(row["task"] or Task.CONVERSATION))
        return {turn_id: tasks[turn_id] for turn_id in sorted(seconds, key=seconds.__getitem__)}

    def reply(self, turn: str | TurnRecord) -> Audio | None:
        """Return the headline response's audio as it arrived; None without audio."""
        if isinstance(turn, str):
            turn = self.turn(turn)
        if turn.reply_file is None or turn.reply_rate_hz is None:
            return None
        return Audio(int16_to_float(self._pcm(turn.reply_file)), turn.reply_rate_hz)

    def audio(self, turn: TurnRecord) -> list[NDArray[np.int16]]:
        """Return the audio of each response in a turn as it arrived, int16 mono, shape (samples,)."""
        return [self._pcm(response.audio_file) for response in turn.responses]

    def both_sides(self, turn_id: str) -> tuple[NDArray[np.int16], int] | None:
        """Return both sides' audio on the session's time axis, or None without audio.

        Returns:
            The audio (int16, shape (samples, 2); left: user, right: endpoint as heard; sample 0 at
            ``trace.t0_ns``) and the sample rate.
        """
        path = self.both_file(turn_id)
        with self._decoding(turn_id):
            return None if path is None else (self._pcm(path), int(self._row(turn_id)["both_rate_hz"]))

    def both_file(self, turn_id: str) -> Path | None:
        """Return the file with the audio of both sides of a turn, or None."""
        with self._decoding(turn_id):
            return self._file(self._row(turn_id)["both_file"])

    def both_files(self) -> Mapping[str, Path]:
        """Return the files with the audio of both sides by turn ID, without turns that have no audio."""
        rows = self._fetch("SELECT turn_id, both_file FROM turns WHERE both_file IS NOT NULL ORDER BY id")
        files: dict[str, Path] = {}
        for turn_id, name in rows:
            with self._decoding(turn_id):
                files[turn_id] = self._audio / own_name(name)
        return files

    def lost_audio(self) -> Mapping[str, str]:
        """Return the turns with missing audio, with reasons."""
        if self._lost is None:
            self._lost = lost_audio(self.path, self._audio, self._fetch(KEPT_AUDIO))
        return self._lost

    def lost_audio_of(self, turn: TurnRecord) -> str:
        """Return why a turn's audio is missing; an empty string if it is not."""
        files = [turn.both_file, *(response.audio_file for response in turn.responses)]
        whys = (why_lost(self.path, file) for file in files if file is not None)
        return next(filter(None, whys), "")

    def failures(self) -> list[FailedAttempt]:
        """Return all failed attempts in order, including retried ones."""
        failures = []
        for row in self._fetch("SELECT * FROM failures ORDER BY id"):
            with encoding.decoding(f"{self.path}: failure {row['id']}"):
                if row["failure"] is None:
                    raise ValueError("no reason")
                found = encoding.fields_in(row, ("turn_id", "attempt", "wall_ns", "failure"))
                failures.append(FailedAttempt(**found, retried=bool(row["retried"])))
        return failures

    def _decoding(self, turn_id: str) -> AbstractContextManager[None]:
        return encoding.decoding(f"{self.path}: turn {turn_id!r}")

    def _row(self, turn_id: str) -> sqlite3.Row:
        rows = self._fetch("SELECT * FROM turns WHERE turn_id = ?", turn_id)
        if not rows:
            raise StoreError(f"{self.path} has no turn {turn_id!r}")
        return rows[0]

    def _fetch(self, query: str, *values: str | int) -> list[sqlite3.Row]:
        with encoding.decoding(self._file_name):
            return self._db.execute(query, values).fetchall()

    def _in(self, table: str, column: str, values: Sequence[str | int]) -> list[sqlite3.Row]:
        """Return the rows whose column has one of these values, in order of ID or position."""
        order = "position" if table.endswith("responses") else "id"
        places = ",".join("?" * len(values))
        return self._fetch(f"SELECT * FROM {table} WHERE {column} IN ({places}) ORDER BY {order}", *values)

    def _file(self, name: str | None) -> Path | None:
        return None if name is None else self._audio / own_name(name)

    def _pcm(self, path: Path | None) -> NDArray[np.int16]:
        if path is None:
            return np.empty(0, np.int16)
        return np.asarray(read_sound(own_file(self.path, path), "int16")[0], np.int16)


def _iso(wall_ns: int) -> str:
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).isoformat()


def part_of(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping stored under a name, or an empty mapping.

    >>> part_of({"prompt": {"name": "no"}}, "prompt"), part_of({"prompt": None}, "prompt")
    ({'name': 'no'}, {})
    """
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}


def text_of(value: Mapping[str, Any], name: str) -> str | None:
    """Return the text stored under a name; None if missing or not text.

    >>> text_of({"model": "gpt-realtime"}, "model"), text_of({"model": 5}, "model")
    ('gpt-realtime', None)
    """
    text = value.get(name)
    return text if isinstance(text, str) else None
