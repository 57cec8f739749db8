"""Summarise greetings: endpoint speech before the user's first utterance, which latencies exclude."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.statistics.intervals import quantile, rounded
from live_eval.recording import TurnRecord
from live_eval.text.wording import counted
from live_eval.timing import ResponseRecord, greets, play

__all__ = ["Greeting", "GreetingSummary", "greetings_of", "summarise_greetings"]


@dataclass(frozen=True, slots=True)
class Greeting:
    """The length of a greeting before the user's first utterance, and whether the user spoke over it."""

    heard_s: float
    spoken_over: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GreetingSummary:
    """The greetings of several sessions.

    Args:
        sessions: Number of sessions in which the user spoke.
        greeted: Number of sessions in which the endpoint spoke first.
        spoken_over: Number of sessions in which the user began during the greeting.
        median_s: Median audible length of the greetings; None if there are none.
    """

    sessions: int
    greeted: int
    spoken_over: int
    median_s: float | None

    def in_words(self) -> str:
        """Return the summary as a note; empty if there are no greetings."""
        if self.median_s is None:
            return ""
        over = f"; the user spoke over {self.spoken_over} of the greetings" if self.spoken_over else ""
        sessions = f"{self.greeted} of {counted(self.sessions, 'session')}"
        return f"the endpoint spoke first in {sessions}, for {self.median_s:.1f} s (median){over}"

    def as_json(self) -> dict[str, Any]:
        """Return the summary as printed with ``--json``."""
        return {
            "sessions": self.sessions,
            "greeted": self.greeted,
            "spoken_over": self.spoken_over,
            "median_s": rounded(self.median_s, 3),
        }


def greetings_of(turns: Iterable[TurnRecord]) -> Iterator[Greeting | None]:
    """Yield the greeting of each session in which the user spoke; None for a session without a greeting."""
    for turn in turns:
        onset_ns = turn.trace.onset_ns
        if onset_ns is None or turn.case.turn_index:
            continue
        greetings = [marks for marks in turn.responses if greets(marks, onset_ns)]
        spans = [span for marks in greetings if (span := _heard(marks)) is not None]
        heard_s = sum(end_ns - start_ns for start_ns, end_ns in spans) / 1e9
        yield Greeting(heard_s, any(end_ns > onset_ns for _, end_ns in spans)) if greetings else None


def summarise_greetings(sessions: Sequence[Greeting | None]) -> GreetingSummary:
    """Return a summary of the greetings from `greetings_of`."""
    greetings = [greeting for greeting in sessions if greeting is not None]
    return GreetingSummary(
        sessions=len(sessions),
        greeted=len(greetings),
        spoken_over=sum(greeting.spoken_over for greeting in greetings),
        median_s=quantile([greeting.heard_s for greeting in greetings], 0.5),
    )


def _heard(marks: ResponseRecord) -> tuple[int, int] | None:
    """Return the times of a response's first and last audible samples; None if there is no audio.

    For runs without stored segments, silence at either end is included.
    """
    if marks.heard_ns is not None:
        return (marks.heard_ns[0][0], marks.heard_ns[-1][1]) if marks.heard_ns else None
    playout = play(marks) if len(marks.chunk_samples) else None
    if playout is None or not playout.heard_samples:
        return None
    return playout.heard_ns(0), playout.heard_ns(playout.heard_samples - 1)
