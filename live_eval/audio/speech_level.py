"""Measure the active speech level (without pauses) by ITU-T P.56 (12/2011), method B. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from live_eval.audio.pcm import Audio

__all__ = ["FAINTEST_DBFS", "SpeechEnvelope", "SpeechLevel", "level_of_envelope", "speech_level"]

FAINTEST_DBFS = -100.0
"""Mean level below which pauses cannot be detected in 16-bit samples."""

# Clause 8: time constant, hangover and margin of method B.
_SMOOTHING_S = 0.03
_HANGOVER_S = 0.2
_MARGIN_DB = 15.9
_THRESHOLD_STEP_DB = 1.5
# The filters are slow, so means per millisecond yield the same envelope as single samples.
_STEPS_PER_S = 1_000


@dataclass(frozen=True, slots=True)
class SpeechLevel:
    """The speech level of a recording, over its active part.

    Args:
        dbfs: Level over the active samples, in dB relative to a full-scale square wave; -inf for silence.
        activity: Share of the samples that are active, 0 to 1.
    """

    dbfs: float
    activity: float

    @property
    def rms(self) -> float:
        """The RMS over the active samples, 1 for full scale."""
        return float(10 ** (self.dbfs / 20))


class SpeechEnvelope:
    """Computes the envelope of a recording: its magnitude per millisecond, smoothed twice over 30 ms."""

    def __init__(self, rate_hz: int) -> None:
        self._step = max(1, rate_hz // _STEPS_PER_S)
        keep = math.exp(-self._step / (rate_hz * _SMOOTHING_S))
        self._filter = np.array([[1 - keep, 0.0, 0.0, 1.0, -keep, 0.0]] * 2)
        self._state = np.zeros((2, 2))

    def push(self, samples: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the envelope of the next samples, shape (milliseconds,); a partial last millisecond is
        padded.

        Args:
            samples: Samples with full scale 1, shape (samples,); whole milliseconds in every call but the
                last.
        """
        from scipy import signal

        whole = np.pad(np.abs(samples), (0, -len(samples) % self._step))
        steps = whole.reshape(-1, self._step).mean(axis=1)
        envelope, self._state = signal.sosfilt(self._filter, steps, zi=self._state)
        return np.asarray(envelope)


def speech_level(audio: Audio) -> SpeechLevel:
    """Return the active speech level of a recording."""
    samples = audio.samples.astype(np.float64)
    if not len(samples):
        return SpeechLevel(-math.inf, 0.0)
    mean_square = float(samples @ samples) / len(samples)
    return level_of_envelope(mean_square, SpeechEnvelope(audio.rate_hz).push(samples))


def level_of_envelope(mean_square: float, envelope: NDArray[np.float64]) -> SpeechLevel:
    """Return the active speech level of a recording from its envelope.

    A sample is active if the envelope exceeded a threshold during the last 200 ms. The level is the energy
    divided by the active time, for the threshold that is 15.9 dB below this level, interpolated between
    thresholds.

    Args:
        mean_square: Mean square of all samples of the recording.
        envelope: Envelope from `SpeechEnvelope`.
    """
    mean_db = 10 * math.log10(mean_square) if mean_square > 0 else -math.inf
    if mean_db < FAINTEST_DBFS:
        return SpeechLevel(mean_db, float(mean_square > 0))
    hangover = round(_HANGOVER_S * _STEPS_PER_S)
    # If the audio is too short for the envelope to reach any threshold, use the mean level.
    margin_before, level_before = _MARGIN_DB + _THRESHOLD_STEP_DB, mean_db
    # The active level is at least the mean level, which limits the thresholds to consider.
    lowest = mean_db - _MARGIN_DB - _THRESHOLD_STEP_DB
    for threshold_db in np.arange(lowest, 20 * math.log10(float(envelope.max())), _THRESHOLD_STEP_DB):
        share = _active_share(envelope >= 10 ** (threshold_db / 20), hangover)
        level = 10 * math.log10(mean_square / share)
        margin = level - float(threshold_db)
        if margin <= _MARGIN_DB:
            weight = (margin_before - _MARGIN_DB) / (margin_before - margin)
            level_before += weight * (level - level_before)
            break
        margin_before, level_before = margin, level
    return SpeechLevel(level_before, min(1.0, mean_square / 10 ** (level_before / 10)))


def _active_share(loud: NDArray[np.bool_], hangover: int) -> float:
    """Return the share of steps that are loud or follow a loud step by at most `hangover` steps."""
    at = np.flatnonzero(loud)
    gaps = np.diff(np.append(at, len(loud)))
    return float(np.minimum(gaps, hangover + 1).sum()) / len(loud)
