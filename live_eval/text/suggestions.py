"""Suggest the closest known name for a mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from live_eval.text.wording import alternatives

__all__ = ["did_you_mean"]

_MOST = 3  # maximum number of names suggested by their first word
_LIKENESS = 0.75  # minimum similarity; unrelated short names such as --device and --voice reach 0.73


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to `name`, or with names whose first word is close to it.

    The hint is meant to be appended to `name`; it is empty if no name is close.

    >>> did_you_mean("bargein", ["barge-in", "pauses"]), did_you_mean("x", ["barge-in"])
    (' (did you mean barge-in?)', '')
    >>> did_you_mean("wer", ["wer_heard", "wer_spoken"])
    ' (did you mean wer_heard or wer_spoken?)'
    >>> did_you_mean("gemnii", ["gemini-live", "glm"])
    ' (did you mean gemini-live?)'
    >>> did_you_mean("laugter", ["age"]), did_you_mean("--field", ["--seed"])
    ('', '')
    """
    spelled = {_folded(each): each for each in reversed(list(known))}
    given = _folded(name)
    exchanged = [each for each in spelled if sorted(each) == sorted(given)]
    near = exchanged[:1] or difflib.get_close_matches(given, spelled, n=1, cutoff=_LIKENESS)
    near = near or _beginning(given, list(reversed(spelled)))
    return (
        f" (did you mean {alternatives([spelled[each] for each in near])}?)" if 0 < len(near) <= _MOST else ""
    )


def _beginning(given: str, known: Iterable[str]) -> list[str]:
    """Return the names with several words whose first word is close to `given`."""
    names: dict[str, list[str]] = {}
    for name in known:
        first, dash, _ = name.partition("-")
        if dash:
            names.setdefault(first, []).append(name)
    near = difflib.get_close_matches(given, names, n=1, cutoff=_LIKENESS)
    return names[near[0]] if near else []


def _folded(name: str) -> str:
    return name.casefold().replace("_", "-").lstrip("-")
