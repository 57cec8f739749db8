"""Detect within tens of milliseconds whether a voice is audible, from its level. Pure.

The stage of the studio detects the same in the page (``stage_voices.js``), with this module's `LEVEL_RULE`.
The detector of the session takes longer, because it decides whether a sound is speech.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVEL_RULE", "AudibleVoice", "LevelRule"]

_WINDOW_MS = 10
_FULL_SCALE = 32_768.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRule:
    """The rule for when a voice becomes audible and inaudible, in windows of 10 ms.

    Args:
        audible_dbfs: Level above which a window is loud, as in the definition of voice to voice.
        above_noise_db: Minimum level of a loud window relative to the noise.
        noise_windows: Number of windows whose lowest level is the noise.
        onset_windows: Number of consecutive loud windows at the onset of a voice. Shorter sounds are clicks.
        release_windows: Number of windows since the last such run, after which the voice has ended; longer
            than the closures within a word.
    """

    audible_dbfs: float = -50.0
    above_noise_db: float = 10.0
    noise_windows: int = 300
    onset_windows: int = 3
    release_windows: int = 6


LEVEL_RULE = LevelRule()
"""The rule of the terminal and of the studio's pages."""


class AudibleVoice:
    """Follows the level of a voice in windows of 10 ms."""

    def __init__(self, rule: LevelRule = LEVEL_RULE) -> None:
        self.audible = False
        """Whether the voice is audible at the end of the audio so far."""
        self._rule = rule
        self._rest = np.empty(0, np.int16)
        self._loud = 0  # loud windows in a row
        self._since = 0  # windows since the last loud ones that were long enough for an onset
        quiet = rule.audible_dbfs - rule.above_noise_db
        self._levels: deque[float] = deque([quiet] * rule.noise_windows, maxlen=rule.noise_windows)

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
        rule = self._rule
        self._levels.append(level)
        loud = level > max(rule.audible_dbfs, min(self._levels) + rule.above_noise_db)
        self._loud = self._loud + 1 if loud else 0
        if self._loud >= rule.onset_windows:
            self.audible, self._since = True, 0
            return
        self._since += 1
        if self._since >= rule.release_windows and not loud:
            self.audible = False
