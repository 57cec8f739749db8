"""Implement ``live-eval replay``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._help import Command
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from live_eval.cassettes.replay import Replayed

__all__ = ["command"]


@click.command(cls=Command)
@click.argument("run", type=_options.RunFolder(files=True))
@click.option("--turn", "turn_id", help="Replay only this turn.")
@click.option("--endpoint", help="Endpoint whose dialect is used, if RUN is a golden session.")
@_options.json_option
def command(run: Path, turn_id: str | None, endpoint: str | None, as_json: bool) -> None:
    """Replay recorded sessions and compare them with the stored turns.

    RUN is a run folder made with --record-wire, or a single cassette. Each attempt's cassette is replayed
    through the same dialect at the recorded times, without network or key. The messages sent, the events, and
    the turn's responses, transcripts, failure and latencies are compared with the stored ones.

    Examples:

    \b
      live-eval run openai --limit 2 --record-wire
      live-eval replay latest

    Exit status: 0 if all are equal, 3 if something differs.
    """
    from live_eval.cassettes.replay import replay_file, replay_run

    if run.is_file():
        if turn_id is not None:
            raise UsageError(f"--turn {turn_id}: {run} is a single cassette, not a run")
        outcomes = [replay_file(run, endpoint)]
    else:
        outcomes = list(replay_run(run, turn_id))
    if as_json:
        rows = [{**asdict(outcome), "equal": not outcome.differences} for outcome in outcomes]
        _options.print_json(rows)
    else:
        _print(outcomes)
    sys.exit(FAILED if any(outcome.differences for outcome in outcomes) else 0)


def _print(outcomes: Sequence[Replayed]) -> None:
    for outcome in outcomes:
        name = outcome.turn_id if outcome.attempt == 1 else f"{outcome.turn_id}, attempt {outcome.attempt}"
        what = f"{outcome.events} events" + (" and the latencies" if outcome.kept else "")
        click.echo(f"{name}: {'differs' if outcome.differences else f'equal: {what}'}")
        for difference in outcome.differences:
            click.echo(f"  {difference}")
    equal = sum(not outcome.differences for outcome in outcomes)
    click.echo(f"{equal} of {len(outcomes)} sessions match the stored turns")
