"""Format usage errors uniformly, naming the flag, the given value and the expected value; print notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from live_eval.cli._help import CommandGroup, flags_of, typed_name
from live_eval.cli._options import RunFolder
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import alternatives

_NUMBER = re.compile(r"'(?P<found>.*)' is not a valid (?P<kind>integer|float)(?: range)?", re.DOTALL)
_RANGE = re.compile(r"(?P<found>.*) is not in the range (?P<range>[^ ]*)", re.DOTALL)
_CHOICE = re.compile(r"'(?P<found>.*)' is not one of .*", re.DOTALL)
_MISSING = re.compile(r"(?:File|Directory|Path) (?P<found>'.*') does not exist", re.DOTALL)
_WRONG_KIND = re.compile(r"(?:File|Directory|Path) (?P<found>'.*') is a (?P<kind>file|directory)", re.DOTALL)

_MOST_COMMANDS = 3
"""Maximum number of commands suggested for a flag."""
_MOST_FLAGS = 2
"""Maximum number of flags suggested for a table or key of the run file."""

_KEY = re.compile(r"(?<![\w./'])([a-z]+\.[a-z_]+)(?:\.([\w.]*\w))?(?![\w/'])")
"""A key of the run file, and the name of a setting in it (``endpoint.extra.NAME``)."""


def in_words(error: click.ClickException) -> str:
    """Format a usage error from click on one line that names the flag or argument."""
    message = (error.message if isinstance(error, click.BadParameter) else error.format_message()).rstrip(".")
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    more = "" if ctx is None else f"; see {ctx.command_path} --help"
    match error:
        case click.NoSuchOption():
            return f"unknown flag {error.option_name}{_instead(error.option_name, ctx)}{more}"
        case click.BadOptionUsage():
            expected = "no value" if "does not take a value" in message else "a value"
            return f"{error.option_name}: expected {expected}{more}"
        case click.MissingParameter(param=click.Parameter() as param):
            return f"expected {_name(param, ctx)}{more}"
        case click.BadParameter(param=click.Parameter() as param):
            return f"{_name(param, ctx)}{_value(message, param)}"
        case _ if message.startswith("Got unexpected extra argument"):
            return f"unexpected {message.partition('(')[2].rstrip(')')}{more}"
        case _:
            return f"{message[:1].lower()}{message[1:]}{more}"


def with_flag(message: str) -> str:
    """Return the message with run-file keys replaced by their flags, except in quotes and paths.

    >>> with_flag("endpoint.base_url 'host': expected an address"), with_flag("turns: 'turns.mode'")
    ("--base-url 'host': expected an address", "turns: 'turns.mode'")
    >>> with_flag("set endpoint.extra.agent_id")
    'set --extra agent_id'
    """
    from live_eval.cli._flags import FLAGS

    def flag(found: re.Match[str]) -> str:
        key, name = found.groups()
        return " ".join(filter(None, (FLAGS[key], name))) if key in FLAGS else found[0]

    return _KEY.sub(flag, message)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes about a plan on standard error, with run-file keys replaced by their flags."""
    for note in notes:
        click.echo(f"note: {with_flag(note)}", err=True)


def _instead(flag: str, ctx: click.Context | None) -> str:
    """Suggest what to write instead of an unknown flag: an argument, another flag or another command."""
    if ctx is None:
        return ""
    if argument := _argument_named(flag.lstrip("-"), ctx):
        return f": {argument} is an argument; pass it without a flag"
    known = tuple(flags_of(ctx.command, ctx))
    if flag in ("--api-key", "--key") and "--key-from" in known:
        return ": other users can read command lines; use --key-variable or --key-from"
    if near := did_you_mean(flag, known):
        return near
    from live_eval.cli._flags import FLAGS

    meant = dict.fromkeys(
        name
        for key, name in FLAGS.items()
        if flag.lstrip("-") in (key.partition(".")[0], key.partition(".")[2].replace("_", "-"))
        and name in known
    )
    if 0 < len(meant) <= _MOST_FLAGS:
        return f" (did you mean {alternatives(list(meant))}?)"
    others = [name for name, command in _commands(ctx) if flag in flags_of(command, ctx)]
    return f": a flag of {alternatives(others)}" if 0 < len(others) <= _MOST_COMMANDS else ""


def _commands(ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield each command and subcommand with its name as typed."""
    group = ctx.find_root().command
    if not isinstance(group, click.Group):  # doctor invokes `run` without a parent group
        return
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            default = command.default if isinstance(command, CommandGroup) else None
            for each, inner in command.commands.items():
                yield f"`live-eval {name}`" if each == default else f"`live-eval {name} {each}`", inner
        elif command is not None:
            yield f"`live-eval {name}`", command


def _argument_named(name: str, ctx: click.Context | None) -> str:
    arguments = [] if ctx is None else ctx.command.params
    named = (each for each in arguments if isinstance(each, click.Argument) and each.name == name)
    return next((_name(each, ctx) for each in named), "")


def _name(param: click.Parameter, ctx: click.Context | None) -> str:
    if isinstance(param, click.Option):
        return typed_name(param, ctx)
    return param.make_metavar(ctx or click.Context(click.Command(None))).strip("[].…")


def _value(message: str, param: click.Parameter) -> str:
    """Describe the given and the expected value, as found in click's message."""
    if (found := _NUMBER.fullmatch(message)) is not None:
        kind = "a whole number" if found["kind"] == "integer" else "a number"
        return f" {found['found']!r}: expected {kind}"
    if (found := _RANGE.fullmatch(message)) is not None:
        return f" {found['found']}: expected {_bounds(found['range'])}"
    if (found := _CHOICE.fullmatch(message)) is not None and isinstance(param.type, click.Choice):
        names = list(map(str, param.type.choices))
        near = did_you_mean(found["found"], names)
        return f" {found['found']!r}: expected {alternatives(names)}{near}"
    if (found := _MISSING.fullmatch(message)) is not None:
        return f" {found['found']}: not found" + _hint(found["found"].strip("'"), param)
    if (found := _WRONG_KIND.fullmatch(message)) is not None:
        other = {"file": "a folder, got a file", "directory": "a file, got a folder"}[found["kind"]]
        return f" {found['found']}: expected {other}"
    return f" {message}" if message.startswith("'") else f": {message}"


def _hint(text: str, param: click.Parameter) -> str:
    """Suggest the existing name closest to a missing path, or how to find a run."""
    path, is_run = Path(text), isinstance(param.type, RunFolder)
    known: list[str] = []
    with suppress(OSError):
        known += [each.name for each in path.parent.iterdir()]
    if is_run:
        known += ["latest", "@1"]
    return did_you_mean(path.name, known) or ("; `live-eval runs list` lists runs" if is_run else "")


def _bounds(text: str) -> str:
    """Convert a range from click's notation to English.

    >>> _bounds("x>=1"), _bounds("0<=x<=64"), _bounds("x>0")
    ('1 or more', '0 to 64', 'more than 0')
    """
    low, _, high = text.partition("x")
    if low:
        return f"{low.rstrip('<=')} to {high.lstrip('<=')}"
    bound = high.lstrip("<>=")
    if high.startswith(">="):
        return f"{bound} or more"
    return f"more than {bound}" if high.startswith(">") else f"at most {bound}"
