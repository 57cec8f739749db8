"""Find the differences between a run and the paper's protocol, from its manifest and turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from live_eval.analysis.run_conditions import conditions_of
from live_eval.analysis.summary.observations import Observation
from live_eval.recording import part_of
from live_eval.run.prompts import PROMPTS
from live_eval.types import Task

__all__ = ["differences_from_paper", "special_conditions"]

_SYNTHESIS = "synthesis"
_PAPER_CASES: Mapping[Task, tuple[int, str]] = MappingProxyType(
    {
        Task.TRANSCRIPTION: (3_356, "transcriptions"),
        Task.UNDERSTANDING: (4_576, "understanding questions"),
        Task.REASONING: (4_747, "reasoning questions"),
        Task.CONVERSATION: (3_356, "conversations"),
    }
)
"""The number of cases in the paper (arXiv 2510.22758), with their name, by task."""


def differences_from_paper(manifest: Mapping[str, Any], turns: Sequence[Observation]) -> Iterator[str]:
    """Yield a run's differences from the paper in recordings, prompt, impairment and judges.

    Unrecorded settings are not compared. Judge models are compared below each table instead.
    """
    sources = {turn.source for turn in turns}
    if sources != {_SYNTHESIS}:
        yield f"recordings: {', '.join(sorted(sources)) or 'none'}"
    else:
        for task, (expected, name) in _PAPER_CASES.items():
            found = len({turn.case_id for turn in turns if turn.task is task})
            if found not in (0, expected):
                yield f"{found:,} of {expected:,} {name}"
    conditions = conditions_of(manifest)
    if conditions.prompt is not None and conditions.prompt not in PROMPTS:
        yield "custom prompt"
    yield from special_conditions(manifest)


def special_conditions(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield a run's impairment and omitted judges, which matter for published values of any benchmark."""
    if impairment := conditions_of(manifest).impairment:
        yield f"impairment: {impairment}"
    if missing := part_of(manifest, "judges_left_out"):
        yield f"without {', '.join(sorted(missing))}"
