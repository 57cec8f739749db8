"""Implement ``live-eval plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.text.wording import significant

if TYPE_CHECKING:
    from live_eval.analysis.sample_size import SamplePlan

__all__ = ["command"]


@click.command(cls=Command)
@click.option(
    "--detect",
    type=float,
    required=True,
    help="Difference to detect, in the metric's unit (for %: percentage points).",
)
@click.option("--metric", required=True, help="Metric, such as rubric.c4 (or C4) or voice_to_voice.")
@click.option(
    "--from",
    "run",
    type=_options.RUN,
    required=True,
    metavar="RUN",
    help="Run to estimate the variance from.",
)
@click.option(
    "--and",
    "other",
    type=_options.RUN,
    metavar="RUN",
    help="Second run of the same data, to estimate the variance of differences.",
)
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="Probability of detecting the difference."
)
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Significance level.")
@click.option(
    "--tests", type=int, default=1, show_default=True, help="Number of tests for which p will be corrected."
)
@_options.common_option
@_options.json_option
def command(
    detect: float,
    metric: str,
    run: Path,
    other: Path | None,
    power: float,
    alpha: float,
    tests: int,
    common: bool,
    as_json: bool,
) -> None:
    """Estimate how many scripts a comparison needs to show a difference.

    With two runs, the variance of their difference is estimated from its spread over scripts. With one run,
    the correlation between runs is assumed; repetitions give a lower bound on the variance.

    Examples:

    \b
      live-eval plan --detect 0.2 --metric C4 --from RUN --and RUN

    Exit status: 0; 2 if the runs do not allow an estimate.
    """
    from live_eval.analysis.comparison.series import read_runs
    from live_eval.analysis.sample_size import Aim, plan_sample

    aim = Aim(detect=detect, power=power, alpha=alpha, tests=tests)
    runs = read_runs([run] if other is None else [run, other])
    plan = plan_sample(runs, metric, aim, common=common)
    if as_json:
        _options.print_json(plan.as_json())
    else:
        _print(plan)


def _print(plan: SamplePlan) -> None:
    aim = plan.aim
    unit = {"": "", "of 5": "", "%": " percentage points"}.get(plan.unit, f" {plan.unit}")
    corrected = f", corrected for {aim.tests} tests" if aim.tests > 1 else ""
    click.echo(
        f"to detect a difference of {significant(aim.detect)}{unit} in {plan.metric} with power "
        f"{aim.power:g} at alpha {aim.alpha:g}{corrected}:"
    )
    for basis in plan.bases:
        ends = basis.scripts_interval
        between = "" if ends is None else f" (95 %: {ends[0]} to {ends[1]})"
        rho = "" if basis.rho is None or basis.basis == "assumed" else f", rho {basis.rho:.2f}"
        shown = "nothing" if basis.detectable is None else f"{significant(basis.detectable, 3)}{unit}"
        click.echo(f"  {basis.scripts} scripts{between}, {basis.in_words}{rho}")
        click.echo(
            f"    {basis.play} scripts to run, {basis.turns} turns in each run; "
            f"{plan.n_scripts} scripts show {shown}"
        )
    runs = " and ".join(plan.runs)
    click.echo(
        f"from {runs}: {plan.n_scripts} scripts, {100 * plan.scored:.0f} % of those run; "
        f"{plan.turns_per_script:.2f} turns per script"
    )
    for note in plan.notes:
        click.echo(note)
