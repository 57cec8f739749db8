"""Suggest the known name that a mistyped one is closest to."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to `name`, to append to it; empty if none is close.

    >>> did_you_mean("bargein", ["barge-in", "pauses"]), did_you_mean("x", ["barge-in"])
    (' (did you mean barge-in?)', '')
    """
    spelled = {_folded(each): each for each in reversed(list(known))}
    near = difflib.get_close_matches(_folded(name), spelled, n=1)
    return f" (did you mean {spelled[near[0]]}?)" if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-")
