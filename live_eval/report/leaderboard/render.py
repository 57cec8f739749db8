"""Render a board as HTML, Markdown, CSV, JSON or LaTeX."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, Literal, TypeAlias

from live_eval.analysis.leaderboard_columns import BoardColumn, TableColumn
from live_eval.files import csv_line
from live_eval.report.cells import DIRECTIONS
from live_eval.report.leaderboard.board import Board, BoardCell, BoardTable, HeatMap
from live_eval.report.leaderboard.entries import Source
from live_eval.report.leaderboard.level_plots import LevelPlot
from live_eval.report.leaderboard.paper import JUDGES
from live_eval.report.pages import page_template
from live_eval.text.wording import markdown_table, markdown_text, one_line

__all__ = ["BoardFormat", "board_helpers", "render", "table_in_words"]

BoardFormat: TypeAlias = Literal["html", "md", "csv", "json", "latex"]

_NONE = "–"


def render(board: Board, form: BoardFormat) -> str:
    """Render a board in the given format."""
    forms: Mapping[BoardFormat, Callable[[Board], str]] = {
        "html": _html,
        "md": _markdown,
        "csv": _csv,
        "json": _json,
        "latex": _latex,
    }
    return forms[form](board)


def _figure(value: float | None, digits: int = 2) -> str:
    return _NONE if value is None else f"{value:.{digits}f}".replace("-", "−")


def _value(cell: BoardCell) -> str:
    return _figure(cell.value, cell.digits)


def _extras(cell: BoardCell) -> list[str]:
    """Return the interval or else n of a run's value, then "n of total" if turns are missing."""
    between = cell.estimate.interval if cell.estimate is not None else None
    if between is None:
        return [cell.count] if cell.count else []
    found = f"{_figure(between.low, cell.digits)} to {_figure(between.high, cell.digits)}"
    return [found, cell.n_of_turns] if cell.n_of_turns else [found]


def _label(source: Source) -> str:
    return f"{source.name}, {source.remark}" if source.remark else source.name


def _arrow(higher: bool) -> str:
    return DIRECTIONS[higher][0]


# -- HTML -----------------------------------------------------------------------------------------------


def _html(board: Board) -> str:
    page = page_template("leaderboard.html", figure=_figure, arrow=_arrow)
    return page.render(board=board, heat=_heat, **board_helpers())


def board_helpers() -> dict[str, Callable[[BoardCell], Any]]:
    """Return the functions that ``board.html`` calls per cell."""
    return {"value_of": _value, "extras": _extras, "cell_note": _cell_note}


def table_in_words(table: BoardTable) -> dict[str, Any]:
    """Return a table with formatted numbers as JSON values, for a page's script."""
    return {
        "title": table.title,
        "columns": [
            {
                "title": column.heading,
                "scores": column.scores,
                "higher_is_better": column.higher_is_better,
                "definition": column.definition,
            }
            for column in table.columns
        ],
        "rows": [
            {
                "name": row.source.name,
                "remark": row.source.remark,
                "published": row.published,
                "cells": [
                    {"value": _value(cell), "mark": cell.mark, "extras": _extras(cell)} for cell in row.cells
                ],
            }
            for row in table.rows
        ],
        "notes": table.notes,
    }


def _cell_note(cell: BoardCell) -> str:
    if cell.estimate is None or cell.value is None:
        return ""
    reason = f"; no interval: {cell.estimate.reason}" if cell.estimate.interval is None else ""
    by = f"; {cell.judge.in_words}" if cell.judge is not None else ""
    return f"n {cell.estimate.n} of {cell.turns} turns, {cell.estimate.clusters} scripts{reason}{by}"


def _heat(heat_map: HeatMap, cell: BoardCell) -> str:
    """Return a value's position on the map's scale, in percent; empty for a missing value."""
    if cell.value is None:
        return ""
    return f"{min(100.0, max(0.0, heat_map.column.along(cell.value))):.0f}"


# -- Markdown -------------------------------------------------------------------------------------------


def _markdown(board: Board) -> str:
    parts = [f"# {markdown_text(board.subject)} leaderboard"]
    for table in board.tables:
        parts += [
            f"## {table.title}",
            _markdown_table(table),
            "\n".join(map(_markdown_note, table.notes)),
        ]
    parts += ["## Runs", _markdown_runs(board)]
    for heat_map in board.maps:
        parts += [f"## {heat_map.title}", _markdown_map(heat_map), *map(_markdown_note, heat_map.notes)]
    if board.plots:
        parts += ["## Levels against each other", _markdown_plots(board.plots)]
    parts += ["## Notes", "\n".join(map(_markdown_note, board.notes))]
    return "\n\n".join(parts) + "\n"


def _markdown_note(note: str) -> str:
    return f"- {markdown_text(note)}"


def _markdown_mark(mark: str) -> str:
    return f"<sup>{mark}</sup>" if mark else ""


def _markdown_table(table: BoardTable) -> str:
    heads = [f"{column.heading} {_arrow(column.higher_is_better)}" for column in table.columns]
    rows = [[markdown_text(_label(row.source)), *map(_markdown_cell, row.cells)] for row in table.rows]
    return _first_left(["model", *heads], rows)


def _markdown_cell(cell: BoardCell) -> str:
    figure = f"**{_value(cell)}**" if cell.best else _value(cell)
    extras = f" ({'; '.join(_extras(cell))})" if _extras(cell) else ""
    return f"{figure}{_markdown_mark(cell.mark)}{extras}"


def _markdown_runs(board: Board) -> str:
    right = [column == "run" for column in board.run_columns]
    return markdown_table(board.run_columns, right, ([*map(markdown_text, run.cells)] for run in board.runs))


def _markdown_map(heat_map: HeatMap) -> str:
    heads = [
        f"{markdown_text(_label(source))}{_markdown_mark(mark)}"
        for source, mark in zip(heat_map.columns, heat_map.marks, strict=True)
    ]
    rows = [
        [
            markdown_text(name),
            *(_NONE if cell.value is None else f"{_value(cell)} ({cell.count})" for cell in row),
        ]
        for name, row in zip(heat_map.rows, heat_map.cells, strict=True)
    ]
    return _first_left(["", *heads], rows)


def _markdown_plots(plots: tuple[LevelPlot, ...]) -> str:
    rows = [
        [
            f"{plot.up.heading} by {plot.across.heading}",
            _figure(plot.correlation),
            str(len(plot.dots)),
            _figure(plot.published),
        ]
        for plot in plots
    ]
    return _first_left(["levels", "Spearman over models", "models", "published only"], rows)


def _first_left(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(headings, [place > 0 for place in range(len(headings))], rows)


# -- CSV ------------------------------------------------------------------------------------------------

_CSV_SOURCE = ("table", "model", "run", "prompt", "tells_cue", "published")
_CSV_RUN = ("data", "cases", "source", "ended")
_CSV_JUDGE = ("judge", "judge_version", "judge_model")


def _csv(board: Board) -> str:
    figure = ("figure", "value", "low", "high", "n", "turns")
    lines = [csv_line([*_CSV_SOURCE, *figure, *_CSV_RUN, *_CSV_JUDGE])]
    for table in board.tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell.value is not None:
                    judge = table.judge or JUDGES.get(column.title, "") if row.published else ""
                    lines.append(csv_line(_csv_row(table.title, row.source, column.title, cell, judge)))
    for heat_map in board.maps:
        for name, cells in zip(heat_map.rows, heat_map.cells, strict=True):
            for source, cell in zip(heat_map.columns, cells, strict=True):
                if cell.value is not None:
                    lines.append(csv_line(_csv_row(heat_map.title, source, name, cell)))
    return "".join(lines)


def _csv_row(title: str, source: Source, figure: str, cell: BoardCell, paper: str = "") -> list[object]:
    """Return the row for a value; `paper` is the judge of published values."""
    run, judge = source.run, cell.judge
    tells_cue = source.states_cue if source.prompt else ""
    return [
        *(title, source.model, run.folder if run else "", source.prompt, tells_cue, run is None),
        *(figure, *_numbers(cell)),
        *((run.data, run.cases, run.source, not run.unfinished) if run else ("", "", "", "")),
        *((judge.name, judge.version, " and ".join(judge.models)) if judge else ("", "", paper)),
    ]


def _numbers(cell: BoardCell) -> list[object]:
    estimate = cell.estimate
    between = estimate.interval if estimate is not None else None
    return [
        f"{cell.value:.6g}",
        f"{between.low:.6g}" if between is not None else "",
        f"{between.high:.6g}" if between is not None else "",
        *((estimate.n, cell.turns) if estimate is not None else ("", "")),
    ]


# -- JSON -----------------------------------------------------------------------------------------------


def _json(board: Board) -> str:
    return json.dumps(_board_as_json(board), indent=2) + "\n"


def _board_as_json(board: Board) -> dict[str, Any]:
    return {
        "benchmark": board.subject,
        "tables": [_table_as_json(table) for table in board.tables],
        "runs": [asdict(run) for run in board.runs],
        "maps": [_map_as_json(heat_map) for heat_map in board.maps],
        "levels": [
            {
                "x": plot.across.title,
                "y": plot.up.title,
                "spearman": plot.correlation,
                "models": len(plot.dots),
                "spearman_published": plot.published,
            }
            for plot in board.plots
        ],
        "notes": list(board.notes),
    }


def _table_as_json(table: BoardTable) -> dict[str, Any]:
    rows = [
        {
            **_source_as_json(row.source),
            "values": {
                column.title: _cell_as_json(cell)
                for column, cell in zip(table.columns, row.cells, strict=True)
                if cell.value is not None
            },
        }
        for row in table.rows
    ]
    columns = [_column_as_json(column) for column in table.columns]
    return {"title": table.title, "columns": columns, "rows": rows, "notes": list(table.notes)}


def _map_as_json(heat_map: HeatMap) -> dict[str, Any]:
    by_source = zip(*heat_map.cells, strict=True)
    rows = [
        {
            **_source_as_json(source),
            "values": {
                name: _cell_as_json(cell)
                for name, cell in zip(heat_map.rows, cells, strict=True)
                if cell.value is not None
            },
        }
        for source, cells in zip(heat_map.columns, by_source, strict=True)
    ]
    column = _column_as_json(heat_map.column)
    return {"title": heat_map.title, "column": column, "rows": rows, "notes": list(heat_map.notes)}


def _column_as_json(column: TableColumn) -> dict[str, Any]:
    return {
        "title": column.title,
        "heading": column.heading,
        "task": column.task.value if isinstance(column, BoardColumn) else None,
        "unit": column.unit,
        "higher_is_better": column.higher_is_better,
    }


def _source_as_json(source: Source) -> dict[str, Any]:
    return {
        "model": source.model,
        "published": source.run is None,
        "run": source.run.number if source.run is not None else None,
        "prompt": source.prompt or None,
        "states_cue": source.states_cue if source.prompt else None,
    }


def _cell_as_json(cell: BoardCell) -> dict[str, Any]:
    estimate, judge = cell.estimate, cell.judge
    between = estimate.interval if estimate is not None else None
    return {
        "value": cell.value,
        "interval": [between.low, between.high] if between is not None else None,
        "reason": estimate.reason or None if estimate is not None else None,
        "n": estimate.n if estimate is not None else None,
        "turns": cell.turns if estimate is not None else None,
        "best": cell.best,
        "judge": {"name": judge.name, "version": judge.version, "models": list(judge.models)}
        if judge is not None
        else None,
    }


# -- LaTeX ----------------------------------------------------------------------------------------------

_TEX = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        "|": "\\textbar{}",
        '"': "\\textquotedbl{}",
        "–": "--",
        "−": "$-$",
        "↑": "$\\uparrow$",
        "↓": "$\\downarrow$",
    }
)


def _tex(text: str) -> str:
    """Escape text for LaTeX and put it on one line, because an empty line would end the paragraph."""
    return one_line(text).translate(_TEX)


_ACROSS = 8
"""The maximum number of runs in one part of a heat map; more would make the text too small."""


def _latex(board: Board) -> str:
    parts = [
        "% Requires \\usepackage{booktabs,graphicx} and \\usepackage[T1]{fontenc}; XeLaTeX or LuaLaTeX for",
        "% names with non-Latin letters. Intervals are 95 %, resampled by script.",
    ]
    parts += [_latex_table(table) for table in board.tables]
    parts.append(_latex_runs(board))
    parts += [block for heat_map in board.maps for block in _latex_map(heat_map)]
    return "\n\n".join(parts) + "\n"


def _latex_table(table: BoardTable) -> str:
    heads = [_tex(f"{column.heading} {_arrow(column.higher_is_better)}") for column in table.columns]
    lines = []
    for place, row in enumerate(table.rows):
        if row.published:
            lines += ["\\midrule"] if place and not table.rows[place - 1].published else []
            figures = [_tex(_value(cell)) for cell in row.cells]
            lines.append(_latex_row(_tex(_label(row.source)), figures))
            continue
        lines.append(_latex_row(_tex(row.source.name), [_latex_figure(cell) for cell in row.cells]))
        # Place intervals below their values; side by side, the table would be too wide.
        below = zip_longest([row.source.remark], *(_extras(cell) for cell in row.cells), fillvalue="")
        lines += [
            _latex_row(small[0], small[1:]) for small in (list(map(_latex_small, texts)) for texts in below)
        ]
        lines.append("\\addlinespace[2pt]")
    return _floating(table.title, ["", *heads], lines, table.notes)


def _latex_figure(cell: BoardCell) -> str:
    figure = _tex(_value(cell))
    return (f"\\textbf{{{figure}}}" if cell.best else figure) + _latex_mark(cell.mark)


def _latex_mark(mark: str) -> str:
    return f"\\textsuperscript{{{mark}}}" if mark else ""


def _latex_small(text: str) -> str:
    return f"\\scriptsize {_tex(text)}" if text else ""


def _latex_row(head: str, cells: Sequence[str]) -> str:
    # Use braces, because LaTeX interprets a bracket after a row end as row spacing.
    return f"{{{head}}} & {' & '.join(cells)} \\\\"


_RUN_WIDTHS = (0.13, 0.21, 0.1, 0.16, 0.14, 0.15)
"""The widths of the columns after the run number, relative to the page width."""


def _latex_runs(board: Board) -> str:
    # \raggedright redefines \\, so rows end with \tabularnewline.
    lines = [
        " & ".join([number, *(f"\\footnotesize\\raggedright {_tex(text)}" for text in rest)])
        + " \\tabularnewline"
        for number, *rest in (run.cells for run in board.runs)
    ]
    widths = "".join(f"p{{{width}\\linewidth}}" for width in _RUN_WIDTHS)
    return _floating("Runs", board.run_columns, lines, board.notes, columns=f"r{widths}")


def _latex_map(heat_map: HeatMap) -> Iterator[str]:
    """Yield a table for every `_ACROSS` runs, with the run numbers as headings and the run names below."""
    heads = [
        f"{source.run.number if source.run else ''}{_latex_mark(mark)}"
        for source, mark in zip(heat_map.columns, heat_map.marks, strict=True)
    ]
    for start in range(0, len(heads), _ACROSS):
        part = slice(start, start + _ACROSS)
        lines = [
            _latex_row(_tex(name), [_latex_counted(cell) for cell in row[part]])
            for name, row in zip(heat_map.rows, heat_map.cells, strict=True)
        ]
        names = "; ".join(f"{source.name}, {source.remark}" for source in heat_map.columns[part])
        yield _floating(heat_map.title, ["", *heads[part]], lines, (names, *heat_map.notes))


def _latex_counted(cell: BoardCell) -> str:
    figure = _tex(_value(cell))
    return f"{figure} {{\\scriptsize {cell.count}}}" if cell.value is not None else figure


def _floating(
    title: str, heads: Sequence[str], lines: list[str], notes: tuple[str, ...], *, columns: str = ""
) -> str:
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering\\setlength{\\tabcolsep}{4pt}",
            f"\\caption{{{_tex(title)}}}",
            # scale the table down to the page width
            "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
            f"\\begin{{tabular}}{{{columns or 'l' + 'r' * (len(heads) - 1)}}}",
            "\\toprule",
            _latex_row(heads[0], heads[1:]),
            "\\midrule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}}\\par\\smallskip",
            *(f"\\footnotesize {_tex(note)}\\par" for note in notes),
            "\\end{table}",
        ]
    )
