"""The input of the detector: power in bands as wide as those of hearing, every 4 ms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio, resample

__all__ = ["BANDS", "Bands", "band_power", "smoothed"]

BANDS = 20

_WINDOW_S = 0.016
_HOP_S = 0.004
# Speech has hardly any energy above half this rate; resampling faster recordings saves work.
_TOP_RATE_HZ = 24_000
_FFT_SIZE = 512
_BLOCK_FRAMES = 4_096  # bounds the memory that a long recording takes
_TOP_HZ = 11_000.0
_BOTTOM_HZ = 80.0


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Mean square of a signal by band, shape (frames, 20); frame k is centred on ``k * hop_s`` seconds."""

    power: NDArray[np.float64]
    hop_s: float


def band_power(audio: Audio) -> Bands:
    """Return the power of a recording of at least 8_000 Hz in Hann windows of 16 ms, 4 ms apart.

    The 20 bands are equally wide on the ERB scale from 80 Hz up (Glasberg and Moore, "Derivation of auditory
    filter shapes from notched-noise data", 1990).
    """
    sound = resample(audio, _TOP_RATE_HZ) if audio.rate_hz > _TOP_RATE_HZ else audio
    rate_hz, samples = sound.rate_hz, sound.samples
    width, hop = round(_WINDOW_S * rate_hz), round(_HOP_S * rate_hz)
    window = np.hanning(width + 2)[1:-1]
    bank = _bank(rate_hz) * (2 / (_FFT_SIZE * np.sum(window**2)))
    padded = np.pad(samples, (width // 2, width))
    frames = np.lib.stride_tricks.sliding_window_view(padded, width)[: len(samples) : hop]
    blocks = [
        np.abs(np.fft.rfft(frames[start : start + _BLOCK_FRAMES] * window, _FFT_SIZE, axis=1)) ** 2 @ bank.T
        for start in range(0, len(frames), _BLOCK_FRAMES)
    ]
    return Bands(np.vstack(blocks), hop / rate_hz)


def smoothed(power: NDArray[np.float64], frames: int) -> NDArray[np.float64]:
    """Return the running mean of `power` over `frames` frames around each frame, fewer at both ends."""
    if frames <= 1:
        return power
    total = np.cumsum(np.vstack([np.zeros((1, power.shape[1])), power]), axis=0)
    at = np.arange(len(power))
    first = np.maximum(0, at - frames // 2)
    last = np.minimum(len(power), at + frames // 2 + 1)
    return np.asarray((total[last] - total[first]) / (last - first)[:, None])


def _bank(rate_hz: int) -> NDArray[np.float64]:
    """Return the bins of each band as a mask, shape (20, bins)."""
    bins_hz = np.fft.rfftfreq(_FFT_SIZE, 1 / rate_hz)
    top_hz = min(_TOP_HZ, 0.49 * rate_hz)
    scale = np.linspace(_erb(_BOTTOM_HZ), _erb(top_hz), BANDS + 1)
    edges_hz = (10 ** (scale / 21.4) - 1) / 0.00437
    bank = np.zeros((BANDS, len(bins_hz)))
    for band, (low_hz, high_hz) in enumerate(pairwise(edges_hz)):
        inside = (bins_hz >= low_hz) & (bins_hz < high_hz)
        if not inside.any():  # the lowest bands are narrower than a bin
            inside[np.argmin(np.abs(bins_hz - (low_hz + high_hz) / 2))] = True
        bank[band, inside] = 1
    return bank


def _erb(frequency_hz: float) -> float:
    return float(21.4 * np.log10(1 + 0.00437 * frequency_hz))
