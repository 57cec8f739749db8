"""Run Whisper with short windows, to recognise short utterances in a fraction of the time.

Whisper pads all speech to 30 s with silence. Its encoder also accepts shorter inputs, at some cost in
accuracy (compare the option ``audio_ctx`` of whisper.cpp).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from faster_whisper import WhisperModel
from numpy.typing import NDArray

__all__ = ["ShortWindowModel"]

_FRAMES_PER_S = 100
_SILENCE_FRAMES = 2 * _FRAMES_PER_S
_FEWEST_FRAMES = 8 * _FRAMES_PER_S


class ShortWindowModel(WhisperModel):  # type: ignore[misc]  # faster-whisper has no types
    """A `WhisperModel` that pads speech with two seconds of silence, to at least eight seconds in total.

    With `whole_windows`, speech is padded to 30 s.
    """

    whole_windows = False

    def encode(self, features: NDArray[np.float32]) -> Any:
        """Encode log-mel features, shape (bands, frames), after padding them with zeros."""
        if not self.whole_windows:
            speech = int(np.flatnonzero(features.any(axis=0)).max(initial=0)) + 1
            features = features[:, : max(speech + _SILENCE_FRAMES, _FEWEST_FRAMES)]
        return super().encode(np.ascontiguousarray(features))
