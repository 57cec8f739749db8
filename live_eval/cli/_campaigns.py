"""What the commands that play campaigns share: where to, how they are followed, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from live_eval.campaigns.campaign import Campaign, CampaignOutcome
from live_eval.campaigns.latency.assertions import CheckedAssertion
from live_eval.cli import ASSERTION_FAILED, FAILED, INTERRUPTED, _options
from live_eval.cli._flags import table_options
from live_eval.cli._progress import RunProgress
from live_eval.cli._recipients import print_key
from live_eval.errors import UsageError
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import run as run_loop

__all__ = ["campaign_folder", "campaign_options", "played", "print_ended"]


def campaign_options(own: Sequence[str], *, concurrency: int | None = None) -> list[click.Parameter]:
    """Return the options of every campaign, and those of the run file.

    Args:
        own: Keys of the run file that the command sets itself.
        concurrency: The default of ``turns.concurrency``, where it is not the run file's.
    """
    shared = {
        (option.name or "").replace("__", "."): option
        for table in ("endpoint", "data", "turns", "impair")
        for option in table_options(table)
    }
    key = "turns.concurrency"
    if concurrency is not None and isinstance(option := shared[key], click.Option):
        option.help = f"Sessions at a time. Default: {concurrency}.  [{key}]"
    return [
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder of the campaign. Default: a new one in recordings/.",
        ),
        click.Option(
            ["--resume"],
            is_flag=True,
            help="Continue the campaign in --out: its completed runs stay, the others continue.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON; its keys are stable."),
        *(option for key, option in shared.items() if key not in own),
    ]


def campaign_folder(out: Path | None, name: str, *, resume: bool) -> Path:
    """Return the folder of a campaign.

    Args:
        out: The folder that the user chose.
        name: The name of a new one.
        resume: Whether the campaign is to be resumed.
    """
    if resume and out is None:
        raise UsageError("--resume needs --out: the campaign to continue")
    return out or _options.new_folder(name)


def played(campaign: Campaign, stop: StopSignals) -> CampaignOutcome:
    """Play a campaign with a progress bar, after its notes."""
    for note in campaign.notes:
        click.echo(f"note: {note}", err=True)
    print_key(campaign.key_recipient)
    with RunProgress() as progress:
        return run_loop(campaign.run(progress, stop))


def print_ended(
    campaign: Campaign,
    outcome: CampaignOutcome,
    known: Sequence[str],
    summary: Mapping[str, Any],
    print_summary: Callable[[Mapping[str, Any]], None],
    write_page: Callable[[], Path],
    *,
    as_json: bool,
    checked: Sequence[CheckedAssertion] = (),
) -> int:
    """Print what a campaign has measured, where it is, and why it ended early; return the exit status.

    Args:
        campaign: The campaign.
        outcome: How it ended.
        known: Its notes that were printed before.
        summary: Its figures.
        print_summary: Prints them for people.
        write_page: Writes the campaign's page and returns its path.
        as_json: Whether to print the figures as JSON.
        checked: The assertions about it.
    """
    if as_json:
        _options.print_json(summary)
    else:
        print_summary(summary)
    for note in summary["notes"]:
        if note not in (*known, outcome.stopped):
            click.echo(f"note: {note}", err=True)
    for each in checked:
        click.echo(each.in_words, err=as_json)
    click.echo(f"campaign: {campaign.folder}", err=as_json)
    click.echo(f"page to open: {write_page()}", err=as_json)
    if outcome.interrupted:
        click.echo(f"Interrupted. To continue, rerun with --out {campaign.folder} --resume", err=True)
        return INTERRUPTED
    if outcome.stopped:
        click.echo(f"stopped: {outcome.stopped}", err=True)
    if not all(checked):
        return ASSERTION_FAILED
    return FAILED if outcome.stopped or outcome.failed else 0
