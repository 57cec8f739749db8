"""Derive the description of the run file's flags from its models.

To update the file after the models change::

    python -m live_eval.cli._flag_table
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from live_eval.run.run_file import RunConfig, is_duration
from live_eval.text.durations import duration_in_words
from live_eval.text.wording import sentence
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
_ON_OFF = ("data.neutral_rule", "data.flawed_takes")
_REPEATABLE = ("impair.specs",)
_WITHOUT_DEFAULT = ("endpoint.name",)
"""Keys whose default applies only in a run file."""
_WITHOUT_VALUE = {"cluster.ray": ("[ADDRESS]", "auto")}
"""Flags with an optional value: the metavar and the default value."""


def flag_table() -> dict[str, dict[str, Any]]:
    """Return the description of each key's flag: its name, form, metavar or choices, and help."""
    return {
        f"{table}.{key}": _row(f"{table}.{key}", field)
        for table, tables in RunConfig.model_fields.items()
        for key, field in tables.annotation.model_fields.items()  # type: ignore[union-attr]
    }


def _row(key: str, field: FieldInfo) -> dict[str, Any]:
    flag = _NAMES.get(key, "--" + key.partition(".")[2].replace("_", "-"))
    description = field.description or ""
    default = field.get_default(call_default_factory=True)
    has_default = default not in (None, "", (), {}) and key not in _WITHOUT_DEFAULT
    shown = f" Default: {_shown(default, field)}." if has_default else ""
    help_text = f"{sentence(description)}{shown}  [{key}]"
    return {"flag": flag, **_form(key, field), "help": help_text}


def _form(key: str, field: FieldInfo) -> dict[str, Any]:
    """Return the form of the flag's value, with its metavar or choices."""
    annotation = field.annotation
    if get_origin(annotation) is UnionType:
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    if key in _ON_OFF:
        return {"form": "on_off", "choices": ["on", "off"]}
    if annotation is bool:
        return {"form": "switch"}
    if get_origin(annotation) is dict:
        return {"form": "pairs", "metavar": "KEY=VALUE"}
    if key in _REPEATABLE:
        return {"form": "specs", "metavar": "SPEC"}
    if key in _WITHOUT_VALUE:
        metavar, value = _WITHOUT_VALUE[key]
        return {"form": "optional", "metavar": metavar, "value": value}
    if get_origin(annotation) is tuple:
        return {"form": "list", "metavar": "A,B,…"}
    if isinstance(annotation, type) and issubclass(annotation, TurnMode | Modality):
        return {"form": "choice", "choices": [each.value for each in annotation]}
    return {"form": "value", "metavar": _metavar(key, field, annotation)}


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


def _shown(default: Any, field: FieldInfo) -> str:
    if is_duration(field):
        return duration_in_words(default).replace(" min", "m").replace(" ", "")  # as a flag accepts it
    match default:
        case bool():
            return "on" if default else "off"
        case tuple():
            return ", ".join(map(str, default))
        case _:
            return f"{default:g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    text = json.dumps(flag_table(), indent=2, ensure_ascii=False)
    Path(__file__).with_name("run_flags.json").write_text(f"{text}\n", "utf-8")
