"""Text files, CSV rows, atomic writes, private folders, and files in untrusted folders.

An untrusted folder may contain links, pipes and devices instead of files. `open_regular` rejects them, and
`atomic_write` replaces them. With `links=True`, for paths that the user chose, both follow links.
"""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from live_eval.errors import DataError

__all__ = [
    "OTHER_NAMES",
    "atomic_text",
    "atomic_write",
    "csv_line",
    "has_other_names",
    "kind_of_file",
    "open_regular",
    "private_file",
    "private_folder",
    "private_opener",
    "read_regular",
    "read_rows",
    "read_text",
    "unique_names",
]

# A spreadsheet evaluates a cell that starts with one of these as a formula (OWASP, "CSV Injection").
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_NEGATIVE = re.compile(r"-[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ROW_END = "\r\n"
_MAX_TEXT_BYTES = 1 << 29
OTHER_NAMES = "expected a file with one name, found a hard link; replace it with a copy"
"""The reason for not writing to a file if `has_other_names` is true."""
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def csv_line(cells: Iterable[object]) -> str:
    """Return a CSV row that ends in ``\\n``.

    Cells with line breaks are quoted, and None is an empty cell. Text that a spreadsheet would evaluate as a
    formula is prefixed with an apostrophe; numbers, including negative ones, are not changed.

    >>> csv_line(["=1+1", -1.5, "-1.5", None])
    "'=1+1,-1.5,-1.5,\\n"
    """
    made = io.StringIO()
    # The csv module quotes only the line breaks that its line terminator contains.
    csv.writer(made, lineterminator=_ROW_END).writerow([_escaped(cell) for cell in cells])
    return made.getvalue().removesuffix(_ROW_END) + "\n"


def _escaped(cell: object) -> object:
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _NEGATIVE.fullmatch(cell):
        return "'" + cell
    return cell


def _unescaped(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def kind_of_file(mode: int) -> str:
    """Return a description of the file type in `st_mode`."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def has_other_names(found: os.stat_result) -> bool:
    """Return whether a file has other hard links: writing to it could change a file in another folder."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 1


def open_regular(path: Path, *, links: bool = False) -> io.BufferedReader:
    """Open a regular file for reading.

    Other files are dangerous to open: a pipe blocks, and devices may be endless or have side effects.

    Args:
        path: The file.
        links: Whether the user chose the path; it may then be a symbolic link to a regular file.

    Raises:
        OSError: The file is missing, cannot be read, or is not a regular file.
    """
    _check_regular(os.stat(path, follow_symlinks=links), path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags if links else flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        _check_regular(os.fstat(descriptor), path)  # the file may have been replaced since the first check
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _check_regular(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, f"expected a file, found {kind_of_file(found.st_mode)}", str(path))


def read_regular(path: Path, most_bytes: int, *, links: bool = False) -> bytes:
    """Return the content of a regular file.

    Args:
        path: The file.
        most_bytes: Maximum size of the content.
        links: See `open_regular`.

    Raises:
        OSError: `open_regular` failed, or the file is larger than `most_bytes`.
    """
    with open_regular(path, links=links) as file:
        return _bounded(file, path, most_bytes)


def _bounded(file: BinaryIO, path: Path, most_bytes: int) -> bytes:
    if os.fstat(file.fileno()).st_size <= most_bytes:
        content = file.read(most_bytes + 1)  # the file may be growing, or a pipe
        if len(content) <= most_bytes:
            return content
    raise OSError(errno.EFBIG, f"larger than the limit of {most_bytes} bytes", str(path))


def read_text(
    path: Path, *, links: bool = False, most_bytes: int = _MAX_TEXT_BYTES, errors: str = "strict"
) -> str:
    """Read a UTF-8 file, without a byte order mark.

    Args:
        path: The file.
        links: Whether the user chose the path; it may then be a file of any type; see `read_regular`.
        most_bytes: Maximum size of the content.
        errors: What to do with invalid bytes; see `codecs`.

    Raises:
        DataError: The file is too large, cannot be read or is not UTF-8; the message contains the invalid
            byte's offset.
    """
    try:
        with open(path, "rb") if links else open_regular(path) as file:
            data = _bounded(file, path, most_bytes)
        return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", errors=errors).read()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: expected UTF-8, got an invalid byte at offset {error.start}: {error.reason}"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None


def read_rows(
    path: Path, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the cells of each non-empty row of a CSV file.

    Apostrophes that `csv_line` added are removed. The line number refers to the row's last line.

    Args:
        path: UTF-8 file, chosen by the user.
        needed: Required columns; ``a or b`` requires one of the two.
        optional: Optional columns. Any other column is ignored.

    Raises:
        DataError: The file cannot be read or is not CSV, a column is missing or duplicate, or a row has more
            or fewer cells than the heading; the message contains the line number.
    """
    reader = csv.reader(io.StringIO(read_text(path, links=True), newline=""), strict=True)
    try:
        heading = [name.strip() for name in next(reader, [])]
        _check_heading(f"{path}:1", heading, needed, optional)
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(heading):
                raise DataError(
                    f"{path}:{reader.line_num}: expected {len(heading)} cells ({', '.join(heading)}), "
                    f"got {len(row)}"
                )
            yield (
                reader.line_num,
                {name: _unescaped(cell.strip()) for name, cell in zip(heading, row, strict=True)},
            )
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: expected CSV: {error}") from None


@contextmanager
def atomic_write(path: Path, *, links: bool = False) -> Iterator[Path]:
    """Write atomically: yield a temporary file that replaces `path` on success, and is removed on failure.

    A new file is a `private_file`; an existing file keeps its mode.

    Args:
        path: The file.
        links: Whether the user chose the path. If so, links, devices and pipes, such as ``/dev/stdout``, are
            written to directly; otherwise the new file replaces them.

    Raises:
        OSError: The temporary file cannot be created, or cannot replace `path`.
    """
    if links and (path.is_symlink() or (path.exists() and not path.is_file())):
        yield path
        return
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)  # do not write through a symlink with this name
    os.close(private_opener(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        with suppress(OSError):  # `path` is missing, or belongs to another user
            if stat.S_ISREG(mode := path.lstat().st_mode):
                part.chmod(mode & 0o777)
        yield part
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


@contextmanager
def atomic_text(path: Path, *, links: bool = False) -> Iterator[TextIO]:
    """Write UTF-8 text atomically, without newline translation; see `atomic_write`."""
    with atomic_write(path, links=links) as part, part.open("w", encoding="utf-8", newline="") as file:
        yield file


def private_file(path: Path) -> Path:
    """Create an empty file that only its owner can read, regardless of the umask; return its path.

    An existing file is not changed.

    Raises:
        OSError: The file cannot be created, or is a link.
    """
    os.close(private_opener(path, os.O_CREAT | os.O_WRONLY))
    return path


def private_opener(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as the `opener` of `open`, so that only the owner can read a new file.

    Raises:
        OSError: The file cannot be opened, is not a regular file, or is a symbolic or hard link.
    """
    # Truncate only after the checks: an extracted archive may contain a hard link to a file outside its
    # folder.
    more = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags & ~os.O_TRUNC | more, 0o600)
    try:
        found = os.fstat(descriptor)
        _check_regular(found, Path(path))
        if has_other_names(found):
            raise OSError(errno.EMLINK, OTHER_NAMES, str(path))
        if flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner can access, regardless of the umask, and its parents; return it.

    Existing folders keep their mode.

    Raises:
        OSError: The folder cannot be created.
    """
    missing = [each for each in path.parents if not each.exists()]
    for each in (*reversed(missing), path):  # `parents=True` ignores the mode
        each.mkdir(mode=0o700, exist_ok=True)
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


def unique_names(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for each folder: add the parent's name where necessary, then a number."""
    count = Counter(path.name for path in paths)
    longer = [f"{path.parent.name}/{path.name}" if count[path.name] > 1 else path.name for path in paths]
    count = Counter(longer)
    return [f"{name} ({index + 1})" if count[name] > 1 else name for index, name in enumerate(longer)]
