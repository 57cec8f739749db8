"""``live-eval duplex``: interrupt an endpoint, pause, hum along, and see what it does."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from live_eval.campaigns.duplex.campaign import DuplexCampaign, DuplexPlan
from live_eval.campaigns.duplex.probes import OWN, PROBES
from live_eval.campaigns.duplex.summary import DuplexRecord, compare_campaigns, duplex_summary, read_duplex
from live_eval.cli import _options
from live_eval.cli._campaigns import campaign_folder, campaign_options, played, print_ended
from live_eval.cli._duplex import print_comparison, print_duplex
from live_eval.cli._flags import overlay
from live_eval.cli._listing import print_listing
from live_eval.errors import UsageError
from live_eval.run.run_file import validate
from live_eval.run.stop_signals import StopSignals

__all__ = ["command"]

_COMPARE = "compare"

_OWN = ("endpoint.name", "turns.repeat", "turns.shuffle")
"""Keys of the run file that the command sets itself."""


def _duplex(
    endpoint: str | None,
    folders: Sequence[str],
    probes: Sequence[str],
    repeat: int,
    sentinel_turns: int,
    listed: bool,
    out: Path | None,
    resume: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    stop = click.get_current_context().with_resource(StopSignals())
    if listed:
        _list(as_json)
        return
    if endpoint == _COMPARE:
        _compare(folders, as_json)
        return
    if endpoint is None or folders:
        raise UsageError("expected one endpoint, or the word compare and two folders of campaigns")
    plan = DuplexPlan(
        config=validate(overlay({"endpoint": {"name": endpoint}}, flags)),
        probes=probes,
        repeat=repeat,
        sentinel_turns=sentinel_turns,
    )
    folder = campaign_folder(out, f"{endpoint}-duplex", resume=resume)
    campaign = DuplexCampaign(plan, folder, resume=resume)
    known = campaign.notes
    outcome = played(campaign, stop)
    record = read_duplex(folder)
    summary = duplex_summary(record)
    status = print_ended(
        campaign,
        outcome,
        known,
        summary,
        print_duplex,
        lambda: _page(record, summary),
        as_json=as_json,
    )
    sys.exit(status)


def _page(campaign: DuplexRecord, summary: Mapping[str, Any]) -> Path:
    from live_eval.report.duplex import write_duplex_page

    return write_duplex_page(campaign, summary)


def _list(as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "name": probe.name,
            "what": probe.what,
            "conditions": [condition.name for condition in probe.conditions],
        }
        for probe in PROBES.values()
    ]
    rows.append({"name": OWN, "what": "Your annotated recordings (--data).", "conditions": []})
    print_listing(rows, {"name": "probe", "what": "plays", "conditions": "conditions"}, as_json=as_json)


def _compare(folders: Sequence[str], as_json: bool) -> None:
    if len(folders) != 2:
        raise UsageError(f"compare: expected two folders of campaigns, found {len(folders)}")
    first, second = (read_duplex(Path(folder)) for folder in folders)
    comparison = compare_campaigns(first, second)
    if as_json:
        _options.print_json(comparison)
    else:
        print_comparison(comparison)


command = click.Command(
    "duplex",
    callback=_duplex,
    params=[
        click.Argument(["endpoint"], required=False),
        click.Argument(["folders"], nargs=-1),
        click.Option(
            ["--probe", "probes"],
            multiple=True,
            metavar="NAME",
            help="Play only this probe; repeatable. --list describes them.",
        ),
        click.Option(
            ["--repeat"],
            type=click.IntRange(1),
            default=8,
            show_default=True,
            help="Trials of each condition; 8 are the fewest that have an interval.",
        ),
        click.Option(
            ["--sentinel-turns"],
            type=click.IntRange(0),
            default=3,
            show_default=True,
            help="Turns of the sentinel at the start, the middle and the end, which shows drift; 0 for none.",
        ),
        click.Option(["--list", "listed"], is_flag=True, help="List the probes with their conditions."),
        *campaign_options(_OWN, concurrency=1),
    ],
    help="""Measure how an endpoint takes turns: pauses, interruptions, backchannels, noise.

    Plays trials of every probe to ENDPOINT in random order, as one ordinary run in the campaign's folder.
    Trials that show nothing, because the reply ended by itself, are played again, at most twice. With
    --impair, all trials are played once more with the damage, and compared with the clean run.

    `live-eval duplex compare FOLDER FOLDER` compares two campaigns, paired by trial.

    Exit status: 0; 3 if sessions failed; 2 for wrong usage.""",
)
