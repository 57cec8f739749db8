"""Open a run's databases, read-only or as the single writer. The files may be untrusted."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

from live_eval.errors import SchemaVersionError, StoreError
from live_eval.files import OTHER_NAMES, has_other_names, open_regular, private_file, private_opener
from live_eval.recording._encoding import DAMAGED, blocking_reason, in_one_line, without_secrets
from live_eval.recording._files import own_file
from live_eval.recording.schema import REPLACED_TABLES, RUN_SCHEMA_VERSION, column_types, is_own_definition
from live_eval.redaction import SECRETS

SIDE_FILES = ("", "-journal", "-shm", "-wal")
"""File name suffixes of a database file and its side files."""

# SQLite's WAL requires memory shared between processes, which network file systems do not provide
# (sqlite.org/wal.html). File systems not listed here count as network file systems.
_LOCAL = re.compile(
    "apfs|bcachefs|btrfs|erofs|exfat|ext[234]|f2fs|hfs|jfs|msdos|nilfs2|ntfs3?|overlay|ramfs|reiserfs"
    "|tmpfs|ufs|vfat|xfs|zfs"
)
_MOUNTS = Path("/proc/self/mounts")
_BUSY_TIMEOUT_S = 30.0
_MAX_ROW_BYTES = 1 << 26
"""Maximum row size: four times the maximum message size of a connection. SQLite's limit is 1 GB."""
_UNREADABLE = (sqlite3.Error, UnicodeError)  # UnicodeError: SQLite's message quotes a damaged schema
_ANY_READ = "SELECT 1 FROM sqlite_master LIMIT 1"
_NEEDS_RECOVERY = ("SQLITE_READONLY_ROLLBACK", "SQLITE_CANTOPEN", "SQLITE_READONLY_CANTLOCK")
_MAX_COPIED_BYTES = 1 << 32
_BLOCK_BYTES = 1 << 20
_JOURNAL_MARK = bytes.fromhex("d9d505f920a163d7")

# Limits per statement: a base plus a rate per byte in the file, capped at the limits for a 1 GiB file. They
# count virtual machine steps instead of time, so that a valid file does not fail on a loaded machine.
_STATEMENT_STEPS = 100_000_000  # takes two to four seconds
_STATEMENT_STEPS_PER_BYTE = 4
_STATEMENT_BYTES = 1 << 23
_STATEMENT_BYTES_PER_BYTE = 4
_ROW_BYTES = 64
_MAX_COUNTED_BYTES = 1 << 30
_STEPS_BETWEEN_CHECKS = 10_000

_Columns: TypeAlias = tuple[tuple[str, ...], tuple[int, ...], tuple[int, ...], int | None]
"""A row's column names, and the indices of texts, blobs and the first mistyped column."""


def is_local_disk(folder: Path, mounts: str | None = None) -> bool:
    """Return whether a folder is known to be on a local disk; `mounts` is the kernel's mount table."""
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
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1])  # octal escapes
        under = here == point or here.startswith(point.rstrip("/") + "/")
        if under and len(point) >= len(best):
            best, kind = point, fields[2]
    return _LOCAL.fullmatch(kind) is not None


def create_database(
    path: Path, tables: Sequence[str], version: int, first: tuple[str, Sequence[str | int]] | None = None
) -> sqlite3.Connection:
    """Create a database atomically, or reuse an empty one; return a connection for its single writer.

    Args:
        tables: Statements that create the tables.
        first: The statement that inserts the first row, and its values.

    Raises:
        StoreError: The database cannot be written.
    """
    with contextlib.suppress(OSError):  # keep the file private in a shared folder
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
    """Open a database with one of these schema versions as its single writer.

    Raises:
        SchemaVersionError: The database has another version.
        StoreError: The file is not a database.
    """
    return _checked(_connect(path), path, versions)


def open_for_reading(path: Path, *versions: int) -> sqlite3.Connection:
    """Open a database with one of these schema versions read-only, even while it is being written.

    Raises:
        SchemaVersionError: The database has another version.
        StoreError: The file is missing or not a database.
    """
    if not os.path.lexists(path.parent):
        raise StoreError(f"{path.parent}: not found; `live-eval runs list` lists runs")
    if not os.path.lexists(path):
        raise StoreError(f"{path.parent}: expected a run folder, found no {path.name}")
    return _checked(_read_only(path), path, versions)


def has_tables(path: Path) -> bool:
    """Return whether a file is a database with tables; an interrupted creation leaves one without.

    Raises:
        StoreError: The file is not a database or is not in the run folder.
    """
    if not os.path.lexists(path):
        return False
    db = _read_only(path)
    with _using(db, path), closing(db):
        return db.execute(_ANY_READ).fetchone() is not None


def upgrade(db: sqlite3.Connection) -> None:
    """Add this version's tables to a run database that an earlier version created."""
    if int(db.execute("PRAGMA user_version").fetchone()[0]) == RUN_SCHEMA_VERSION:
        return
    with transaction(db):
        for statement in REPLACED_TABLES:
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {RUN_SCHEMA_VERSION}")


def settle(db: sqlite3.Connection) -> bool:
    """Merge the write-ahead log into the database file and close it; return whether the merge succeeded.

    If a reader is using the write-ahead log, the log remains next to the file and is merged later.
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
    """Run the block in a transaction that is rolled back on error."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # SQLite itself rolls back if the disk is full
            db.execute("ROLLBACK")
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder, if the system supports it, so that its directory entries survive a power failure."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _read_only(path: Path) -> sqlite3.Connection:
    """Open a database for reading without changing its folder.

    By default, SQLite creates a shared memory file next to a database in WAL mode and rolls back the
    transaction of a killed process. A database with a log is therefore read through the writer's shared
    memory or, without a writer, recovered in a private copy.
    """
    path, sizes = _checked_files(path)
    shared = "-wal" in sizes and "-shm" in sizes
    rollback = _uses_rollback(path)
    if not shared and (sizes.get("-wal") or (sizes.get("-journal") and not rollback)):
        return _recovered(path, sizes)
    if not shared and not rollback:
        return _connected(path, "?mode=ro&immutable=1")
    db = _connected(path, "?mode=ro&readonly_shm=1" if shared else "?mode=ro")
    if not shared and "-journal" not in sizes:
        return db
    try:
        db.execute(_ANY_READ).fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "") in _NEEDS_RECOVERY:
            db.close()
            return _recovered(path, sizes)
    except _UNREADABLE:
        pass  # the caller's first read reports it
    return db


def _uses_rollback(path: Path) -> bool:
    """Return whether a database's header specifies a rollback journal instead of a write-ahead log."""
    try:
        with open_regular(path) as file:
            return file.read(20)[18:] == b"\1\1"  # sqlite.org/fileformat.html, 1.3.3
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None


def _recovered(path: Path, suffixes: Iterable[str]) -> sqlite3.Connection:
    """Copy a database to a private folder, let SQLite apply the logs, and return a connection to the copy."""
    with tempfile.TemporaryDirectory(prefix="live-eval-") as folder:
        copy = Path(folder) / path.name
        for suffix in suffixes:
            if suffix != "-shm":
                _copy(path.with_name(path.name + suffix), Path(f"{copy}{suffix}"))
        db = _connected(copy, "?mode=rw")
        with contextlib.suppress(*_UNREADABLE):  # the caller's first read reports it
            db.execute(_ANY_READ).fetchone()
        db.execute("PRAGMA query_only = ON")
        return db  # open files remain usable after their folder is removed


def _copy(source: Path, target: Path) -> None:
    """Copy a file and preserve its holes, because a sparse file may be larger than the disk."""
    copied = 0
    try:
        with open_regular(source) as file, open(target, "xb", opener=private_opener) as copy:
            for begin, end in _data_ranges(file):
                file.seek(begin)
                copy.seek(begin)
                while (at := file.tell()) < end and (block := file.read(min(_BLOCK_BYTES, end - at))):
                    copied += copy.write(block)
                    if copied > _MAX_COPIED_BYTES:
                        limit = _MAX_COPIED_BYTES >> 30
                        raise StoreError(f"{source} is too large to copy: the limit is {limit} GiB")
            copy.truncate(os.fstat(file.fileno()).st_size)
    except OSError as error:
        raise StoreError(f"cannot copy {source} to apply its logs: {error.strerror}") from None


def _data_ranges(file: io.BufferedReader) -> Iterator[tuple[int, int]]:
    """Yield the data ranges of a file, or the whole file if the system does not report holes."""
    size = os.fstat(file.fileno()).st_size
    begin = end = 0
    while end < size and hasattr(os, "SEEK_DATA"):
        try:
            begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
        except OSError:  # no more data
            return
        end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
        yield begin, end
    yield end, size


def _check_journal(path: Path) -> None:
    """Reject a journal that names another file, because SQLite would delete that file.

    Only a transaction across several databases writes such a journal (sqlite.org/atomiccommit.html, 5), and
    live-eval never runs one.

    Raises:
        StoreError: The journal refers to another file, or cannot be read.
    """
    try:  # the file name precedes this marker at the end
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - len(_JOURNAL_MARK)))
            end = file.read()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    if end == _JOURNAL_MARK:
        raise StoreError(
            f"{path}: expected the journal of a single database, got one that refers to another file"
        )


def _checked_files(path: Path) -> tuple[Path, dict[str, int]]:
    """Return a database's path with links resolved, and the size of each of its files by suffix.

    Raises:
        StoreError: A file is outside this folder, or `_check_journal` rejects the journal.
    """
    if os.path.lexists(path):
        path = own_file(path.parent, path).resolve()  # SQLite looks for the other files next to the database
    sizes: dict[str, int] = {}
    for suffix in SIDE_FILES:
        beside = path.with_name(path.name + suffix)
        if os.path.lexists(beside):
            sizes[suffix] = own_file(path.parent, beside).stat().st_size
            if suffix == "-journal":
                _check_journal(beside)
    return path, sizes


class _Cursor(sqlite3.Cursor):
    """A cursor that keeps the results of `_columns`, since `description` is a new tuple for each row."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.columns: dict[tuple[type, ...], _Columns] = {}


class _Connection(sqlite3.Connection):
    """A connection whose statements always terminate, even if the pages of a damaged file form a cycle.

    The file size limits the number of steps and the amount of data per statement.
    """

    path: Path
    left_bytes = 0

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement; raise `sqlite3.OperationalError` if it exceeds the step limit."""
        size = 0
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                size += os.stat(f"{self.path}{suffix}").st_size
        size = min(size, _MAX_COUNTED_BYTES)
        self.left_bytes = _STATEMENT_BYTES + _STATEMENT_BYTES_PER_BYTE * size
        checks = itertools.count()
        limit = (_STATEMENT_STEPS + _STATEMENT_STEPS_PER_BYTE * size) // _STEPS_BETWEEN_CHECKS
        self.set_progress_handler(lambda: next(checks) > limit, _STEPS_BETWEEN_CHECKS)
        return self.cursor(_Cursor).execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        """Execute a statement for each row, without a step limit."""
        self.set_progress_handler(None, 0)
        return super().executemany(statement, rows)


def _connected(path: Path, query: str = "") -> sqlite3.Connection:
    """Open a database whose files `_checked_files` has checked."""
    try:
        # the connection may be used in a different thread from the one that opened it
        db = sqlite3.connect(
            f"{path.resolve().as_uri()}{query}",
            uri=True,
            isolation_level=None,
            timeout=_BUSY_TIMEOUT_S,
            check_same_thread=False,
            factory=_Connection,
        )
    except _UNREADABLE as error:
        raise StoreError(f"cannot open {path}: {error}") from None
    db.path = path
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_ROW_BYTES)
    db.row_factory = _row
    return db


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> sqlite3.Row:
    """Return a row after checking its columns' declared types, which SQLite does not enforce.

    Known secrets are redacted, because runs from earlier versions may contain them.
    """
    assert isinstance(cursor, _Cursor)
    kinds = tuple(map(type, values))
    columns = cursor.columns.get(kinds)
    if columns is None:
        columns = cursor.columns[kinds] = _columns(cursor.description, kinds)
    names, texts, blobs, wrong = columns
    if wrong is not None:
        raise sqlite3.DataError(
            f"column {names[wrong]}: expected {column_types()[names[wrong]][0].__name__}, "
            f"got {type(values[wrong]).__name__} {str(values[wrong])[:40]!r}"
        )
    text = "\n".join([values[at] for at in texts])
    db = cast(_Connection, cursor.connection)
    db.left_bytes -= _ROW_BYTES + len(text) + sum([len(values[at]) for at in blobs])
    if db.left_bytes < 0:
        raise sqlite3.DataError(f"a query returned more data than the file contains; {DAMAGED}")
    if SECRETS.suspects(text):
        values = tuple(without_secrets(name, value) for name, value in zip(names, values, strict=True))
    return sqlite3.Row(cursor, values)


@functools.lru_cache(maxsize=256)
def _columns(description: tuple[tuple[Any, ...], ...], types: tuple[type, ...]) -> _Columns:
    """Return a row's column names, and the indices of texts, blobs and the first mistyped column."""
    names = tuple(name for name, *_ in description)
    wrong = [at for at, name in enumerate(names) if types[at] not in column_types().get(name, types)]
    texts, blobs = (tuple(at for at, kind in enumerate(types) if kind is of) for of in (str, bytes))
    return names, texts, blobs, wrong[0] if wrong else None


def _connect(path: Path) -> sqlite3.Connection:
    real, suffixes = _checked_files(path)
    for suffix in suffixes:
        beside = real.with_name(real.name + suffix)
        if has_other_names(beside.stat()):
            raise StoreError(f"{beside}: {OTHER_NAMES}")
    db = _connected(real)
    with _using(db, path):
        db.execute(f"PRAGMA journal_mode = {'WAL' if is_local_disk(path.parent) else 'DELETE'}").fetchone()
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
    return db


def _checked(db: sqlite3.Connection, path: Path, versions: Sequence[int]) -> sqlite3.Connection:
    """Return the connection, or close it if the database has another version or tables of other programs."""
    with _using(db, path):
        found = int(db.execute("PRAGMA user_version").fetchone()[0])
        if found == 0 and db.execute(_ANY_READ).fetchone() is None:
            raise StoreError(f"{path} is empty: it is being created, or its creation was interrupted")
        if found == 0:
            raise StoreError(f"{path}: expected a database of live-eval, found tables of another program")
        if found not in versions:
            raise SchemaVersionError(
                f"{path}: expected schema version {' or '.join(map(str, versions))}, got {found}; use the "
                "version of live-eval that wrote it"
            )
        # Evaluating other objects may never end: views, triggers, virtual tables, generated columns,
        # expression indexes. The step limit does not apply within a function. A key's index has no
        # definition.
        for name, statement in db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
            if not is_own_definition(str(statement)):
                raise StoreError(f"{path}: expected only the tables of a run, found another {name!r}")
    return db


@contextmanager
def _using(db: sqlite3.Connection, path: Path, *, creates: bool = False) -> Iterator[None]:
    """Close the database if the block raises; convert SQLite's errors to a `StoreError`."""
    try:
        yield
    except BaseException as error:
        db.close()
        if isinstance(error, _UNREADABLE):
            if creates:
                raise StoreError(f"cannot create {path}: {in_one_line(error)}") from None
            why = blocking_reason(error) or f"expected a database of live-eval: {in_one_line(error)}"
            raise StoreError(f"{path}: {why}") from None
        raise
