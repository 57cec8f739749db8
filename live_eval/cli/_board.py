"""Print the leaderboard's tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from live_eval.cli._listing import NONE, formatted, output_console, plain_table, print_table

if TYPE_CHECKING:
    from live_eval.report.leaderboard.board import Board, BoardCell


def print_board(board: Board) -> None:
    """Print the tables: each run with its intervals below, then the published rows."""
    console = output_console()
    for table in board.tables:
        console.print(table.title)
        listed = plain_table("model", *(column.title for column in table.columns))
        published = False
        for row in table.rows:
            if row.published and not published:
                published = True
                listed.add_row("published:")
            remark = "" if row.published else row.source.remark
            name = f"{row.source.name}, {remark}" if remark else row.source.name
            listed.add_row(name, *(formatted(cell.value, digits=cell.digits) for cell in row.cells))
            if any(_interval(cell) for cell in row.cells):
                for bound, label in enumerate(("  95 % interval from", "  to")):
                    listed.add_row(label, *(_interval_bound(cell, bound) for cell in row.cells))
        print_table(console, listed)
        for note in table.notes:
            console.print(f"- {note}", markup=False)
        console.print()
    for note in board.notes:
        console.print(f"- {note}", markup=False)


def _interval(cell: BoardCell) -> Sequence[float] | None:
    return cell.estimate.interval if cell.estimate is not None else None


def _interval_bound(cell: BoardCell, bound: int) -> str:
    interval = _interval(cell)
    return NONE if interval is None else formatted(interval[bound], digits=cell.digits)
