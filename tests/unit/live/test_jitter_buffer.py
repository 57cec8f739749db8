"""The jitter buffer of an output device."""

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.live.jitter_buffer import PlayoutBuffer
from tests.support.sounds import tone

RATE = 8_000
BLOCK = 80


def read(buffer: PlayoutBuffer, blocks: int) -> NDArray[np.int16]:
    return np.concatenate([buffer.read(BLOCK) for _ in range(blocks)])


def test_audio_is_collected_and_then_played_completely() -> None:
    buffer, sound = PlayoutBuffer(RATE, wait_ms=60), tone(RATE, 500)
    buffer.push(sound[: 5 * BLOCK], RATE)
    assert not read(buffer, 1).any()
    buffer.push(sound[5 * BLOCK :], RATE)
    played = read(buffer, 60)
    assert np.array_equal(played[: len(sound)], sound)
    assert not played[len(sound) :].any()
    assert buffer.began == BLOCK


def test_audio_shorter_than_the_wait_is_played() -> None:
    buffer = PlayoutBuffer(RATE, wait_ms=60)
    buffer.push(tone(RATE, 20), RATE)
    assert np.array_equal(np.trim_zeros(read(buffer, 20)), np.trim_zeros(tone(RATE, 20)))


def test_dropped_audio_is_not_played() -> None:
    buffer = PlayoutBuffer(RATE)
    buffer.push(tone(RATE, 1_000), RATE)
    assert read(buffer, 10).any()
    buffer.drop()
    assert buffer.waiting == 0
    assert not read(buffer, 10).any()
    buffer.push(tone(RATE, 100), RATE)
    assert read(buffer, 10).any()


def test_another_rate_is_resampled() -> None:
    buffer = PlayoutBuffer(RATE)
    buffer.push(tone(24_000, 1_000), 24_000)
    assert np.count_nonzero(read(buffer, 120)) == pytest.approx(RATE, rel=0.05)


@pytest.mark.parametrize("ppm", [-400, 400])
def test_clock_drift_is_compensated(ppm: int) -> None:
    """A minute at the pace of speech: the buffer neither runs dry nor grows."""
    buffer, came = PlayoutBuffer(RATE), 0.0
    sound = tone(RATE, 1_000)
    waiting = []
    for _ in range(60 * RATE // BLOCK):
        came += BLOCK * (1 + ppm / 1e6)
        size = int(came)
        came -= size
        buffer.push(sound[:size], RATE, paced=True)
        buffer.read(BLOCK)
        waiting.append(buffer.waiting)
    settled = waiting[len(waiting) // 2 :]
    assert min(settled) > 0
    assert max(settled) < 150 * RATE // 1000


def test_samples_dropped_by_a_full_buffer_are_counted() -> None:
    buffer = PlayoutBuffer(100)
    buffer.push(np.ones(14_000, np.int16), 100)
    assert buffer.lost == 1_000
