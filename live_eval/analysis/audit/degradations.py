"""Degrade replies in ways that a judge of audio or text should detect. Pure and seeded.

Each degradation changes one property, and preserves loudness, sample rate and length. Levels are active
speech levels (`speech_level`), so pauses do not affect the degradation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.impair.recording import at_length, at_level, clip, mix_noise

__all__ = ["add_noise", "clip", "drop_frames", "flatten", "halve_words", "resynthesise", "shuffle_words"]

# WORLD's aperiodicity estimate uses bands up to 7.9 kHz.
_VOCODER_RATES_HZ = (16_000, 48_000)
_FRAME_MS = 5.0
# WORLD needs two 8 kB spectra per frame (64 MB for 4,000 frames), so long audio is split at quiet points.
_PIECE_S = 20.0
_SEARCHED_S = 2.0
_WINDOW_S = 0.02
# Audio this far below the active level is a pause, whose loudness is unchanged.
_PAUSE_DB = 20.0
# About one syllable: a shorter window would raise consonants to the level of vowels.
_EVENED_S = 0.2
_FRAME_S = 0.02


def add_noise(audio: Audio, snr_db: float, seed: int = 0) -> Audio:
    """Add white Gaussian noise with `live_eval.impair.recording.mix_noise`.

    The signal-to-noise ratio, in decibels, refers to active speech and to noise over the full band, so a
    judge that resamples to a lower rate receives less noise. A silent recording is returned unchanged.
    """
    return mix_noise(audio, np.random.default_rng(seed).standard_normal(len(audio.samples)), snr_db)


def drop_frames(audio: Audio, share: float, seed: int = 0) -> Audio:
    """Set a share of the frames of 20 ms to zero, like packet loss without concealment.

    ``round(share · frames)`` frames are drawn without replacement from all frames, including pauses.
    """
    step = max(1, round(_FRAME_S * audio.rate_hz))
    frames = -(-len(audio.samples) // step)
    samples = audio.samples.copy()
    lost = np.random.default_rng(seed).choice(frames, round(share * frames), replace=False) if frames else ()
    for frame in lost:
        samples[frame * step : (frame + 1) * step] = 0
    return Audio(samples, audio.rate_hz)


def flatten(audio: Audio) -> Audio:
    """Give the recording constant pitch and loudness, leaving words and timing unchanged.

    WORLD (Morise et al. 2016) decomposes the recording into pitch, spectral envelope and aperiodicity. Every
    voiced frame gets the median pitch, ``f0(t) = exp(median(ln f0))``. A gain per sample raises or lowers the
    power in the surrounding 200 ms to the active level, except in pauses (at least 20 dB below that level).
    Gains are smoothed in decibels over the same window. The overall level is unchanged.

    The vocoder adds artefacts, so compare the result with the output of `resynthesise`, not with the
    recording.
    """
    return _through_world(audio, flat=True)


def resynthesise(audio: Audio) -> Audio:
    """Analyse and resynthesise the recording with WORLD; a silent recording is returned unchanged."""
    return _through_world(audio, flat=False)


def shuffle_words(text: str, seed: int = 0) -> str:
    """Return the words of a text in a random order.

    >>> shuffle_words("I am so sorry to hear that")
    'so to sorry that hear I am'
    """
    words = text.split()
    return " ".join(words[place] for place in np.random.default_rng(seed).permutation(len(words)))


def halve_words(text: str) -> str:
    """Return the first half of a text's words, rounded up.

    >>> halve_words("I am so sorry to hear that")
    'I am so sorry'
    """
    words = text.split()
    return " ".join(words[: -(-len(words) // 2)])


def _through_world(audio: Audio, *, flat: bool) -> Audio:
    """Analyse and resynthesise a recording at the same level and length; `flat` flattens its delivery."""
    level = speech_level(audio).rms
    if level == 0:
        return audio
    import pyworld as world

    rate_hz = min(max(audio.rate_hz, _VOCODER_RATES_HZ[0]), _VOCODER_RATES_HZ[1])
    samples = resample(audio, rate_hz).samples.astype(np.float64)
    pieces = [np.ascontiguousarray(samples[begin:end]) for begin, end in _pieces(samples, rate_hz)]
    # Estimate pitch first, because the median covers the whole recording.
    pitches = [_pitch(world, piece, rate_hz) for piece in pieces]
    voiced = np.concatenate([pitch[pitch > 0] for pitch, _ in pitches])
    median_hz = float(np.exp(np.median(np.log(voiced)))) if len(voiced) else 0.0
    made: list[NDArray[np.float64]] = []
    for piece, (pitch, at) in zip(pieces, pitches, strict=True):
        envelope, aperiodicity = (take(piece, pitch, at, rate_hz) for take in (world.cheaptrick, world.d4c))
        wanted = np.where(pitch > 0, median_hz, 0.0) if flat else pitch
        sound = world.synthesize(wanted, envelope, aperiodicity, rate_hz, frame_period=_FRAME_MS)
        made.append(at_length(sound, len(piece)))
    sound = np.concatenate(made)
    if flat:
        sound *= _evening_gain(sound, rate_hz, level)
    whole = resample(Audio(sound.astype(np.float32), rate_hz), audio.rate_hz)
    return at_level(Audio(at_length(whole.samples, len(audio.samples)), audio.rate_hz), level)


def _pitch(
    world: Any, samples: NDArray[np.float64], rate_hz: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the pitch in Hz (0 if unvoiced) and the time in seconds of each frame."""
    # Harvest finds slightly more voiced frames but takes twenty times as long.
    pitch, at = world.dio(samples, rate_hz, frame_period=_FRAME_MS)
    return world.stonemask(samples, pitch, at, rate_hz), at


def _evening_gain(samples: NDArray[np.float64], rate_hz: int, level: float) -> NDArray[np.float64]:
    """Return a gain for each sample that equalises the level of speech and leaves pauses unchanged."""
    from scipy.signal import oaconvolve

    window = np.hanning(round(_EVENED_S * rate_hz) + 2)[1:-1]
    window /= window.sum()
    pause = level**2 * 10 ** (-_PAUSE_DB / 10)
    power = oaconvolve(np.pad(np.square(samples), len(window) // 2), window, mode="same")
    gain_db = np.where(power < pause, 0.0, 20 * math.log10(level) - 10 * np.log10(np.maximum(power, pause)))
    smooth_db = oaconvolve(gain_db, window, mode="same")[len(window) // 2 :][: len(samples)]
    return np.asarray(10 ** (smooth_db / 20), np.float64)


def _pieces(samples: NDArray[np.float64], rate_hz: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of pieces of at most 20 s, cut at the quietest 20 ms of their last 2 s."""
    longest, searched, step = (round(s * rate_hz) for s in (_PIECE_S, _SEARCHED_S, _WINDOW_S))
    begin = 0
    while len(samples) - begin > longest:
        end = begin + longest
        windows = samples[end - searched : end]
        windows = windows[: len(windows) // step * step].reshape(-1, step)
        end += int(np.argmin(np.square(windows).sum(axis=1))) * step + step // 2 - searched
        yield begin, end
        begin = end
    yield begin, len(samples)
