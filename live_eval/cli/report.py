"""Implement ``live-eval report``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from live_eval.report import ReportFormat

__all__ = ["command"]

_FORMS = ("html", "md", "csv", "json")


@click.command(cls=Command)
@click.argument("runs", nargs=-1, required=True, type=_options.RUN_OR_CAMPAIGN)
@_options.output_option(
    "report.html in the run folder (for several runs, report-A-B.html next to the first one's folder); "
    "standard output for other formats"
)
@_options.format_option(_FORMS)
@click.option(
    "--audio-mb",
    type=click.FloatRange(min=0),
    default=4.0,
    show_default=True,
    help="Maximum amount of audio to embed, starting with the most useful turns; the rest stays in the run "
    "folder.",
)
@click.option(
    "--short",
    is_flag=True,
    help="Write only the headline, the row in the paper's tables and the turns, to hand out after a live "
    "conversation.",
)
@_options.retime_option
def command(
    runs: tuple[Path, ...],
    output: Path | None,
    form: str | None,
    audio_mb: float,
    short: bool,
    retime: bool,
) -> None:
    """Write a report on runs as HTML, Markdown, CSV or JSON.

    RUNS are run folders. Several runs are shown side by side and compared with the first one, paired by case.
    The page is a single file that opens offline. It embeds parts of the recordings, so check their licence
    before you share it.

    For a latency campaign, the command writes latency.html, and report.html for each run; for a duplex
    campaign, duplex.html; for two duplex campaigns, a page that compares them. With --format md, it prints a
    campaign's assertions and values.

    Examples:

    \b
      live-eval report latest
      live-eval report RUN RUN
      live-eval report latest --format md
    """
    from live_eval.campaigns.documents import DUPLEX_CAMPAIGN, LATENCY_CAMPAIGN
    from live_eval.cli._progress import Bars
    from live_eval.report import write_report
    from live_eval.run.stop_signals import cleaned_up

    duplex = all(map(DUPLEX_CAMPAIGN.is_in, runs))
    if duplex or (len(runs) == 1 and LATENCY_CAMPAIGN.is_in(runs[0])):
        _write_campaign(runs, output, form, duplex=duplex)
        return
    for run in runs:
        _options.check_is_run(run)
    wanted = _options.format_to_write(_FORMS, form, output)
    if short and wanted != "html":
        raise UsageError(f"--short and --format {wanted}: expected the format html")
    chosen = output is not None
    if output is None:
        output = _page_of(runs) if wanted == "html" else _options.STDOUT
    file = None if output == _options.STDOUT else output
    with cleaned_up(), Bars() as progress:
        text = write_report(
            runs,
            file,
            form=cast("ReportFormat", wanted),
            audio_mb=audio_mb,
            retime=retime,
            links=chosen,
            short=short,
            progress=progress if sys.stderr.isatty() else None,
            warn=lambda message: click.echo(f"warning: {message}", err=True),
        )
    if text is None:
        click.echo(f"report: {output}", err=True)
        return
    with _options.open_output(_options.STDOUT) as stdout:
        stdout.write(text)


def _write_campaign(folders: Sequence[Path], output: Path | None, form: str | None, *, duplex: bool) -> None:
    """Write the pages of a campaign or of two duplex campaigns, or a campaign's Markdown.

    Raises:
        UsageError: Another format or another output path was requested, or there are too many campaigns.
    """
    from live_eval.report.file_names import CAMPAIGN_PAGE, DUPLEX_PAGE

    wanted = _options.format_to_write(_FORMS, form, output)
    if len(folders) == 1 and wanted == "md":
        with _options.open_output(output or _options.STDOUT) as file:
            file.write(_campaign_markdown(folders[0], duplex=duplex))
        return
    if wanted != "html" or len(folders) > 2 or output == _options.STDOUT or (len(folders) == 1 and output):
        page = DUPLEX_PAGE if duplex else CAMPAIGN_PAGE
        others = ", or two duplex campaigns with a file for --out" if duplex else ""
        raise UsageError(
            f"{folders[0]}: a campaign's report is {page} in its folder: expected one campaign, with "
            f"--format md or without --out{others}"
        )
    page_path = _duplex_page(folders, output) if duplex else _latency_page(folders[0])
    click.echo(f"report: {page_path}", err=True)


def _campaign_markdown(folder: Path, *, duplex: bool) -> str:
    from live_eval.report.campaigns import duplex_as_markdown, latency_as_markdown

    if duplex:
        from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex

        return duplex_as_markdown(duplex_summary(read_duplex(folder)))
    from live_eval.campaigns.latency.campaign_file import read_campaign
    from live_eval.campaigns.latency.summary import campaign_summary

    return latency_as_markdown(campaign_summary(read_campaign(folder), definitions=False))


def _latency_page(folder: Path) -> Path:
    from live_eval.campaigns.latency.campaign_file import read_campaign
    from live_eval.campaigns.latency.summary import campaign_summary
    from live_eval.report.latency import write_campaign_page

    return write_campaign_page(campaign_summary(read_campaign(folder)))


def _duplex_page(folders: Sequence[Path], output: Path | None) -> Path:
    from live_eval.campaigns.duplex.summary import compare_campaigns, duplex_summary, read_duplex
    from live_eval.report.duplex import write_comparison_page, write_duplex_page

    campaigns = [read_duplex(folder) for folder in folders]
    if len(folders) == 1:
        return write_duplex_page(duplex_summary(campaigns[0]))
    first, second = (folder.resolve() for folder in folders)
    default = first.with_name(f"duplex-{first.name}-{second.name}.html")
    return write_comparison_page(output or default, compare_campaigns(*campaigns))


def _page_of(runs: Sequence[Path]) -> Path:
    """Return the default path of a report: inside a single run's folder, or next to the first of several."""
    from live_eval.report.file_names import RUN_PAGE

    first, *others = (run.resolve() for run in runs)
    if not others:
        return runs[0] / RUN_PAGE
    more = f"-and-{len(others) - 1}-more" if len(others) > 1 else ""
    return first.with_name(f"report-{first.name}-{others[0].name}{more}.html")
