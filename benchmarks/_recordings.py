"""Recordings of speech for several benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

from live_eval.audio import write_flac
from live_eval.reference.engine.signals import calibration_speech

__all__ = ["write_speech"]

_RATE_HZ = 24_000
_RECORDINGS = 10


def write_speech(folder: Path, speech_ms: int) -> Path:
    """Write ten recordings of `speech_ms` whose end the calibrating endpoint recognises.

    Returns:
        The manifest.
    """
    rows = []
    for number in range(_RECORDINGS):
        speech = calibration_speech(speech_ms, _RATE_HZ)
        write_flac(folder / f"{number}.flac", speech.audio.int16(), _RATE_HZ)
        end_ms = 1000 * speech.voice_end_sample / _RATE_HZ
        rows.append({"audio": f"{number}.flac", "text": "-", "onset_ms": 0, "voice_end_ms": end_ms})
    path = folder / "speech.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path
