"""Folders, progress display and result output of the campaign commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click

from live_eval.campaigns.campaign import Campaign
from live_eval.campaigns.duplex.summary import DuplexSummary
from live_eval.campaigns.folders import FolderKind
from live_eval.campaigns.latency.summary import CampaignSummary
from live_eval.cli import ASSERTION_FAILED, FAILED, INTERRUPTED, _options
from live_eval.cli._errors import print_notes
from live_eval.cli._progress import RunProgress
from live_eval.cli._stored_settings import print_key
from live_eval.errors import UsageError
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import run as run_loop


def campaign_folder(out: Path | None, name: str, kind: FolderKind, *, resume: bool) -> Path:
    """Return the folder to write to: `out`, the campaign to resume, or a new folder named `name`."""
    if resume and out is None:
        raise UsageError("--resume requires --out with the campaign to continue")
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
    too_few: Iterable[str] = (),
) -> int:
    """Run a campaign with a progress bar; print its notes and results, and return the exit status.

    Args:
        too_few: Notes from `live_eval.analysis.assertions.too_few_planned`.
    """
    known = campaign.notes
    print_notes((*known, *too_few))
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
