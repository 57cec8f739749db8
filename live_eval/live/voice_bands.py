"""Compute a coarse spectrum of a voice for the terminal's spectrogram. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import int16_to_float
from live_eval.audio.spectrum import band_levels

__all__ = ["BANDS", "WINDOW_NS", "voice_bands"]

WINDOW_NS = 32_000_000
"""Length of audio of one spectrum."""

_EDGES_HZ = np.array([100, 500, 1_200, 3_000, 8_000])  # pitch, first and second formant, fricatives
_NOTHING_DBFS = -180.0
_SECOND_NS = 1_000_000_000

BANDS = len(_EDGES_HZ) - 1
"""Number of bands."""


def voice_bands(pcm: NDArray[np.int16], rate_hz: int) -> tuple[float, ...]:
    """Return the level in each band over the last `WINDOW_NS`, in dBFS, the lowest band first.

    Args:
        pcm: int16 mono, shape (samples,); shorter audio has no bands.
        rate_hz: Sample rate; bands above half of it are silent.
    """
    length = rate_hz * WINDOW_NS // _SECOND_NS
    if len(pcm) < length:
        return ()
    bins = np.minimum(np.rint(_EDGES_HZ * length / rate_hz).astype(np.intp), length // 2)
    heard = int(np.count_nonzero(np.diff(bins)))
    [levels] = band_levels(int16_to_float(pcm[-length:])[np.newaxis], length, bins[: heard + 1])
    return tuple(levels.tolist()) + (_NOTHING_DBFS,) * (BANDS - heard)
