"""Store a run's scores, keyed by judge and judge version. They can be recomputed without the endpoint."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self, TypeAlias, get_args

from pydantic import TypeAdapter

from live_eval.errors import StoreError
from live_eval.judging import Failed, Judgement, Scored, Unscored
from live_eval.recording import _encoding as encoding
from live_eval.recording._database import (
    create_database,
    has_tables,
    open_database,
    open_for_reading,
    settle,
    transaction,
)
from live_eval.recording._lock import WriterLock, is_held
from live_eval.recording.schema import SCORES_FILE, SCORES_SCHEMA_VERSION, SCORES_TABLES
from live_eval.redaction import SECRETS

__all__ = [
    "SCORES_LOCK_FILE",
    "JudgeProblem",
    "JudgedVersions",
    "PendingScores",
    "ScoreReader",
    "ScoreRow",
    "ScoreStatus",
    "ScoreStore",
    "StoredAudit",
    "forget_scores",
    "is_being_scored",
]

SCORES_LOCK_FILE = ".scores.lock"

_BATCH = 2_000
_FIRST = 100  # number of scores whose outputs are compared with a judge's known outputs
_COLUMNS = 'judge, version, turn_id, status, "values", reason, detail, id'

ScoreStatus: TypeAlias = Literal["scored", "unscored", "failed"]
_STATUS: TypeAdapter[ScoreStatus] = TypeAdapter(ScoreStatus)
_STATUSES: Mapping[str, ScoreStatus] = MappingProxyType({each: each for each in get_args(ScoreStatus)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """A judge's score for a turn.

    Args:
        status: ``scored``, ``unscored`` (an input of the judge is missing) or ``failed``.
        values: Values by output name; empty if the turn was not scored.
        reason: Reason why the score is missing; empty for a scored turn.
        detail: Evidence for the values.
    """

    judge: str
    version: str
    turn_id: str
    status: ScoreStatus
    values: Mapping[str, float]
    reason: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JudgeProblem:
    """The reason why a judge could not run."""

    judge: str
    version: str
    reason: str


class JudgedVersions(NamedTuple):
    """The versions of a run's judges.

    Args:
        versions: See `ScoreReader.versions`.
        unfinished: Judge versions that are later than those in `versions` but have judged fewer turns.
    """

    versions: dict[str, str]
    unfinished: list[JudgeProblem]


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """An audit of how reliable a judge version is on this run (see `live_eval.analysis.audit`)."""

    judge: str
    version: str
    wall_ns: int
    report: Mapping[str, Any]


class ScoreReader:
    """Read a run's scores, even while they are being written. A context manager.

    A missing file is treated as empty.
    """

    def __init__(self, path: Path, db: sqlite3.Connection | None) -> None:
        self.path = path
        """The run folder."""
        self._file = str(path / SCORES_FILE)
        self._db = db

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the scores in the run folder `path`.

        Raises:
            StoreError: The file is not a database.
            SchemaVersionError: A different version of live-eval wrote it.
        """
        if not has_tables(path / SCORES_FILE):
            return cls(path, None)
        return cls(path, open_for_reading(path / SCORES_FILE, SCORES_SCHEMA_VERSION))

    def close(self) -> None:
        """Close the database."""
        if self._db is not None:
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def done(self, judge: str, version: str) -> set[str]:
        """Return the turns that this judge version has judged, regardless of their status."""
        rows = self._rows("SELECT turn_id FROM scores WHERE judge = ? AND version = ?", (judge, version))
        return {row["turn_id"] for row in rows}

    def versions(self) -> dict[str, str]:
        """Return, for each judge, the version with the most judged turns; in a tie, the latest."""
        return self.judged().versions

    def judged(self) -> JudgedVersions:
        """Return the chosen versions, and the later ones that have judged fewer turns."""
        chosen = self._chosen()
        unfinished = [
            JudgeProblem(
                judge,
                version,
                f"version {version} has judged only {turns} of {most} turns; scores are from version {used}",
            )
            for judge, (used, later) in chosen.items()
            for version, turns, most in later
        ]
        return JudgedVersions({judge: used for judge, (used, _) in chosen.items()}, unfinished)

    def _chosen(self) -> dict[str, tuple[str, list[tuple[str, int, int]]]]:
        """Return each judge's chosen version and, for each later version, its turn count and the maximum."""
        rows = self._rows(
            """SELECT judge, version, count(*) AS turns
               FROM scores GROUP BY judge, version ORDER BY max(id)"""
        )
        by_judge: dict[str, list[tuple[str, int]]] = {}
        for row in rows:
            by_judge.setdefault(row["judge"], []).append((row["version"], row["turns"]))
        chosen = {}
        for judge, versions in by_judge.items():
            most = max(turns for _, turns in versions)
            at = max(index for index, (_, turns) in enumerate(versions) if turns == most)
            chosen[judge] = versions[at][0], [(version, turns, most) for version, turns in versions[at + 1 :]]
        return chosen

    def outputs(
        self, versions: Mapping[str, str], known: Mapping[str, Collection[str]] = MappingProxyType({})
    ) -> list[tuple[str, str]]:
        """Return the judges and outputs that have scores from these versions.

        Args:
            versions: Version by judge.
            known: All outputs of some of these judges, which saves parsing all scores: the first ones have
                most outputs, and a search finds the others.
        """
        found = []
        for judge, version in versions.items():
            names = self._outputs(judge, version, _FIRST)
            all_names = known.get(judge, ())
            if set(names) <= set(all_names):
                rare = [name for name in all_names if name not in names]
                names += [name for name in rare if self._has_output(judge, version, name)]
            else:
                names = self._outputs(judge, version, -1)
            found += [(judge, name) for name in names]
        return found

    def _has_output(self, judge: str, version: str, name: str) -> bool:
        query = """SELECT 1 FROM scores WHERE judge = ? AND version = ? AND instr("values", ?) LIMIT 1"""
        return bool(self._rows(query, (judge, version, f"{encoding.dump_json(name)}:")))

    def _outputs(self, judge: str, version: str, most: int) -> list[str]:
        """Return the outputs in at most this many scores of a judge (all if negative), by first score."""
        rows = self._rows(
            """SELECT CAST(json_each.key AS TEXT) AS output
               FROM (SELECT id AS score, "values" FROM scores WHERE judge = ? AND version = ? LIMIT ?),
               json_each("values") GROUP BY output ORDER BY min(score), min(json_each.id)""",
            (judge, version, most),
        )
        return [row["output"] for row in rows]

    def read(self, judges: Collection[str] | None = None) -> Iterator[ScoreRow]:
        """Yield all versions' scores, in the order in which they were written."""
        for row in self._score_rows():
            if judges is None or row["judge"] in judges:
                yield self._decoded(row)

    def of_turns(self, turn_ids: Collection[str], versions: Mapping[str, str]) -> Iterator[ScoreRow]:
        """Yield the scores of turns from these judge versions, in the order in which they were written."""
        places = ",".join("?" * len(turn_ids))
        query = f"SELECT {_COLUMNS} FROM scores WHERE judge = ? AND version = ? AND turn_id IN ({places})"
        rows = [row for each in versions.items() for row in self._rows(query, (*each, *turn_ids))]
        yield from map(self._decoded, sorted(rows, key=itemgetter("id")))

    def _decoded(self, row: sqlite3.Row) -> ScoreRow:
        try:
            return _score(row)
        except Exception:  # only now name the row in the message, because doing so for every row is slow
            with encoding.decoding(f"{self._file}: the score of {row['judge']} for turn {row['turn_id']!r}"):
                raise

    def _score_rows(self) -> Iterator[sqlite3.Row]:
        """Yield rows in batches, because all rows of a large run would take hundreds of megabytes."""
        query = f"SELECT {_COLUMNS} FROM scores WHERE id > ? ORDER BY id LIMIT {_BATCH}"
        last = -1
        while rows := self._rows(query, (last,)):
            yield from rows
            if rows[-1]["id"] <= last:
                raise StoreError(f"{self._file} is damaged: its scores are out of order")
            last = rows[-1]["id"]

    def problems(self) -> list[JudgeProblem]:
        """Return the judges whose last attempt could not run, with reasons."""
        rows = self._rows("SELECT judge, version, reason FROM problems ORDER BY judge")
        return [JudgeProblem(row["judge"], row["version"], row["reason"]) for row in rows]

    def audits(self) -> list[StoredAudit]:
        """Return each judge version's latest audit, oldest first."""
        rows = self._rows("SELECT * FROM audits ORDER BY wall_ns, judge, version")
        audits = []
        for row in rows:
            with encoding.decoding(f"{self._file}: the audit of {row['judge']}"):
                report = encoding.mapping(row["report"])
            audits.append(StoredAudit(row["judge"], row["version"], row["wall_ns"], report))
        return audits

    def answer(self, question: str) -> Mapping[str, Any] | None:
        """Return a model's cached answer to a question, or None.

        Args:
            question: Hash of the model's complete input.
        """
        rows = self._rows("SELECT answer FROM answers WHERE question = ?", (question,))
        with encoding.decoding(f"{self._file}: a cached answer"):
            return encoding.mapping(rows[0]["answer"]) if rows else None

    def _rows(self, query: str, values: tuple[str | int, ...] = ()) -> list[sqlite3.Row]:
        with encoding.decoding(self._file):
            return [] if self._db is None else self._db.execute(query, values).fetchall()


class ScoreStore(ScoreReader):
    """Read and write a run's scores as their only writer. A context manager, created by `open`.

    Methods that write raise `StoreError` on failure.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, lock: WriterLock) -> None:
        super().__init__(path, db)
        self._writes = db
        self._lock = lock
        self._open = True

    @classmethod
    def open(cls, path: Path) -> ScoreStore:
        """Open the scores in the run folder `path` for writing; create them if missing.

        Raises:
            StoreError: The folder is missing or cannot be written.
            StoreLockedError: Another process is writing scores of this run.
            SchemaVersionError: Another version of live-eval wrote the scores.
        """
        if not path.is_dir():
            raise StoreError(f"{path}: expected a run folder")
        with ExitStack() as on_failure:
            lock = WriterLock(path / SCORES_LOCK_FILE)
            on_failure.callback(lock.release)
            file = path / SCORES_FILE
            if has_tables(file):
                db = open_database(file, SCORES_SCHEMA_VERSION)
            else:
                db = create_database(file, SCORES_TABLES, SCORES_SCHEMA_VERSION)
            with encoding.decoding(f"{file}"):
                # recomputing scores after a power failure is cheaper than syncing after every score
                db.execute("PRAGMA synchronous = NORMAL")
            on_failure.pop_all()
        return cls(path, db, lock)

    def put(self, judge: str, version: str, turn_id: str, judgement: Judgement) -> None:
        """Write a turn's score, replacing any earlier one by the same judge version.

        A score with a non-finite or excessive value is stored as failed.
        """
        self.put_all(judge, version, {turn_id: judgement})

    def put_all(self, judge: str, version: str, judgements: Mapping[str, Judgement]) -> None:
        """Write several turns' scores, by turn ID, in one transaction."""
        try:
            with transaction(self._writes):
                for turn_id, judgement in judgements.items():
                    self._writes.execute(
                        "INSERT OR REPLACE INTO scores"
                        ' (judge, version, turn_id, status, "values", reason, detail)'
                        " VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (judge, version, turn_id, *_columns(judgement)),
                    )
                self._writes.execute("DELETE FROM problems WHERE judge = ?", (judge,))
        except (sqlite3.Error, UnicodeError) as error:
            raise StoreError(f"cannot store scores of {judge} in {self.path}: {error}") from error

    def cannot_run(self, judge: str, version: str, reason: str) -> None:
        """Write the reason why a judge could not run; it is deleted when the judge next writes scores."""
        self._write(
            "INSERT OR REPLACE INTO problems (judge, version, reason) VALUES (?, ?, ?)",
            (judge, version, SECRETS.text(reason)),
            f"the reason why {judge} could not run",
        )

    def keep_answer(self, question: str, answer: Mapping[str, Any]) -> None:
        """Write a model's answer to a question; see `answer`."""
        self._write(
            "INSERT OR REPLACE INTO answers (question, answer) VALUES (?, ?)",
            (question, encoding.dump_json(SECRETS.values(answer))),
            "an answer",
        )

    def put_audit(self, audit: StoredAudit) -> None:
        """Write an audit, replacing any earlier one of the same judge version."""
        self._write(
            "INSERT OR REPLACE INTO audits (judge, version, wall_ns, report) VALUES (?, ?, ?, ?)",
            (audit.judge, audit.version, audit.wall_ns, encoding.dump_json(SECRETS.values(audit.report))),
            f"the audit of {audit.judge}",
        )

    def _write(self, statement: str, values: tuple[str | int, ...], what: str) -> None:
        try:
            self._writes.execute(statement, values)
        except (sqlite3.Error, UnicodeError) as error:
            raise StoreError(f"cannot store {what} in {self.path}: {error}") from error

    def close(self) -> None:
        """Merge the write-ahead log into the database file and close it."""
        if self._open:
            self._open = False
            try:
                settle(self._writes)
            finally:
                self._lock.release()


class PendingScores(ScoreReader):
    """Read a run's scores, and collect new ones without locking the file. Only `write` writes them."""

    def __init__(self, path: Path, db: sqlite3.Connection | None) -> None:
        super().__init__(path, db)
        self._pending: list[Callable[[ScoreStore], None]] = []

    def put_all(self, judge: str, version: str, judgements: Mapping[str, Judgement]) -> None:
        """See `ScoreStore.put_all`."""
        self._pending.append(lambda store: store.put_all(judge, version, judgements))

    def cannot_run(self, judge: str, version: str, reason: str) -> None:
        """See `ScoreStore.cannot_run`."""
        self._pending.append(lambda store: store.cannot_run(judge, version, reason))

    def keep_answer(self, question: str, answer: Mapping[str, Any]) -> None:
        """See `ScoreStore.keep_answer`."""
        self._pending.append(lambda store: store.keep_answer(question, answer))

    def write(self) -> None:
        """Write the collected scores.

        Raises:
            StoreError: The scores cannot be written, for example because another process is writing them.
        """
        if self._pending:
            with ScoreStore.open(self.path) as store:
                while self._pending:
                    self._pending.pop(0)(store)


def is_being_scored(folder: Path) -> bool:
    """Return whether a process is writing scores of the run in a folder, according to its lock file."""
    return is_held(folder / SCORES_LOCK_FILE)


def forget_scores(folder: Path, turn_id: str) -> None:
    """Durably delete the scores of a turn that is about to be replaced.

    The caller must hold the lock `SCORES_LOCK_FILE`.

    Raises:
        StoreError: The scores cannot be deleted.
        SchemaVersionError: Another version of live-eval wrote the scores.
    """
    file = folder / SCORES_FILE
    if not has_tables(file):
        return
    db = open_database(file, SCORES_SCHEMA_VERSION)
    try:
        db.execute("DELETE FROM scores WHERE turn_id = ?", (turn_id,))
    except sqlite3.Error as error:
        raise StoreError(f"cannot delete the scores of turn {turn_id!r} in {file}: {error}") from error
    finally:
        settle(db)


def _score(row: sqlite3.Row) -> ScoreRow:
    judge, version, turn_id, status, values, reason, detail, _ = row
    return ScoreRow(
        judge=judge,
        version=version,
        turn_id=turn_id,
        status=_STATUSES.get(status) or _STATUS.validator.validate_python(status),
        values=encoding.numbers(values),
        reason=reason,
        detail=encoding.mapping(detail) if detail != "{}" else {},
    )


def _columns(judgement: Judgement) -> tuple[ScoreStatus, str, str, str]:
    if isinstance(judgement, Unscored):
        return "unscored", "{}", SECRETS.text(judgement.reason), "{}"
    if isinstance(judgement, Scored):
        values = {name: float(value) for name, value in judgement.values.items()}
        broken = [name or "score" for name, value in values.items() if not encoding.is_usable(value)]
        if not broken:
            return "scored", encoding.dump_json(values), "", _detail(judgement)
        reason = f"the judge returned a non-finite or excessive value for {', '.join(broken)}"
        judgement = Failed(reason, judgement.detail)
    return "failed", "{}", SECRETS.text(judgement.reason), _detail(judgement)


def _detail(judgement: Scored | Failed) -> str:
    return encoding.dump_json(SECRETS.values(judgement.detail))
