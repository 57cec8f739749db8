"""Compute levels in frequency bands, for drawing spectrograms. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["band_levels"]


def band_levels(
    frames: NDArray[np.floating[Any]], points: int, bins: NDArray[np.intp]
) -> NDArray[np.floating[Any]]:
    """Return the loudest level in each band, from a Hann window, shape (frames, bands), in dBFS.

    Args:
        frames: Audio with full scale 1, shape (frames, samples).
        points: Length of the Fourier transform, at least the number of samples.
        bins: The first Fourier bin of each band, in ascending order, and the bin after the last band.
    """
    length = frames.shape[1]
    window = np.hanning(length + 1)[:-1]  # periodic
    magnitude = np.abs(np.fft.rfft(frames * (window / window.sum()), points))
    loudest = np.maximum.reduceat(magnitude[:, : bins[-1]], bins[:-1], axis=1)
    levels: NDArray[np.floating[Any]] = 20 * np.log10(np.maximum(2 * loudest, 1e-9))
    return levels  # the power of a sine is in two bins
