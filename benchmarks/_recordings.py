"""Speech recordings for several benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from live_eval.audio import write_flac
from live_eval.reference.engine.signals import calibration_speech

__all__ = ["write_speech"]

_RATE_HZ = 24_000


def write_speech(folder: Path, lengths_ms: Iterable[int]) -> Path:
    """Write recordings with speech of these durations, whose end the endpoint detects with `--calibrate`.

    Returns:
        The manifest.
    """
    rows = []
    for number, speech_ms in enumerate(lengths_ms):
        speech = calibration_speech(speech_ms, _RATE_HZ)
        write_flac(folder / f"{number}.flac", speech.audio.int16(), _RATE_HZ)
        end_ms = 1000 * speech.voice_end_sample / _RATE_HZ
        marks = {"onset_ms": 0, "voice_end_ms": end_ms, "words_end_ms": end_ms}
        rows.append({"id": f"case-{number}", "audio": f"{number}.flac", "text": "ahem", **marks})
    path = folder / "speech.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path
