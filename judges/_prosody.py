"""Measure the prosody of one recording, as defined in docs/reference/prosody.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio
from live_eval.audio.speech_level import FAINTEST_DBFS, SpeechEnvelope, level_of_envelope

RATE_HZ = 16_000

_HIGHPASS_HZ = 50.0
_BLOCK_SAMPLES = 60 * RATE_HZ

# Speech and pauses: energy per 8 ms hop, level of the 32 ms frame around each hop.
_HOP = 128
_FRAME_HOPS = 4
_SPEECH_DB = -20.0
_SHORTEST_PAUSE_S = 0.2
_SHORTEST_SPEECH_S = 0.06
_QUIETEST_PERCENT = 2.0
_CLEAR_DB = 3.0

# Pitch, in SwiftF0's frames.
_PITCH_HOP = 256
_PITCH_HZ = (50.0, 800.0)
_SHOWN_DBFS = -26.0
_VOICED = 0.5
_LEAST_RUN = 3
_LEAST_VOICED_S = 0.25
_PHRASE_S = 0.5
_ENDING_FRAMES = 9
_MOST_POINTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ProsodyMeasures:
    """The measurements of one recording; undefined ones are None.

    Args:
        level_dbfs: Active speech level, in dB relative to a full-scale square wave.
        speech_s: Duration of speech without pauses, in seconds; None if the audio is never silent, because
            speech cannot then be separated from background noise.
        level_range_db: Range from the 10th to the 95th percentile of voiced frame levels.
        pause_percent: Share of pauses between the first and the last speech, 0 to 100.
        pause_s: Mean pause duration in seconds; None if there is no pause.
        voiced_s: Duration of voiced speech, in seconds.
        pitch_hz: Median pitch, in hertz.
        pitch_range_st: Range from the 5th to the 95th percentile of the pitch, in semitones.
        declination_st_s: Pitch slope over phrases, in semitones per second.
        pitch_end_st: Final pitch relative to the median, in semitones.
    """

    level_dbfs: float
    level_range_db: float | None
    speech_s: float | None
    pause_percent: float | None
    pause_s: float | None
    voiced_s: float
    pitch_hz: float | None
    pitch_range_st: float | None
    declination_st_s: float | None
    pitch_end_st: float | None


@dataclass(frozen=True, slots=True, eq=False)
class _Speech:
    """The location of speech in a recording.

    Args:
        spans: First and past-the-last hop of each segment between pauses, int64, shape (segments, 2); None if
            speech cannot be separated from background noise.
        levels_db: Level of the frame around each hop, float64, shape (hops,).
        threshold_db: Speech threshold; hops below this level are not speech.
    """

    spans: NDArray[np.int64] | None
    levels_db: NDArray[np.float64]
    threshold_db: float


def measure(audio: Audio, detector: Any) -> ProsodyMeasures | None:
    """Measure the prosody of a recording; return None if it has no sound above 50 Hz.

    Args:
        audio: float32 mono, at 16_000 Hz, at least one sample.
        detector: A `swift_f0.SwiftF0`, which several threads may share.
    """
    powers, envelope = _contours(audio.samples)
    level = level_of_envelope(float(powers.sum()) / len(audio.samples), envelope).dbfs
    if level < FAINTEST_DBFS:
        return None
    speech = _speech(powers, level)
    low, high = _PITCH_HZ
    # Normalise the level, because the network classifies faint speech as unvoiced.
    gain = np.float32(10 ** ((_SHOWN_DBFS - level) / 20))
    found = detector.detect(gain * audio.samples, RATE_HZ, fmin=low, fmax=high)
    semitones = 12 * np.log2(found.pitch_hz / 100.0)
    levels = _levels_at_pitches(speech, len(semitones))
    voiced = _voiced(found.confidence, levels >= speech.threshold_db)
    pitches, voiced_s = semitones[voiced], float(voiced.sum()) * _PITCH_HOP / RATE_HZ
    pitched = voiced_s >= _LEAST_VOICED_S
    median = float(np.median(pitches)) if pitched else 0.0
    speech_s, pause_percent, pause_s = _timing(speech)
    return ProsodyMeasures(
        level_dbfs=level,
        level_range_db=_spread(levels[voiced], 10) if pitched and speech_s is not None else None,
        speech_s=speech_s,
        pause_percent=pause_percent,
        pause_s=pause_s,
        voiced_s=voiced_s,
        pitch_hz=100.0 * 2 ** (median / 12) if pitched else None,
        pitch_range_st=_spread(pitches, 5) if pitched else None,
        declination_st_s=_declination(semitones, voiced, speech) if pitched else None,
        pitch_end_st=float(np.median(pitches[-_ENDING_FRAMES:])) - median if pitched else None,
    )


def _spread(values: NDArray[np.float64], low: float) -> float:
    low_value, high_value = np.percentile(values, [low, 95])
    return float(high_value - low_value)


def _contours(samples: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the energy of each hop and the P.56 envelope every millisecond, in one-minute blocks."""
    from scipy import signal

    highpass = signal.butter(2, _HIGHPASS_HZ, "highpass", fs=RATE_HZ, output="sos")
    # Start the filter in its steady state; otherwise, a constant offset causes a click.
    rest = signal.sosfilt_zi(highpass) * float(samples[0])
    smoother = SpeechEnvelope(RATE_HZ)
    powers, envelopes = [], []
    for start in range(0, len(samples), _BLOCK_SAMPLES):
        block = samples[start : start + _BLOCK_SAMPLES].astype(np.float64)
        block, rest = signal.sosfilt(highpass, block, zi=rest)
        whole = np.pad(block, (0, -len(block) % _HOP)).reshape(-1, _HOP)
        powers.append(np.einsum("ij,ij->i", whole, whole))
        envelopes.append(smoother.push(whole.ravel()))
    return np.concatenate(powers), np.concatenate(envelopes)


def _speech(energies: NDArray[np.float64], level: float) -> _Speech:
    """Separate speech from pauses by level."""
    window = np.ones(_FRAME_HOPS) / (_FRAME_HOPS * _HOP)
    levels = 10 * np.log10(np.maximum(np.convolve(energies, window, "same"), 1e-12))
    threshold = level + _SPEECH_DB
    # Use single hops, since frames would blur the boundaries. Dips between the pulses of a low voice are
    # closed below.
    loud = energies >= _HOP * 10 ** (threshold / 10)
    spans = _runs(loud)
    if len(spans) == 0 or np.percentile(levels, _QUIETEST_PERCENT) > threshold - _CLEAR_DB:
        return _Speech(None, levels, threshold)
    # Close gaps before dropping short segments, since a short segment may be a syllable of a word.
    gaps = spans[1:, 0] - spans[:-1, 1]
    apart = gaps >= _SHORTEST_PAUSE_S * RATE_HZ / _HOP
    spans = np.column_stack((spans[np.append(True, apart), 0], spans[np.append(apart, True), 1]))
    lasts = spans[:, 1] - spans[:, 0] >= _SHORTEST_SPEECH_S * RATE_HZ / _HOP
    return _Speech(spans[lasts] if lasts.any() else None, levels, threshold)


def _timing(speech: _Speech) -> tuple[float | None, float | None, float | None]:
    """Return the speech duration in seconds, the share of pauses in percent, and the mean pause
    in seconds.
    """
    spans = speech.spans
    if spans is None:
        return None, None, None
    hop_s = _HOP / RATE_HZ
    pauses = spans[1:, 0] - spans[:-1, 1]
    return (
        float((spans[:, 1] - spans[:, 0]).sum()) * hop_s,
        100.0 * float(pauses.sum()) / float(spans[-1, 1] - spans[0, 0]),
        float(pauses.mean()) * hop_s if len(pauses) else None,
    )


def _levels_at_pitches(speech: _Speech, frames: int) -> NDArray[np.float64]:
    hops = np.minimum(np.arange(frames) * _PITCH_HOP // _HOP, len(speech.levels_db) - 1)
    return speech.levels_db[hops]


def _voiced(confidence: NDArray[np.float64], loud: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return a mask of the usable pitch frames: those that are voiced, loud enough and not isolated."""
    voiced = (confidence >= _VOICED) & loud
    for begin, end in _runs(voiced):
        if end - begin < _LEAST_RUN:
            voiced[begin:end] = False
    return voiced


def _runs(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the first and past-the-last position of each run of True, shape (runs, 2)."""
    return np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))).reshape(-1, 2)


def _declination(semitones: NDArray[np.float64], voiced: NDArray[np.bool_], speech: _Speech) -> float | None:
    """Return the mean pitch slope of phrases, weighted by voiced frames, in semitones per second, or None."""
    if speech.spans is None:
        return None
    slopes, weights = [], []
    for begin, end in speech.spans:
        frames = np.arange(begin * _HOP // _PITCH_HOP, min(end * _HOP // _PITCH_HOP, len(voiced)))
        frames = frames[voiced[frames]]
        if len(frames) and (frames[-1] - frames[0]) * _PITCH_HOP / RATE_HZ >= _PHRASE_S:
            slopes.append(_slope(frames, semitones[frames]))
            weights.append(len(frames))
    return float(np.average(slopes, weights=weights)) if slopes else None


def _slope(frames: NDArray[np.int64], semitones: NDArray[np.float64]) -> float:
    """Return the slope in semitones per second: the median over all pairs of frames (Theil–Sen)."""
    step = -(-len(frames) // _MOST_POINTS)
    frames, semitones = frames[::step], semitones[::step]
    first, second = np.triu_indices(len(frames), 1)
    rises = (semitones[second] - semitones[first]) / (frames[second] - frames[first])
    return float(np.median(rises)) * RATE_HZ / _PITCH_HOP
