"""The coarse spectrum of a voice."""

import math

import pytest

from live_eval.live.voice_bands import BANDS, voice_bands
from tests.support.records import tone


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 44_100, 48_000])
@pytest.mark.parametrize(("hz", "band"), [(200, 0), (800, 1), (2_000, 2), (5_000, 3)])
def test_a_tone_is_loudest_in_its_band(rate_hz: int, hz: int, band: int) -> None:
    levels = voice_bands(tone(100, hz=hz, rate_hz=rate_hz).int16(), rate_hz)
    assert len(levels) == BANDS
    assert levels.index(max(levels)) == band
    assert max(levels) == pytest.approx(20 * math.log10(0.3), abs=2)


def test_bands_above_half_of_the_sample_rate_are_silent() -> None:
    *heard, top = voice_bands(tone(100, hz=800, rate_hz=4_000).int16(), 4_000)
    assert top == -180
    assert max(heard) > -20


def test_audio_shorter_than_a_window_has_no_bands() -> None:
    assert voice_bands(tone(10, rate_hz=16_000).int16(), 16_000) == ()
