"""Tables and details, shared by the listing commands."""

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

_UNBROKEN = 10_000


def output_console() -> Console:
    """Return a console for standard output without highlighting; lines are unlimited if output is piped."""
    return console(width=None if sys.stdout.isatty() else _UNBROKEN, highlight=False)


def fields_of(value: object, *names: str) -> dict[str, Any]:
    """Return attributes by name."""
    return {name: getattr(value, name) for name in names}


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return names with their counts."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def formatted(
    value: float | None, interval: Sequence[float] | None = None, *, digits: int, signed: bool = False
) -> str:
    """Return a value with its interval in parentheses, if it has one; a dash if the value is missing.

    >>> formatted(0.5, (-1, 1), digits=1, signed=True)
    '+0.5 (-1.0 … +1.0)'
    """
    if value is None:
        return NONE
    form = f"{'+' if signed else ''}.{digits}f"
    if interval is None:
        return format(value, form)
    low, high = interval
    return f"{value:{form}} ({low:{form}} … {high:{form}})"


def estimated(estimate: Estimate, *, digits: int = 0, signed: bool = False) -> str:
    """Return an estimate in the form of `formatted`."""
    return formatted(estimate.value, estimate.interval, digits=digits, signed=signed)


def plain_table(*headings: str, text: Collection[str] = (), bold: bool = False) -> Table:
    """Return an empty table; the first column and the columns in `text` are left-aligned.

    Cells are plain text, since names in an untrusted run may look like rich markup.
    """
    from rich.table import Table
    from rich.text import Text

    class PlainTable(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells), **options)

    table = PlainTable(box=None, pad_edge=False, header_style="bold" if bold else None)
    for place, heading in enumerate(headings):
        left = place == 0 or heading in text
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table; if it is too wide, wrap its text between words, or print a block for each row."""
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
    """Give each column the width of its longest word, and the remaining room to text columns."""
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
    """Print rows as JSON, or as a table of the keys in `columns`; the first column is the row's name."""
    if as_json:
        print_json(rows)
        return
    from rich.markup import escape
    from rich.table import Table

    console = output_console()
    cells = [[_cell(row[key]) for key in columns] for row in rows]
    longest = max((len(name) for name, *_ in cells), default=0)
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(columns.values()):
        # Users copy names: do not wrap them if this leaves room for the other columns.
        table.add_column(heading, overflow="fold", no_wrap=number == 0 and longest <= console.width // 2)
    for row in cells:
        table.add_row(*map(escape, row))
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
    """Print the details of a plugin, or a table of all if `name` is None; `in_words` formats a row."""
    if as_json:
        print_json(rows if name is None else rows[0])
    elif name is not None:
        print_details(rows[0] | in_words(rows[0]), labels)
    else:
        print_listing([row | in_words(row) for row in rows], columns, as_json=False)


def print_details(row: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Print one row, one line per key."""
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
