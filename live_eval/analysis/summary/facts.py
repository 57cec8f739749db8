"""The facts about a turn that figures need: everything but its marks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from live_eval.audio.rtp import MediaStats
from live_eval.errors import FailureKind
from live_eval.recording import TurnRecord
from live_eval.timing import Latency, TurnTiming
from live_eval.types import Cue, Question, SpeechBoundaries, Task, Variant

__all__ = ["TurnFacts", "TurnKey", "latency", "turn_facts"]

_FAULTS_OF_DATA = frozenset(
    {
        FailureKind.CASE_UNUSABLE,
        FailureKind.AUDIO_MISSING,
        FailureKind.AUDIO_UNREADABLE,
        FailureKind.AUDIO_EMPTY,
        FailureKind.AUDIO_NOT_FINITE,
        FailureKind.AUDIO_RATE,
        FailureKind.AUDIO_TOO_LONG,
    }
)


TurnKey: TypeAlias = tuple[str, int]
"""A case and its repetition, from 0: what pairs the turns of several runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFacts:
    """The facts about a turn that figures need: everything but its marks.

    `unanswered` says that a question with a key was put to the endpoint and not answered; `speech_end_ns`
    counts from the recording's first sample.
    """

    turn_id: str
    case_id: str
    repeat: int
    script_id: str
    variant: Variant
    cue: Cue | None
    task: Task
    text: str | None
    question: Question | None
    unanswered: bool
    source: str
    captured: bool
    timing: TurnTiming
    timing_version: int
    media: MediaStats | None
    setup_ns: Mapping[str, int]
    dialogue_id: str | None = None
    turn_index: int = 0
    boundaries: SpeechBoundaries | None = None
    speech_end_ns: int | None = None

    @property
    def key(self) -> TurnKey:
        """The case and the repetition."""
        return self.case_id, self.repeat

    @property
    def question_kind(self) -> str | None:
        """The type of the question, or None."""
        return self.question.kind if self.question is not None else None

    def milliseconds(self, name: str) -> float | None:
        """Return a latency of a captured turn, or None."""
        ns = latency(self.timing, name).ns
        return None if ns is None or not self.captured else ns / 1e6


def latency(timing: TurnTiming, name: str) -> Latency:
    """Return one of `LATENCIES` by name."""
    found = getattr(timing, name)
    assert isinstance(found, Latency)
    return found


def turn_facts(turn: TurnRecord) -> TurnFacts:
    """Return the facts about a turn that figures need."""
    trace, question, failure = turn.trace, turn.case.question, turn.failure
    speech_end_ns: int | None = None
    if trace.boundaries is not None:
        speech_end_ns = trace.boundaries.voice_end_ns
    elif trace.t0_ns is not None and trace.voice_end_ns is not None:  # a run that kept no boundaries
        speech_end_ns = trace.voice_end_ns - trace.t0_ns
    return TurnFacts(
        turn_id=turn.turn_id,
        case_id=turn.case.case_id,
        repeat=turn.repeat,
        script_id=turn.case.script_id,
        variant=turn.case.variant,
        cue=turn.case.cue,
        task=turn.case.task,
        text=turn.case.text,
        question=question,
        # A fault of the data is not the endpoint's failure to answer.
        unanswered=question is not None
        and question.answer is not None
        and failure is not None
        and failure.kind not in _FAULTS_OF_DATA,
        source=turn.case.source,
        captured=turn.captured,
        timing=turn.timing,
        timing_version=turn.timing_version,
        media=turn.media,
        setup_ns=trace.setup_ns,
        dialogue_id=turn.case.dialogue_id,
        turn_index=turn.case.turn_index,
        boundaries=trace.boundaries,
        speech_end_ns=speech_end_ns,
    )
