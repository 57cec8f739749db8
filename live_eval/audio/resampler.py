"""Resample a stream of PCM frame by frame, with a short and constant delay."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

__all__ = ["StreamResampler"]

_HALF_WIDTH = 16  # samples at the lower rate, on either side of an output sample
_BETA = 8.0


class StreamResampler:
    """A polyphase filter with a Kaiser window, which keeps its state between frames.

    Its delay is 16 samples at the lower rate; soxr's streams collect up to 115 ms first.

    Args:
        rate_hz: Sample rate of the frames.
        to_hz: Sample rate of the result.
    """

    def __init__(self, rate_hz: int, to_hz: int) -> None:
        common = gcd(rate_hz, to_hz)
        self._up, self._down = to_hz // common, rate_hz // common
        cutoff = min(1.0, to_hz / rate_hz)
        half = round(_HALF_WIDTH / cutoff)
        offsets = np.arange(1 - half, half + 1) - np.arange(self._up)[:, None] / self._up
        window = np.i0(_BETA * np.sqrt(np.maximum(0.0, 1.0 - (offsets / half) ** 2)))
        taps = np.sinc(cutoff * offsets) * window
        self._taps = taps / taps.sum(axis=1, keepdims=True)  # one row per phase
        self._tail = np.zeros(2 * half, np.int16)
        self._taken = self._made = 0
        self.delay_s = half / rate_hz

    def resample(self, pcm: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return the next samples of the stream; their total follows the rates exactly.

        Args:
            pcm: int16 mono, shape (samples,).
        """
        before, self._taken = self._taken, self._taken + len(pcm)
        until = -(-self._taken * self._up // self._down)
        whole, phase = np.divmod(np.arange(self._made, until) * self._down, self._up)
        self._made = until
        heard = np.concatenate([self._tail, pcm])
        self._tail = heard[len(pcm) :]
        windows = np.lib.stride_tricks.sliding_window_view(heard, len(self._tail))
        made: NDArray[np.float64] = np.einsum("ij,ij->i", windows[whole - before + 1], self._taps[phase])
        return np.clip(np.rint(made), -32_768, 32_767).astype(np.int16)
