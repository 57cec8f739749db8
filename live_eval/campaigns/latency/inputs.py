"""Generate a campaign's recordings: speech of a given length, and the drift check.

Each set of recordings has a manifest, so that an ordinary run can use it as its data set.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import float_to_int16, read_audio, resample, write_flac
from live_eval.data import SAMPLE_DIALOGUES, load, locate
from live_eval.errors import TurnError, UsageError
from live_eval.files import atomic_text, private_folder
from live_eval.speech.boundaries import BoundaryCache, case_boundaries
from live_eval.timing import audible_end
from live_eval.types import Case

__all__ = ["write_inputs", "write_sentinel"]

_RATE_HZ = 24_000
_MOST_INPUTS = 12
_FADE_MS = 5
_SILENCE_S = 1.0
_NOISE_S = 1.0
_NOISE_DBFS = -60.0
_MANIFEST = "manifest.jsonl"


def write_sentinel(folder: Path) -> Path:
    """Write the drift check's recordings: a second of silence, a second of noise, and a known clip.

    If the endpoint's detector answers the silence or the noise, the drift check records a premature response.
    The clip is the first turn of the bundled dialogues; the noise (white, −60 dBFS RMS) is always the same.
    Returns the manifest path.
    """
    case = load(locate(SAMPLE_DIALOGUES)).cases[0]
    clip = resample(read_audio(case.audio_path).audio, _RATE_HZ)
    noise = np.random.default_rng(0).standard_normal(round(_NOISE_S * _RATE_HZ)) * 10 ** (_NOISE_DBFS / 20)
    silence = np.zeros(round(_SILENCE_S * _RATE_HZ))
    pcm = float_to_int16(np.concatenate((silence, noise, clip.samples)).astype(np.float32))
    lead_ms = 1000 * (_SILENCE_S + _NOISE_S)
    boundaries = case_boundaries(case, clip, cache=BoundaryCache())
    row = {
        "id": "sentinel",
        "audio": "sentinel.flac",
        "text": case.text,
        "onset_ms": lead_ms + boundaries.onset_ns / 1e6,
        "voice_end_ms": lead_ms + boundaries.voice_end_ns / 1e6,
    }
    private_folder(folder)
    write_flac(folder / "sentinel.flac", pcm, _RATE_HZ)
    return _write_manifest(folder, [row])


def write_inputs(cases: Sequence[Case], length_s: float, folder: Path) -> Path:
    """Write recordings that contain exactly this length of speech, cut from a data set's recordings.

    The speech of the recordings, without leading and trailing audio, is joined and cut to length, so the end
    of speech is known. Each recording begins with a different case. Returns the manifest path.

    Raises:
        UsageError: None of the recordings can be read.
    """
    speech = _speech_of(cases)
    private_folder(folder)
    rows: list[dict[str, Any]] = []
    for number in range(len(speech)):
        pcm = _cut(speech[number:] + speech[:number], round(length_s * _RATE_HZ))
        end = audible_end(pcm, _RATE_HZ) or len(pcm)
        name = f"input-{number + 1}"
        write_flac(folder / f"{name}.flac", pcm, _RATE_HZ)
        rows.append(
            {"id": name, "audio": f"{name}.flac", "onset_ms": 0, "voice_end_ms": 1000 * end / _RATE_HZ}
        )
    return _write_manifest(folder, rows)


def _speech_of(cases: Sequence[Case]) -> list[NDArray[np.int16]]:
    speech: list[NDArray[np.int16]] = []
    cache = BoundaryCache()
    problem = "the data set has no cases"
    for case in cases:
        try:
            audio = read_audio(case.audio_path).audio
            found = case_boundaries(case, audio, cache=cache)
        except TurnError as error:
            problem = error.message
            continue
        begin, end = (round(at_ns * _RATE_HZ / 1e9) for at_ns in (found.onset_ns, found.voice_end_ns))
        speech.append(resample(audio, _RATE_HZ).int16()[begin:end])
        if len(speech) == _MOST_INPUTS:
            break
    if not speech:
        raise UsageError(f"cannot cut inputs: no recording can be read: {problem}")
    return speech


def _cut(speech: Sequence[NDArray[np.int16]], samples: int) -> NDArray[np.int16]:
    """Concatenate recordings, looping as needed, until they have `samples` samples; fade out at the end."""
    pieces: list[NDArray[np.int16]] = []
    left = samples
    for piece in itertools.cycle(speech):
        pieces.append(piece[:left])
        left -= len(piece)
        if left <= 0:
            break
    pcm = np.concatenate(pieces)
    fade = min(len(pcm), _FADE_MS * _RATE_HZ // 1000)
    pcm[len(pcm) - fade :] = (pcm[len(pcm) - fade :] * np.linspace(1, 0, fade)).astype(np.int16)
    return pcm


def _write_manifest(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path = folder / _MANIFEST
    with atomic_text(path) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path
