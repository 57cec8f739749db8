"""``live-eval report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from live_eval.report import ReportFormat

__all__ = ["command"]


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File. Default: report.html in the first run's folder; stdout for the other forms.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "md", "csv", "json"]),
    default="html",
    show_default=True,
    help="Form of the report.",
)
@click.option(
    "--audio-mb",
    type=click.FloatRange(min=0),
    default=40.0,
    show_default=True,
    help="Room for sound in the page; what does not fit is left out, and the page says so.",
)
@click.option("--retime", is_flag=True, help="Compute the latencies anew by today's definitions.")
def command(runs: tuple[Path, ...], output: Path | None, form: str, audio_mb: float, retime: bool) -> None:
    """Write runs as one page to open, or as tables.

    RUNS are folders of runs. Several are put side by side and held against the first, paired by case. The
    page is one file that opens offline; it holds parts of the recordings, so heed their licence.
    """
    from live_eval.report import write_report

    if output is None and form == "html":
        output = runs[0] / "report.html"
    text = write_report(runs, output, form=cast("ReportFormat", form), audio_mb=audio_mb, retime=retime)
    if text is not None:
        click.echo(text, nl=False)
    else:
        click.echo(f"report: {output}", err=True)
