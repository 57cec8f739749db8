"""Limit the size of endpoint messages."""

from __future__ import annotations

__all__ = ["MOST_VALUES", "has_too_many_values"]

MOST_VALUES = 100_000
"""Maximum number of JSON values in a message, at about 100 bytes each; no service sends nearly as many."""


def has_too_many_values(message: str | bytes) -> bool:
    """Estimate from separators whether a message has more than `MOST_VALUES` JSON values.

    >>> has_too_many_values("[" + "0," * 1_000_000 + "0]"), has_too_many_values("x" * 1_000_000)
    (True, False)
    """
    if len(message) <= MOST_VALUES:
        return False
    if isinstance(message, str):
        return sum(map(message.count, ",[{")) > MOST_VALUES
    return sum(map(message.count, (b",", b"[", b"{"))) > MOST_VALUES
