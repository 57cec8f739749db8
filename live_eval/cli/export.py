"""``live-eval export``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import click

from live_eval.errors import UsageError

__all__ = ["command"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option("--to", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", help="Form of the rows.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File, if not stdout.")
@click.option("--retime", is_flag=True, help="Compute the latencies anew by today's definitions.")
def command(run: Path, form: str, output: Path | None, retime: bool) -> None:
    """Write a run's turns as rows.

    One row for each turn of the run in folder RUN, failed ones included: the case, the latencies in
    milliseconds (or why there is none), the scores (or why there is none), texts, and where the audio lies.
    """
    from live_eval.export import ExportFormat, export_run
    from live_eval.store import RunReader, ScoreReader

    with RunReader.open(run) as reader, ScoreReader.open(run) as scores:
        wanted = cast(ExportFormat, form)
        if output is None:
            export_run(reader, scores, wanted, sys.stdout, retime=retime)
            return
        try:
            with output.open("w", encoding="utf-8", newline="") as file:
                count = export_run(reader, scores, wanted, file, retime=retime)
        except OSError as error:
            raise UsageError(f"{output}: cannot be written: {error.strerror}") from None
    click.echo(f"{count} turns: {output}", err=True)
