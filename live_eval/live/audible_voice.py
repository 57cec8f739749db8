"""Detect within tens of milliseconds whether a voice is audible, from its level. Pure.

The stage of the studio does the same in the page (``stage_voices.js``). The detector of the session takes
longer, because it decides whether a sound is speech.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

__all__ = ["AudibleVoice"]

_WINDOW_MS = 10
_AUDIBLE_DBFS = -50.0
_ABOVE_NOISE_DB = 10.0
_NOISE_WINDOWS = 300  # the noise is the lowest level of the last 3 s
_ONSET_WINDOWS = 3
_RELEASE_WINDOWS = 6  # longer than the closures within a word
_FULL_SCALE = 32_768.0


class AudibleVoice:
    """Follows the level of a voice in windows of 10 ms."""

    def __init__(self) -> None:
        self.audible = False
        """Whether the voice is audible at the end of the audio so far."""
        self._rest = np.empty(0, np.int16)
        self._changing = 0  # windows so far that contradict `audible`
        self._levels: deque[float] = deque(
            [_AUDIBLE_DBFS - _ABOVE_NOISE_DB] * _NOISE_WINDOWS, maxlen=_NOISE_WINDOWS
        )

    def push(self, pcm: NDArray[np.int16], rate_hz: int) -> None:
        """Add audio: int16 mono, shape (samples,), at `rate_hz`."""
        samples = rate_hz * _WINDOW_MS // 1000
        pcm = np.concatenate((self._rest, pcm))
        count = len(pcm) // samples
        self._rest = pcm[count * samples :]
        windows = pcm[: count * samples].reshape(count, samples).astype(np.float64) / _FULL_SCALE
        for level in 10 * np.log10(np.mean(windows**2, axis=1) + 1e-9):
            self._hear(float(level))

    def _hear(self, level: float) -> None:
        self._levels.append(level)
        loud = level > max(_AUDIBLE_DBFS, min(self._levels) + _ABOVE_NOISE_DB)
        self._changing = 0 if loud is self.audible else self._changing + 1
        if self._changing >= (_RELEASE_WINDOWS if self.audible else _ONSET_WINDOWS):
            self.audible, self._changing = not self.audible, 0
