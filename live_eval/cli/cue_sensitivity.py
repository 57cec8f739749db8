"""Implement ``live-eval cue-sensitivity``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.cli._listing import NONE, formatted, output_console, plain_table, print_table
from live_eval.errors import JudgeError, LiveEvalError, UsageError

if TYPE_CHECKING:
    from live_eval.analysis.cue_sensitivity.effects import Effect
    from live_eval.analysis.cue_sensitivity.measures import Embedder
    from live_eval.analysis.cue_sensitivity.sensitivity import CueSensitivity

__all__ = ["command", "measured_sensitivity", "print_sensitivity"]


@click.command(cls=Command)
@_options.run_argument
@click.option(
    "--words/--meaning",
    "by_words",
    default=None,
    help="Compare replies by their words or by their meaning. Default: meaning, if its model runs here.",
)
@_options.seed_option
@_options.json_option
def command(run: Path, by_words: bool | None, seed: int, as_json: bool) -> None:
    """Test whether replies change when only the voice changes.

    RUN must contain each script in several styles, and each recording at least twice (--repeat 2).
    Differences between styles are compared with differences between repeats.

    Examples:

    \b
      live-eval run openai --repeat 3 --prompt no
      live-eval cue-sensitivity latest
    """
    found, missing = measured_sensitivity(run, by_words=by_words, seed=seed)
    if missing:
        click.echo(f"note: {run} {missing}", err=True)
    if as_json:
        _options.print_json(found.as_json())
    else:
        print_sensitivity(found)


def measured_sensitivity(
    run: Path, *, by_words: bool | None = None, seed: int = 0
) -> tuple[CueSensitivity, str]:
    """Measure a run's cue sensitivity; return it with a note if the run has not ended.

    Args:
        by_words: Whether to compare replies by their words; None to compare meanings if the model runs here.

    Raises:
        UsageError: Comparison by meaning was requested, but is not possible.
    """
    from live_eval.analysis.cue_sensitivity.sensitivity import cue_sensitivity
    from live_eval.analysis.licences import licences_of
    from live_eval.analysis.summary.run_summary import unfinished
    from live_eval.judging import JudgeRole
    from live_eval.recording import RunReader
    from live_eval.registry import judges_with

    name = next(iter(judges_with(JudgeRole.SENTENCE_EMBEDDING)), "")
    embedder: Embedder | None = None
    no_embedder = "--words was given"
    if not by_words:
        try:
            embedder = _embedder(name)
        except LiveEvalError as error:
            if by_words is not None:
                raise UsageError(f"--meaning: {name} cannot run here: {error}") from error
            no_embedder = f"{name} cannot run here: {error}"
    with RunReader.open(run) as reader:
        found = cue_sensitivity(reader, embedder=embedder, no_embedder=no_embedder, seed=seed)
        return replace(found, notes=(*found.notes, *licences_of([reader.manifest]))), unfinished(reader)


def _embedder(name: str) -> Embedder:
    """Load a judge's sentence embedding model."""
    from live_eval.registry import judge
    from live_eval.scoring.judge_runner import JudgeOptions, load_judge, missing_requirements

    spec = judge(name)
    if (missing := missing_requirements(spec, JudgeOptions())) is not None:
        raise JudgeError(missing)
    loaded: Embedder = load_judge(spec, JudgeOptions())
    return loaded


def print_sensitivity(found: CueSensitivity) -> None:
    """Print a run's cue sensitivity."""
    table = plain_table("", "effect", "95 % interval", "p", "d_z", "scripts")
    table.add_row("overall", *_cells(found.overall))
    for name, effect in found.measures.items():
        table.add_row(f"  {name}", *_cells(effect))
    for name, effect in found.attributes.items():
        if effect.p is not None:
            table.add_row(f"  scripts of {name}", *_cells(effect))
    print_table(output_console(), table)
    click.echo(found.overall.in_words)
    for line in (*_reasons(found), *found.notes, *found.exclusions()):
        click.echo(f"- {line}")


def _cells(effect: Effect) -> list[str]:
    value, between = effect.estimate.value, effect.estimate.interval
    return [
        formatted(value, digits=3),
        f"{between.low:.3f} to {between.high:.3f}" if between is not None else NONE,
        formatted(effect.p, digits=4),
        formatted(effect.consistency, digits=2),
        str(effect.scripts),
    ]


def _reasons(found: CueSensitivity) -> list[str]:
    """Return the distinct reasons for missing values and intervals, excluding those of the overall value."""
    shown = {name: effect for name, effect in found.attributes.items() if effect.p is not None}
    named = {"overall": found.overall, **found.measures}
    named |= {f"scripts of {name}": effect for name, effect in shown.items()}
    overall = found.overall.estimate.reason if found.overall.estimate.value is None else None
    concerned: dict[str, list[str]] = {}
    for name, effect in named.items():
        estimate = effect.estimate
        if estimate.value is None and estimate.reason != overall:
            concerned.setdefault(estimate.reason, []).append(name)
        elif estimate.value is not None and estimate.interval is None:
            concerned.setdefault(f"no interval, {estimate.reason}", []).append(name)
    lines = [f"{', '.join(names)}: {reason}" for reason, names in concerned.items()]
    hidden = [effect.estimate.reason for name, effect in found.attributes.items() if name not in shown]
    if hidden and found.overall.p is not None:
        lines.append(f"{len(hidden)} of {len(found.attributes)} attributes are not shown: {hidden[0]}")
    return lines
