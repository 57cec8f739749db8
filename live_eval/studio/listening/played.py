"""Whether a listener has heard everything before voting. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["why_not_heard"]

_MISSED_S = 0.25
"""Browsers report what was played to within a frame of theirs, and some end a little before the end."""
_FASTEST = 1.05
"""How much faster than ours the clock of a browser's sound may run."""


def why_not_heard(
    lengths_s: Mapping[str, float], played: Mapping[str, Sequence[tuple[float, float]]], elapsed_s: float
) -> str:
    """Return what a listener has not heard yet; empty if everything was heard.

    Args:
        lengths_s: Length of each reply by its label ("A").
        played: The parts of each that the browser says it played: begin and end in seconds.
        elapsed_s: Seconds since the listener was given the replies; all of them cannot be heard in less than
            their length.

    >>> why_not_heard({"A": 2.0, "B": 1.0}, {"A": [(0.0, 2.0)], "B": [(0.0, 0.5)]}, 9.0)
    'B is not heard to its end: 0.5 of 1.0 s'
    >>> why_not_heard({"A": 2.0}, {"A": [(1.0, 2.0), (0.0, 1.5)]}, 1.0)
    'A lasts 2.0 s, but the vote came after 1.0 s'
    """
    for label, length_s in lengths_s.items():
        heard_s = _covered(played.get(label, ()), length_s)
        if heard_s < length_s - _MISSED_S:
            return f"{label} is not heard to its end: {heard_s:.1f} of {length_s:.1f} s"
    needed_s = sum(lengths_s.values())
    if elapsed_s * _FASTEST < needed_s - _MISSED_S * len(lengths_s):
        last = "lasts" if len(lengths_s) == 1 else "last"
        return f"{' and '.join(lengths_s)} {last} {needed_s:.1f} s, but the vote came after {elapsed_s:.1f} s"
    return ""


def _covered(parts: Sequence[tuple[float, float]], length_s: float) -> float:
    """Return how much of a sound the parts cover together, in seconds."""
    covered = at = 0.0
    for begin, end in sorted(parts):
        begin, end = max(begin, at), min(end, length_s)
        if end > begin:
            covered += end - begin
            at = end
    return covered
