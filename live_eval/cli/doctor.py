"""``live-eval doctor``: test whether an endpoint hears the user."""

from __future__ import annotations

import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import FAILED, _options
from live_eval.cli._help import Command
from live_eval.cli._listing import output_console, plain_table
from live_eval.cli.run import command as run_command
from live_eval.errors import DataError, UsageError
from live_eval.types import Case, ScoringRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from live_eval.analysis.audio_path import AudioPathCheck, CategoryCount

__all__ = ["command"]

_DATA = "big-bench-audio"
_PER_CATEGORY = 10
_MEANS = {
    "hears": "It answers more items correctly than guessing would explain.",
    "does not hear": "Its answers are no better than guesses. Check the sample rate, the encoding and the "
    "channel of the audio that it receives, and listen to the run's recordings.",
    "unclear": "These items do not show whether the endpoint hears the user. If most replies have no "
    "readable answer, read them in the run; otherwise, add items with --per-category.",
}


@click.command(cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("endpoint")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF RUN]...")
@click.option("--data", default=_DATA, show_default=True, help="Name or folder of Big Bench Audio.")
@click.option(
    "--per-category",
    type=click.IntRange(2, 250),
    default=_PER_CATEGORY,
    show_default=True,
    help="Number of items from each of the four categories.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Run folder.")
@_options.json_option
def command(
    endpoint: str, options: tuple[str, ...], data: str, per_category: int, out: Path | None, as_json: bool
) -> None:
    """Distinguish a broken audio path from a weak model, using 40 items of Big Bench Audio.

    An endpoint that hears nothing still answers half of the yes-or-no questions correctly, but hardly ever
    counts objects correctly. The check runs ten items from each category, compares the answers with guesses,
    and prints the share of correct answers with its interval. Options of `live-eval run`, such as --base-url
    and --model, are accepted.

    Examples:

    \b
      live-eval data add big-bench-audio
      live-eval doctor openai

    Exit status: 0 if the endpoint hears the user, 3 if it does not or if that is unclear, 2 for wrong usage.
    """
    from live_eval.analysis.audio_path import check_audio_path
    from live_eval.judging import JudgeRole
    from live_eval.recording import RUN_FILE
    from live_eval.registry import client, judges_with

    if endpoint.startswith("-"):
        raise UsageError(f"expected ENDPOINT before the options of run, got {endpoint}")
    client(endpoint)  # raises if the endpoint is unknown, before the data are read
    chosen = _items(data, per_category)
    out = out or _options.new_folder(endpoint)
    judges = ",".join(judges_with(JudgeRole.BENCHMARK))
    arguments = [endpoint, "--data", data, "--out", str(out), "--judges", judges, "--no-report", *options]
    arguments += ["--case", ",".join(case.case_id for case in chosen)]
    click.echo(f"{len(chosen)} items of Big Bench Audio", err=True)
    shown = contextlib.redirect_stdout(io.StringIO()) if as_json else contextlib.nullcontext()
    try:
        with shown:
            run_command.main(args=arguments, prog_name="live-eval run", standalone_mode=False)
    except SystemExit as ended:
        if ended.code not in (0, FAILED) or not (out / RUN_FILE).exists():
            raise
    check = check_audio_path(_counts(out, chosen))
    if as_json:
        _options.print_json({**check.as_json(), "run": str(out)})
    else:
        _print(check)
    sys.exit(0 if check.verdict == "hears" else FAILED)


def _items(data: str, per_category: int) -> list[Case]:
    """Return evenly spaced items from each category."""
    from live_eval.data import load, locate

    by_category: dict[str, list[Case]] = defaultdict(list)
    for case in load(locate(data)).cases:
        if case.item is not None and case.item.rule is ScoringRule.FINAL_ANSWER and case.problem is None:
            by_category[case.item.part].append(case)
    if not by_category:
        raise DataError(f"{data}: expected Big Bench Audio (live-eval data add {_DATA}), got other data")
    short = [name for name, cases in by_category.items() if len(cases) < per_category]
    if short:
        raise UsageError(
            f"--per-category {per_category} is more than the number of items of {', '.join(short)}"
        )
    return [
        cases[number * len(cases) // per_category]
        for cases in by_category.values()
        for number in range(per_category)
    ]


def _counts(out: Path, chosen: Sequence[Case]) -> dict[str, CategoryCount]:
    from live_eval.analysis.audio_path import CategoryCount
    from live_eval.analysis.summary.run_summary import summarise
    from live_eval.recording import RunReader

    with RunReader.open(out) as run:
        summary = summarise(run)
    parts = {part.part: part for task in summary.tasks for part in task.parts}
    counts: dict[str, CategoryCount] = {}
    for case in chosen:
        assert case.item is not None
        part = parts.get(case.item.part)
        if part is None or part.ours.value is None:
            continue
        correct = round(part.ours.value * part.ours.n / 100)
        counts[part.part] = CategoryCount(
            part.ours.n, correct, len(case.item.details["answers"]), part.unparsed
        )
    if not counts:
        raise DataError(f"{out}: no item was answered and scored; for the reasons: live-eval show {out}")
    return counts


def _print(check: AudioPathCheck) -> None:
    console = output_console()
    table = plain_table("category", "items", "correct", "unreadable", "by guessing", text=("category",))
    for name, count in check.categories.items():
        guess = f"{100 / count.answers:.0f} %" if count.answers else "rarely"
        table.add_row(name, str(count.items), str(count.correct), str(count.unreadable), guess)
    console.print()
    console.print(table)
    console.print(
        f"\n{check.correct:.0f} % of {check.items} items are correct, 95 % interval {check.interval.low:.0f} "
        f"to {check.interval.high:.0f}. Guessing would reach {check.by_guessing:.0f} % on average; the "
        f"probability of at least as many correct answers by guessing is {check.chance:.2g}.",
        markup=False,
        soft_wrap=True,
    )
    verdict = check.verdict.value
    console.print(f"verdict: {verdict}. {_MEANS[verdict]}", markup=False, soft_wrap=True)
