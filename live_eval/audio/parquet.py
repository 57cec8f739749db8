"""Read recordings inside Parquet tables, addressed by paths such as ``test.parquet/audio/7``.

Benchmarks on the Hugging Face hub store recordings in a table column, each as the name and the bytes of an
audio file. The path of a recording consists of the table's path, the column and the row. Nothing is written
to disk: the row group with the recording is read on demand and cached for neighbouring rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_eval.errors import DataError
from live_eval.extras import install_command
from live_eval.files import open_regular

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

__all__ = [
    "TABLE_SUFFIX",
    "TableRow",
    "in_table",
    "read_in_table",
    "recording_exists",
    "recording_size",
    "rows_of",
]

TABLE_SUFFIX = ".parquet"

_GROUPS_KEPT = 4  # enough for concurrent sessions, which read neighbouring rows; a group has some tens of MB


@dataclass(frozen=True, slots=True)
class TableRow:
    """The location of a recording in a table."""

    table: Path
    column: str
    row: int

    @property
    def path(self) -> Path:
        """The path of the recording, which `in_table` converts back to a location."""
        return self.table / self.column / str(self.row)


def in_table(path: Path) -> TableRow | None:
    """Parse a path as the location of a recording in a table; None if it refers to an ordinary file.

    >>> in_table(Path("data/test.parquet/audio/7"))
    TableRow(table=PosixPath('data/test.parquet'), column='audio', row=7)
    """
    table = path.parent.parent
    if table.suffix != TABLE_SUFFIX or not path.name.isdecimal():
        return None
    return TableRow(table, path.parent.name, int(path.name))


def recording_exists(path: Path) -> bool:
    """Return whether a recording, or the table that contains it, exists."""
    found = in_table(path)
    return os.path.exists(path if found is None else found.table)


def recording_size(path: Path) -> int | None:
    """Return the size of a recording's file or of the table that contains it, or None if missing."""
    found = in_table(path)
    file = path if found is None else found.table
    return file.stat().st_size if os.path.isfile(file) else None


def read_in_table(place: TableRow) -> bytes:
    """Return the content of a recording's audio file.

    Raises:
        OSError: The table is missing or damaged, or the row contains no audio.
    """
    status = place.table.stat()
    try:
        first, recordings = _group(place, status.st_size, status.st_mtime_ns)
    except (DataError, IndexError) as error:
        raise OSError(str(error)) from None
    content = recordings[place.row - first]
    if not content:
        raise OSError(f"the column {place.column} of row {place.row} contains no audio")
    return content


def rows_of(
    table: Path, columns: Sequence[str] | None = None
) -> tuple[list[str], Iterator[Mapping[str, Any]]]:
    """Return a table's column names, and its rows without audio.

    Args:
        columns: Columns to read; by default, all columns without audio.

    Raises:
        DataError: The file is missing, incomplete or not a Parquet table, or pyarrow is not installed.
    """
    with _opened(table) as file:
        names = list(file.schema_arrow.names)
        text = [name for name in names if not _has_bytes(file, name)]
        wanted = [name for name in (columns or text) if name in names]
        read = file.read(columns=wanted).to_pylist() if wanted else [{}] * file.metadata.num_rows
        return names, iter(read)


def _has_bytes(file: ParquetFile, name: str) -> bool:
    kind = file.schema_arrow.field(name).type
    return hasattr(kind, "get_field_index") and kind.get_field_index("bytes") >= 0


@contextmanager
def _opened(table: Path) -> Iterator[ParquetFile]:
    try:
        import pyarrow as arrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise DataError(f"{table}: reading Parquet tables needs pyarrow: {install_command('sets')}") from None
    try:
        with open_regular(table, links=True) as raw:
            yield ParquetFile(raw)
    except arrow.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{table}: expected a complete Parquet table: {reason}") from None
    except OSError as error:
        raise DataError(f"cannot read {table}: {error.strerror or error}") from None


@lru_cache(maxsize=_GROUPS_KEPT)
def _columns_of_group(
    table: Path, column: str, group: int, size: int, mtime_ns: int
) -> tuple[bytes | None, ...]:
    del size, mtime_ns  # part of the cache key, so that a changed table is read again
    with _opened(table) as file:
        cells = file.read_row_group(group, columns=[column]).column(column).to_pylist()
    return tuple(cell.get("bytes") if isinstance(cell, dict) else None for cell in cells)


def _group(place: TableRow, size: int, mtime_ns: int) -> tuple[int, tuple[bytes | None, ...]]:
    """Return the index of the first row in a row's group, and the recordings of the group."""
    first = 0
    with _opened(place.table) as file:
        if place.column not in file.schema_arrow.names:
            raise IndexError(f"the table has no column {place.column}")
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if place.row < first + rows:
                return first, _columns_of_group(place.table, place.column, group, size, mtime_ns)
            first += rows
    raise IndexError(f"expected a row below {first}, got row {place.row}")
