"""Write cases of marked speech, whose end is known to the sample by the endpoint and the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import soundfile

from live_eval.reference.engine.signals import calibration_speech

__all__ = ["marked_cases", "marked_turn", "write_manifest"]

_RATE_HZ = 24_000


def marked_turn(folder: Path, name: str, speech_ms: int = 200) -> dict[str, Any]:
    """Write marked speech to ``NAME.wav``, and return its entry in a manifest, without an ID."""
    speech = calibration_speech(speech_ms, _RATE_HZ)
    soundfile.write(folder / f"{name}.wav", speech.audio.int16(), _RATE_HZ)
    end_ms = speech.voice_end_sample * 1000 / _RATE_HZ
    marks = {"onset_ms": 0, "voice_end_ms": end_ms, "words_end_ms": end_ms}
    return {"audio": f"{name}.wav", "text": "ahem", **marks}


def marked_cases(folder: Path, lengths_ms: Iterable[int]) -> Path:
    """Write a case (``case-0``, ``case-1``, …) for each length, and return their manifest."""
    rows = [
        {"id": f"case-{number}", **marked_turn(folder, str(number), length_ms)}
        for number, length_ms in enumerate(lengths_ms)
    ]
    return write_manifest(folder, rows)


def write_manifest(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path = folder / "manifest.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path
