"""``live-eval run``: the main job. Its flags are made from the run file's keys, so every flag has its key."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import live_eval.report
from live_eval.cli import FAILED, INTERRUPTED
from live_eval.cli._progress import RunProgress
from live_eval.cli._scoring_progress import ScoringProgress
from live_eval.cli.show import print_summary
from live_eval.errors import StoreError, UsageError
from live_eval.loop import run as run_loop
from live_eval.registry import client, judge
from live_eval.runfile import RunConfig, located, read_run_file, validate
from live_eval.scoring import score_run
from live_eval.store import RunReader, RunWriter
from live_eval.suite import Outcome, make_plan, play
from live_eval.types import Modality, TurnMode

__all__ = ["FLAGS", "command"]

_NAMES = {
    "endpoint.name": "--endpoint",
    "data.path": "--data",
    "data.cues": "--cue",
    "data.topics": "--topic",
    "data.variants": "--variant",
    "data.cases": "--case",
    "data.fields": "--map",
    "turns.mode": "--turn-mode",
    "judges.names": "--judges",
}
_ON_OFF = ("data.neutral_rule",)


def _tables() -> dict[str, type[BaseModel]]:
    return {name: _model(field) for name, field in RunConfig.model_fields.items()}


def _model(field: FieldInfo) -> type[BaseModel]:
    assert isinstance(field.annotation, type)
    assert issubclass(field.annotation, BaseModel)
    return field.annotation


FLAGS = {
    f"{table}.{key}": _NAMES.get(f"{table}.{key}", "--" + key.replace("_", "-"))
    for table, model in _tables().items()
    for key in model.model_fields
}
"""The flag of each key of the run file."""


def _option(key: str, field: FieldInfo) -> click.Option:
    """Make the flag of a key. Values are checked where the run file's are."""
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


def _options() -> list[click.Parameter]:
    return [
        _option(f"{table}.{key}", field)
        for table, model in _tables().items()
        for key, field in model.model_fields.items()
    ]


def _overlay(values: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Lay the flags that were given over the values of the run file."""
    merged = {table: dict(keys) if isinstance(keys, dict) else keys for table, keys in values.items()}
    for dest, value in flags.items():
        if value is None or value == ():
            continue
        table, _, key = dest.partition("__")
        default = _tables()[table].model_fields[key].annotation
        keys = merged.setdefault(table, {})
        keys[key] = _parsed(f"{table}.{key}", default, value, keys)
    return merged


def _parsed(key: str, annotation: Any, value: Any, before: dict[str, Any]) -> Any:
    if key in _ON_OFF:
        return value == "on"
    if get_origin(annotation) is dict:
        return {**before.get(key.partition(".")[2], {}), **dict(_pair(key, item) for item in value)}
    if get_origin(annotation) is tuple:
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _pair(key: str, item: str) -> tuple[str, Any]:
    """Return ``KEY=VALUE`` as a pair; the value is read as TOML where it is TOML, else taken as text."""
    import tomllib

    name, equals, text = item.partition("=")
    if not equals:
        raise UsageError(f"{FLAGS[key]} {item}: expected KEY=VALUE")
    try:
        return name, tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return name, text


def _run(runfile: Path | None, **flags: Any) -> None:
    values = read_run_file(runfile) if runfile is not None else {}
    if runfile is not None:
        validate(values, runfile)  # names its lines; with flags laid over, lines would mislead
    config = validate(_overlay(values, flags))
    with located("endpoint.name", None if flags["endpoint__name"] else runfile):
        client(config.endpoint.name)
    with located("judges.names", None if flags["judges__names"] else runfile):
        for name in config.judges.names:
            judge(name)  # an unknown judge is refused before the run, not after it
    out = config.output.out or _new_folder(config.endpoint.name)
    outcome = _play(config, out)
    if outcome.interrupted:
        click.echo(f"interrupted; go on with the same command and --out {out} --resume", err=True)
        sys.exit(INTERRUPTED)
    try:
        _score(config, out)
    except KeyboardInterrupt:
        click.echo(f"interrupted; every turn is there, go on with: live-eval score {out}", err=True)
        sys.exit(INTERRUPTED)
    with RunReader.open(out) as run:
        print_summary(run)
    click.echo(f"run: {out}")
    if config.output.report:
        page = out / "report.html"
        live_eval.report.write_report([out], page)
        click.echo(f"report to open: {page}")
    sys.exit(FAILED if outcome.failed else 0)


def _play(config: RunConfig, out: Path) -> Outcome:
    plan = make_plan(config)
    if config.output.resume:
        if config.output.out is None:
            raise UsageError("--resume needs --out: the run to go on with")
        writer = RunWriter.resume(out)
    else:
        writer = RunWriter.create(out, plan.manifest())
    with writer, RunProgress() as progress:
        if config.output.resume:
            _check_same(writer.manifest, plan.manifest())
        if plan.lacks_key:
            click.echo(f"warning: {plan.no_key}; every turn will fail with no_key", err=True)
        outcome = run_loop(play(plan, writer, out, progress))
        writer.end(finished=not outcome.interrupted)
    return outcome


def _score(config: RunConfig, out: Path) -> None:
    if not config.judges.names:
        return
    with ScoringProgress() as progress:
        summary = score_run(out, config.judges.names, progress=progress)
    for line in summary.judges:
        if line.reason is not None:
            click.echo(f"{line.name} could not run: {line.reason}", err=True)


_MAY_CHANGE = {"turns": {"concurrency", "retries", "connect_timeout"}}
"""What a resumed run may have otherwise: it changes no turn."""


def _check_same(before: Any, now: dict[str, Any]) -> None:
    """Refuse to go on with a run of other data, another endpoint or other turns."""
    parts = [("endpoint", before["endpoint"], now["endpoint"]), ("data", before["data"], now["data"])]
    for table in ("endpoint", "data", "turns"):
        parts.append((table, before["config"][table], now["config"][table]))
    for part, then, today in parts:
        for key, value in today.items():
            if key not in _MAY_CHANGE.get(part, ()) and then.get(key) != value:
                raise StoreError(
                    f"this run cannot be resumed: its {part}.{key} was {then.get(key)!r}, now it is {value!r}"
                )


def _new_folder(endpoint: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    return Path("recordings") / f"{stamp}-{endpoint}"


command = click.Command(
    "run",
    callback=_run,
    params=[
        click.Argument(["runfile"], required=False, type=click.Path(path_type=Path, dir_okay=False)),
        *_options(),
    ],
    help="""Hold conversations with an endpoint and score them.

    Plays the recordings of a data set to an endpoint at the pace of speech, captures the spoken replies
    with their timing, runs the judges and writes a report. RUNFILE is a TOML file with any of the keys
    given in brackets below; flags are laid over it.

    Exit status: 0 when every turn was captured, 3 when some failed, 2 for wrong usage.""",
    short_help="Hold conversations with an endpoint and score them.",
)
