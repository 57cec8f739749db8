"""Parse dates in HTTP headers (RFC 9110, 5.6.7)."""

from __future__ import annotations

from contextlib import suppress
from email.utils import parsedate_to_datetime

__all__ = ["seconds_until"]


def seconds_until(date: str, wall_ns: int, now: str | None = None) -> float | None:
    """Return the seconds until a date, negative for a past date; None if the text is not a date.

    >>> seconds_until("Thu, 01 Jan 1970 00:00:05 GMT", 2_000_000_000)
    3.0

    Args:
        now: The response's ``Date`` header, which takes precedence because the local clock may be wrong.
    """
    until_s = _seconds(date)
    now_s = None if now is None else _seconds(now)
    return None if until_s is None else until_s - (wall_ns / 1e9 if now_s is None else now_s)


def _seconds(date: str) -> float | None:
    with suppress(ValueError, OverflowError):
        return parsedate_to_datetime(date).timestamp()
    return None
