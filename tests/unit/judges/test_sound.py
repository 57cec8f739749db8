"""The helpers that judges of audio share."""

import numpy as np

from live_eval.audio import Audio
from live_eval.judges._sound import RecordingCache


def test_equal_recordings_share_a_value() -> None:
    cache = RecordingCache[int](8)
    samples = np.linspace(-0.5, 0.5, 100, dtype=np.float32)
    assert cache.get(Audio(samples, 16_000), lambda: 1) == 1
    assert cache.get(Audio(samples.copy(), 16_000), lambda: 2) == 1
    assert cache.get(Audio(samples, 24_000), lambda: 3) == 3


def test_the_recordings_used_last_are_kept() -> None:
    cache = RecordingCache[int](2)
    one, other, third = (Audio(np.full(10, value, np.float32), 16_000) for value in (0.1, 0.2, 0.3))
    for value, audio in enumerate((one, other, one, third)):
        cache.get(audio, lambda value=value: value)  # type: ignore[misc]
    assert cache.get(one, lambda: 9) == 0
    assert cache.get(other, lambda: 9) == 9
