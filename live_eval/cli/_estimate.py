"""Implement ``--estimate`` and ``--assume`` of ``live-eval run``, and print the estimate."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from live_eval.cli._flags import parse_pairs
from live_eval.cli._help import Option
from live_eval.cli._listing import NONE, output_console, plain_table, print_details, print_table
from live_eval.cli._prices import price_option
from live_eval.errors import UsageError
from live_eval.text.durations import rounded_duration, seconds_of
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import counted

if TYPE_CHECKING:
    from live_eval.analysis.run_estimate import Assumptions, JudgeEstimate, RunEstimate
    from live_eval.scoring.llm.budget import Tokens

_SECONDS = ("reply", "answer", "latency", "boundaries")
_UNITS = {
    "reply": "length of a reply in seconds",
    "answer": "length of an answer to a question in seconds",
    "latency": "seconds from the end of a recording to the reply",
    "speed": "seconds of reply audio received per second",
    "boundaries": "seconds needed to find the speech boundaries of a new recording",
    "words": "words per second of speech",
    "input_tokens": "tokens per second of input audio",
    "output_tokens": "tokens per second of output audio",
    "judge_tokens": "output tokens per judge call",
}
"""Assumptions and their units."""

_NOT_INCLUDED = ("retries", "the endpoint's transcription of the input", "loading models")


def estimate_options() -> list[click.Parameter]:
    """Return the flags for estimates."""
    return [
        Option(
            ["--estimate", "is_estimate"],
            is_flag=True,
            help="Estimate turns, time and cost without contacting the endpoint.",
        ),
        price_option("the cost that --estimate prints", rare=True),
        Option(
            ["--assume"],
            rare=True,
            default="",
            metavar="KEY=NUMBER,…",
            help=f"Assumptions of --estimate: {', '.join(_UNITS)}; --estimate prints their values and units.",
        ),
    ]


def assumptions_of(text: str) -> Assumptions:
    """Parse assumptions written as ``KEY=NUMBER,…``; durations may have a unit.

    Raises:
        UsageError: A key is unknown, or a value is not a number above 0.
    """
    from live_eval.analysis.run_estimate import Assumptions

    found: dict[str, float] = {}
    for name, value in parse_pairs("--assume", filter(None, map(str.strip, text.split(",")))).items():
        if name not in _UNITS:
            raise UsageError(
                f"--assume: expected one of {', '.join(_UNITS)}, "
                f"got {name!r}{did_you_mean(name, list(_UNITS))}"
            )
        try:
            number = seconds_of(value) if isinstance(value, str) and name in _SECONDS else value
        except ValueError as error:
            raise UsageError(f"--assume: {name}: {error}, got {value!r}") from None
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 < number < math.inf:
            raise UsageError(f"--assume: {name}: expected a number above 0, got {value!r}")
        found[name] = float(number)
    return replace(Assumptions(), **found)


def print_estimate(estimate: RunEstimate) -> None:
    """Print the estimate of a run."""
    unusable = estimate.unusable
    rows = {
        "turns": f"{estimate.turns:,}{f', {unusable:,} without a usable recording' if unusable else ''}",
        "time": f"{_time(estimate.minutes)} with {counted(estimate.concurrency, 'concurrent session')}, "
        f"after up to {_time(estimate.preparation_minutes)} to find speech boundaries",
        "audio in": _time(estimate.input_minutes),
        "audio out": _time(estimate.output_minutes),
        "tokens": _tokens(estimate.tokens),
        "cost": _cost(estimate),
    }
    print_details(rows, {name: name for name in rows})
    console = output_console()
    judges = [judge for judge in estimate.judges if judge.turns]
    if judges:
        console.print()
        table = plain_table("judge", "turns", "calls", "tokens in, out", "US$", "on one core")
        for judge in judges:
            table.add_row(*_judge_cells(judge))
        print_table(console, table)
        costs = [judge.usd for judge in judges if judge.calls]
        total = None if None in costs else sum(filter(None, costs))  # for mypy
        if costs:
            console.print(f"cost of the judges: {'unknown' if total is None else f'US$ {total:,.2f}'}")
        for judge in judges:
            if judge.reason:
                console.print(f"{judge.name}: {judge.reason} (--prices)", markup=False)
    console.print("\nassumed (change with --assume KEY=NUMBER):")
    for each in fields(estimate.assumptions):
        if (value := getattr(estimate.assumptions, each.name)) is not None:
            console.print(f"  {each.name}={value:g}: {_UNITS[each.name]}", markup=False)
    console.print(f"not included: {', '.join(_NOT_INCLUDED)}")


def _cost(estimate: RunEstimate) -> str:
    if estimate.usd is None:
        flag = "--price" if estimate.tokens is not None else "--assume"
        return f"unknown: {estimate.reason} ({flag})"
    return f"US$ {estimate.usd:,.2f}"


def _judge_cells(judge: JudgeEstimate) -> list[str]:
    tokens = judge.tokens
    return [
        judge.name,
        f"{judge.turns:,}",
        f"{judge.calls:,}" if judge.calls else NONE,
        f"{tokens.input:,}, {tokens.output:,}" if tokens is not None else NONE,
        f"{judge.usd:,.2f}" if judge.usd is not None else "unknown" if judge.calls else NONE,
        _time(judge.core_minutes) if judge.core_minutes else NONE,
    ]


def _tokens(tokens: Tokens | None) -> str:
    if tokens is None:
        return "unknown"
    if not (tokens.input or tokens.output):
        return "none: the endpoint counts no tokens"
    return (
        f"{tokens.input:,} in ({tokens.audio_input:,} audio), "
        f"{tokens.output:,} out ({tokens.audio_output:,} audio)"
    )


def _time(minutes: float) -> str:
    return rounded_duration(60 * minutes)
