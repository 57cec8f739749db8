"""Noise."""

import numpy as np
import pytest

from live_eval.impair.noises import pink_noise

RATE_HZ = 24_000


def test_pink_noise_falls_by_three_decibels_an_octave() -> None:
    power = np.abs(np.fft.rfft(pink_noise(RATE_HZ * 10, RATE_HZ, np.random.default_rng(0)))) ** 2
    octaves = [np.mean(power[low * 10 : low * 20]) for low in (250, 500, 1000, 2000)]
    falls = 10 * np.log10(np.divide(octaves[:-1], octaves[1:]))
    assert falls == pytest.approx([3.0] * 3, abs=0.3)
