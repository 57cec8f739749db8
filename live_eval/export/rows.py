"""Write the turn table as JSON lines or CSV.

CSV omits columns of records and writes lists as JSON. Text that a spreadsheet would evaluate as a formula is
prefixed with an apostrophe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, Literal, TypeAlias

import orjson

from live_eval.export.table import ExportTable
from live_eval.files import csv_line
from live_eval.text.mappings import flattened

__all__ = ["RowFormat", "csv_rows", "write_rows"]

RowFormat: TypeAlias = Literal["jsonl", "csv"]

# Escape these characters: they are valid in JSON, but many readers (str.splitlines) split lines at them.
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_rows(table: ExportTable, form: RowFormat, to: IO[str]) -> int:
    """Write a row for each turn to a file opened with ``newline=""``, and return the number of rows."""
    count = 0
    for line in _json_lines(table) if form == "jsonl" else _csv_lines(table):
        to.write(line)
        count += 1
    return count - (form == "csv")


def _json_lines(table: ExportTable) -> Iterator[str]:
    for row in table.rows():
        yield orjson.dumps(row).decode().translate(_LINE_ENDS) + "\n"


def csv_rows(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the heading and then the rows (nested mappings) as lines of CSV."""
    yield csv_line(names)
    for row in rows:
        flat = dict(flattened(row))
        yield csv_line(_cell(flat[name]) for name in names)


def _csv_lines(table: ExportTable) -> Iterator[str]:
    return csv_rows([column.name for column in table.columns if not column.is_records], table.rows())


def _cell(value: Any) -> Any:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            # Use JSON, because text may contain any separator.
            return orjson.dumps(value).decode().translate(_LINE_ENDS) if value else None
        case datetime():
            return value.isoformat()
        case _:
            return value
