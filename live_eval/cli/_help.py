"""Define commands and flags with grouped help that omits rare flags and deprecated spellings."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import click

from live_eval.errors import UsageError
from live_eval.text.suggestions import did_you_mean

_ALL = f"{__name__}.all"
_TYPED = f"{__name__}.typed"
_FLAGS = "Options"


class Option(click.Option):
    """A command-line flag.

    Args:
        panel: Heading of the flag's group in ``--help-all``.
        rare: Whether only ``--help-all`` shows the flag.
        aliases: Deprecated spellings, accepted but not shown.
    """

    def __init__(
        self,
        param_decls: Sequence[str],
        *,
        panel: str = _FLAGS,
        rare: bool = False,
        aliases: Sequence[str] = (),
        **attributes: Any,
    ) -> None:
        super().__init__([*param_decls, *aliases], **attributes)
        self.panel, self.rare, self.aliases = panel, rare, tuple(aliases)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the flag with its metavar, and the help text."""
        shown = copy.copy(self)
        shown.opts = [name for name in self.opts if name not in self.aliases]
        return click.Option.get_help_record(shown, ctx)


class Command(click.Command):
    """A command whose help shows the common flags; ``--help-all`` shows all of them, in groups."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, including ``--help-all`` if the command has rare flags."""
        params = super().get_params(ctx)
        rare = sum(map(_is_rare, params))
        if not rare:
            return params
        shown = len([each for each in params if isinstance(each, click.Option) and not each.hidden]) + 1
        return [*params, _all_option(shown)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            UsageError: A flag is followed by another flag instead of its value.
        """
        ctx.meta[_TYPED] = tuple(args)
        known = set(flags_of(self, ctx))
        for flag, value in pairwise(args):
            if flag == "--":
                break
            if value in known and any(flag in each.opts and _needs_value(each) for each in self.params):
                raise UsageError(f"{flag}: expected a value, got the flag {value}")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the common flags, or all flags for ``--help-all``."""
        is_all = ctx.meta.get(_ALL, False)
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None and (is_all or not _is_rare(param)):
                panel = getattr(param, "panel", _FLAGS) if is_all else _FLAGS
                panels.setdefault(panel, []).append(record)
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)


_SYNONYMS = {"download": "fetch", "prune": "gc"}
"""Subcommand names used in other programs, with the equivalents here."""


class CommandGroup(click.Group):
    """A command with subcommands; rejects an unknown subcommand with a suggestion.

    Args:
        default: The subcommand that runs if the first argument is not a subcommand.
    """

    command_class = Command

    def __init__(self, *arguments: Any, default: str | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.default = default

    def with_default(self, args: list[str]) -> list[str]:
        """Return the arguments, prefixed with the default subcommand if they name none."""
        names_one = bool(args) and args[0] in self.commands
        if not names_one and args and did_you_mean(args[0], self.commands):
            return args  # the subcommand's name is misspelt
        return args if self.default is None or names_one else [self.default, *args]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        return super().parse_args(ctx, self.with_default(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand's name, the subcommand and its arguments.

        Raises:
            UsageError: The subcommand is unknown.
        """
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            near = " (did you mean --help?)" if name == "help" else did_you_mean(name, known)
            if not near:
                meant = [each for word, each in _SYNONYMS.items() if did_you_mean(name, [word])]
                near = "".join(did_you_mean(each, known) for each in meant if each in known)
            raise UsageError(f"unknown command {name!r}{near}; expected one of {', '.join(known)}")
        return super().resolve_command(ctx, args)


def write_commands(formatter: click.HelpFormatter, groups: Mapping[str, Mapping[str, str]]) -> None:
    """Write commands with their short help, grouped and aligned."""
    width = max(len(name) for commands in groups.values() for name in commands)
    for title, commands in groups.items():
        with formatter.section(title):
            formatter.write_dl([(f"{name:<{width}}", text) for name, text in commands.items()])


def flags_of(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield the flags that a command's help shows."""
    for param in command.get_params(ctx):
        if isinstance(param, click.Option) and not param.hidden:
            yield from (*param.opts, *param.secondary_opts)


def typed_name(option: click.Option, ctx: click.Context | None) -> str:
    """Return a flag as the user typed it, or its longest current spelling if it was not typed."""
    typed = [argument.partition("=")[0] for argument in (ctx.meta.get(_TYPED, ()) if ctx is not None else ())]
    aliases: Sequence[str] = option.aliases if isinstance(option, Option) else ()
    names = [name for name in option.opts if name in typed] or [
        name for name in option.opts if name not in aliases
    ]
    return max(names, key=len)


def _needs_value(param: click.Parameter) -> bool:
    return isinstance(param, click.Option) and not (
        param.is_flag or param.count or isinstance(param.flag_value, str)
    )


def _is_rare(param: click.Parameter) -> bool:
    return isinstance(param, Option) and param.rare


def _all_option(count: int) -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.meta[_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help=f"Show all {count} flags, in groups, and exit.",
    )
