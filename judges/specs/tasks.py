"""Judges of the tasks that are no conversation: transcription and multiple choice."""

from __future__ import annotations

from live_eval.judging import JudgeKind, JudgeSpec, Need, OutputSpec
from live_eval.types import Task

__all__ = ["MCQ"]

MCQ = JudgeSpec(
    name="mcq",
    version="1",
    title="accuracy on multiple-choice questions",
    kind=JudgeKind.LOCAL,
    implementation="judges.mcq:Mcq",
    outputs=(
        OutputSpec(name="accuracy", title="accuracy", unit="%", low=0.0, high=100.0),
        OutputSpec(name="parsed", title="replies that choose one option", unit="%", low=0.0, high=100.0),
    ),
    needs=frozenset(),
    uses=frozenset({Need.REPLY_AUDIO}),
    tasks=frozenset({Task.UNDERSTANDING, Task.REASONING}),
    source="Zhou et al.: EchoMind (ICLR 2026)",
)
