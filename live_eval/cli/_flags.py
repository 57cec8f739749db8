"""Command-line flags generated from the run file's keys: one flag for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from live_eval.errors import PluginError, UsageError
from live_eval.judging import JudgeKind
from live_eval.recording import RunReader, part_of
from live_eval.registry import judge
from live_eval.run.redacted_settings import SettingPath, check_repeated
from live_eval.run.run_file import JudgesTable, RunConfig, validate
from live_eval.types import Modality, TurnMode

__all__ = [
    "FLAGS",
    "TABLES",
    "judge_flags",
    "judges_table",
    "needs_for",
    "overlay",
    "parse_pairs",
    "table_options",
]

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
}
_ON_OFF = ("data.neutral_rule",)
_REPEATABLE = ("impair.specs",)
_WITHOUT_VALUE = {"cluster.ray": ("[ADDRESS]", "auto")}
"""Flags that may stand without a value: how they are shown, and the value that they then have."""


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
    """Make the flag for a key. Its value is validated together with the run file."""
    flag, dest = FLAGS[key], key.replace(".", "__")
    annotation = field.annotation
    if get_origin(annotation) is UnionType:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    description = field.description or ""
    default = field.get_default(call_default_factory=True)
    shown = f" Default: {_shown(default)}." if default not in (None, "", (), {}) else ""
    help_text = f"{description[:1].upper()}{description[1:]}.{shown}  [{key}]"
    shared: dict[str, Any] = {"default": None, "help": help_text}
    if key in _ON_OFF:
        return click.Option([flag, dest], type=click.Choice(["on", "off"]), **shared)
    if annotation is bool:
        return click.Option([f"{flag}/--no-{flag[2:]}", dest], **shared)
    if get_origin(annotation) is dict:
        return click.Option([flag, dest], multiple=True, metavar="KEY=VALUE", help=help_text)
    if key in _REPEATABLE:
        return click.Option([flag, dest], multiple=True, metavar="SPEC", help=help_text)
    if key in _WITHOUT_VALUE:
        metavar, value = _WITHOUT_VALUE[key]
        return click.Option([flag, dest], metavar=metavar, is_flag=False, flag_value=value, **shared)
    if get_origin(annotation) is tuple:
        return click.Option([flag, dest], metavar="A,B,…", **shared)
    if isinstance(annotation, type) and issubclass(annotation, TurnMode | Modality):
        return click.Option([flag, dest], type=click.Choice([value.value for value in annotation]), **shared)
    return click.Option([flag, dest], metavar=dest.rpartition("__")[2].upper(), **shared)


def _shown(default: Any) -> str:
    match default:
        case bool():
            return "on" if default else "off"
        case tuple():
            return ",".join(map(str, default))
        case _:
            return f"{default:g}" if isinstance(default, float) else str(default)


def table_options(table: str) -> list[click.Parameter]:
    """Return the flags for one table of the run file."""
    return [_option(f"{table}.{key}", field) for key, field in TABLES[table].model_fields.items()]


def overlay(values: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run file's values, overridden by the given flags."""
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
    """Return settings from ``KEY=VALUE`` each; a value is TOML if possible, otherwise text.

    Raises:
        UsageError: An item has no ``=``; the message names the flag.
    """
    return dict(_pair(flag, item) for item in items)


def _pair(flag: str, item: str) -> tuple[str, Any]:
    import tomllib

    name, equals, text = item.partition("=")
    if not equals:
        raise UsageError(f"{flag} {item}: expected KEY=VALUE")
    try:
        return name, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name, text


def judge_flags(*, names: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the flags of the run file's ``[judges]`` table to a command; see `judges_table`.

    Args:
        names: Whether to add ``--judges`` too; False for a command about a single judge.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        options = [option for option in table_options("judges") if names or option.name != "judges__names"]
        # Where click's own decorators keep them: innermost first.
        vars(command).setdefault("__click_params__", []).extend(reversed(options))
        return command

    return add


def judges_table(run: Path, flags: Mapping[str, Any], only: str | None = None) -> JudgesTable:
    """Return a run's judges and their options, overridden by the given flags of `judge_flags`.

    Args:
        run: The run's folder.
        flags: The flags.
        only: The only judge that is going to be used; None for those of the table.

    Raises:
        StoreError: The folder contains no run.
        UsageError: A value is not allowed, or its secret is not stored. The message names it.
    """
    with RunReader.open(run) as reader:
        manifest = reader.manifest
    before = part_of(part_of(manifest, "config"), "judges")
    table = validate(overlay({"judges": dict(before)}, flags)).judges
    needs = needs_for((only,) if only is not None else table.names)
    check_repeated(manifest, overlay({}, flags), FLAGS, lambda path: path[0] == "judges" and needs(path))
    return table


def needs_for(judges: Sequence[str]) -> Callable[[SettingPath], bool]:
    """Return a function that returns whether a run with these judges uses a setting."""

    def needs(path: SettingPath) -> bool:
        table, key, *inner = path
        if table != "judges":
            return table != "output"
        if key == "options":
            return inner[0].partition(".")[0] in judges
        return not key.startswith("llm_") or any(map(_asks_a_model, judges))

    return needs


def _asks_a_model(name: str) -> bool:
    try:
        return judge(name).kind is not JudgeKind.LOCAL
    except PluginError:
        return False  # which is reported when it is to be loaded
