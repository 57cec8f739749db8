"""Implement ``live-eval show``: print the summary of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.cli._listing import NONE, counts_in_words, output_console, plain_table, print_table
from live_eval.text.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from live_eval.analysis.summary.changes import DialogueSummary
    from live_eval.analysis.summary.run_summary import RunSummary
    from live_eval.report.cells import Table as ReportTable

__all__ = ["command", "print_summary", "print_summary_json"]

_LATENCY_COLUMNS = ("latency, ms", "n", "p50", "95 % interval", "p95", "p50 of uncertain turns", "missing")


@click.command(cls=Command)
@_options.run_argument
@_options.json_option
@_options.retime_option
def command(run: Path, as_json: bool, retime: bool) -> None:
    """Print the summary of a run.

    RUN is the run folder. The summary of an incomplete run covers the recorded turns.

    Examples:

    \b
      live-eval show latest
      live-eval show recordings/friday --json
    """
    from live_eval.analysis.summary.run_summary import summarise
    from live_eval.recording import RunReader

    with RunReader.open(run) as reader:
        summary = summarise(reader, retime=retime)
    if as_json:
        print_summary_json(summary)
    else:
        print_summary(summary)


def print_summary_json(summary: RunSummary) -> None:
    """Print the summary of a run as JSON."""
    from live_eval.analysis.task_levels import relate_levels

    _options.print_json({**summary.as_json(), "levels": relate_levels(summary).as_json()})


def print_summary(summary: RunSummary, *, console: Console | None = None) -> None:
    """Print the summary of a run."""
    from rich.markup import escape

    from live_eval.report.tables import RunView, latency_table, score_table
    from live_eval.report.tasks import benchmark_table, question_table, transcription_table

    console = console or output_console()
    facts = summary.facts
    console.print(f"[bold]{escape(facts.name)}[/bold]  {escape(' · '.join(facts.about))}")
    failed = summary.total - summary.captured
    counts = f"{summary.captured} of {summary.total} turns captured"
    if failed:
        counts += f", [red]{failed} failed[/red]: {counts_in_words(summary.failures)}"
    console.print(counts)
    if facts.unfinished:
        console.print(f"[yellow]The run {facts.unfinished}.[/yellow]")
    if summary.table.unread:
        console.print(f"[yellow]warning:[/yellow] {escape(summary.table.unread)}")
    if summary.retried:
        console.print(f"retried attempts: {counts_in_words(summary.retried)}")
    if summary.warnings:
        first = summary.first_warnings
        counted_kinds = (f"{kind} {count} ({first[kind]})" for kind, count in summary.warnings.items())
        console.print(f"warnings: {', '.join(counted_kinds)}", markup=False)
    console.print()
    view = RunView(0, facts.name, summary)
    print_table(console, _terminal(latency_table([view]), *_LATENCY_COLUMNS))
    for note in (*summary.notes, *_timing_notes(summary)):
        console.print(note, style="dim", markup=False)
    if summary.scores:
        console.print()
        print_table(console, _terminal(score_table([view], named=True)))
    if summary.judges:
        judges = "; ".join(judge.in_words for judge in summary.judges)
        console.print(f"judges: {judges}", style="dim", markup=False)
    for table in (question_table([view]), transcription_table([view]), benchmark_table([view])):
        if table.rows:
            console.print()
            print_table(console, _terminal(table))
    if summary.dialogues is not None:
        console.print()
        console.print(_dialogues_in_words(summary.dialogues))
    for judge, reason in summary.could_not_run.items():
        console.print(f"[yellow]{escape(judge)} could not run:[/yellow] {escape(reason)}")


def _terminal(table: ReportTable, *labels: str) -> Table:
    """Return a report table for the terminal, with all columns or only those with these labels."""
    headings = [column.label for column in table.columns]
    indices = [headings.index(label) for label in labels] or range(len(headings))  # headings may repeat
    text = [column.label for column in table.columns if not column.numeric]
    shown = plain_table(*(headings[index] for index in indices), text=text, bold=True)
    for column in shown.columns:
        column.no_wrap = column.header == "unit"
    for row in table.rows:
        shown.add_row(*("  " * row[index].indent + row[index].text for index in indices))
    return shown


def _timing_notes(summary: RunSummary) -> list[str]:
    from live_eval.timing import LAG_BOUND_NS

    notes: list[str] = []
    lag = summary.lag
    if lag.p50 is not None and lag.p99 is not None:
        notes.append(f"error bar (lag): p50 {lag.p50:.1f} ms, p99 {lag.p99:.1f} ms")
    if lag.flagged:
        without = summary.latencies["voice_to_voice"].without_flagged
        clear = without["p50"].value
        p50 = NONE if clear is None else f"{clear:.0f} ms"
        notes.append(
            f"{counted(lag.flagged, 'turn')} with a lag above {LAG_BOUND_NS // 1_000_000} ms; "
            f"voice to voice without them: p50 {p50} (n {without.n})"
        )
    heard = summary.latencies["voice_to_voice"].measured
    median, p95 = heard["p50"], heard["p95"]
    if median.reason and summary.captured:
        notes.append(f"voice to voice has no interval: {median.reason}")
    if p95.value is None and heard.n:
        notes.append(f"voice to voice has no p95: {p95.reason}")
    if summary.stalled:
        notes.append(f"{counted(summary.stalled, 'turn')} with playout stalls")
    if summary.premature:
        notes.append(
            f"premature responses (cancelled because the user continued to speak): {summary.premature}"
        )
    return notes


def _dialogues_in_words(summary: DialogueSummary) -> str:
    followed = summary.followed
    dialogues = counted(summary.dialogues, "dialogue")
    counts = f"{dialogues} of {counted(summary.turns, 'turn')}"
    if not summary.changes:
        return counts
    counts += f"; the cue changes at {summary.changes}"
    if followed.value is None:
        return f"{counts}; whether replies follow the change: {followed.reason}"
    return f"{counts}; replies followed it (C4 of 4 or more) in {followed.value:.0f} % of {followed.n}"
