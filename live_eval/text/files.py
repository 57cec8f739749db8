"""Text files, CSV rows, atomic writes and private folders."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from live_eval.errors import DataError

__all__ = [
    "atomic_write",
    "csv_line",
    "flattened",
    "private_file",
    "private_folder",
    "private_opener",
    "read_rows",
    "read_text",
]

# A spreadsheet reads a cell that begins so as a formula (OWASP, "CSV Injection").
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ROW_END = "\r\n"


def csv_line(cells: Iterable[object]) -> str:
    """Return a CSV row that ends in ``\\n``.

    Line ends inside a cell are quoted. Text that a spreadsheet would run as a formula gets a leading
    apostrophe; numbers, negative ones included, stay as they are.

    Args:
        cells: The values; None is an empty cell.

    >>> csv_line(["=1+1", -1.5, "-1.5", None])
    "'=1+1,-1.5,-1.5,\\n"
    """
    made = io.StringIO()
    # csv quotes only the line ends that its own line terminator contains.
    csv.writer(made, lineterminator=_ROW_END).writerow([_disarmed(cell) for cell in cells])
    return made.getvalue().removesuffix(_ROW_END) + "\n"


def _disarmed(cell: object) -> object:
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NEGATIVE.fullmatch(cell):
        return "'" + cell
    return cell


def _armed(cell: str) -> str:
    """Return text without the apostrophe that `csv_line` added."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def flattened(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path of each value, with dots, and the value.

    >>> dict(flattened({"a": {"b": 1, "c": [2]}}))
    {'a.b': 1, 'a.c': [2]}
    """
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from flattened(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def read_text(path: Path) -> str:
    """Read a UTF-8 file, without its byte order mark.

    Raises:
        DataError: It cannot be read or is not UTF-8; the message names the byte.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8, but byte {error.start} is not: {error.reason}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the cells of each row of a CSV file; skip empty rows.

    Apostrophes that `csv_line` added are removed. The line number is that of the row's last line.

    Args:
        path: The file, in UTF-8.
        needed: Required columns; ``a or b`` requires one of the two.
        optional: Optional columns. Any other column is ignored.

    Raises:
        DataError: The file cannot be read or is not CSV, a column is missing or appears twice, or a row has
            more or fewer cells than the heading; the message names the line.
    """
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        heading = [name.strip() for name in next(reader, [])]
        _check_heading(f"{path}:1", heading, needed, optional)
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(heading):
                raise DataError(
                    f"{path}:{reader.line_num}: expected {len(heading)} cells ({', '.join(heading)}), "
                    f"found {len(row)}"
                )
            yield (
                reader.line_num,
                {name: _armed(cell.strip()) for name, cell in zip(heading, row, strict=True)},
            )
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: expected CSV: {error}") from None


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Write atomically: yield a temporary file that replaces `path` on success, and is removed on failure.

    Symlinks, devices and pipes are written through and never replaced: ``/dev/stdout`` is a symlink, and may
    point to a file. A new file is a `private_file`; one that exists keeps its mode.

    Raises:
        OSError: The temporary file cannot be made, or cannot replace `path`.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # a symlink of that name would be written through
    private_file(part)
    try:
        if path.exists():
            with suppress(OSError):  # somebody else's file, in a folder of ours
                part.chmod(path.stat().st_mode & 0o777)
        yield part
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def private_file(path: Path) -> Path:
    """Create an empty file that only its user may read, whatever the umask; return its path.

    A file that exists stays as it is.

    Raises:
        OSError: It cannot be created.
    """
    os.close(private_opener(path, os.O_CREAT | os.O_WRONLY))
    return path


def private_opener(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file for `open`, as its `opener`: a file that is created is one that only its user may read.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, flags, 0o600)


def private_folder(path: Path) -> Path:
    """Create a folder that only its user may enter, whatever the umask, with its parents; return its path.

    A folder that exists keeps its mode, as do parents. Recordings of people are kept in such folders.

    Raises:
        OSError: It cannot be created.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _check_heading(
    where: str, heading: Sequence[str], needed: Sequence[str], optional: Sequence[str]
) -> None:
    known = {name for column in needed for name in column.split(" or ")} | set(optional)
    twice = next((name for name in heading if name in known and heading.count(name) > 1), None)
    if twice or not all(set(column.split(" or ")) & set(heading) for column in needed):
        found = f"{twice} twice" if twice else ", ".join(heading) or "nothing"
        raise DataError(
            f"{where}: expected the columns {', '.join(needed)}, optionally {', '.join(optional)}; "
            f"found {found}"
        )
