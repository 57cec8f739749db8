"""``live-eval cue-sensitivity``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from live_eval.bench import JudgeOptions, load_judge
from live_eval.bench import lacks as lacks_here
from live_eval.errors import LiveEvalError
from live_eval.registry import judge
from live_eval.store import RunReader, ScoreReader

if TYPE_CHECKING:
    from live_eval.cue_sensitivity import CueSensitivity, Effect, Embedder

__all__ = ["command"]

_PLACES_SENTENCES = "semsim"


@click.command(short_help="Test whether replies change when only the voice does.")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--words/--meaning",
    "by_words",
    default=False,
    help="Compare replies word by word, or by what they mean (the default, where semsim runs here).",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all that is random.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(run: Path, by_words: bool, seed: int, as_json: bool) -> None:
    """Test whether replies change when only the voice does.

    RUN is the folder of a run that played each recording at least twice (--repeat 2), in several styles of
    each script. Replies to different styles are held against replies to the same recording.
    """
    from live_eval.cue_sensitivity import cue_sensitivity

    embedder = None if by_words else _embedder()
    with RunReader.open(run) as reader, ScoreReader.open(run) as scores:
        found = cue_sensitivity(reader, scores, embedder=embedder, seed=seed)
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2))
    else:
        _print(found)


def _embedder() -> Embedder | None:
    """Return the model of sentences behind the judge, where it runs here."""
    spec = judge(_PLACES_SENTENCES)
    if lacks_here(spec, JudgeOptions()) is not None:
        return None
    try:
        loaded: Embedder = load_judge(spec, JudgeOptions())
    except LiveEvalError:
        return None
    return loaded


def _print(found: CueSensitivity) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("", "effect", "95 % interval", "p", "d_z", "scripts"):
        table.add_column(heading, justify="left" if heading == "" else "right")
    table.add_row("overall", *_cells(found.overall))
    for name, effect in found.measures.items():
        table.add_row(f"  {name}", *_cells(effect))
    shown = {name: effect for name, effect in found.attributes.items() if effect.estimate.value is not None}
    for name, effect in shown.items():
        table.add_row(f"  scripts of {name}", *_cells(effect))
    Console().print(table)
    click.echo(_in_words(found.overall))
    for note in found.notes:
        click.echo(f"- {note}")
    for reason, count in found.left_out.items():
        click.echo(f"- {count} turns left out: {reason}")


def _cells(effect: Effect) -> list[str]:
    estimate = effect.estimate
    if estimate.value is None:
        return [estimate.reason, "", "", "", str(effect.scripts)]
    between = estimate.interval
    return [
        f"{estimate.value:.3f}",
        f"{between.low:.3f} to {between.high:.3f}" if between is not None else estimate.reason,
        f"{effect.p:.4f}" if effect.p is not None else "–",
        f"{effect.consistency:.2f}" if effect.consistency is not None else "–",
        str(effect.scripts),
    ]


def _in_words(effect: Effect) -> str:
    if effect.estimate.value is None or effect.p is None:
        return f"Nothing can be said: {effect.estimate.reason}."
    if effect.p >= 0.05:
        return "No sensitivity to the voice is shown: replies differ between styles as repeats of one do."
    return "Replies change with the voice more than repeats of the same recording do."
