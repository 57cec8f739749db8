"""Implement ``live-eval weights``: download and list model weights for judges."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from live_eval.cli._help import CommandGroup
from live_eval.cli._listing import fields_of, print_listing
from live_eval.cli._options import json_option
from live_eval.errors import JudgeError, LiveEvalError, UsageError
from live_eval.redaction import mask_halves
from live_eval.text.suggestions import did_you_mean
from live_eval.weights import (
    FoundWeights,
    WeightsSpec,
    add_weights,
    find_weights,
    recorded_weights,
    weights_at,
    weights_folder,
)

if TYPE_CHECKING:
    from live_eval.judging import JudgeSpec, OptionSpec

__all__ = ["command"]

_COLUMNS = {
    "name": "weights",
    "judges": "used by",
    "megabytes": "MB",
    "here": "here",
    "licence": "licence",
}


@click.group(cls=CommandGroup)
def command() -> None:
    """Download and list model weights for judges.

    Examples:

    \b
      live-eval weights list
      live-eval weights fetch nisqa
    """


@command.command("list")
@json_option
@click.option("--check", "checked", is_flag=True, help="Read the files and verify their hashes.")
def _list(as_json: bool, checked: bool) -> None:
    """List the weights that judges use, and whether they are installed.

    Examples:

    \b
      live-eval weights list --check

    Exit status with --check: 1 if a file does not match its hash.
    """
    rows = [_row(spec, judges, checked=checked) for spec, judges in _known().values()]
    print_listing(rows, _COLUMNS, as_json=as_json)
    for row in rows if not as_json else ():
        if row["problem"]:
            click.echo(f"{row['name']}: {row['problem']}")
        elif row["here"]:
            click.echo(f"{row['name']}: {row['path']} (SHA-256 {row['sha256'][:12]})")
    if checked and any(row["problem"] for row in rows):
        sys.exit(1)


@command.command("fetch")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--again", is_flag=True, help="Download again, and accept files that have changed.")
def _fetch(names: tuple[str, ...], again: bool) -> None:
    """Download weights from their publisher.

    Interrupted downloads resume. HF_ENDPOINT replaces https://huggingface.co; a token in HF_TOKEN is
    sent only there.

    Examples:

    \b
      live-eval weights fetch nisqa
    """
    from live_eval.weights.fetching import published_at

    for spec in [_named(name) for name in names]:
        addresses = sorted({mask_halves(published_at(file)).rpartition("/")[0] for file in spec.files})
        click.echo(f"{spec.name}: {spec.title}, about {spec.megabytes} MB", err=True)
        click.echo(f"  licence: {spec.licence}", err=True)
        click.echo(f"  source:  {spec.source} (files from {', '.join(addresses)})", err=True)
        _print_found(_fetch_with_progress(spec, again=again), spec)


@command.command("add")
@click.argument("name")
@click.argument("path", type=click.Path(path_type=Path))
def _add(name: str, path: Path) -> None:
    """Use weights that are already on this machine.

    PATH is the weights file, or the folder that contains all weights files. Nothing is copied. Weights
    without a known hash are verified by loading them with a judge.

    Examples:

    \b
      live-eval weights add nisqa ~/Downloads/nisqa.tar
    """
    spec = _named(name)
    found = weights_at(path, spec)
    if not spec.pinned:
        _load_with_judge(spec, found.path)
    _print_found(add_weights(spec, path), spec)


@command.command("path")
@click.argument("name", required=False)
def _path(name: str | None) -> None:
    """Print the folder of all weights, or the path of NAME.

    Examples:

    \b
      live-eval weights path nisqa
    """
    click.echo(weights_folder() if name is None else find_weights(_named(name)).path)


def _uses() -> Iterator[tuple[JudgeSpec, OptionSpec, WeightsSpec]]:
    """Yield all weights that judges can use, each with the judge and the option that selects it."""
    from live_eval.judging import JudgeSpec
    from live_eval.registry import JUDGES, find_plugins

    for plugin in find_plugins(JUDGES):
        if isinstance(plugin.spec, JudgeSpec):
            for option in plugin.spec.options:
                for weights in option.weights:
                    yield plugin.spec, option, weights


def _load_with_judge(weights: WeightsSpec, path: Path) -> None:
    """Verify weights by loading them with a judge; print a note if no judge can run here."""
    from live_eval.scoring.judge_runner import JudgeOptions, load_judge, missing_requirements

    problems = []
    for judge, option, mine in _uses():
        if mine.name != weights.name:
            continue
        # A bare name would refer to installed weights.
        options = JudgeOptions(choices={judge.name: {option.name: str(path.absolute())}})
        problem = missing_requirements(judge, options)
        if problem is None:
            try:
                load_judge(judge, options)
            except LiveEvalError as error:
                raise JudgeError(f"cannot add {weights.name}: judge {judge.name}: {error}") from error
            return
        problems.append(f"judge {judge.name} cannot run: {problem}")
    click.echo(f"{weights.name}: not verified: {'; '.join(problems)}", err=True)


def _known() -> dict[str, tuple[WeightsSpec, list[str]]]:
    """Return the weights that judges can use, by name, each with the names of its judges."""
    known: dict[str, tuple[WeightsSpec, list[str]]] = {}
    for judge, _, spec in _uses():
        there, judges = known.setdefault(spec.name, (spec, []))
        if there != spec:
            raise UsageError(
                f"judges {judges[0]} and {judge.name} use the name {spec.name!r} for different weights"
            )
        if judge.name not in judges:
            judges.append(judge.name)
    return dict(sorted(known.items()))


def _named(name: str) -> WeightsSpec:
    known = _known()
    of_judge = [weights for weights, (_, judges) in known.items() if name in judges]
    if name not in known and of_judge:
        raise UsageError(f"{name!r} is a judge, not weights; it uses: {', '.join(of_judge)}")
    if name not in known:
        raise UsageError(
            f"unknown weights {name!r}{did_you_mean(name, known)}, "
            f"expected one of: {', '.join(known) or 'none'}"
        )
    return known[name][0]


def _row(spec: WeightsSpec, judges: list[str], *, checked: bool) -> dict[str, Any]:
    found: FoundWeights | None = None
    problem: str | None = None
    try:
        found = recorded_weights(spec)
        if checked and found is not None:
            found = find_weights(spec)
    except JudgeError as error:
        problem = str(error)
    return {
        **fields_of(spec, "name", "title", "licence", "source", "megabytes", "pinned"),
        "judges": judges,
        "files": [fields_of(file, "name", "url", "sha256") for file in spec.files],
        "here": found is not None and problem is None,
        "problem": problem,
        "path": None if found is None else str(found.path),
        "sha256": None if found is None else found.sha256,
    }


def _fetch_with_progress(spec: WeightsSpec, *, again: bool) -> FoundWeights:
    from live_eval.cli._transfers import transfer_bars
    from live_eval.weights.fetching import fetch_weights

    with transfer_bars() as progress:
        return fetch_weights(spec, again=again, progress=progress)


def _print_found(found: FoundWeights, spec: WeightsSpec) -> None:
    how = "verified" if spec.pinned else "recorded"
    click.echo(f"{spec.name}: {found.path} (SHA-256 {found.sha256}, {how})")
