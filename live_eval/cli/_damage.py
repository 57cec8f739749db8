"""List impairments and the built-in endpoint's faults."""

from __future__ import annotations

from typing import Any

import click

from live_eval.cli._listing import print_listing
from live_eval.impair import DIRECTIONS, PARAMETERS, BoundedValue, ImpairmentParameter, ValueUnit
from live_eval.reference.faults.catalogue import FAULTS, MOMENT, FaultDescription

_COLUMNS = {"value": "value", "help": "effect"}
_ARGUMENTS = {"%": "share", "B": "size", "ms": "duration"}


def print_impairments(*, as_json: bool) -> None:
    """Print every impairment; without JSON, also every fault."""
    rows = [_impairment(parameter) for parameter in PARAMETERS.values()]
    print_listing(rows, {"name": "impairment", "layers": "acts on", **_COLUMNS}, as_json=as_json)
    if not as_json:
        click.echo("\nThe built-in endpoint also injects faults, with `live-eval endpoint --fault`:\n")
        print_faults(as_json=False)


def print_faults(*, as_json: bool) -> None:
    """Print every fault."""
    rows = [_fault(each) for each in FAULTS.values()]
    print_listing(rows, {"name": "fault", "layer": "acts on", **_COLUMNS}, as_json=as_json)


def _impairment(parameter: ImpairmentParameter) -> dict[str, Any]:
    value = parameter.value
    bounded = not value.choices and value.unit is not ValueUnit.PATH
    return {
        "name": parameter.name,
        "layers": [layer.value for layer in parameter.layers],
        "directions": list(DIRECTIONS) if parameter.on_network else [],
        "unit": value.unit.value,
        "low": value.low if bounded else None,
        "high": value.high if bounded else None,
        "choices": list(value.choices),
        "default": value.default,
        "needs": parameter.needs or None,
        "excludes": list(parameter.excludes),
        "help": parameter.help,
        "source": parameter.source,
        "value": value.described,
    }


def _fault(fault: FaultDescription) -> dict[str, Any]:
    value = fault.value
    return {
        "name": fault.name.value,
        "layer": fault.layer.value,
        "argument": _argument(value),
        "default": value.default if value is not None else None,
        "moments": fault.moves,
        "dialects": list(fault.dialects),
        "kinds": {dialect: fault.expected(dialect) for dialect in fault.dialects},
        "help": fault.help,
        "value": value.described if value is not None else None,
    }


def _argument(value: BoundedValue | None) -> str:
    if value is None or value is MOMENT:
        return "none" if value is None else "moment"
    return "|".join(value.choices) or _ARGUMENTS.get(value.unit, value.unit.value)
