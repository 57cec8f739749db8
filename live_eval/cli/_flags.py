"""Generate command-line flags from the keys of the run file."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from live_eval.cli._help import Option
from live_eval.errors import UsageError
from live_eval.run.run_file import RunConfig, is_duration, validate
from live_eval.types import Modality, TurnMode

_NAMES = {
    "endpoint.name": "--endpoint",
    "data.path": "--data",
    "data.cues": "--cue",
    "data.topics": "--topic",
    "data.variants": "--variant",
    "data.cases": "--case",
    "data.fields": "--map",
    "task.name": "--task",
    "turns.mode": "--turn-mode",
    "impair.specs": "--impair",
    "judges.names": "--judges",
    "judges.options": "--set",
    "output.open_report": "--open",
}
PANELS = {
    "endpoint": "Endpoint",
    "data": "Data",
    "task": "Task",
    "turns": "Turns",
    "impair": "Impairments",
    "cluster": "Cluster",
    "judges": "Judges",
    "output": "Output",
}
"""Headings of the tables' flags in ``--help-all``."""

_COMMON = (
    "endpoint.base_url",
    "endpoint.model",
    "data.path",
    "data.limit",
    "task.prompt",
    "turns.concurrency",
    "turns.repeat",
    "judges.names",
    "output.out",
    "output.resume",
)
"""Keys whose flags ``--help`` shows; ``--help-all`` shows all."""

_ON_OFF = ("data.neutral_rule",)
_REPEATABLE = ("impair.specs",)
_WITHOUT_VALUE = {"cluster.ray": ("[ADDRESS]", "auto")}
"""Flags with an optional value: the metavar and the default value."""


def _model(field: FieldInfo) -> type[BaseModel]:
    assert isinstance(field.annotation, type)
    assert issubclass(field.annotation, BaseModel)
    return field.annotation


TABLES: Mapping[str, type[BaseModel]] = {
    name: _model(field) for name, field in RunConfig.model_fields.items()
}
"""The tables of the run file."""

FLAGS = {
    f"{table}.{key}": _NAMES.get(f"{table}.{key}", "--" + key.replace("_", "-"))
    for table, model in TABLES.items()
    for key in model.model_fields
}
"""The flag for each run-file key."""


def _option(key: str, field: FieldInfo) -> click.Option:
    """Return the flag for a key. Its value is validated later, together with the run file."""
    flag, dest = FLAGS[key], key.replace(".", "__")
    annotation = field.annotation
    if get_origin(annotation) is UnionType:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    description = field.description or ""
    default = field.get_default(call_default_factory=True)
    shown = f" Default: {_shown(default)}." if default not in (None, "", (), {}) else ""
    help_text = f"{description[:1].upper()}{description[1:]}.{shown}  [{key}]"
    display: dict[str, Any] = {
        "help": help_text,
        "panel": PANELS[key.partition(".")[0]],
        "rare": key not in _COMMON,
    }
    shared = {"default": None, **display}
    if key in _ON_OFF:
        return Option([flag, dest], type=click.Choice(["on", "off"]), **shared)
    if annotation is bool:
        return Option([f"{flag}/--no-{flag[2:]}", dest], **shared)
    if get_origin(annotation) is dict:
        return Option([flag, dest], multiple=True, metavar="KEY=VALUE", **display)
    if key in _REPEATABLE:
        return Option([flag, dest], multiple=True, metavar="SPEC", **display)
    if key in _WITHOUT_VALUE:
        metavar, value = _WITHOUT_VALUE[key]
        return Option([flag, dest], metavar=metavar, is_flag=False, flag_value=value, **shared)
    if get_origin(annotation) is tuple:
        return Option([flag, dest], metavar="A,B,…", **shared)
    if isinstance(annotation, type) and issubclass(annotation, TurnMode | Modality):
        return Option([flag, dest], type=click.Choice([value.value for value in annotation]), **shared)
    return Option([flag, dest], metavar=_metavar(key, field, annotation), **shared)


def _metavar(key: str, field: FieldInfo, annotation: Any) -> str:
    if is_duration(field):
        return "DURATION"
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "|".join(annotation)
    if annotation in (int, float):
        return "N"
    return key.rpartition(".")[2].rpartition("_")[2].upper()


def _shown(default: Any) -> str:
    match default:
        case bool():
            return "on" if default else "off"
        case tuple():
            return ", ".join(map(str, default))
        case _:
            return f"{default:g}" if isinstance(default, float) else str(default)


def table_options(table: str) -> list[click.Parameter]:
    """Return the flags for one table of the run file."""
    return [_option(f"{table}.{key}", field) for key, field in TABLES[table].model_fields.items()]


def configured(values: Mapping[str, Any], flags: Mapping[str, Any]) -> RunConfig:
    """Return the configuration from the values of a run file, overridden by the given flags.

    Raises:
        RunFileError: A value is not allowed; the message names its flag.
    """
    return validate(overlay(values, flags), flags=FLAGS)


def overlay(values: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run file, overridden by the given flags."""
    merged = {table: dict(keys) if isinstance(keys, dict) else keys for table, keys in values.items()}
    for dest, value in flags.items():
        if value is None or value == ():
            continue
        table, _, key = dest.partition("__")
        default = TABLES[table].model_fields[key].annotation
        keys = merged.setdefault(table, {})
        keys[key] = _parsed(f"{table}.{key}", default, value, keys)
    return merged


def _parsed(key: str, annotation: Any, value: Any, before: dict[str, Any]) -> Any:
    if key in _ON_OFF:
        return value == "on"
    if get_origin(annotation) is dict:
        return {**before.get(key.partition(".")[2], {}), **parse_pairs(FLAGS[key], value)}
    if key in _REPEATABLE:
        return list(value)
    if get_origin(annotation) is tuple:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def parse_pairs(flag: str, items: Iterable[str]) -> dict[str, Any]:
    """Parse settings written as ``KEY=VALUE``; a value is TOML, a JSON object or array, or text.

    Raises:
        UsageError: An item contains no ``=``.
    """
    pairs: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals:
            raise UsageError(f"{flag} {item}: expected KEY=VALUE")
        try:
            pairs[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            pairs[name] = text
            # Vendors document settings as JSON. Secret fields are recognised only in parsed JSON.
            if text.lstrip().startswith(("{", "[")):
                with contextlib.suppress(ValueError, RecursionError):
                    pairs[name] = json.loads(text)
    return pairs
