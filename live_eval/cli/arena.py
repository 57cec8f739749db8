"""Implement ``live-eval arena``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._flags import judge_flags
from live_eval.cli._help import Command
from live_eval.cli._listing import NONE, formatted, print_listing
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from live_eval.analysis.arena.outcome import ArenaResult

__all__ = ["command"]

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_FOLDER = Path("recordings")
_FORMS = ("jsonl",)
_COLUMNS = {
    "name": "run",
    "rating": "rating (95 %)",
    "win_rate": "win rate (95 %)",
    "wins": "wins",
    "ties": "ties",
    "losses": "losses",
}


def _default_judge() -> str:
    from live_eval.registry import default_judges

    return next(iter(default_judges(pairwise=True)), "")


@click.command(cls=Command)
@_options.runs_argument
@click.option(
    "--judge",
    default=_default_judge,
    show_default="the first installed one",
    help="The pairwise judge.",
)
@click.option("--no-judge", is_flag=True, help="Use only the votes of --votes.")
@click.option(
    "--votes", type=_FILE, metavar="FILE", help="CSV file of human votes: case_id, first, second, winner."
)
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Maximum number of turns for each pair of runs, spread evenly over scripts; 0 for all.",
)
@_options.common_option
@_options.seed_option
@_options.output_option("recordings/arena-RUN-RUN.jsonl")
@_options.format_option(_FORMS)
@_options.json_option
@judge_flags(names=False)
def command(
    runs: tuple[Path, ...],
    judge: str,
    no_judge: bool,
    votes: Path | None,
    limit: int,
    common: bool,
    seed: int,
    output: Path | None,
    form: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Rank two or more runs of the same data by pairwise judgements of their replies.

    The judge compares each pair of runs on the same turns, in both orders; the verdict is the mean of both.
    Win rates and Bradley–Terry ratings have intervals over scripts. Ratings from human votes are printed
    separately, next to the judge's or, with --no-judge, alone.

    Examples:

    \b
      live-eval arena RUN RUN
      live-eval arena RUN RUN --votes votes.csv --no-judge

    Exit status: 0; 3 if the judge failed on a pair; 2 if the judge cannot run here, or for wrong usage.
    """
    from live_eval import registry
    from live_eval.analysis.arena.outcome import run_arena, verdict_lines, write_verdicts
    from live_eval.analysis.arena.verdicts import ArenaPlan
    from live_eval.analysis.comparison.series import read_runs
    from live_eval.analysis.licences import licences_of
    from live_eval.cli._progress import Bars
    from live_eval.cli._stored_settings import judges_table, print_judges_keys
    from live_eval.run.run_file import JudgesTable
    from live_eval.scoring.judge_runner import check_named, judge_options

    if len(runs) < 2:
        raise UsageError("expected at least two runs, got one")
    _options.format_to_write(_FORMS, form, output)
    if output == _options.STDOUT and as_json:
        raise UsageError("--json and --out - both write to standard output: pass a file to --out")
    plan = None if no_judge else ArenaPlan(judge=judge, limit=limit, seed=seed)
    options = judge_options(JudgesTable() if no_judge else judges_table(runs[0], flags, judge))
    if not no_judge:
        check_named([registry.judge(judge)], options)
        print_judges_keys([judge], options)
    with Bars() as progress:
        read = read_runs(runs)
        arena = run_arena(read, plan, options, votes=votes, common=common, seed=seed, progress=progress)
    if output == _options.STDOUT:
        click.echo("".join(verdict_lines(arena)), nl=False)
        _exit(arena)
    for licence in licences_of(run.manifest for run in read):
        click.echo(licence, err=True)
    names = "-".join(Path(name).name for name in arena.runs)
    out = output or _FOLDER / f"arena-{names}.jsonl"
    write_verdicts(arena, out, links=output is not None)
    shown = {**arena.as_json(), "out": str(out)}
    if as_json:
        _options.print_json(shown)
    else:
        _print(arena, shown)
        click.echo(f"verdicts: {out}")
    _exit(arena)


def _exit(arena: ArenaResult) -> NoReturn:
    sys.exit(FAILED if arena.judge is not None and arena.judge.judged.n_failed else 0)


def _print(arena: ArenaResult, shown: Mapping[str, Any]) -> None:
    judge, people = shown["judge"], shown["people"]
    if judge is not None:
        click.echo(f"by {judge['name']}, version {judge['version']}")
        _print_ratings(judge["ratings"])
        order = judge["order"]
        click.echo(
            f"order: swapping the replies changed the verdict for {_share(order['flipped'])} of {order['n']} "
            "pairs; "
            f"preference for the first position {_estimate(order['position'], 2)} (−1 to 1)"
        )
        for reason, count in judge["skipped"].items():
            click.echo(f"{count} without a verdict: {reason}")
    if people is not None:
        click.echo(f"by people: {people['votes']} votes from {people['raters']} raters ({people['file']})")
        _print_ratings(people["ratings"])
        click.echo(
            f"order: preference for the first position {_estimate(people['position'], 2)} (−1 to 1), "
            "if the order was drawn at random"
        )
        for key, words in (("n_other", "other runs"), ("n_unknown", "cases missing from the runs")):
            if people[key]:
                click.echo(f"{people[key]} votes about {words}")
    if arena.agreement is not None:
        found = shown["agreement"]
        click.echo(f"judge and people agree on {_share(found)} of the {found['n']} pairs with both verdicts")


def _print_ratings(ratings: Mapping[str, Any]) -> None:
    rows = [
        {**run, "rating": _estimate(run["rating"], 0), "win_rate": _estimate(run["win_rate"], 3)}
        for run in ratings["runs"]
    ]
    print_listing(rows, _COLUMNS, as_json=False)
    for pair in ratings["pairs"]:
        click.echo(
            f"{pair['first']} against {pair['second']}: won {pair['wins']}, tied {pair['ties']}, lost "
            f"{pair['losses']}; win rate {_estimate(pair['win_rate'], 3)}"
        )
    found = [run["rating"] for run in ratings["runs"] if run["rating"]["reason"]]
    for no_value, reason in dict.fromkeys((rating["value"] is None, rating["reason"]) for rating in found):
        click.echo(f"ratings: {reason}" if no_value else f"ratings: no interval: {reason}")
    click.echo(f"{ratings['n']} pairs of replies, {ratings['n_scripts']} scripts")


def _estimate(found: Mapping[str, Any], digits: int) -> str:
    return formatted(found["value"], found["interval"], digits=digits)


def _share(found: Mapping[str, Any]) -> str:
    return NONE if found["value"] is None else f"{100 * found['value']:.0f} %"
