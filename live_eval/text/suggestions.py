"""Suggest the closest known name for a mistyped name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean"]

_LIKENESS = 0.75  # unrelated short names such as --device and --voice reach 0.73


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to `name`, to append to `name`; empty if none is close.

    >>> did_you_mean("bargein", ["barge-in", "pauses"]), did_you_mean("x", ["barge-in"])
    (' (did you mean barge-in?)', '')
    >>> did_you_mean("laugter", ["age"]), did_you_mean("--field", ["--seed"])
    ('', '')
    """
    spelled = {_folded(each): each for each in reversed(list(known))}
    given = _folded(name)
    exchanged = [each for each in spelled if sorted(each) == sorted(given)]
    near = exchanged or difflib.get_close_matches(given, spelled, n=1, cutoff=_LIKENESS)
    return f" (did you mean {spelled[near[0]]}?)" if near else ""


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").lstrip("-")
