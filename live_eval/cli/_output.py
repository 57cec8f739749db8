"""Where commands write what other programs read: to a file, or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from live_eval.errors import UsageError

__all__ = ["STDOUT", "open_output", "output_option"]

STDOUT = Path("-")
"""What stands for standard output."""


def output_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the flag ``--output``; its value is a path, `STDOUT`, or None where not given.

    Args:
        default: Where to, where it is not given.
    """
    return click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
        help=f"File; - is standard output. Default: {default}.",
    )


@contextmanager
def open_output(output: Path) -> Iterator[IO[str]]:
    """Open a file, or standard output, for text whose line ends stay as they are.

    Args:
        output: Where to.

    Raises:
        UsageError: It cannot be written.
    """
    if output == STDOUT:
        yield sys.stdout
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{output}: cannot be written: {error.strerror}") from None
