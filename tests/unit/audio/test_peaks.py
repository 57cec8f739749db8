"""Peaks compared with their definition, step by step."""

import math

import numpy as np
import pytest

from live_eval.audio.peaks import peaks


@pytest.mark.parametrize("samples", [0, 1, 479, 480, 481, 5_000])
def test_each_peak_is_that_of_its_20_ms(samples: int) -> None:
    both_sides = np.random.default_rng(samples).integers(-32_768, 32_768, (samples, 2), dtype=np.int16)
    both_sides[480:960, 0] //= 1_000  # a quiet stretch
    both_sides[:1, 1] = -32_768
    expected = [
        [max((abs(int(sample)) for sample in both_sides[at : at + 480, side]), default=0) for side in (0, 1)]
        for at in range(0, samples, 480)
    ]
    drawn = peaks(both_sides, 24_000)
    assert str(drawn.dtype) == "uint8"
    assert drawn.tolist() == [[round(255 * math.sqrt(peak / 32_768)) for peak in row] for row in expected]
