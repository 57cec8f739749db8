"""Implement ``live-eval plugins``."""

from __future__ import annotations

import click

from live_eval.cli._help import Command
from live_eval.cli._listing import fields_of, print_listing
from live_eval.cli._options import json_option

__all__ = ["command"]


@click.command(cls=Command)
@json_option
def command(as_json: bool) -> None:
    """List plugins, and report broken ones.

    Examples:

    \b
      live-eval plugins
    """
    from live_eval.registry import CLIENTS, JUDGES, find_plugins, package_clashes

    rows = [
        {
            **fields_of(plugin, "name", "distribution", "problem"),
            "ok": plugin.problem is None,
            "group": group,
        }
        for group in (CLIENTS, JUDGES)
        for plugin in find_plugins(group)
    ]
    columns = {
        "name": "plugin",
        "group": "group",
        "distribution": "package",
        "ok": "ok",
        "problem": "problem",
    }
    print_listing(rows, columns, as_json=as_json)
    for clash in package_clashes():
        click.echo(f"warning: {clash}", err=True)
