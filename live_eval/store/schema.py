"""The tables of a run's databases, their versions, and how their files are opened.

``run.sqlite`` holds what happened and is not changed after the run has ended; ``scores.sqlite`` holds what
judges said of it and can be thrown away and made again. Times are nanoseconds on the monotonic clock of the
machine that ran (``wall_ns`` is the one anchor per turn); arrays are little-endian int64 blobs.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from live_eval.errors import SchemaVersionError, StoreError

__all__ = [
    "AUDIO_FOLDER",
    "RUN_FILE",
    "RUN_SCHEMA_VERSION",
    "RUN_TABLES",
    "SCORES_FILE",
    "SCORES_SCHEMA_VERSION",
    "SCORES_TABLES",
    "WIRE_FOLDER",
    "create_database",
    "has_tables",
    "is_local_disk",
    "open_database",
    "open_for_reading",
    "settle",
    "sync_folder",
    "transaction",
]

RUN_FILE = "run.sqlite"
SCORES_FILE = "scores.sqlite"
AUDIO_FOLDER = "audio"
WIRE_FOLDER = "wire"
RUN_SCHEMA_VERSION = 2
SCORES_SCHEMA_VERSION = 2

RUN_TABLES = (
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
    CREATE TABLE answers (                -- of models that judge; a question is not asked twice
        question TEXT PRIMARY KEY,        -- hash of all that the model was sent, and of the judge's version
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

# SQLite's WAL needs memory shared between processes, which network file systems do not give
# (sqlite.org/wal.html). What is not known to be a local disk is taken for a network file system.
_LOCAL = frozenset(
    {
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
    }
)
_MOUNTS = Path("/proc/self/mounts")
_BUSY_TIMEOUT_S = 30.0


def is_local_disk(folder: Path, mounts: str | None = None) -> bool:
    """Return whether a folder is known to lie on a disk of this machine.

    Args:
        folder: The folder, which exists.
        mounts: The kernel's table of mounts; read from the kernel where None.
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
    """Make a database that comes into being all at once, or take over one that has no tables.

    Args:
        path: The file.
        tables: The statements that make its tables.
        version: Its schema's version.
        first: A statement, with its values, for the row that the database is never without.

    Returns:
        A connection for the one writer, within no transaction.
    """
    db = _connect(path)
    try:
        with transaction(db):
            for statement in tables:
                db.execute(statement)
            if first is not None:
                db.execute(*first)
            db.execute(f"PRAGMA user_version = {version}")
    except BaseException:
        db.close()
        raise
    return db


def open_database(path: Path, version: int) -> sqlite3.Connection:
    """Open a database for its one writer.

    Raises:
        SchemaVersionError: It has another version.
        StoreError: It is no database.
    """
    return _checked(_connect(path), path, version)


def open_for_reading(path: Path, version: int) -> sqlite3.Connection:
    """Open a database that may be in the middle of being written.

    Raises:
        SchemaVersionError: It has another version.
        StoreError: It is not there, or no database.
    """
    if not path.is_file():
        raise StoreError(f"{path.parent}: expected a run's folder, but there is no {path.name}")
    return _checked(_connect_to_read(path), path, version)


def has_tables(path: Path) -> bool:
    """Return whether a file is a database with tables; one that died at its birth has none."""
    if not path.is_file():
        return False
    db = _connect_to_read(path)
    try:
        return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error as error:
        raise StoreError(f"{path}: expected a database of live-eval: {error}") from None
    finally:
        db.close()


def settle(db: sqlite3.Connection) -> bool:
    """Bring everything into the one file and close it.

    Returns:
        False where a reader kept the write-ahead log in use: nothing is lost, but the log stays beside the
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
    """Do all of the block, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def sync_folder(folder: Path) -> None:
    """Have the names in a folder survive a loss of power, where the system can do that."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _connect_to_read(path: Path) -> sqlite3.Connection:
    return _raw(f"{path.resolve().as_uri()}?mode=ro")


def _raw(address: str) -> sqlite3.Connection:
    # The writer's thread is not the one that opened the run; there is one at a time.
    db = sqlite3.connect(
        address, uri=True, isolation_level=None, timeout=_BUSY_TIMEOUT_S, check_same_thread=False
    )
    db.row_factory = sqlite3.Row
    return db


def _connect(path: Path) -> sqlite3.Connection:
    db = _raw(path.resolve().as_uri())
    try:
        db.execute(f"PRAGMA journal_mode = {'WAL' if is_local_disk(path.parent) else 'DELETE'}").fetchone()
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        db.close()
        raise StoreError(f"{path}: expected a database of live-eval: {error}") from None
    return db


def _checked(db: sqlite3.Connection, path: Path, version: int) -> sqlite3.Connection:
    """Return a connection to a database of this version; one to any other is closed."""
    try:
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error as error:
        db.close()
        raise StoreError(f"{path}: expected a database of live-eval: {error}") from None
    if found != version:
        db.close()
        raise SchemaVersionError(
            f"{path}: expected schema version {version}, found {found}; read it with the version of "
            "live-eval that wrote it"
        )
    return db
