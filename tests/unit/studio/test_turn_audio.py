"""The audio that the studio draws and sends."""

import base64

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.studio.turn_audio import HIGH_HZ, LOW_DB, drawn_peaks, excerpt, spectrogram
from tests.support.records import tone

RATE_HZ = 24_000


def both(user_ms: float = 500, reply_ms: float = 500) -> NDArray[np.int16]:
    """The user, then the reply."""
    user, reply = tone(user_ms).int16(), tone(reply_ms, level=0.6).int16()
    sides = np.zeros((len(user) + len(reply), 2), np.int16)
    sides[: len(user), 0] = user
    sides[len(user) :, 1] = reply
    return sides


@pytest.mark.parametrize("bins", [1, 7, 100, 24_000, 1_000_000])
def test_peaks_follow_the_audio(bins: int) -> None:
    drawn = drawn_peaks(both(), RATE_HZ, bins)
    assert len(drawn["user"]) == len(drawn["reply"]) <= bins
    last = max(place for place, peak in enumerate(drawn["user"]) if peak)
    assert last * drawn["step_s"] < 0.5
    assert max(drawn["user"]) == round(255 * 0.3**0.5)
    assert len(drawn["user"]) * drawn["step_s"] == pytest.approx(1, abs=drawn["step_s"])


def test_an_excerpt_ends_with_the_recording() -> None:
    assert len(excerpt(both(), RATE_HZ, 0.5, 0.75)) == RATE_HZ // 4
    assert len(excerpt(both(), RATE_HZ, 0.5, 86_400)) == RATE_HZ // 2
    assert len(excerpt(both(), RATE_HZ, 5, 86_400)) == 0


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 48_000])
@pytest.mark.parametrize("hz", [200, 3_100])
def test_a_tone_is_drawn_as_a_line_of_its_level(rate_hz: int, hz: int) -> None:
    drawn = spectrogram(tone(400, hz=hz, rate_hz=rate_hz).int16(), rate_hz, columns=20, rows=128)
    assert drawn["high_hz"] == min(HIGH_HZ, rate_hz // 2)
    assert drawn["columns"] <= 20
    levels = np.frombuffer(base64.b64decode(drawn["data"]), np.uint8).reshape(drawn["columns"], 128)
    band_hz = drawn["high_hz"] / 128
    assert abs((levels[5].argmax() + 0.5) * band_hz - hz) < 1.5 * band_hz
    # Between two lines of the spectrum, a Hann window loses 1.4 dB.
    assert LOW_DB * (1 - levels[5].max() / 255) == pytest.approx(20 * np.log10(0.3), abs=2)


@pytest.mark.parametrize("samples", [0, 1, 100])
def test_very_short_audio_is_drawn(samples: int) -> None:
    assert spectrogram(np.zeros(samples, np.int16), RATE_HZ, columns=10, rows=128)["columns"] >= 1
    assert drawn_peaks(np.zeros((samples, 2), np.int16), RATE_HZ, 10)["step_s"] > 0
