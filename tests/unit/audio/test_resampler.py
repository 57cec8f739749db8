"""Resampling a stream equals soxr's result for the whole recording, after the delay."""

from __future__ import annotations

import numpy as np
import pytest

from live_eval.audio import StreamResampler, resample_int16


@pytest.mark.parametrize("to_hz", [8_000, 22_050, 24_000, 44_100, 48_000])
def test_a_stream_is_resampled_like_a_recording(to_hz: int) -> None:
    at_s = np.arange(16_000) / 16_000
    pcm = (8_000 * (np.sin(2 * np.pi * 440 * at_s) + np.sin(2 * np.pi * 2_500 * at_s))).astype(np.int16)
    stream = StreamResampler(16_000, to_hz)
    frames = [stream.resample(frame) for frame in np.split(pcm, 50)]
    assert {len(frame) for frame in frames} == {to_hz // 50}
    assert stream.delay_s <= 0.002
    found = np.concatenate(frames).astype(float)
    delayed = np.concatenate([np.zeros(round(stream.delay_s * 16_000), np.int16), pcm])
    expected = resample_int16(delayed, 16_000, to_hz)[: len(found)]
    middle = slice(len(found) // 10, -len(found) // 10)
    error = found[middle] - expected[middle]
    assert np.sqrt(np.mean(error**2)) < 0.005 * np.sqrt(np.mean(expected[middle].astype(float) ** 2))


def test_no_images_above_the_lower_rates_band() -> None:
    pcm = (16_000 * np.sin(2 * np.pi * 6_000 * np.arange(16_000) / 16_000)).astype(np.int16)
    found = StreamResampler(16_000, 8_000).resample(pcm).astype(float)[800:]
    assert np.abs(found).max() < 40  # -52 dB
