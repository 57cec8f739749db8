"""The tables of a run's databases, their versions, and how their files are opened.

``run.sqlite`` gets only further attempts once the run has ended; ``scores.sqlite`` can be deleted and made
again.
Times are nanoseconds on the monotonic clock of the machine that ran (``wall_ns`` is the one anchor per turn);
arrays are little-endian int64 blobs.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from live_eval.errors import SchemaVersionError, StoreError
from live_eval.files import open_regular, private_file, private_opener
from live_eval.recording._encoding import in_one_line, in_the_way, without_secrets
from live_eval.recording._files import own_file
from live_eval.redaction import SECRETS

__all__ = [
    "AUDIO_FOLDER",
    "KEPT_AUDIO",
    "REPLACED",
    "REPLACED_AUDIO",
    "REPLACED_TABLES",
    "RUN_FILE",
    "RUN_SCHEMA_VERSION",
    "RUN_TABLES",
    "RUN_VERSIONS_READ",
    "SCORES_FILE",
    "SCORES_SCHEMA_VERSION",
    "SCORES_TABLES",
    "SIDE_FILES",
    "USER_FOLDER",
    "WIRE_FOLDER",
    "create_database",
    "has_tables",
    "is_local_disk",
    "open_database",
    "open_for_reading",
    "settle",
    "sync_folder",
    "transaction",
    "upgrade",
]

RUN_FILE = "run.sqlite"
SCORES_FILE = "scores.sqlite"
AUDIO_FOLDER = "audio"
WIRE_FOLDER = "wire"
USER_FOLDER = "user"
"""Folder in a live run with the user's utterances, one file for each turn."""

RUN_SCHEMA_VERSION = 3
RUN_VERSIONS_READ = (2, RUN_SCHEMA_VERSION)
SCORES_SCHEMA_VERSION = 2

_RUN_TABLES = (
    """
    CREATE TABLE run (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        manifest TEXT NOT NULL,
        base TEXT NOT NULL,               -- the run's working folder, seen from the run's folder
        state TEXT NOT NULL CHECK (state IN ('running', 'interrupted', 'finished')),
        started_wall_ns INTEGER NOT NULL,
        ended_wall_ns INTEGER
    )
    """,
    """
    CREATE TABLE turns (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL UNIQUE,
        generation INTEGER NOT NULL,      -- how often the turn was committed; part of its files' names
        "case" TEXT NOT NULL,
        repeat INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        failure TEXT,
        warnings TEXT NOT NULL,
        reply_text TEXT,
        heard_text TEXT,
        session_id TEXT,
        model TEXT,
        wall_ns INTEGER NOT NULL,
        late_speech_frames INTEGER NOT NULL,
        skipped_silence_frames INTEGER NOT NULL,
        rate_limits TEXT NOT NULL,
        media TEXT,                       -- what became of a media track's packets
        timing TEXT NOT NULL,
        timing_version INTEGER NOT NULL,
        trace TEXT NOT NULL,
        frame_deadline_ns BLOB NOT NULL,
        frame_sent_ns BLOB NOT NULL,
        probe_at_ns BLOB NOT NULL,
        probe_lag_ns BLOB NOT NULL,
        both_file TEXT,
        both_rate_hz INTEGER,
        envelope BLOB                     -- uint8 pairs, one for each 20 ms of both sides
    )
    """,
    """
    CREATE TABLE responses (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        headline INTEGER NOT NULL,
        marks TEXT NOT NULL,
        chunk_arrival_ns BLOB NOT NULL,
        chunk_samples BLOB NOT NULL,
        rate_hz INTEGER,
        text TEXT,
        reason TEXT NOT NULL,
        usage TEXT,
        audio_file TEXT,
        PRIMARY KEY (turn, position)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE events (
        turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        at_ns INTEGER NOT NULL,
        direction TEXT NOT NULL CHECK (direction IN ('in', 'out')),
        body TEXT NOT NULL,
        PRIMARY KEY (turn, position)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE failures (
        id INTEGER PRIMARY KEY,
        turn_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        retried INTEGER NOT NULL,
        wall_ns INTEGER NOT NULL,
        failure TEXT NOT NULL
    )
    """,
)

REPLACED = "replaced_"
"""Begins the names of the tables for attempts that another one has replaced (since version 3)."""


def _for_replaced(statement: str) -> str:
    """Return the statement that creates the table of replaced attempts like another table."""
    return (
        statement.replace("CREATE TABLE ", f"CREATE TABLE {REPLACED}")
        .replace("REFERENCES turns", f"REFERENCES {REPLACED}turns")
        .replace("NOT NULL UNIQUE", "NOT NULL")
    )


REPLACED_TABLES = tuple(map(_for_replaced, _RUN_TABLES[1:4]))
RUN_TABLES = (*_RUN_TABLES, *REPLACED_TABLES)

KEPT_AUDIO = """
    SELECT turn_id, both_file FROM turns WHERE both_file IS NOT NULL
    UNION ALL
    SELECT turn_id, audio_file FROM responses JOIN turns ON turns.id = turn WHERE audio_file IS NOT NULL
"""
"""The audio files of the turns of a run, by turn."""

REPLACED_AUDIO = KEPT_AUDIO.replace("turns", f"{REPLACED}turns").replace("responses", f"{REPLACED}responses")
"""Those of replaced attempts."""

SCORES_TABLES = (
    """
    CREATE TABLE scores (
        id INTEGER PRIMARY KEY,
        judge TEXT NOT NULL,
        version TEXT NOT NULL,
        turn_id TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('scored', 'unscored', 'failed')),
        "values" TEXT NOT NULL,
        reason TEXT NOT NULL,
        detail TEXT NOT NULL,
        UNIQUE (judge, version, turn_id)
    )
    """,
    """
    CREATE TABLE problems (
        judge TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        reason TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE answers (                -- of judging models; a question is not asked twice
        question TEXT PRIMARY KEY,        -- hash of everything the model was sent, and of the judge's version
        answer TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE audits (
        judge TEXT NOT NULL,
        version TEXT NOT NULL,
        wall_ns INTEGER NOT NULL,
        report TEXT NOT NULL,
        PRIMARY KEY (judge, version)
    ) WITHOUT ROWID
    """,
)

# SQLite's WAL needs memory shared between processes, which network file systems do not offer
# (sqlite.org/wal.html). Any file system that is not listed here counts as a network file system.
_LOCAL = frozenset(
    [
        "apfs",
        "bcachefs",
        "btrfs",
        "erofs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "hfs",
        "jfs",
        "msdos",
        "nilfs2",
        "ntfs",
        "ntfs3",
        "overlay",
        "ramfs",
        "reiserfs",
        "tmpfs",
        "ufs",
        "vfat",
        "xfs",
        "zfs",
    ]
)
_MOUNTS = Path("/proc/self/mounts")
_BUSY_TIMEOUT_S = 30.0
_LARGEST_BYTES = 1 << 26
"""The most in a row: four of the largest messages that a connection takes. SQLite would allow a gigabyte."""
_UNREADABLE = (sqlite3.Error, UnicodeError)  # the latter if SQLite quotes a damaged schema
_ANY_READ = "SELECT count(*) FROM sqlite_master"
_NEEDS_ROLLBACK = ("SQLITE_READONLY_ROLLBACK", "SQLITE_CANTOPEN", "SQLITE_READONLY_CANTLOCK")
_MOST_COPIED_BYTES = 1 << 34
_JOURNAL_MARK = bytes.fromhex("d9d505f920a163d7")
SIDE_FILES = ("", "-journal", "-shm", "-wal")
_PYTHON = {"INTEGER": int, "TEXT": str, "BLOB": bytes}


def is_local_disk(folder: Path, mounts: str | None = None) -> bool:
    """Return whether a folder is known to lie on a disk of this machine.

    Args:
        folder: The folder, which exists.
        mounts: The kernel's table of mounts; read from the kernel if None.
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(errors="replace")
        except OSError:
            return False
    here = str(folder.resolve())
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1])  # \040 is a space
        under = here == point or here.startswith(point.rstrip("/") + "/")
        if under and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind in _LOCAL


def create_database(
    path: Path, tables: Sequence[str], version: int, first: tuple[str, Sequence[str | int]] | None = None
) -> sqlite3.Connection:
    """Create a database atomically, or take over one that has no tables.

    Args:
        path: The file.
        tables: The statements that create its tables.
        version: Its schema's version.
        first: The statement and values of its first row, inserted in the same transaction.

    Returns:
        A connection for the one writer, outside any transaction.

    Raises:
        StoreError: It cannot be written.
    """
    with contextlib.suppress(OSError):  # if the folder is not ours alone, the file still is
        private_file(path)
    db = _connect(path)
    with _using(db, path, creates=True), transaction(db):
        for statement in tables:
            db.execute(statement)
        if first is not None:
            db.execute(*first)
        db.execute(f"PRAGMA user_version = {version}")
    return db


def open_database(path: Path, *versions: int) -> sqlite3.Connection:
    """Open a database of one of these versions for its one writer.

    Raises:
        SchemaVersionError: It has another version.
        StoreError: It is not a database.
    """
    return _checked(_connect(path), path, versions)


def open_for_reading(path: Path, *versions: int) -> sqlite3.Connection:
    """Open a database of one of these versions that may be in the middle of being written.

    Raises:
        SchemaVersionError: It has another version.
        StoreError: It is missing or not a database.
    """
    if not os.path.lexists(path):
        raise StoreError(f"{path.parent}: expected a run's folder, but there is no {path.name}")
    return _checked(_read_only(path), path, versions)


def upgrade(db: sqlite3.Connection) -> None:
    """Give the database of a run that an earlier version began the tables of this version."""
    if int(db.execute("PRAGMA user_version").fetchone()[0]) == RUN_SCHEMA_VERSION:
        return
    with transaction(db):
        for statement in REPLACED_TABLES:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {RUN_SCHEMA_VERSION}")


def has_tables(path: Path) -> bool:
    """Return whether a file is a database with tables; one whose creation was interrupted has none.

    Raises:
        StoreError: It is not a database, or not a file of the run's folder.
    """
    if not os.path.lexists(path):
        return False
    db = _read_only(path)
    with _using(db, path), closing(db):
        return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def settle(db: sqlite3.Connection) -> bool:
    """Move everything into the one file and close it.

    Returns:
        False if a reader kept the write-ahead log in use: nothing is lost, but the log stays next to the
        file until it is opened again.
    """
    db.execute("PRAGMA busy_timeout = 2000")
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        mode = db.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
    except sqlite3.OperationalError:
        mode = "wal"
    db.close()
    return bool(mode == "delete")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block in a transaction: all of it, or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite itself rolls back if the disk is full
            db.execute("ROLLBACK")
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power, if the system can."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a database for reading, and leave its folder as it is.

    A process that was killed may have left half a transaction, which SQLite undoes from the journal when the
    file is next read, but not over a connection that cannot write. It is undone in a private copy.
    """
    db = _raw(path, "?mode=ro")
    if not os.path.lexists(path.with_name(f"{path.name}-journal")):
        return db
    try:
        db.execute(_ANY_READ).fetchone()
        return db
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") not in _NEEDS_ROLLBACK:
            return db  # the caller reads, and says what is wrong
    db.close()
    return _recovered(path)


def _recovered(path: Path) -> sqlite3.Connection:
    """Return a connection to a copy of a database whose last transaction is undone."""
    with tempfile.TemporaryDirectory(prefix="live-eval-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-journal"):
            _copy(path.with_name(path.name + suffix), Path(f"{copy}{suffix}"))
        db = _raw(copy, "?mode=rw")
        with contextlib.suppress(sqlite3.Error):  # reading will say what is wrong
            db.execute(_ANY_READ).fetchone()
        db.execute("PRAGMA query_only = ON")
        return db  # which keeps the copy until it is closed, though the folder is gone


def _copy(source: Path, target: Path) -> None:
    try:
        with open_regular(source) as file, open(target, "xb", opener=private_opener) as copy:
            if os.fstat(file.fileno()).st_size > _MOST_COPIED_BYTES:
                raise StoreError(f"{source}: expected at most {_MOST_COPIED_BYTES >> 30} GiB to copy")
            shutil.copyfileobj(file, copy)
    except OSError as error:
        raise StoreError(f"{source}: cannot be copied to undo a transaction: {error.strerror}") from None


def _check_journal(path: Path) -> None:
    """Refuse a journal that names another file: SQLite would delete that file.

    A transaction over several databases leaves such a journal (sqlite.org/atomiccommit.html, 5); live-eval
    makes none. The name stands at the end, before this mark.

    Raises:
        StoreError: It names one, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOURNAL_MARK)))
            end = file.read()
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    if end == _JOURNAL_MARK:
        raise StoreError(f"{path}: expected the journal of one database, but it names another file")


def _raw(path: Path, query: str = "") -> sqlite3.Connection:
    for suffix in SIDE_FILES:  # SQLite opens these too
        beside = path.with_name(path.name + suffix)
        if os.path.lexists(beside):
            own_file(path.parent, beside)
            if suffix == "-journal":
                _check_journal(beside)
    try:
        # Opened and used by different threads, but only by one at a time.
        db = sqlite3.connect(
            f"{path.resolve().as_uri()}{query}",
            uri=True,
            isolation_level=None,
            timeout=_BUSY_TIMEOUT_S,
            check_same_thread=False,
        )
    except _UNREADABLE as error:
        raise StoreError(f"{path}: cannot be opened: {error}") from None
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_BYTES)
    db.row_factory = _row
    return db


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> sqlite3.Row:
    """Return a row whose columns have the declared types: SQLite itself stores any type in any column.

    Known secrets are taken out of it here, too: runs recorded by earlier versions may hold them.
    """
    names, texts, wrong = _columns(cursor.description, tuple(map(type, values)))
    if wrong is not None:
        raise sqlite3.DataError(
            f"column {names[wrong]}: expected {_declared()[names[wrong]][0].__name__}, "
            f"found {type(values[wrong]).__name__} {str(values[wrong])[:40]!r}"
        )
    if SECRETS.suspects("\n".join([values[at] for at in texts])):
        values = tuple(without_secrets(name, value) for name, value in zip(names, values, strict=True))
    return sqlite3.Row(cursor, values)


@functools.lru_cache(maxsize=256)
def _columns(
    description: tuple[tuple[Any, ...], ...], types: tuple[type, ...]
) -> tuple[tuple[str, ...], tuple[int, ...], int | None]:
    """Return the names of a row's columns, which are text, and the first whose type is not the declared one.

    Args:
        description: The cursor's; the rows of a query share it.
        types: Those of the row's values.
    """
    names = tuple(name for name, *_ in description)
    wrong = [at for at, name in enumerate(names) if types[at] not in _declared().get(name, types)]
    return names, tuple(at for at, kind in enumerate(types) if kind is str), wrong[0] if wrong else None


@functools.cache
def _declared() -> Mapping[str, tuple[type, ...]]:
    """Return the types of each column; columns of one name have one type in all tables."""
    kinds: dict[str, tuple[type, ...]] = {}
    with closing(sqlite3.connect(":memory:")) as db:
        for statement in (*RUN_TABLES, *SCORES_TABLES):
            db.execute(statement)
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, name, kind, not_null, _, key in db.execute(f"PRAGMA table_info({table})"):
                nothing = () if not_null or key else (type(None),)
                kinds[name] = tuple(dict.fromkeys((_PYTHON[kind], *nothing, *kinds.get(name, ()))))
    return kinds


def _connect(path: Path) -> sqlite3.Connection:
    db = _raw(path)
    with _using(db, path):
        db.execute(f"PRAGMA journal_mode = {'WAL' if is_local_disk(path.parent) else 'DELETE'}").fetchone()
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
    return db


def _checked(db: sqlite3.Connection, path: Path, versions: Sequence[int]) -> sqlite3.Connection:
    """Check the version of a database and return the connection; close it if the check fails."""
    with _using(db, path):
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        # Views and virtual tables are computed, and a forged one without end; triggers too have no page of
        # their own.
        computed = db.execute("SELECT name FROM sqlite_master WHERE coalesce(rootpage, 0) = 0").fetchone()
        if found not in versions:
            raise SchemaVersionError(
                f"{path}: expected schema version {' or '.join(map(str, versions))}, found {found}; read it "
                "with the version of live-eval that wrote it"
            )
        if computed is not None:
            raise StoreError(f"{path}: expected only plain tables, found {computed[0]!r}")
    return db


@contextmanager
def _using(db: sqlite3.Connection, path: Path, *, creates: bool = False) -> Iterator[None]:
    """Close the database if the block fails.

    Raises:
        StoreError: SQLite cannot use the file.
    """
    try:
        yield
    except BaseException as error:
        db.close()
        if isinstance(error, _UNREADABLE):
            if creates:
                raise StoreError(f"{path}: cannot be created: {in_one_line(error)}") from None
            why = in_the_way(error) or f"expected a database of live-eval: {in_one_line(error)}"
            raise StoreError(f"{path}: {why}") from None
        raise
