"""Replies as input for speech quality judges, for several benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from live_eval.audio import Audio
from live_eval.judging import JudgedTurn
from live_eval.types import Case, Variant

__all__ = ["turns_of"]


def turns_of(sounds: Sequence[Audio]) -> list[JudgedTurn]:
    """Return new turns, because a turn caches its resampled audio."""
    return [
        JudgedTurn(
            turn_id=str(number),
            case=Case(
                case_id=str(number),
                script_id=str(number),
                variant=Variant.TARGET,
                audio_path=Path("unheard.wav"),
            ),
            reply=sound,
        )
        for number, sound in enumerate(sounds)
    ]
