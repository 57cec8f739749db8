"""Define the commands and flags of ``live-eval duplex``, without importing what a campaign needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from live_eval.cli import _options
from live_eval.cli._flags import campaign_options
from live_eval.cli._help import Command, CommandGroup

__all__ = ["command"]

_CAMPAIGN = _options.RunFolder(("duplex",))

_OWN = ("endpoint.name", "turns.repeat", "turns.shuffle")
"""Run-file keys that the command sets."""

_HELPS = {
    "data.path": "Your recordings, or a benchmark of `live-eval data list`, for the probes own and "
    "expressive-pause; the other probes need none.",
    "data.limit": "Maximum number of these recordings.",
    "turns.concurrency": "Number of concurrent sessions. Default: 1.",
}
"""Help texts of flags that differ from those of a run."""


def _duplex(**values: Any) -> None:
    from live_eval.cli._duplex_command import (
        duplex_command,  # importing it takes 20 times as long as this module
    )

    duplex_command(**values)


@click.command("compare", cls=Command)
@click.argument("first", type=_CAMPAIGN)
@click.argument("second", type=_CAMPAIGN)
@_options.json_option
def _compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare two campaigns, paired by trial.

    FIRST and SECOND are folders of duplex campaigns. Differences are SECOND minus FIRST.

    Examples:

    \b
      live-eval duplex compare recordings/before recordings/after
    """
    from live_eval.cli._duplex_command import compare_command

    compare_command(first, second, as_json)


_measure = Command(
    "measure",
    callback=_duplex,
    params=[
        click.Argument(["endpoint"], required=False),
        click.Option(
            ["--probe", "probes"],
            multiple=True,
            metavar="NAME",
            help="Run only these probes (NAME or A,B,…); repeatable. --list describes them.",
        ),
        click.Option(
            ["--repeat"],
            type=click.IntRange(1),
            default=8,
            show_default=True,
            help="Number of trials per condition; an interval needs at least 8.",
        ),
        click.Option(
            ["--assert", "asserts"],
            multiple=True,
            metavar="EXPRESSION",
            help="Check a probe: 'barge_in.passed >= 90%' or 'barge_in.stop.p95 < 400ms'; repeatable.",
        ),
        click.Option(["--list", "listed"], is_flag=True, help="List the probes with their conditions."),
        *campaign_options(_OWN, drift_turns=3, helps=_HELPS),
    ],
    help="""Measure how an endpoint takes turns: pauses, interruptions, backchannels, noise.

    Runs trials of every probe with ENDPOINT in random order, as one ordinary run in the campaign folder.
    Void trials, in which the reply ended naturally, are repeated at most twice. With --impair, all trials are
    repeated with the impairment and compared with the clean run.

    `live-eval duplex ENDPOINT` is short for this command. `live-eval duplex compare` compares two campaigns.

    Examples:

    \b
      live-eval duplex openai --probe barge-in
      live-eval duplex openai --assert 'barge_in.passed >= 90%'
      live-eval duplex compare recordings/before recordings/after

    Exit status: 0; 4 if an assertion failed; 3 if sessions failed; 2 for wrong usage.""",
)

command = CommandGroup(
    "duplex",
    default="measure",
    commands=[_measure, _compare],
    help="""Measure how an endpoint takes turns, or compare two measurements.

    `live-eval duplex ENDPOINT` is short for `live-eval duplex measure ENDPOINT`.

    Examples:

    \b
      live-eval duplex openai --probe barge-in
      live-eval duplex compare recordings/before recordings/after""",
)
