"""Implement ``live-eval compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.cli._listing import NONE, estimated, formatted, output_console, plain_table, print_table
from live_eval.text.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from live_eval.analysis.comparison.difference import Difference
    from live_eval.analysis.comparison.run_comparison import RunComparison

__all__ = ["command"]

_COLUMNS = {
    "metric": "metric",
    "first": "first",
    "other": "other",
    "difference": "difference (95 %)",
    "p": "p (Holm)",
    "effect": "d_z (95 %)",
    "n": "n",
    "verdict": "verdict",
    "name": "name",
}
_WIDE = ("p", "effect", "n", "name")
"""Columns omitted on a narrow terminal."""


@click.command(cls=Command)
@_options.runs_argument
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Compare only this metric (rubric.c4, or C4); repeatable. Default: all. p is corrected for the "
    "number of metrics.",
)
@_options.common_option
@_options.seed_option
@_options.retime_option
@_options.json_option
def command(
    runs: tuple[Path, ...], metrics: tuple[str, ...], common: bool, seed: int, retime: bool, as_json: bool
) -> None:
    """Compare every latency and score of runs with the first one, paired by case.

    RUNS are the folders of two or more runs of the same data. A script counts once: its variants and
    repetitions are averaged (`show` and `leaderboard` average over turns). p comes from a sign-flip
    permutation test over scripts, Holm-corrected over all metrics of all runs. If runs differ only in the
    prompt, the best prompt is reported too.

    Examples:

    \b
      live-eval compare RUN RUN
      live-eval compare RUN RUN --metric C4 --metric voice_to_voice

    Exit status: 0; 2 if the runs cannot be compared.
    """
    from live_eval.analysis.comparison.prompts import prompt_sensitivity
    from live_eval.analysis.comparison.run_comparison import compare_runs
    from live_eval.analysis.comparison.series import read_runs

    read = read_runs(runs, retime=retime)
    compared = compare_runs(read, metrics, common=common, seed=seed)
    prompts = prompt_sensitivity(read, seed=seed)
    if as_json:
        shown = {
            **compared.as_json(),
            "seed": seed,
            "prompt_sensitivity": None if prompts is None else prompts.as_json(),
        }
        _options.print_json(shown)
        return
    for comparison in compared.comparisons:
        _print_comparison(compared.first, comparison)
    if compared.tests:
        click.echo(f"p Holm: {compared.tests_in_words} Each script counts once.")
    if prompts is not None:
        click.echo()
        for line in prompts.in_words():
            click.echo(line)
    for licence in compared.licences:
        click.echo(licence)


def _print_comparison(first: str, comparison: RunComparison) -> None:
    from live_eval.analysis.comparison.headline import headline
    from live_eval.analysis.statistics.intervals import OVER_SCRIPTS

    click.echo(f"{comparison.other} compared with {first}: {headline(first, comparison)}")
    for setting in comparison.settings:
        click.echo(f"  {setting.name}: {setting.first or 'none'} → {setting.other or 'none'}")
    click.echo()
    headings = {
        **_COLUMNS,
        "first": f"{first}, {OVER_SCRIPTS}",
        "other": f"{comparison.other}, {OVER_SCRIPTS}",
    }
    _print_rows(headings, list(_rows(comparison)))
    notes = (
        *_denominators(first, comparison),
        comparison.flagged_in_words(first),
        *_methods(comparison),
        *_close_calls(comparison),
        *comparison.notes,
    )
    for line in filter(None, notes):
        click.echo(line)


def _print_rows(headings: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> None:
    """Print a table of the metrics, without p, d_z, n and the name on a narrow terminal."""
    console = output_console()
    columns = list(headings)
    widths = [
        max([*map(len, heading.split()), *(len(row[name]) for row in rows)])
        for name, heading in headings.items()
    ]
    if sum(widths) + 2 * (len(widths) - 1) > console.width:
        columns = [name for name in columns if name not in _WIDE]
    table = plain_table(*(headings[name] for name in columns), text=(headings["verdict"], headings["name"]))
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    print_table(console, table)
    console.print()


def _rows(comparison: RunComparison) -> Iterator[dict[str, str]]:
    """Yield a row for each metric, and after each latency a second row that excludes flagged turns."""
    for name, difference in comparison.differences.items():
        yield _row(difference)
        if comparison.flagged and name in comparison.without_flagged:
            yield {**_row(comparison.without_flagged[name]), "metric": "  without flagged", "name": ""}


def _row(difference: Difference) -> dict[str, str]:
    digits = difference.digits
    arrow = {True: " ↑", False: " ↓", None: ""}[difference.higher_is_better]
    unit = f", {difference.unit}" if difference.unit else ""
    p, p_holm = difference.test.p, difference.p_holm
    return {
        "metric": f"{difference.title}{unit}{arrow}",
        "first": formatted(difference.first, digits=digits),
        "other": formatted(difference.other, digits=digits),
        "difference": estimated(difference.difference, digits=digits, signed=True),
        "p": NONE if p is None or p_holm is None else f"{_p(p)} ({_p(p_holm)})",
        "effect": estimated(difference.effect, digits=2, signed=True),
        "n": str(difference.difference.n),
        "verdict": difference.in_words,
        "name": difference.name,
    }


def _p(p: float) -> str:
    return f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def _denominators(first: str, comparison: RunComparison) -> Iterator[str]:
    """Yield notes on sample sizes and missing values."""
    if not comparison.differences:
        yield "no metric can be compared"
    names_by_counts: dict[str, list[str]] = {}
    for difference in comparison.differences.values():
        missing_by_run = {
            f"in {first}": difference.without_first,
            f"in {comparison.other}": difference.without_other,
            "in both": difference.without_both,
        }
        missing = ", ".join(f"{count} {where}" for where, count in missing_by_run.items() if count)
        counts = (
            f"{difference.difference.n} of {counted(difference.turns, 'turn')}, "
            f"{counted(difference.difference.clusters, 'script')}"
            + (f"; missing: {missing}" if missing else "")
        )
        names_by_counts.setdefault(counts, []).append(difference.title)
    for counts, names in names_by_counts.items():
        yield f"n: {counts}{_names_unless_all(names, len(names_by_counts))}"
    most = max(comparison.differences.values(), key=lambda difference: difference.turns, default=None)
    if most is not None and (most.failed_first or most.failed_other):
        yield (
            f"failed turns stay in the denominator: {most.failed_first} in {first}, "
            f"{most.failed_other} in {comparison.other}"
        )


def _methods(comparison: RunComparison) -> Iterator[str]:
    """Yield notes on the tests used for p, and on missing intervals."""
    methods: dict[str, list[str]] = {}
    names_by_reason: dict[str, list[str]] = {}
    for difference in comparison.differences.values():
        if difference.test.p is not None:
            methods.setdefault(difference.test.method, []).append(difference.title)
            if difference.difference.interval is None:
                names_by_reason.setdefault(difference.difference.reason, []).append(difference.title)
    for method, names in methods.items():
        yield f"p: {method}{_names_unless_all(names, len(methods))}"
    for reason, names in names_by_reason.items():
        yield f"no interval of the difference: {reason} ({', '.join(names)})"


def _close_calls(comparison: RunComparison) -> Iterator[str]:
    """Yield a note on significant differences whose d_z interval includes 0."""
    names = [difference.title for difference in comparison.differences.values() if difference.is_close]
    if names:
        yield (
            f"a close call: {', '.join(names)}. The test and the interval of the difference are significant, "
            "but the interval of d_z, which assumes normal differences between scripts, includes 0"
        )


def _names_unless_all(names: Sequence[str], groups: int) -> str:
    return f" ({', '.join(names)})" if groups > 1 else ""
