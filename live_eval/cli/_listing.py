"""Print tables and detail views in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from live_eval.cli._options import print_json
from live_eval.cli._screen import console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Column, Table

    from live_eval.analysis.statistics.intervals import Estimate

NONE = "–"
"""Placeholder for a missing value."""

_UNLIMITED = 10_000


def output_console() -> Console:
    """Return a console for standard output, without highlighting, and without line breaks in piped output."""
    return console(width=None if sys.stdout.isatty() else _UNLIMITED, highlight=False)


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Return attributes by name."""
    return {name: getattr(value, name) for name in names}


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Format counts, such as ``closed 2, no_response 1``."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def formatted(
    value: float | None, interval: Sequence[float] | None = None, *, digits: int, signed: bool = False
) -> str:
    """Format a value, with its interval in parentheses if it has one; a missing value is a dash.

    >>> formatted(0.5, (-1, 1), digits=1, signed=True)
    '+0.5 (-1.0 … +1.0)'
    >>> formatted(-0.2, digits=0)
    '0'
    """
    if value is None:
        return NONE
    form = f"{'+' if signed else ''}z.{digits}f"  # z: no negative zero
    if interval is None:
        return format(value, form)
    low, high = interval
    return f"{value:{form}} ({low:{form}} … {high:{form}})"


def estimated(estimate: Estimate, *, digits: int = 0, signed: bool = False) -> str:
    """Format an estimate's value and interval, like `formatted`."""
    return formatted(estimate.value, estimate.interval, digits=digits, signed=signed)


def plain_table(*headings: str, text: Collection[str] = (), bold: bool = False) -> Table:
    """Return an empty table; the first column and the columns in `text` are left-aligned.

    Cells are plain text: names in an untrusted run may look like rich markup.
    """
    from rich.table import Table
    from rich.text import Text

    class PlainTable(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells), **options)

    table = PlainTable(box=None, pad_edge=False, header_style="bold" if bold else None)
    for index, heading in enumerate(headings):
        left = index == 0 or heading in text
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table; if it is too wide, wrap its text columns or print each row as a block."""
    from rich.padding import Padding
    from rich.text import Text

    cells = [[_words(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    least = [
        max((len(word) for cell in column for word in cell.split()), default=0)
        if _wraps(each)
        else max([*map(len, column[1:]), *map(len, column[0].split())], default=0)
        for each, column in zip(table.columns, cells, strict=True)
    ]
    natural = [max(map(len, column)) for column in cells]
    room = console.width - 2 * (len(least) - 1)
    if sum(natural) <= room:
        console.print(table)
    elif sum(least) <= room:
        _set_widths(table, least, natural, room)
        console.print(table)
    else:
        headings = [column[0] for column in cells]
        for row in zip(*(column[1:] for column in cells), strict=True):
            console.print(row[0], markup=False)
            facts = [
                f"{name} {cell}" for name, cell in zip(headings[1:], row[1:], strict=True) if cell != NONE
            ]
            console.print(Padding(Text("; ".join(facts)), (0, 0, 0, 2)))


def _set_widths(table: Table, least: Sequence[int], natural: Sequence[int], room: int) -> None:
    """Set each column to the width of its longest word, and give the remaining width to text columns."""
    rest = room - sum(least)
    for column, narrow, wide in zip(table.columns, least, natural, strict=True):
        more = min(rest, wide - narrow) if _wraps(column) else 0
        column.width = narrow + more
        rest -= more


def _wraps(column: Column) -> bool:
    return column.justify == "left" and not column.no_wrap


def _words(cell: object) -> str:
    return str(getattr(cell, "plain", cell))


def print_listing(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Print rows as JSON, or as a table of the keys in `columns`, which map to headings."""
    if as_json:
        print_json(rows)
        return
    console = output_console()
    headings = list(columns.values())
    table = plain_table(*headings, text=headings, bold=True)
    cells = [[_cell(row[key]) for key in columns] for row in rows]
    for row_cells in cells:
        table.add_row(*row_cells)
    # Users copy the names in the first column, so do not wrap them if the other columns still fit.
    longest = max((len(name) for name, *_ in cells), default=0)
    table.columns[0].no_wrap = longest <= console.width // 2
    print_table(console, table)


def print_plugins(
    name: str | None,
    rows: Sequence[dict[str, Any]],
    in_words: Callable[[dict[str, Any]], dict[str, Any]],
    columns: Mapping[str, str],
    labels: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    """Print the details of a plugin, or a table of all plugins if `name` is None.

    `in_words` returns the cells that differ from a row's JSON.
    """
    if as_json:
        print_json(rows if name is None else rows[0])
    elif name is not None:
        print_details(rows[0] | in_words(rows[0]), labels)
    else:
        print_listing([row | in_words(row) for row in rows], columns, as_json=False)


def print_details(row: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Print a row with one line per key, labelled by `labels`."""
    width = max(map(len, labels.values()))
    for key, label in labels.items():
        click.echo(f"{label:<{width}}  {_cell(row[key])}")


def _cell(value: object) -> str:
    match value:
        case None | "":
            return NONE
        case True:
            return "yes"
        case False:
            return "no"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
