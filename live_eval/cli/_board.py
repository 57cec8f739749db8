"""Print the leaderboard's tables in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from live_eval.cli._listing import NONE, formatted, output_console, plain_table, print_table

if TYPE_CHECKING:
    from rich.text import Text

    from live_eval.report.leaderboard.board import Board, BoardCell


def print_board(board: Board) -> None:
    """Print the tables, with an interval and n below each run, then the runs and the notes."""
    from live_eval.report.cells import DIRECTIONS

    console = output_console()
    for table in board.tables:
        console.print(table.title)
        heads = (f"{column.title} {DIRECTIONS[column.higher_is_better][0]}" for column in table.columns)
        listed = plain_table("model", *heads)
        published = False
        for row in table.rows:
            if row.published and not published:
                published = True
                listed.add_row("published:")
            remark = "" if row.published else row.source.remark
            name = f"{row.source.name}, {remark}" if remark else row.source.name
            listed.add_row(name, *map(_value, row.cells))
            if any(_interval(cell) for cell in row.cells):
                for bound, label in enumerate(("  95 % interval from", "  to")):
                    listed.add_row(label, *(_interval_bound(cell, bound) for cell in row.cells))
            if any(cell.count for cell in row.cells):
                listed.add_row("  n", *(cell.count.removeprefix("n ") or NONE for cell in row.cells))
        print_table(console, listed)
        for note in table.notes:
            console.print(f"- {note}", markup=False)
        console.print()
    console.print("Runs")
    for run in board.runs:
        labelled = [f"{name} {cell}" for name, cell in zip(board.run_columns, run.cells, strict=True)]
        console.print("; ".join(labelled), markup=False)
    console.print()
    for note in board.notes:
        console.print(f"- {note}", markup=False)


def _value(cell: BoardCell) -> Text:
    """Return the value with its judge's letter; the best is bold."""
    from rich.text import Text

    words = " ".join(filter(None, (formatted(cell.value, digits=cell.digits), cell.mark)))
    return Text(words, style="bold" if cell.best else "")


def _interval(cell: BoardCell) -> Sequence[float] | None:
    return cell.estimate.interval if cell.estimate is not None else None


def _interval_bound(cell: BoardCell, bound: int) -> str:
    interval = _interval(cell)
    return NONE if interval is None else formatted(interval[bound], digits=cell.digits)
