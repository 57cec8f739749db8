"""Provide replies for judges, and time the judges; shared by several benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from _benchmark import ROOT

from live_eval.audio import Audio, read_audio
from live_eval.judging import JudgedTurn
from live_eval.types import Case, Variant

__all__ = ["RECORDINGS", "replies", "seconds", "turns_of"]

RECORDINGS = (ROOT / "live_eval/data/sample", ROOT.parent / "shared/echomind-demo")
"""Folders with recordings; the second may be missing."""


def replies(limit: int) -> list[Audio]:
    """Return replies of the sample and of EchoMind's demonstration, `limit` of each, evenly spaced."""
    found: list[Audio] = []
    for folder in RECORDINGS:
        paths = sorted(path for path in folder.rglob("*_response.*") if path.suffix in (".wav", ".flac"))
        found += [read_audio(path).audio for path in paths[:: max(1, -(-len(paths) // limit))]]
    return found


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call."""
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


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
