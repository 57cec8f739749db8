"""Implement ``live-eval score``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._flags import judge_flags, ray_flag
from live_eval.cli._help import Command
from live_eval.cli._listing import print_listing

if TYPE_CHECKING:
    from live_eval.scoring.scoring_run import JudgeSummary

__all__ = ["command", "print_reasons"]

_COLUMNS = {
    "name": "judge",
    "n": "n",
    "n_unscored": "unscored",
    "n_failed": "failed",
    "seconds": "seconds",
    "audio_seconds": "audio s",
    "calls": "calls",
    "cost": "cost",
}


@click.command(cls=Command)
@_options.run_argument
@judge_flags(jobs=True)
@click.option(
    "--again", is_flag=True, help="Also rescore turns that these judge versions have already scored."
)
@ray_flag
@_options.json_option
def command(run: Path, again: bool, as_json: bool, cluster__ray: str | None, **flags: Any) -> None:
    """Score the run in folder RUN again, or with other judges.

    Judges and their options are taken from the run; flags override them. Existing scores of a judge's current
    version are kept, and missing ones are retried. Judges named with --judges must be able to run here; if
    another judge cannot run, the reason is printed and its scores remain missing.

    Examples:

    \b
      live-eval score latest --judges nisqa,prosody
      live-eval score latest --judges rubric --llm-model gpt-4o-mini

    Exit status: 0; 3 if a judge failed on a turn or a named judge could not run; 2 for wrong usage.
    """
    from live_eval import registry
    from live_eval.cli._cluster import connected_to, judging_on
    from live_eval.cli._progress import Bars
    from live_eval.cli._stored_settings import judges_table, print_judges_keys
    from live_eval.run.stop_signals import StopSignals
    from live_eval.scoring.judge_runner import check_named, judge_options
    from live_eval.scoring.scoring_run import score_run

    click.get_current_context().with_resource(StopSignals())
    table = judges_table(run, flags)
    options = judge_options(table)
    if cluster__ray is None:
        named = table.names if flags["judges__names"] else ()
        check_named([registry.judge(name) for name in named], options)
    print_judges_keys(table.names, options)
    with (
        connected_to(cluster__ray) as cluster,
        judging_on(cluster, options, table) as pool,
        Bars() as progress,
    ):
        summary = score_run(run, table.names, again=again, progress=progress, options=options, pool=pool)
    rows = [asdict(judge) for judge in summary.judges]
    if as_json:
        _options.print_json(rows)
    else:
        # Omit judges without results, such as default judges for tasks that are missing from the run.
        shown = [
            {**row, **_rounded(judge)}
            for row, judge in zip(rows, summary.judges, strict=True)
            if judge.n + judge.n_unscored + judge.n_failed or not summary.turns
        ]
        print_listing(shown, _COLUMNS, as_json=False)
        for judge in summary.judges:
            print_reasons(judge)
    page = run / "report.html"
    if page.exists():
        click.echo(f"{page} may not show these scores yet; to update it: live-eval report {run}", err=True)
    named = table.names if flags["judges__names"] else ()
    if any(judge.n_failed or (judge.reason and judge.name in named) for judge in summary.judges):
        sys.exit(FAILED)


def print_reasons(judge: JudgeSummary, *, err: bool = False) -> None:
    """Print why a judge could not run, or why turns were not scored, with the number of turns."""
    if judge.reason is not None:
        click.echo(f"{judge.name} could not run: {judge.reason}", err=err)
        return
    for reason, count in judge.reasons.items():
        click.echo(f"{judge.name}: {count} not scored: {reason}", err=err)


def _rounded(judge: JudgeSummary) -> dict[str, str]:
    return {
        "seconds": f"{judge.seconds:.1f}",
        "audio_seconds": f"{judge.audio_seconds:.1f}",
        "cost": "unknown" if judge.cost is None else f"{judge.cost:.2f}",
    }
