"""Create cases and turns for tests that write runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from live_eval.types import Case, CoarseDimension, Cue, SpeechBoundaries, Variant


def a_case(name: str = "id_1/target", script: str = "id_1") -> Case:
    return Case(
        case_id=name,
        script_id=script,
        variant=Variant.TARGET,
        audio_path=Path("some/where.wav"),
        text="Hello there.",
        cue=Cue("breathless sound", "breathless", "physiological state", CoarseDimension.PARALINGUISTIC),
        topic="family",
        reference_text="Take a breath.",
        boundaries=SpeechBoundaries(
            onset_ns=1, voice_end_ns=2, words_end_ns=None, uncertain=True, reason="noise"
        ),
    )


def vars_of(timing: object) -> dict[str, object]:
    assert dataclasses.is_dataclass(timing)
    return {field.name: getattr(timing, field.name) for field in dataclasses.fields(timing)}
