"""Implement ``live-eval export``."""

from __future__ import annotations

from pathlib import Path

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.errors import UsageError

__all__ = ["command"]

_ROWS = ("jsonl", "csv")
_FORMS = (*_ROWS, "parquet", "hf", "inspect")
_NAMES = {"parquet": "{run}.parquet", "hf": "{run}-dataset", "inspect": "{run}.eval"}
_LOG_SUFFIXES = (".eval", ".json")


@click.command(cls=Command)
@_options.run_argument
@_options.format_option(_FORMS, "--to")
@_options.output_option(
    "standard output for jsonl and csv, otherwise a file (for hf, a folder) in the current folder",
    dir_okay=True,
)
@_options.retime_option
def command(run: Path, form: str | None, output: Path | None, retime: bool) -> None:
    """Export a run's turns for other programs.

    Writes one row for each turn of the run in folder RUN, including failed turns: the case, latencies in
    milliseconds, marks, scores (or reasons why they are missing), texts, responses and judgements. jsonl and
    csv are text, parquet is one table, hf is a folder with audio for Hugging Face's datasets.load_dataset,
    and inspect is a log for inspect_ai and its viewer (.eval or .json).

    Examples:

    \b
      live-eval export latest -o turns.csv
      live-eval export latest --format hf -o my-dataset
    """
    from live_eval.analysis.summary.run_summary import unfinished
    from live_eval.export.arrow import write_parquet
    from live_eval.export.hugging_face import write_dataset
    from live_eval.export.inspect_log import write_inspect_log
    from live_eval.export.rows import write_rows
    from live_eval.export.table import ExportTable
    from live_eval.recording import RunReader
    from live_eval.text.wording import counted

    wanted = _options.format_to_write(_FORMS, form, output)
    output = output or Path(_NAMES.get(wanted, "-").format(run=run.resolve().name))
    _check(wanted, output)
    with RunReader.open(run) as reader:
        table = ExportTable(reader, retime=retime)
        try:
            match wanted:
                case "parquet":
                    count = write_parquet(table, output)
                case "hf":
                    count = write_dataset(table, output)
                case "inspect":
                    count = write_inspect_log(reader, output, retime=retime)
                case _:
                    with _options.open_output(output) as file:
                        count = write_rows(table, "csv" if wanted == "csv" else "jsonl", file)
        except OSError as error:
            if output == _options.STDOUT:
                raise
            raise UsageError(f"cannot write {output}: {error.strerror or error}") from None
        if table.scores.unread:
            click.echo(f"warning: {run}: {table.scores.unread}", err=True)
        if missing := unfinished(reader):
            click.echo(f"note: {run} {missing}", err=True)
        if wanted in ("hf", "inspect") and (lost := reader.lost_audio()):
            click.echo(
                f"note: {counted(len(lost), 'turn')} without audio: {next(iter(lost.values()))}", err=True
            )
    if output != _options.STDOUT:
        click.echo(f"wrote {output}: {counted(count, 'turn')}", err=True)


def _check(form: str, output: Path) -> None:
    """Check that a format supports the output path."""
    if form not in _ROWS and output == _options.STDOUT:
        raise UsageError(f"--format {form} cannot write to standard output: pass --out PATH")
    if form != "hf" and output.is_dir():
        raise UsageError(f"{output}: expected a file, got a folder")
    if form == "inspect" and output.suffix not in _LOG_SUFFIXES:
        raise UsageError(f"{output}: expected the suffix {' or '.join(_LOG_SUFFIXES)}")
