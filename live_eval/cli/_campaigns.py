"""Options, progress display and result output of the campaign commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from live_eval.campaigns.campaign import Campaign
from live_eval.campaigns.duplex.summary import DuplexSummary
from live_eval.campaigns.folders import FolderKind
from live_eval.campaigns.latency.summary import CampaignSummary
from live_eval.cli import ASSERTION_FAILED, FAILED, INTERRUPTED, _options
from live_eval.cli._flags import table_options
from live_eval.cli._progress import RunProgress
from live_eval.cli._stored_settings import print_key
from live_eval.errors import UsageError
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import run as run_loop


def campaign_options(
    excluded: Sequence[str], *, drift_turns: int, concurrency: int | None = None
) -> list[click.Parameter]:
    """Return the options common to all campaigns, and the run-file options.

    Args:
        excluded: Run-file keys without a flag here, because the command sets them.
        drift_turns: Default of ``--sentinel-turns``.
        concurrency: Default of ``turns.concurrency``, if it differs from the run file's default.
    """
    shared = {
        (option.name or "").replace("__", "."): option
        for table in ("endpoint", "data", "turns", "impair")
        for option in table_options(table)
    }
    key = "turns.concurrency"
    if concurrency is not None and isinstance(option := shared[key], click.Option):
        option.help = f"Number of concurrent sessions. Default: {concurrency}.  [{key}]"
    return [
        click.Option(
            ["--sentinel-turns"],
            type=click.IntRange(0),
            default=drift_turns,
            show_default=True,
            help="Turns of the drift check at the start, the middle and the end; 0 for none.",
        ),
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder of the campaign. Default: a new one in recordings/.",
        ),
        click.Option(
            ["--resume"],
            is_flag=True,
            help="Continue the campaign in --out (latest: the newest); completed runs are kept.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON; its keys are stable."),
        *(option for key, option in shared.items() if key not in excluded),
    ]


def campaign_folder(out: Path | None, name: str, kind: FolderKind, *, resume: bool) -> Path:
    """Return the folder to write to: `out`, the campaign to resume, or a new folder named `name`."""
    if resume and out is None:
        raise UsageError("--resume requires --out, the campaign to continue")
    found = _options.folder_to_resume(out, kind) if resume else out
    return found or _options.new_folder(name)


Summary = TypeVar("Summary", bound=CampaignSummary | DuplexSummary)


def run_campaign(
    campaign: Campaign,
    stop: StopSignals,
    read_summary: Callable[[], Summary],
    print_summary: Callable[[Summary], None],
    write_page: Callable[[Summary], Path],
    *,
    as_json: bool,
) -> int:
    """Run a campaign with a progress bar, print its notes and results, and return the exit status."""
    known = campaign.notes
    for note in known:
        click.echo(f"note: {note}", err=True)
    print_key(campaign.key_recipient)
    with RunProgress() as progress:
        outcome = run_loop(campaign.run(progress, stop))
    summary = read_summary()
    if as_json:
        _options.print_json(summary.as_json())
    else:
        print_summary(summary)
    for note in summary.notes:
        if note not in (*known, outcome.stopped):
            click.echo(f"note: {note}", err=True)
    for each in summary.asserts:
        click.echo(each.in_words, err=as_json)
    click.echo(f"campaign: {campaign.folder}", err=as_json)
    click.echo(f"report: {write_page(summary)}", err=as_json)
    if outcome.interrupted:
        click.echo(f"Interrupted. To continue, rerun with --out {campaign.folder} --resume", err=True)
        return INTERRUPTED
    if outcome.stopped:
        click.echo(f"stopped: {outcome.stopped}", err=True)
    if not all(summary.asserts):
        return ASSERTION_FAILED
    return FAILED if outcome.stopped or outcome.failed else 0
