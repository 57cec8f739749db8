"""Words that commands, reports and messages share."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, what: str) -> str:
    """Return how many there are of something.

    >>> counted(1, "turn"), counted(3, "turn")
    ('1 turn', '3 turns')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
