"""``live-eval export``."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from live_eval.cli import _options

__all__ = ["command"]

_FORMS = ("jsonl", "csv")


@click.command()
@_options.run_argument
@_options.format_option(_FORMS, "--to")
@_options.output_option("standard output")
@_options.retime_option
def command(run: Path, form: str | None, output: Path | None, retime: bool) -> None:
    """Write a run's turns as JSON lines or CSV.

    One row for each turn of the run in folder RUN, including failed ones: the case, latencies in
    milliseconds, scores (each with the reason if it is missing), texts, and paths of the audio.
    """
    from live_eval.analysis.summary import unfinished
    from live_eval.recording import RunReader, ScoreReader
    from live_eval.report.export import ExportFormat, export_run

    wanted = _options.format_to_write(_FORMS, form, output)
    output = output or _options.STDOUT
    with RunReader.open(run) as reader, ScoreReader.open(run) as scores:
        with _options.open_output(output) as file:
            count = export_run(reader, scores, cast(ExportFormat, wanted), file, retime=retime)
        if missing := unfinished(reader):
            click.echo(f"note: {run} {missing}", err=True)
    if output != _options.STDOUT:
        click.echo(f"wrote {output}: {count} turns", err=True)
