"""Implement ``live-eval judges``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from live_eval.cli import _options
from live_eval.cli._help import Command
from live_eval.cli._listing import fields_of, print_plugins

if TYPE_CHECKING:
    from live_eval.judging import JudgeSpec, OutputSpec
    from live_eval.registry import Plugin

__all__ = ["command"]

_COLUMNS = {"name": "judge", "title": "what it measures", "here": "runs here"}
_DETAILS = {
    "name": "judge",
    "title": "what it measures",
    "kind": "kind",
    "version": "version",
    "scores": "scores",
    "needs": "needs",
    "uses": "uses if available",
    "options": "options",
    "model": "model",
    "base_url": "base URL",
    "key_variable": "API key",
    "weights": "weights",
    "licence": "licence",
    "source": "source",
    "missing": "missing here",
}


@click.command(cls=Command)
@click.argument("name", required=False)
@_options.json_option
def command(name: str | None, as_json: bool) -> None:
    """List judges and whether they run here, or show one in detail.

    Examples:

    \b
      live-eval judges
      live-eval judges dnsmos
    """
    from live_eval.registry import JUDGES, find_plugins, judge

    if name is not None:
        judge(name)  # raises if the judge is unknown or broken
    rows = [_row(plugin) for plugin in find_plugins(JUDGES) if name in (None, plugin.name)]
    print_plugins(name, rows, _in_words, _COLUMNS, _DETAILS, as_json=as_json)
    if name is None and not as_json:
        click.echo("\nDetails: live-eval judges NAME")


def _row(plugin: Plugin) -> dict[str, Any]:
    from live_eval.judging import JudgeKind, JudgeSpec, score_name
    from live_eval.registry import missing_requirements

    spec = plugin.spec
    broken = not isinstance(spec, JudgeSpec)
    if not isinstance(spec, JudgeSpec):  # the row of a broken plugin has all keys, with empty values
        spec = JudgeSpec(
            name=plugin.name,
            version="",
            title="",
            kind=JudgeKind.LOCAL,
            implementation="",
            outputs=(),
            needs=frozenset(),
        )
    missing = plugin.problem if broken else missing_requirements(spec)
    return {
        **fields_of(spec, "name", "title", "version", "on_device", "extra", "key_variable", "base_url"),
        **fields_of(spec, "model", "licence", "source"),
        "ok": missing is None,
        "missing": missing,
        "kind": None if broken else spec.kind.value,
        "scores": [score_name(spec.name, output.name) for output in spec.outputs],
        "outputs": [_output(spec, output) for output in spec.outputs],
        "needs": sorted(need.value for need in spec.needs),
        "uses": sorted(need.value for need in spec.uses),
        "options": [fields_of(option, "name", "help", "default", "choices") for option in spec.options],
        "packages": list(spec.packages),
        "weights": [
            fields_of(weights, "name", "licence", "source")
            for option in spec.options
            for weights in option.weights
        ],
    }


def _output(spec: JudgeSpec, output: OutputSpec) -> dict[str, Any]:
    from live_eval.judging import score_name

    return {
        "score": score_name(spec.name, output.name),
        **fields_of(output, "title", "unit", "low", "high", "scale", "higher_is_better", "optional"),
    }


def _in_words(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "here": "yes" if row["ok"] else f"no: {row['missing']}",
        "scores": "; ".join(_score_line(output) for output in row["outputs"]),
        "options": "; ".join(_option_line(option) for option in row["options"]),
        "weights": [weights["name"] for weights in row["weights"]],
    }


def _score_line(output: dict[str, Any]) -> str:
    ends = output["scale"] or (output["low"], output["high"])
    low, high = ("…" if value is None else f"{value:g}" for value in ends)
    better = {True: ", higher is better", False: ", lower is better", None: ""}[output["higher_is_better"]]
    unit = f" {output['unit']}" if output["unit"] else ""
    return f"{output['score']} = {output['title']} ({low} to {high}{unit}{better})"


def _option_line(option: dict[str, Any]) -> str:
    what = " or ".join(option["choices"]) or option["help"]
    default = f" (default {option['default']})" if option["default"] else ""
    return f"{option['name']}: {what}{default}"
