"""``live-eval replay``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from live_eval.cli import FAILED

__all__ = ["command"]


@click.command()
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--turn", "turn_id", help="This turn alone.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: Path, turn_id: str | None, as_json: bool) -> None:
    """Replay recorded sessions and compare them with what the run kept.

    RUN is the folder of a run that was made with --record-wire. Each attempt's cassette goes through the same
    dialect with its times, without network or key; responses, transcripts, failures and latencies are
    compared with those stored.

    Exit status: 0 when all are equal, 3 when something differs.
    """
    from live_eval.replay import replay_run

    outcomes = list(replay_run(run, turn_id))
    differing = [outcome for outcome in outcomes if outcome.differences]
    if as_json:
        click.echo(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
    else:
        for outcome in differing:
            click.echo(f"{outcome.turn_id}, attempt {outcome.attempt}: differs")
            for difference in outcome.differences or ():
                click.echo(f"  {difference}")
        equal = sum(outcome.differences == () for outcome in outcomes)
        events = sum(outcome.events for outcome in outcomes)
        counts = [f"{equal} equal to what the run kept", f"{len(differing)} not"]
        apart = len(outcomes) - equal - len(differing)
        if apart:
            counts.append(f"{apart} of attempts that were made again")
        click.echo(f"{len(outcomes)} sessions replayed, {events} events: {', '.join(counts)}")
    sys.exit(FAILED if differing else 0)
