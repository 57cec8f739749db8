"""What the listing commands share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

__all__ = ["print_details", "print_listing"]


def print_listing(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, as_json: bool) -> None:
    """Print rows as JSON, whole, or as a table.

    Args:
        rows: The rows.
        columns: Which keys to show, and their headings.
        as_json: JSON instead of a table.
    """
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in columns.values():
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cell(row[key])) for key in columns))
    Console().print(table)


def print_details(row: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Print one row, a line for each key.

    Args:
        row: The row.
        labels: Which keys to show, and what to call them.
    """
    width = max(map(len, labels.values()))
    for key, label in labels.items():
        click.echo(f"{label:<{width}}  {_cell(row[key])}")


def _cell(value: object) -> str:
    match value:
        case None | "":
            return "–"
        case True:
            return "yes"
        case False:
            return "no"
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)
