"""Render a report as text: Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from live_eval.analysis.task_levels import relate_levels
from live_eval.analysis.trade_offs import TradeOff
from live_eval.files import csv_line
from live_eval.report.cells import Table
from live_eval.report.glossary import DEFINITIONS, LAG_NOTE
from live_eval.report.tables import (
    RunView,
    audit_table,
    cue_tables,
    failure_table,
    judges_in_words,
    latency_table,
    score_table,
)
from live_eval.report.tasks import task_tables
from live_eval.text.wording import markdown_table, markdown_text

__all__ = ["as_csv", "as_json", "as_markdown", "table_as_markdown"]


def as_json(runs: Sequence[RunView], found: Sequence[TradeOff] = ()) -> str:
    """Return each run's ``show --json`` values, their differences, and trade-offs with latency, as JSON."""
    value = {
        "runs": [{"label": view.label, **_values(view)} for view in runs],
        "comparisons": [view.comparison.as_json() for view in runs if view.comparison is not None],
        "trade_offs": [each.as_json([view.label for view in runs]) for each in found],
    }
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def as_csv(runs: Sequence[RunView]) -> str:
    """Return every value of `as_json` as a CSV row: run, dotted path, value."""
    lines = [csv_line(["run", "figure", "value"])]
    for view in runs:
        for figure, value in _leaves(_values(view)):
            lines.append(csv_line([view.label, figure, value]))
        if view.comparison is not None:
            for figure, value in _leaves({"against": {view.comparison.first: view.comparison.as_json()}}):
                lines.append(csv_line([view.label, figure, value]))
    return "".join(lines)


def _values(view: RunView) -> dict[str, Any]:
    return {**view.summary.as_json(), "levels": relate_levels(view.summary).as_json()}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}.{index}")
    elif value is not None:
        yield path, value


def as_markdown(runs: Sequence[RunView], prompts: Sequence[str] = ()) -> str:
    """Return the tables of the report as Markdown."""
    parts = [f"# {' and '.join(markdown_text(view.label) for view in runs)}"]
    for view in runs:
        facts, summary = view.summary.facts, view.summary
        about = [*facts.about, facts.started_at]
        failed = summary.total - summary.captured
        parts.append(
            f"**{markdown_text(view.label)}**: {markdown_text(' · '.join(about))}. "
            f"{summary.captured} of {summary.total} turns captured, {failed} failed."
        )
        if facts.unfinished:
            parts.append(f"**{markdown_text(view.label)} {facts.unfinished}.**")
        if view.comparison is not None and view.comparison.problem:
            parts.append(f"**{markdown_text(view.comparison.problem)}.**")
    parts.append(_notes(runs, _on_cues))
    parts += ["## Latency", table_as_markdown(latency_table(runs)), _notes(runs, _lag)]
    parts.append(_notes(runs, lambda view: map(markdown_text, view.summary.notes)))
    parts.append(
        _notes(runs, lambda view: map(markdown_text, view.comparison.notes if view.comparison else ()))
    )
    scores = score_table(runs, named=True)
    if scores.rows:
        parts += [
            "## Scores",
            table_as_markdown(scores),
            *map(markdown_text, judges_in_words(runs)),
            *map(markdown_text, prompts),
        ]
    parts.append(_notes(runs, _could_not_run))
    audits = audit_table(runs)
    if audits.rows:
        parts += ["## Audits of the judges", table_as_markdown(audits)]
    for table in task_tables(runs, [relate_levels(view.summary) for view in runs]):
        parts += [f"## {table.title}", table_as_markdown(table)]
    failures = failure_table(runs)
    if failures.rows:
        parts += ["## Failures", table_as_markdown(failures)]
    for table in cue_tables(runs):
        parts += [f"## By cue: {table.title}", table_as_markdown(table)]
    parts += ["## Definitions", "\n".join(f"- **{name}**: {text}" for name, text in DEFINITIONS)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _notes(runs: Sequence[RunView], of: Callable[[RunView], Iterable[str]]) -> str:
    """Return the notes on each run as a Markdown list."""
    return "\n".join(f"- {markdown_text(view.label)}: {note}" for view in runs for note in of(view))


def _on_cues(view: RunView) -> Iterator[str]:
    """Yield the sentences on cues at the top of the page."""
    if (sensitivity := view.summary.cue_sensitivity) is not None:
        yield f"**Does the reply depend on the user's voice?** {markdown_text(sensitivity.overall.in_words)}"
        yield from (markdown_text(note) for note in sensitivity.notes)
    yield from (markdown_text(found.in_words) for found in view.summary.cue_maps if found.in_words)


def _lag(view: RunView) -> Iterator[str]:
    lag = view.summary.lag
    if lag.p50 is not None and lag.p99 is not None:
        yield (
            f"error bar (lag) p50 {lag.p50:.1f} ms, p99 {lag.p99:.1f} ms, {lag.flagged} turns flagged. "
            f"{LAG_NOTE}"
        )


def _could_not_run(view: RunView) -> Iterator[str]:
    if view.summary.table.unread:
        yield markdown_text(view.summary.table.unread)
    for judge, reason in view.summary.could_not_run.items():
        yield f"**{markdown_text(judge)}** could not run: {markdown_text(reason)}"


def table_as_markdown(table: Table) -> str:
    """Return a table, with its note below."""
    made = markdown_table(
        [markdown_text(column.label) for column in table.columns],
        [column.numeric for column in table.columns],
        (["\u2003" * cell.indent + markdown_text(cell.text) for cell in row] for row in table.rows),
    )
    return f"{made}\n\n{markdown_text(table.note)}" if table.note else made
