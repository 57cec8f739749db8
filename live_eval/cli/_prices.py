"""Implement the ``--price`` flag: the price of an endpoint's tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from live_eval.cli._flags import parse_pairs
from live_eval.cli._help import Option
from live_eval.errors import UsageError

if TYPE_CHECKING:
    from live_eval.scoring.llm.budget import Price

_EXPECTED = "expected input=USD,output=USD, plus audio_input, audio_output and cached_input if they differ"


def price_option(purpose: str, *, rare: bool = False) -> click.Option:
    """Return the ``--price`` flag, whose value `price_of` parses; `purpose` is for the help text."""
    return Option(
        ["--price"],
        rare=rare,
        default="",
        metavar="input=USD,output=USD,…",
        help=f"US dollars per million tokens, for {purpose}. Also audio_input and audio_output, needed if "
        "the endpoint counts audio tokens, and cached_input.",
    )


def price_of(text: str) -> Price:
    """Parse a price written as ``KEY=USD,…``.

    Raises:
        UsageError: A key is unknown or missing, or a value is not a price.
    """
    from live_eval.scoring.llm.budget import Price

    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all("=" in part for part in parts):
        raise UsageError(f"--price {text!r}: {_EXPECTED}")
    try:
        return Price.of(parse_pairs("--price", parts))
    except ValueError as error:
        raise UsageError(f"--price {text!r}: {error}; {_EXPECTED}") from None
