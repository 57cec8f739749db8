"""Print which hosts receive keys, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence

import click

from live_eval import registry
from live_eval.scoring.judge_runner import JudgeOptions, key_recipients

__all__ = ["print_judges_keys", "print_key"]


def print_key(recipient: str | None) -> None:
    """Print which host receives the endpoint's key, as `Plan.key_recipient` says it."""
    if recipient is not None:
        click.echo(f"note: {recipient}", err=True)


def print_judges_keys(names: Sequence[str], options: JudgeOptions) -> None:
    """Print which hosts receive the keys of the models that judges ask."""
    for line in key_recipients([registry.judge(name) for name in names], options):
        click.echo(f"note: {line}", err=True)
