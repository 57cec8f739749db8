"""Text files that people hand in, what they hold, and the rows of a CSV file; and where to write theirs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from live_eval.errors import DataError

__all__ = ["read_rows", "read_text", "written_whole"]


def read_text(path: Path) -> str:
    """Return what a file in UTF-8 holds, without a byte order mark.

    Raises:
        DataError: It cannot be read, or is no UTF-8; the message names the byte.
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
    """Yield each row of a CSV file with a heading, and the line it ends on; empty rows are passed over.

    Args:
        path: The file, in UTF-8.
        needed: The columns that must be there; ``a or b`` where one of them will do.
        optional: Columns that may be there. Others may be, too, and are not looked at.

    Raises:
        DataError: The file cannot be read or is no CSV, a column is lacking or there twice, or a row has
            another number of cells than the heading; the message names the line.
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
            yield reader.line_num, {name: cell.strip() for name, cell in zip(heading, row, strict=True)}
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: expected CSV: {error}") from None


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Yield where to write what is to be at a path, so that a file is there whole, or is as it was.

    It is a file beside it, which is moved in place in the end. A link, a device and a pipe are written to as
    they are, and never replaced: ``/dev/stdout`` is a link, and may lead to a file.

    Args:
        path: Where the user wants it.

    Raises:
        OSError: It cannot be moved in place.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    part = path.with_name(path.name + ".part")
    yield part
    part.replace(path)


def _check_heading(
    where: str, heading: Sequence[str], needed: Sequence[str], optional: Sequence[str]
) -> None:
    known = {name for column in needed for name in column.split(" or ")} | set(optional)
    twice = next((name for name in heading if name in known and heading.count(name) > 1), None)
    if twice or not all(set(column.split(" or ")) & set(heading) for column in needed):
        found = f"{twice} twice" if twice else ", ".join(heading) or "nothing"
        raise DataError(
            f"{where}: expected the columns {', '.join(needed)}, and where wanted {', '.join(optional)}; "
            f"found {found}"
        )
