"""Generate and measure audio for tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import Audio

__all__ = ["decibels", "main_tone_hz", "tone", "with_pause"]


def tone(rate_hz: int, length_ms: int, hz: float = 440.0) -> NDArray[np.int16]:
    time_s = np.arange(rate_hz * length_ms // 1000) / rate_hz
    return (8_000 * np.sin(2 * np.pi * hz * time_s)).astype(np.int16)


def main_tone_hz(pcm: NDArray[np.int16], rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(pcm.astype(np.float64)))
    return float(np.fft.rfftfreq(len(pcm), 1 / rate_hz)[spectrum.argmax()])


def with_pause(audio: Audio, seconds: float) -> Audio:
    return Audio(
        np.concatenate([audio.samples, np.zeros(round(seconds * audio.rate_hz), np.float32)]), audio.rate_hz
    )


def decibels(ratio: float) -> float:
    return float(20 * np.log10(ratio))
