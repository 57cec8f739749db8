"""A board as HTML, Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from live_eval.leaderboard.board import Board, BoardCell, BoardTable, HeatMap
from live_eval.leaderboard.entries import Source
from live_eval.leaderboard.plots import LevelPlot
from live_eval.pages import page_template
from live_eval.statistics import Estimate

__all__ = ["BoardFormat", "render"]

BoardFormat: TypeAlias = Literal["html", "md", "csv", "latex"]

_NONE = "–"
_TEMPLATES = Path(__file__).parent / "templates"


def render(board: Board, form: BoardFormat) -> str:
    """Return a board in one of its forms."""
    forms: Mapping[BoardFormat, Callable[[Board], str]] = {
        "html": _html,
        "md": _markdown,
        "csv": _csv,
        "latex": _latex,
    }
    return forms[form](board)


def _figure(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}".replace("-", "−")


def _interval(estimate: Estimate | None) -> str:
    """Return what stands beside a figure of ours: its interval, or on how little it rests."""
    if estimate is None or estimate.value is None:
        return ""
    if estimate.interval is None:
        return f"n {estimate.n}"
    return f"{_figure(estimate.interval.low)} to {_figure(estimate.interval.high)}"


def _label(source: Source) -> str:
    return f"{source.name}, {source.remark}" if source.remark else source.name


def _arrow(higher: bool) -> str:
    return "↑" if higher else "↓"


# -- HTML -----------------------------------------------------------------------------------------------


def _html(board: Board) -> str:
    page = page_template(_TEMPLATES / "leaderboard.html", figure=_figure, interval=_interval, arrow=_arrow)
    return page.render(board=board, cell_note=_cell_note, heat=_heat)


def _cell_note(cell: BoardCell) -> str:
    if cell.estimate is None:
        return ""
    reason = f"; no interval: {cell.estimate.reason}" if cell.estimate.interval is None else ""
    return f"n {cell.estimate.n} of {cell.turns} turns, {cell.estimate.clusters} scripts{reason}"


def _heat(heat_map: HeatMap, estimate: Estimate) -> str:
    """Return how far along the map's scale a figure lies, in percent; empty where there is none."""
    if estimate.value is None:
        return ""
    share = (estimate.value - heat_map.low) / (heat_map.high - heat_map.low)
    return f"{100 * min(1.0, max(0.0, share)):.0f}"


# -- Markdown -------------------------------------------------------------------------------------------

_MARKUP = str.maketrans({letter: f"\\{letter}" for letter in "\\`*_[]|<>"})


def _markdown(board: Board) -> str:
    parts = ["# EchoMind leaderboard"]
    for table in board.tables:
        parts += [
            f"## {table.title}",
            _markdown_table(table),
            *(f"- {note.translate(_MARKUP)}" for note in table.notes),
        ]
    for heat_map in board.maps:
        parts += [f"## {heat_map.title}", _markdown_map(heat_map)]
    parts += ["## Levels against each other", _markdown_plots(board.plots)]
    parts += ["## Notes", "\n".join(f"- {note}" for note in board.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: BoardTable) -> str:
    heads = [f"{column.title} {_arrow(column.higher_is_better)}" for column in table.columns]
    lines = [f"| model | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for row in table.rows:
        cells = []
        for cell in row.cells:
            figure = f"**{_figure(cell.value)}**" if cell.best else _figure(cell.value)
            between = _interval(cell.estimate)
            cells.append(f"{figure} ({between})" if between else figure)
        lines.append(f"| {_label(row.source).translate(_MARKUP)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _markdown_map(heat_map: HeatMap) -> str:
    heads = " | ".join(_label(source).translate(_MARKUP) for source in heat_map.columns)
    lines = [f"| | {heads} |", "|---|" + "---:|" * len(heat_map.columns)]
    for name, row in zip(heat_map.rows, heat_map.cells, strict=True):
        cells = " | ".join(
            f"{_figure(each.value)} (n {each.n})" if each.value is not None else _NONE for each in row
        )
        lines.append(f"| {name.translate(_MARKUP)} | {cells} |")
    return "\n".join(lines)


def _markdown_plots(plots: tuple[LevelPlot, ...]) -> str:
    lines = ["| levels | Spearman over models | models | published alone |", "|---|---:|---:|---:|"]
    lines += [
        f"| {plot.up.name} by {plot.across.name} | {_figure(plot.correlation)} | {len(plot.dots)} | "
        f"{_figure(plot.published)} |"
        for plot in plots
    ]
    return "\n".join(lines)


# -- CSV ------------------------------------------------------------------------------------------------


_CSV_SOURCE = ("table", "model", "run", "prompt", "tells_cue", "published")


def _csv(board: Board) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([*_CSV_SOURCE, "figure", "value", "low", "high", "n", "turns"])
    for table in board.tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell.value is not None:
                    head = [table.title, *_told(row.source), column.title]
                    writer.writerow([*head, *_numbers(cell.value, cell.estimate), cell.turns or ""])
    for heat_map in board.maps:
        for name, estimates in zip(heat_map.rows, heat_map.cells, strict=True):
            for source, estimate in zip(heat_map.columns, estimates, strict=True):
                if estimate.value is not None:
                    head = [heat_map.title, *_told(source), name]
                    writer.writerow([*head, *_numbers(estimate.value, estimate), ""])
    return made.getvalue()


def _told(source: Source) -> list[str | bool]:
    tells_cue = source.told if source.prompt else ""
    return [source.model, source.folder or "", source.prompt, tells_cue, source.folder is None]


def _numbers(value: float, estimate: Estimate | None) -> list[str]:
    between = estimate.interval if estimate is not None else None
    return [
        f"{value:.6g}",
        f"{between.low:.6g}" if between is not None else "",
        f"{between.high:.6g}" if between is not None else "",
        str(estimate.n) if estimate is not None else "",
    ]


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


_ACROSS = 12
"""Runs side by side in a map, so that its letters stay as large as the page's."""


def _latex(board: Board) -> str:
    parts = [
        "% Needs \\usepackage{booktabs,graphicx} and \\usepackage[T1]{fontenc}; XeLaTeX or LuaLaTeX where",
        "% names hold letters beyond Latin ones. Intervals are 95 %, resampled by script.",
    ]
    parts += [_latex_table(table) for table in board.tables]
    parts += [block for heat_map in board.maps for block in _latex_map(heat_map)]
    return "\n\n".join(parts) + "\n"


def _latex_table(table: BoardTable) -> str:
    heads = [f"{column.title} {_arrow(column.higher_is_better)}".translate(_TEX) for column in table.columns]
    lines = []
    for place, row in enumerate(table.rows):
        figures = [_figure(cell.value).translate(_TEX) for cell in row.cells]
        if row.published:
            lines += ["\\midrule"] if place and not table.rows[place - 1].published else []
            lines.append(_latex_row(_label(row.source).translate(_TEX), figures))
            continue
        bold = [
            f"\\textbf{{{figure}}}" if cell.best else figure
            for figure, cell in zip(figures, row.cells, strict=True)
        ]
        # Intervals stand below their figures: beside them they would make the table too wide to be read.
        small = [
            f"\\scriptsize {text.translate(_TEX)}" if text else ""
            for text in (row.source.remark, *(_interval(cell.estimate) for cell in row.cells))
        ]
        lines += [
            _latex_row(row.source.name.translate(_TEX), bold),
            _latex_row(small[0], small[1:]),
            "\\addlinespace[2pt]",
        ]
    return _floating(table.title, heads, lines, table.notes)


def _latex_row(head: str, cells: Sequence[str]) -> str:
    # In braces: a bracket after the end of a row would be taken for its space.
    return f"{{{head}}} & {' & '.join(cells)} \\\\"


def _latex_map(heat_map: HeatMap) -> Iterator[str]:
    """Yield a table for each `_ACROSS` runs: numbers head them, and their names stand below."""
    sources = list(enumerate(heat_map.columns, 1))
    for start in range(0, len(sources), _ACROSS):
        part = slice(start, start + _ACROSS)
        lines = [
            _latex_row(name.translate(_TEX), [_figure(each.value).translate(_TEX) for each in row[part]])
            for name, row in zip(heat_map.rows, heat_map.cells, strict=True)
        ]
        names = "; ".join(f"{number}: {_label(source)}" for number, source in sources[part])
        yield _floating(heat_map.title, [str(number) for number, _ in sources[part]], lines, (names,))


def _floating(title: str, heads: list[str], lines: list[str], notes: tuple[str, ...] = ()) -> str:
    return "\n".join(
        [
            "\\begin{table}",
            "\\centering\\setlength{\\tabcolsep}{4pt}",
            f"\\caption{{{title.translate(_TEX)}}}",
            # A table that is wider than the page is made as wide as the page.
            "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
            f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
            "\\toprule",
            _latex_row("", heads),
            "\\midrule",
            *lines,
            "\\bottomrule",
            "\\end{tabular}}\\par\\smallskip",
            *(f"\\footnotesize {note.translate(_TEX)}\\par" for note in notes),
            "\\end{table}",
        ]
    )
