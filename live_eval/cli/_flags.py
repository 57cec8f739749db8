"""Define a command-line flag for each run-file key, from the descriptions in ``run_flags.json``.

`flag_table` derives the descriptions from the run file's models. They are stored in a file because importing
the models would slow down ``--help``.
"""

from __future__ import annotations

import contextlib
import copy
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from live_eval.cli._help import Option
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from live_eval.run.run_file import RunConfig

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
"""The tables of the run file, with the headings of their flags in ``--help-all``."""

_NESTED = ("endpoint.extra", "endpoint.turn_detection")
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

_TABLE: Mapping[str, Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("run_flags.json").read_text("utf-8")
)

FLAGS = {key: row["flag"] for key, row in _TABLE.items()}
"""The flag for each run-file key."""

trust_option = Option(
    ["--trust-host", "trusted"],
    rare=True,
    multiple=True,
    metavar="HOST",
    help="Trust the run's stored address on this host as if you had passed it yourself; repeatable.",
)
"""The flag that allows the use of an address from a manifest."""


def _option(key: str, row: Mapping[str, Any]) -> click.Option:
    """Return the flag for a key. Its value is validated later, with the run file."""
    flag, dest = row["flag"], _dest(key)
    shown: dict[str, Any] = {
        "help": row["help"],
        "panel": PANELS[key.partition(".")[0]],
        "rare": key not in _COMMON,
    }
    match row["form"]:
        case "pairs" | "specs":
            return Option([flag, dest], multiple=True, metavar=row["metavar"], **shown)
        case "switch":
            return Option([f"{flag}/--no-{flag[2:]}", dest], default=None, **shown)
        case "optional":
            optional = {"is_flag": False, "flag_value": row["value"], "default": None}
            return Option([flag, dest], metavar=row["metavar"], **optional, **shown)
        case "choice" | "on_off":
            return Option([flag, dest], type=click.Choice(row["choices"]), default=None, **shown)
        case _:
            return Option([flag, dest], metavar=row["metavar"], default=None, **shown)


def table_options(table: str) -> list[click.Parameter]:
    """Return the flags for one table of the run file."""
    return [_option(key, row) for key, row in _TABLE.items() if key.partition(".")[0] == table]


def judge_flags(
    *, names: bool = True, jobs: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the flags of the run file's ``[judges]`` table and `trust_option` to a command; see
    `live_eval.cli._stored_settings.judges_table`.

    Args:
        names: Whether to include ``--judges``; False for commands that use a single judge.
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        left_out = {"judges__names": not names, "judges__jobs": not jobs}
        options = [option for option in table_options("judges") if not left_out.get(option.name or "")]
        # click's decorators store parameters in this attribute, innermost first.
        vars(command).setdefault("__click_params__", []).extend(reversed([*options, trust_option]))
        return command

    return add


def ray_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--ray`` to a command, passed as the argument ``cluster__ray``."""
    options = [option for option in table_options("cluster") if option.name == "cluster__ray"]
    vars(command).setdefault("__click_params__", []).extend(options)
    return command


def campaign_options(
    excluded: Sequence[str], *, drift_turns: int, helps: Mapping[str, str] | None = None
) -> list[click.Parameter]:
    """Return the options that all campaigns share, and the run-file options.

    Args:
        excluded: Run-file keys that the command sets itself, and which therefore get no flag.
        drift_turns: Default of ``--drift-turns``.
        helps: Help texts by key, for flags that differ from those of a run.
    """
    shared = {
        (option.name or "").replace("__", "."): option
        for table in ("endpoint", "data", "turns", "impair")
        for option in table_options(table)
    }
    for key, text in (helps or {}).items():
        if isinstance(option := shared[key], click.Option):
            option.help = f"{text}  [{key}]"
    return [
        # a campaign's warm sessions, drift checks and stimuli have no earlier turns
        *(option for key, option in shared.items() if key not in (*excluded, "turns.history")),
        click.Option(
            ["--out"],
            type=click.Path(path_type=Path, file_okay=False),
            help="Campaign folder. Default: a new one in recordings/.",
        ),
        click.Option(
            ["--resume"],
            is_flag=True,
            help="Continue the campaign in --out (latest: the newest); completed runs are kept.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON with stable keys."),
        Option(
            ["--drift-turns", "sentinel_turns"],
            aliases=("--sentinel-turns",),
            type=click.IntRange(0),
            default=drift_turns,
            show_default=True,
            help="Number of turns in each drift check (start, middle and end); 0 disables the checks.",
        ),
    ]


def configured(values: Mapping[str, Any], flags: Mapping[str, Any]) -> RunConfig:
    """Return the configuration from the values of a run file, overridden by the given flags.

    Raises:
        RunFileError: A value is not allowed; the message names its flag.
    """
    from live_eval.run.run_file import validate  # imports pydantic

    return validate(overlay(values, flags), flags=FLAGS)


def reject_endpoint_flags(flags: Mapping[str, Any], named_by: str) -> None:
    """Reject flags for a single endpoint in a command that uses several.

    Args:
        named_by: What makes the command use several endpoints; appears in the message.

    Raises:
        UsageError: Such a flag was given.
    """
    own = [flag for key, flag in FLAGS.items() if key.startswith("endpoint.") and flags.get(_dest(key))]
    if own:
        raise UsageError(f"{named_by}: write a run file for each endpoint, without {', '.join(own)}")


def _dest(key: str) -> str:
    return key.replace(".", "__")


def overlay(values: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the given flags over the values of a run file."""
    merged = {table: dict(keys) if isinstance(keys, dict) else keys for table, keys in values.items()}
    for dest, value in flags.items():
        if value is None or value == ():
            continue
        table, _, key = dest.partition("__")
        keys = merged.setdefault(table, {})
        keys[key] = _parsed(f"{table}.{key}", value, keys)
    return merged


def _parsed(key: str, value: Any, before: dict[str, Any]) -> Any:
    match _TABLE[key]["form"]:
        case "on_off":
            return value == "on"
        case "pairs":
            given, pairs = before.get(key.partition(".")[2], {}), parse_pairs(FLAGS[key], value)
            return {**given, **pairs} if key not in _NESTED else _nested(FLAGS[key], given, pairs)
        case "specs":
            return list(value)
        case "list":
            parts = [part.strip() for part in value.split(",") if part.strip()]
            if not parts:
                more = ", or none" if key == "judges.names" else ""
                raise UsageError(f"{FLAGS[key]} {value!r}: expected a list A,B,…{more}")
            return parts
        case _:
            return value


def _nested(flag: str, given: Mapping[str, Any], pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with these pairs, whose names may be paths such as ``agent.language``.

    Raises:
        UsageError: A part of a path is empty, or its parent is not an object.
    """
    settings = copy.deepcopy(dict(given))
    for name, value in pairs.items():
        *parents, last = name.split(".")
        if not all((*parents, last)):
            raise UsageError(f"{flag} {name}=…: expected KEY=VALUE or OBJECT.KEY=VALUE")
        place = settings
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise UsageError(f"{flag} {name}=…: {parent} has another value already")
        place[last] = value
    return settings


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
            value = tomllib.loads(f"value = {text}")["value"]
            # A telephone number or the keys 12# are not numbers.
            pairs[name] = text if type(value) is int and str(value) != text.strip() else value
        except tomllib.TOMLDecodeError:
            pairs[name] = text
            # Vendors document settings as JSON. Secret fields are recognised only in parsed JSON.
            if text.lstrip().startswith(("{", "[")):
                with contextlib.suppress(ValueError, RecursionError):
                    pairs[name] = json.loads(text)
    return pairs
