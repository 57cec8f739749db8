"""Implement the ``--price`` flag: the price of an endpoint's tokens."""

from __future__ import annotations

import math

import click

from live_eval.cli._flags import parse_pairs
from live_eval.cli._help import Option
from live_eval.errors import UsageError
from live_eval.scoring.llm.budget import Price

_PRICES = ("input", "output")
_OTHER_PRICES = ("audio_input", "audio_output", "cached_input")


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
    expected = f"input=USD,output=USD, and where they differ {' and '.join(_OTHER_PRICES)}"
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all("=" in part for part in parts):
        raise UsageError(f"--price: expected {expected}, got {text!r}")
    prices = parse_pairs("--price", parts)
    for name, value in prices.items():
        if name not in (*_PRICES, *_OTHER_PRICES):
            raise UsageError(f"--price: expected {expected}, got {name!r}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise UsageError(
                f"--price: {name}: expected US dollars per million tokens, 0 or more, got {value!r}"
            )
    missing = [name for name in _PRICES if name not in prices]
    if missing:
        raise UsageError(f"--price: expected {expected}; {' and '.join(missing)} is missing in {text!r}")
    return Price(**prices)
