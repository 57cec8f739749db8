"""Write a run atomically, one turn at a time. An operating-system lock limits it to a single writer."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.audio import write_flac
from live_eval.audio.peaks import peaks
from live_eval.clock import SystemClock
from live_eval.errors import FailureKind, StoreError
from live_eval.files import private_folder, private_opener
from live_eval.recording import _encoding as encoding
from live_eval.recording._database import (
    SIDE_FILES,
    create_database,
    has_tables,
    open_database,
    open_for_reading,
    settle,
    sync_folder,
    transaction,
    upgrade,
)
from live_eval.recording._files import lost_audio, own_folder
from live_eval.recording._lock import WriterLock, is_held
from live_eval.recording.contents import check_new, orphans
from live_eval.recording.file_names import file_stem
from live_eval.recording.record import TurnRecord
from live_eval.recording.schema import (
    AUDIO_FOLDER,
    KEPT_AUDIO,
    REPLACED,
    RUN_FILE,
    RUN_SCHEMA_VERSION,
    RUN_TABLES,
    RUN_VERSIONS_READ,
    USER_FOLDER,
    WIRE_FOLDER,
)
from live_eval.recording.scores import SCORES_LOCK_FILE, ScoreReader, forget_scores
from live_eval.redaction import SECRETS
from live_eval.session.capture import LoggedMessage

__all__ = ["RUN_LOCK_FILE", "RunWriter", "is_being_written"]

_log = logging.getLogger(__name__)
RUN_LOCK_FILE = ".run.lock"
_BEGUN = (RUN_LOCK_FILE, AUDIO_FOLDER, WIRE_FOLDER, *(f"{RUN_FILE}{suffix}" for suffix in SIDE_FILES))
"""Names that an interrupted `create` may leave in the folder."""


def is_being_written(folder: Path) -> bool:
    """Return whether a process is writing the run in a folder, according to its lock file."""
    return is_held(folder / RUN_LOCK_FILE)


class _AudioFiles(NamedTuple):
    """A turn's file names in the audio folder; a name is None without audio."""

    both: str | None
    responses: Sequence[str | None]


class RunWriter:
    """The only writer of a run folder: a context manager, created by `create` or `resume`.

    Call its methods from one thread, outside the event loop, because they block. A run that is closed without
    `end` counts as killed and can be resumed.
    """

    def __init__(
        self, path: Path, db: sqlite3.Connection, lock: WriterLock, scores_lock: WriterLock | None = None
    ) -> None:
        self.path = path
        """The run folder."""
        self._audio = path / AUDIO_FOLDER
        self._db = db
        self._lock = lock
        self._scores_lock = scores_lock
        self._open = True
        with self._reading():
            row = db.execute("SELECT manifest FROM run").fetchone()
            self.manifest: Mapping[str, Any] = encoding.mapping(row["manifest"])
            """The run's manifest."""

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> RunWriter:
        """Create a run in a new folder to which only the owner has access.

        Args:
            path: The run folder, new or empty; created if missing.
            manifest: Versions, run file, endpoint settings, seed and machine, as JSON values without secrets.

        Returns:
            The writer; call `end` when the run is complete.

        Raises:
            StoreError: The folder is not empty or cannot be written, or the manifest contains a secret.
            StoreLockedError: Another process is creating a run in the folder.
        """
        manifest = SECRETS.values(manifest)
        secret = SECRETS.exposed_in(manifest)
        if secret is not None:
            raise StoreError(f"the manifest appears to contain a secret at {secret!r}")
        _make_folder(path)
        with ExitStack() as on_failure:
            lock = WriterLock(path / RUN_LOCK_FILE)
            on_failure.callback(lock.release)
            if has_tables(path / RUN_FILE):
                raise StoreError(
                    f"{path} already contains a run; continue it with --resume, or choose another --out"
                )
            check_new(path, "a run", _BEGUN)
            _make_folder(path / AUDIO_FOLDER)
            begin = "INSERT INTO run (id, manifest, base, state, started_wall_ns) VALUES (1, ?, ?, ?, ?)"
            wall_ns = SystemClock().wall_ns()
            values = (encoding.dump_json(manifest), _relative_path(Path.cwd(), path), "running", wall_ns)
            db = create_database(path / RUN_FILE, RUN_TABLES, RUN_SCHEMA_VERSION, (begin, values))
            writer = cls(path, db, lock)
            on_failure.pop_all()
        return writer

    @classmethod
    def resume(cls, path: Path, *, ended: bool = False) -> RunWriter:
        """Resume a run that was interrupted or killed.

        Audio of uncommitted turns is removed. The run cannot be scored until it is closed, because turns may
        be replaced.

        Args:
            ended: Whether to accept a run that has ended.

        Raises:
            StoreError: The folder contains no run, or the run has ended.
            StoreLockedError: Another process is writing the run or its scores.
            SchemaVersionError: A different version of live-eval created or scored the run.
        """
        if not has_tables(path / RUN_FILE):
            raise StoreError(f"{path}: expected a run to resume, found no {RUN_FILE}")
        with ExitStack() as on_failure:
            lock = WriterLock(path / RUN_LOCK_FILE)
            on_failure.callback(lock.release)
            scores_lock = WriterLock(path / SCORES_LOCK_FILE)
            on_failure.callback(scores_lock.release)
            ScoreReader.open(path).close()  # reject an unusable file before any session runs
            # Use a read-only connection, because opening a database for writing changes its journal mode.
            reading = encoding.decoding(f"{path / RUN_FILE}")
            with reading, closing(open_for_reading(path / RUN_FILE, *RUN_VERSIONS_READ)) as db:
                if not ended and db.execute("SELECT state FROM run").fetchone()["state"] == "finished":
                    raise StoreError(f"{path}: the run has ended and cannot be changed; start a new run")
            db = open_database(path / RUN_FILE, *RUN_VERSIONS_READ)
            on_failure.callback(db.close)
            with encoding.decoding(f"{path / RUN_FILE}"):
                upgrade(db)
            writer = cls(path, db, lock, scores_lock)
            with writer._reading():
                db.execute("UPDATE run SET state = 'running', ended_wall_ns = NULL")
            writer._remove_orphans()
            on_failure.pop_all()
        return writer

    def done(self) -> dict[str, bool]:
        """Return, for each recorded turn, whether it was captured (true) or failed."""
        with self._reading():
            rows = self._db.execute("SELECT turn_id, failure FROM turns").fetchall()
        return {row["turn_id"]: row["failure"] is None for row in rows}

    def attempts(self) -> dict[str, int]:
        """Return the number of each turn's last attempt."""
        with self._reading():
            rows = self._db.execute(
                "SELECT turn_id, max(attempt) AS attempt FROM"
                " (SELECT turn_id, attempt FROM turns UNION ALL SELECT turn_id, attempt FROM failures)"
                " GROUP BY turn_id"
            ).fetchall()
        return {row["turn_id"]: row["attempt"] for row in rows}

    def to_repeat(self) -> list[str]:
        """Return the captured turns with missing audio."""
        with self._reading():
            rows = self._db.execute(KEPT_AUDIO).fetchall()
        lost = lost_audio(self.path, self._audio, rows)
        return [turn_id for turn_id, captured in self.done().items() if captured and turn_id in lost]

    def commit(self, record: TurnRecord) -> None:
        """Write a turn atomically, keeping any earlier attempt and its audio as replaced.

        The scores of the earlier attempt are deleted first, so that they never count for the new one.

        Raises:
            StoreError: The turn cannot be written (full disk, missing folder); no part of it is stored.
            StoreLockedError: Another process is writing scores of the run.
        """
        with self._reading():
            before = self._db.execute(
                "SELECT id, generation FROM turns WHERE turn_id = ?", (record.turn_id,)
            ).fetchone()
            generation = 1 if before is None else before["generation"] + 1
        try:
            files = self._write_audio(record, file_stem(record.turn_id, generation))
            if before is not None:
                self._scores_lock = self._scores_lock or WriterLock(self.path / SCORES_LOCK_FILE)
                forget_scores(self.path, record.turn_id)
            with transaction(self._db):
                if before is not None:
                    self._move_to_replaced(before["id"])
                    self._db.execute("UPDATE failures SET retried = 1 WHERE turn_id = ?", (record.turn_id,))
                self._insert(record, files, generation)
                if record.failure is not None:
                    self._insert_failure(record, retried=False)
        except (sqlite3.Error, OSError, UnicodeError, soundfile.LibsndfileError) as error:
            why = encoding.in_one_line(error)
            raise StoreError(f"cannot store turn {record.turn_id!r} in {self.path}: {why}") from error
        self._describe_line(record)

    def _describe_line(self, record: TurnRecord) -> None:
        """Add audio formats that the endpoint chose to the manifest, unless its ``line`` is known."""
        chosen = (each.message for each in record.warnings if each.kind is FailureKind.AUDIO_FORMAT)
        line, endpoint = next(chosen, ""), self.manifest.get("endpoint") or {}
        if line and not endpoint.get("line"):
            self._extend_manifest("endpoint", {**endpoint, "line": line})

    def release_scores(self) -> None:
        """Allow other processes to score the run again after `commit` has replaced a turn."""
        if self._scores_lock is not None:
            self._scores_lock.release()
            self._scores_lock = None

    def attempt_failed(self, record: TurnRecord) -> None:
        """Write only the failure of an attempt that will be retried, not its turn.

        Raises:
            StoreError: The failure cannot be written, or the record has no failure.
        """
        if record.failure is None:
            raise StoreError(f"turn {record.turn_id!r}: expected a failed attempt, got one without a failure")
        try:
            self._insert_failure(record, retried=True)
        except (sqlite3.Error, UnicodeError) as error:
            raise StoreError(
                f"cannot store a failure of turn {record.turn_id!r} in {self.path}: {error}"
            ) from error

    def describe_machine(self, facts: Mapping[str, Any]) -> None:
        """Add facts, as JSON values without secrets, to the manifest's ``machine``.

        Raises:
            StoreError: The manifest cannot be written.
        """
        self._extend_manifest("machine", {**self.manifest.get("machine", {}), **facts})

    def describe_data(self, facts: Mapping[str, Any]) -> None:
        """Replace facts in the manifest's ``data``, for a data set recorded during the run.

        Raises:
            StoreError: The manifest cannot be written.
        """
        self._extend_manifest("data", {**self.manifest.get("data", {}), **facts})

    def add_outage(self, facts: Mapping[str, Any]) -> None:
        """Add an outage of the endpoint to the manifest's ``outages``.

        Args:
            facts: ``since_wall_ns``, ``seconds``, ``over`` (False if the run stopped), ``open_loop`` (whether
                sessions began on a schedule) and ``reason``.

        Raises:
            StoreError: The manifest cannot be written.
        """
        self._extend_manifest("outages", [*self.manifest.get("outages", ()), SECRETS.values(facts)])

    def _extend_manifest(self, part: str, value: Any) -> None:
        self.manifest = {**self.manifest, part: value}
        try:
            with transaction(self._db):
                self._db.execute("UPDATE run SET manifest = ?", (encoding.dump_json(self.manifest),))
        except sqlite3.Error as error:
            raise StoreError(f"cannot write the manifest's {part} in {self.path}: {error}") from error

    def end(self, *, finished: bool = True) -> None:
        """End the run, and merge the database into a single file that accepts no more writes.

        Args:
            finished: False if the run was interrupted and can be resumed.
        """
        with self._reading():
            self._db.execute(
                "UPDATE run SET state = ?, ended_wall_ns = ?",
                ("finished" if finished else "interrupted", SystemClock().wall_ns()),
            )
        self._remove_orphans()
        self._open = False
        try:
            if not settle(self._db):
                _log.warning(
                    "%s: a reader is using the database, so its write-ahead log was not merged", self.path
                )
        finally:
            self._release()

    def close(self) -> None:
        """Close the database without ending the run; no-op after `end`."""
        if self._open:
            self._open = False
            self._db.close()
            self._release()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> None:
        if self._scores_lock is not None:
            self._scores_lock.release()
        self._lock.release()

    def _write_audio(self, record: TurnRecord, stem: str) -> _AudioFiles:
        both: str | None = None
        if record.both_sides is not None and record.both_rate_hz is not None and len(record.both_sides):
            both = f"{stem}.both.flac"
            self._write_file(both, record.both_sides, record.both_rate_hz)
        responses: list[str | None] = []
        for index, (pcm, response) in enumerate(zip(record.audio, record.responses, strict=True)):
            headline = index == record.timing.headline
            if not len(pcm) or response.rate_hz is None:
                responses.append(None)
                continue
            name = f"{stem}.reply.flac" if headline else f"{stem}.response-{index + 1}.flac"
            self._write_file(name, pcm, response.rate_hz)
            responses.append(name)
        if both is not None or any(responses):
            sync_folder(self._audio)
        return _AudioFiles(both, responses)

    def _write_file(self, name: str, pcm: NDArray[np.int16], rate_hz: int) -> None:
        path = self._audio / name
        write_flac(path, pcm, rate_hz)
        # sync the file before writing its row, since a power failure could otherwise lose only the file
        with open(path, "rb+", opener=private_opener) as file:
            os.fsync(file.fileno())

    def _insert(self, record: TurnRecord, files: _AudioFiles, generation: int) -> None:
        both = record.both_sides if files.both is not None else None
        turn = self._put(
            "turns",
            {
                "turn_id": record.turn_id,
                "generation": generation,
                "case": encoding.case_json(record.case),
                **encoding.columns(record, (*encoding.TURN_FIELDS, "reply_text", "timing", "timing_version")),
                "trace": encoding.rest_json(record.trace),
                **encoding.columns(record.trace, encoding.TRACE_FIELDS),
                "both_file": files.both,
                "envelope": peaks(both, record.both_rate_hz).tobytes()
                if both is not None and record.both_rate_hz is not None
                else None,
            },
        )
        for index, (response, file) in enumerate(zip(record.responses, files.responses, strict=True)):
            self._put(
                "responses",
                {
                    "turn": turn,
                    "position": index,
                    "headline": int(index == record.timing.headline),
                    "marks": encoding.rest_json(response),
                    **encoding.columns(response, encoding.RESPONSE_FIELDS),
                    "audio_file": file,
                },
            )
        self._insert_events(turn, record.log)

    def _insert_events(self, turn: int, log: Sequence[LoggedMessage]) -> None:
        bodies = SECRETS.series([message.body for message in log])
        self._db.executemany(
            "INSERT INTO events (turn, position, at_ns, direction, body) VALUES (?, ?, ?, ?, ?)",
            (
                (turn, index, message.at_ns, message.direction, encoding.body_json(body))
                for index, (message, body) in enumerate(zip(log, bodies, strict=True))
            ),
        )

    def _insert_failure(self, record: TurnRecord, *, retried: bool) -> None:
        self._put(
            "failures",
            {
                "turn_id": record.turn_id,
                "retried": int(retried),
                **encoding.columns(record, ("attempt", "wall_ns", "failure")),
            },
        )

    def _put(self, table: str, row: Mapping[str, object]) -> int:
        names = ", ".join(f'"{name}"' for name in row)
        marks = ", ".join("?" * len(row))
        values = tuple(encoding.without_secrets(name, value) for name, value in row.items())
        cursor = self._db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)
        return int(cursor.lastrowid or 0)

    def _move_to_replaced(self, turn: int) -> None:
        columns = self._columns("turns", without="id")
        moved = self._db.execute(
            f"INSERT INTO {REPLACED}turns ({columns}) SELECT {columns} FROM turns WHERE id = ?", (turn,)
        ).lastrowid
        for table in ("responses", "events"):
            columns = self._columns(table, without="turn")
            self._db.execute(
                f"INSERT INTO {REPLACED}{table} (turn, {columns})"
                f" SELECT ?, {columns} FROM {table} WHERE turn = ?",
                (moved, turn),
            )
        self._db.execute("DELETE FROM turns WHERE id = ?", (turn,))

    def _columns(self, table: str, *, without: str) -> str:
        names = [name for name, *_ in self._db.execute(f"SELECT * FROM {table} LIMIT 0").description]
        return ", ".join(f'"{name}"' for name in names if name != without)

    def _reading(self) -> AbstractContextManager[None]:
        return encoding.decoding(f"{self.path / RUN_FILE}")

    def _remove_orphans(self) -> None:
        """Remove the audio of uncommitted turns."""
        try:
            own_folder(self.path, private_folder(self._audio))
            for name in (WIRE_FOLDER, USER_FOLDER):
                if os.path.lexists(self.path / name):
                    own_folder(self.path, self.path / name)
            with self._reading():
                unused = orphans(self._db, self.path, AUDIO_FOLDER)
            for path in unused:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot write {self._audio}: {error.strerror}") from None


def _make_folder(path: Path) -> None:
    try:
        private_folder(path)
    except OSError as error:
        raise StoreError(f"cannot use {path} as a run folder: {error.strerror}") from None


def _relative_path(folder: Path, origin: Path) -> str:
    try:
        return os.path.relpath(folder, origin)
    except ValueError:  # on Windows, the path may be on another drive
        return str(folder)
