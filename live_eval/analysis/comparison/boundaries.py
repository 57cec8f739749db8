"""Compare where two runs place the end of the user's speech, and how they detected it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.summary.observations import Observation, TurnKey
from live_eval.text.wording import counted
from live_eval.types import SpeechBoundaries

__all__ = ["Boundaries", "SpeechEnd", "boundaries_of", "speech_ends"]

UNKNOWN_METHOD = "not recorded"
"""The method shown for turns recorded before methods were stored."""


@dataclass(frozen=True, slots=True)
class SpeechEnd:
    """The end of the user's speech in a turn, relative to the first sample, and its detection method."""

    method: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """The differences between two runs' speech boundaries, over their common turns.

    Args:
        first: Methods used in the first run.
        other: Methods used in the other run.
        turns: Number of turns whose end of speech is known in both runs.
        changed: Number of these turns with different detection methods.
        moved: Number of these turns whose times differ, by up to `largest_ms`.
    """

    first: tuple[str, ...]
    other: tuple[str, ...]
    turns: int
    changed: int
    moved: int
    largest_ms: float

    def as_json(self) -> dict[str, Any]:
        """Return the differences as printed by ``live-eval compare --json``."""
        return {
            "first": list(self.first),
            "other": list(self.other),
            "n_turns": self.turns,
            "n_changed": self.changed,
            "n_moved": self.moved,
            "largest_ms": round(self.largest_ms, 3),
        }

    def in_words(self, first: str, other: str) -> str:
        """Return a note for the latencies; empty if the boundaries are the same."""
        if not (self.changed or self.moved):
            return ""
        where = f"is the same in all {counted(self.turns, 'turn')}"
        if self.moved:
            turns = f"{self.moved} of {counted(self.turns, 'turn')}"
            where = f"differs in {turns}, by up to {self.largest_ms:.0f} ms"
        return (
            f"speech boundaries: {', '.join(self.first)} in {first}; {', '.join(self.other)} in {other}; "
            f"the end of speech, at which latencies begin, {where}"
        )


def speech_ends(turns: Sequence[Observation]) -> dict[TurnKey, SpeechEnd]:
    """Return the end of speech of each turn in which it is known."""
    return {
        turn.key: SpeechEnd(_method(turn.boundaries), turn.speech_end_ns)
        for turn in turns
        if turn.speech_end_ns is not None
    }


def boundaries_of(first: Mapping[TurnKey, SpeechEnd], other: Mapping[TurnKey, SpeechEnd]) -> Boundaries:
    """Return the differences between two runs' speech boundaries."""
    pairs = [(first[key], other[key]) for key in first if key in other]
    distances_ns = [abs(two.at_ns - one.at_ns) for one, two in pairs]
    return Boundaries(
        first=tuple(sorted({one.method for one, _ in pairs})),
        other=tuple(sorted({two.method for _, two in pairs})),
        turns=len(pairs),
        changed=sum(one.method != two.method for one, two in pairs),
        moved=sum(distance > 0 for distance in distances_ns),
        largest_ms=max(distances_ns, default=0) / 1e6,
    )


def _method(boundaries: SpeechBoundaries | None) -> str:
    if boundaries is None:
        return UNKNOWN_METHOD
    if not boundaries.version:
        return boundaries.method
    recogniser = f"with {boundaries.recogniser}" if boundaries.recogniser else "without a recogniser"
    return f"{boundaries.method} version {boundaries.version} {recogniser}"
