"""Build the ``live-eval run`` command for a page's settings. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from live_eval.errors import UsageError
from live_eval.impair import PARAMETERS, parse
from live_eval.impair.language import items
from live_eval.registry import judge
from live_eval.run.prompts import PROMPTS
from live_eval.run.run_file import validate

__all__ = ["arguments_of"]

_MOST_CHARACTERS = 1_000
_MOST_REPEATS = 1_000

_FLAGS = {
    ("endpoint", "model"): "--model",
    ("endpoint", "voice"): "--voice",
    ("data", "path"): "--data",
    ("data", "limit"): "--limit",
    ("data", "cues"): "--cue",
    ("task", "name"): "--task",
    ("task", "prompt"): "--prompt",
    ("impair", "specs"): "--impair",
    ("turns", "mode"): "--turn-mode",
    ("turns", "concurrency"): "--concurrency",
    ("turns", "repeat"): "--repeat",
    ("judges", "names"): "--judges",
}
"""Flags by the run-file settings that a page may choose besides the endpoint's name.

Addresses, key sources, and files that are not named on the studio's command line are excluded.
"""


def arguments_of(
    given: Mapping[str, Any], data: Collection[str], address_of: Callable[[str], str | None]
) -> list[str]:
    """Return the ``live-eval`` arguments for a page's settings, beginning with ``run`` and the endpoint.

    Args:
        given: Tables of a run file, from a page.
        data: Data sets that the page may choose.
        address_of: Function that returns an endpoint's address, or None for its default.

    Raises:
        UsageError: A setting is unknown or invalid.
    """
    tables = {
        name: _table(name, given.get(name, {})) for name in ("endpoint", *{table for table, _ in _FLAGS})
    }
    if unknown := set(given) - set(tables):
        raise UsageError(f"expected the tables {', '.join(sorted(tables))}, got {sorted(unknown)[0]!r:.40}")
    config = validate(tables)
    if config.data.path not in data:
        raise UsageError(
            f"data.path: expected one of {', '.join(data)}, got {config.data.path!r:.60}; to add "
            "one, start the studio with --data PATH"
        )
    if config.task.prompt not in PROMPTS:
        raise UsageError(f"task.prompt: expected one of {', '.join(PROMPTS)}, got {config.task.prompt!r:.60}")
    if config.turns.repeat > _MOST_REPEATS:
        raise UsageError(f"turns.repeat: expected at most {_MOST_REPEATS}, got {config.turns.repeat}")
    _check_impairments(config.impair.specs)
    name = config.endpoint.name
    address = address_of(name)
    for each in config.judges.names:
        judge(each)
    flags = {
        (table, key): value
        for table, values in tables.items()
        for key in values
        if (value := getattr(getattr(config, table), key)) is not None
    }
    arguments = ["run", name]
    if address is not None:
        arguments.append(f"--base-url={address}")
    # FLAG=VALUE, because a value may begin with a dash
    return [*arguments, *(f"{flag}={_text(flags[at])}" for at, flag in _FLAGS.items() if at in flags)]


def _check_impairments(specs: tuple[str, ...]) -> None:
    """Raise a `UsageError` for invalid impairments and for those that read files."""
    for item in items(specs):
        parameter = PARAMETERS.get(item.name)
        if parameter is not None and item.value is not None and parameter.value.names_file(item.value):
            choices = ", ".join(parameter.value.choices)
            raise UsageError(
                f"impair.specs: a page cannot choose files: {item.name} "
                + (f"may be {choices}" if choices else "is only for the command line")
            )
    parse(specs)


def _table(name: str, values: Any) -> dict[str, Any]:
    allowed = {key for table, key in _FLAGS if table == name} | ({"name"} if name == "endpoint" else set())
    if not isinstance(values, dict) or not set(values) <= allowed:
        raise UsageError(f"{name}: expected an object with only the keys {', '.join(sorted(allowed))}")
    for key, value in values.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and (len(text) > _MOST_CHARACTERS or not text.isprintable()):
                expected = f"at most {_MOST_CHARACTERS} printable characters"
                raise UsageError(f"{name}.{key}: expected {expected}, got {text[:40]!r}")
    return values


def _text(value: Any) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
