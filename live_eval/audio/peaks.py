"""Compute the peaks of audio, for drawing waveforms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["PEAK_NS", "length_s", "peaks"]

PEAK_NS = 20_000_000
"""The length of audio per peak."""


def peaks(both_sides: NDArray[np.int16], rate_hz: int, step_ns: int = PEAK_NS) -> NDArray[np.uint8]:
    """Return the peaks of both sides, one for each step.

    Args:
        both_sides: int16, shape (samples, 2).
        step_ns: Length of audio per peak.

    Returns:
        uint8, shape (n, 2), 255 for full scale, on a square-root scale, which makes quiet speech visible.
    """
    step = max(1, rate_hz * step_ns // 1_000_000_000)
    # NumPy vectorises this only if the samples of each side are contiguous.
    sides = np.zeros((2, -(-len(both_sides) // step), step), np.int16)
    sides.reshape(2, -1)[:, : len(both_sides)] = both_sides.T
    # abs() overflows for −32768.
    peak = np.maximum(sides.max(axis=2).astype(np.int32), -sides.min(axis=2).astype(np.int32))
    return np.ascontiguousarray(np.rint(255 * np.sqrt(peak / 32768)).astype(np.uint8).T)


def length_s(found: NDArray[np.uint8]) -> float:
    """Return the length of the audio with these peaks, in seconds."""
    return len(found) * (PEAK_NS / 1e9)
