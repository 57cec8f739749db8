"""Generate noise with an RMS of 1: white, pink, babble, or a recording from a folder."""

from __future__ import annotations

from functools import lru_cache
from itertools import cycle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import live_eval
from live_eval.audio import Audio, read_audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.errors import AudioError, FailureKind

__all__ = ["noise", "pink_noise"]

_LOWEST_HZ = 50.0
_VOICES = 8
_SAMPLE = Path(live_eval.__file__).parent / "data" / "sample"
_SUFFIXES = frozenset({".aif", ".aiff", ".flac", ".mp3", ".ogg", ".opus", ".wav"})


def noise(kind: str, samples: int, rate_hz: int, seed: int, leveled: int) -> NDArray[np.float64]:
    """Return noise with an RMS of 1.

    Args:
        kind: ``white``, ``pink``, ``babble``, or a folder of recordings.
        leveled: Number of leading samples over which the RMS is 1. A recording from a folder instead has an
            RMS of 1 over its full length, regardless of the part used.

    Raises:
        AudioError: The folder contains no audible recording, or the selected recording cannot be read.
    """
    draw = np.random.default_rng(seed)
    match kind:
        case "white":
            found = draw.standard_normal(samples)
        case "pink":
            found = pink_noise(samples, rate_hz, draw)
        case "babble":
            found = _babble(samples, rate_hz, draw)
        case _:
            return _from_folder(Path(kind).expanduser(), samples, rate_hz, draw)
    return found / (_rms(found[:leveled]) or 1.0)


def pink_noise(samples: int, rate_hz: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return noise, shape (samples,), whose power falls by 3 dB per octave from 50 Hz and is 0 below."""
    length = 1 << max(1, (samples - 1).bit_length())  # FFTs of power-of-two lengths are fast
    spectrum = np.fft.rfft(draw.standard_normal(length))
    hz = np.fft.rfftfreq(length, 1 / rate_hz)
    shape = np.where(hz >= _LOWEST_HZ, 1 / np.sqrt(np.maximum(hz, _LOWEST_HZ)), 0.0)
    return np.fft.irfft(spectrum * shape, length)[:samples]


def _rms(sound: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(np.square(sound))))


def _babble(samples: int, rate_hz: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return eight simultaneous voices of equal level, each a random sequence of recordings."""
    found = np.zeros(samples)
    voices = _voices(rate_hz)
    for _ in range(_VOICES):
        order = draw.permutation(len(voices))
        begin = int(draw.integers(len(voices[order[0]])))
        spoken: list[NDArray[np.float64]] = []
        for place in cycle(order):
            spoken.append(voices[place])
            if sum(map(len, spoken)) >= begin + samples:
                break
        found += np.concatenate(spoken)[begin : begin + samples]
    return found


def _from_folder(folder: Path, samples: int, rate_hz: int, draw: np.random.Generator) -> NDArray[np.float64]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not paths:
        raise AudioError(FailureKind.AUDIO_MISSING, f"{folder}: expected noise recordings, found none")
    path = paths[int(draw.integers(len(paths)))]
    audio = resample(read_audio(path).audio, rate_hz).samples.astype(np.float64)
    if not audio.any():
        raise AudioError(FailureKind.AUDIO_EMPTY, f"{path}: expected noise, found silence")
    begin = int(draw.integers(len(audio)))
    return np.resize(np.roll(audio / _rms(audio), -begin), samples)  # looped


@lru_cache(maxsize=4)
def _voices(rate_hz: int) -> tuple[NDArray[np.float64], ...]:
    """Return the bundled sample's recordings, all at the same active level."""
    found = []
    for path in sorted(_SAMPLE.rglob("*.flac")):
        audio: Audio = resample(read_audio(path).audio, rate_hz)
        level = speech_level(audio).rms
        if level:
            found.append(audio.samples.astype(np.float64) / level)
    return tuple(found)
