"""``live-eval impair``."""

from __future__ import annotations

from typing import Any

import click

from live_eval.cli import _options
from live_eval.cli._listing import print_listing
from live_eval.errors import UsageError
from live_eval.impair import PARAMETERS, ImpairmentParameter, ValueUnit, parse

__all__ = ["command"]

_COLUMNS = {"name": "name", "on": "damages", "value": "value", "help": "what it means"}


@click.command()
@click.argument("specs", nargs=-1, metavar="[SPEC]…")
@click.option("--list", "lists", is_flag=True, help="List every impairment with its unit, bounds and source.")
@_options.seed_option
@_options.json_option
def command(specs: tuple[str, ...], lists: bool, seed: int, as_json: bool) -> None:
    """List impairments, or check one and print its canonical form.

    SPEC is NAME=VALUE,NAME=VALUE…, as `--impair` of run, latency and duplex takes it. A network parameter
    holds for both directions; up. or down. before its name sets one: down.loss=5%.
    """
    if lists == bool(specs):
        raise UsageError("expected --list, or impairments to check")
    if specs:
        impairment = parse(specs, seed)
        if as_json:
            _options.print_json(impairment.as_json())
        else:
            click.echo(str(impairment))
        return
    rows = [_row(parameter) for parameter in PARAMETERS.values()]
    if as_json:
        _options.print_json(rows)
        return
    shown = [row | {"on": ", ".join(row["layers"]), "value": _value(row)} for row in rows]
    print_listing(shown, _COLUMNS, as_json=False)


def _row(parameter: ImpairmentParameter) -> dict[str, Any]:
    bounded = not parameter.choices and parameter.unit is not ValueUnit.PATH
    return {
        "name": parameter.name,
        "layers": [layer.value for layer in parameter.layers],
        "directions": ["up", "down"] if parameter.on_network else [],
        "unit": parameter.unit.value,
        "low": parameter.low if bounded else None,
        "high": parameter.high if bounded else None,
        "choices": list(parameter.choices),
        "default": parameter.default,
        "needs": parameter.needs or None,
        "excludes": list(parameter.excludes),
        "help": parameter.help,
        "source": parameter.source,
    }


def _value(row: dict[str, Any]) -> str:
    if row["low"] is None:
        folder = ["FOLDER"] if row["unit"] == ValueUnit.CHOICE_OR_PATH else []
        return "|".join([*row["choices"], *folder]) or "FILE"
    text = f"{row['low']:g} to {row['high']:g} {row['unit']}"
    return f"{text} (default {row['default']})" if row["default"] else text
