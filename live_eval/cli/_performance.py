"""Print the results of a performance: cue sensitivity, and scores next to the paper's published rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli._board import print_board
from live_eval.cli.cue_sensitivity import measured_sensitivity, print_sensitivity

if TYPE_CHECKING:
    from live_eval.report.leaderboard.board import BoardTable

__all__ = ["print_outcome"]


def print_outcome(run: Path) -> None:
    """Print whether replies change with the voice, then the scores next to the paper's rows."""
    from live_eval.report.leaderboard import build_board

    click.echo("Does the model hear how you speak?")
    found, _ = measured_sensitivity(run)
    print_sensitivity(found)
    click.echo()
    board = build_board([run])
    tables = (_scored(table) for table in board.tables if any(not row.published for row in table.rows))
    print_board(replace(board, tables=tuple(tables)))


def _scored(table: BoardTable) -> BoardTable:
    """Return a table with only the columns in which the run has a value."""
    places = [
        place
        for place in range(len(table.columns))
        if any(row.cells[place].value is not None for row in table.rows if not row.published)
    ]
    rows = [replace(row, cells=tuple(row.cells[place] for place in places)) for row in table.rows]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in places),
        rows=tuple(row for row in rows if any(cell.value is not None for cell in row.cells)),
    )
