"""Levels in frequency bands."""

import numpy as np
import pytest

from live_eval.audio.spectrum import band_levels


def test_each_band_has_the_level_of_its_loudest_sine() -> None:
    samples = np.arange(512)
    sines = sum(level * np.sin(2 * np.pi * bin * samples / 512) for level, bin in ((0.5, 20), (0.05, 80)))
    [levels] = band_levels(np.asarray(sines)[np.newaxis], 512, np.array([10, 40, 120, 256]))
    assert levels[:2] == pytest.approx([20 * np.log10(0.5), 20 * np.log10(0.05)], abs=0.01)
    assert levels[2] < -100
