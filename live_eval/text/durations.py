"""Parse and format human-readable durations: ``90``, ``45s``, ``10m``, ``1h30m``."""

from __future__ import annotations

import re

__all__ = ["duration_in_words", "rounded_duration", "seconds_of"]

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|h|m|s)\s*")


def seconds_of(text: str) -> float:
    """Parse a duration and return seconds; a number without a unit is in seconds.

    >>> seconds_of("10m"), seconds_of("1h30m"), seconds_of("2.5")
    (600.0, 5400.0, 2.5)

    Raises:
        ValueError: The text is not a duration.
    """
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        pass
    parts = list(_PART.finditer(text))
    if not parts or "".join(part[0] for part in parts) != text:
        raise ValueError("expected a duration, such as 15, 500ms, 45s, 10m or 1h30m")
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts)


def duration_in_words(seconds: float) -> str:
    """Format an exact duration, such as a setting, with its unit.

    >>> duration_in_words(7200), duration_in_words(600), duration_in_words(90), duration_in_words(0.5)
    ('2 h', '10 min', '90 s', '0.5 s')
    """
    minutes = seconds / 60
    if minutes >= 120 and minutes % 60 == 0:
        return f"{minutes / 60:g} h"
    return f"{minutes:g} min" if minutes >= 2 and minutes == int(minutes) else f"{seconds:g} s"


def rounded_duration(seconds: float) -> str:
    """Format a measured or estimated duration, rounded to seconds or to a tenth of a minute or hour.

    >>> rounded_duration(15), rounded_duration(738), rounded_duration(39_600)
    ('15 s', '12.3 min', '11.0 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
