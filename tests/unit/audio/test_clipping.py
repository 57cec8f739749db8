"""Clipping at and below full scale."""

import numpy as np
import pytest

from live_eval.audio import Audio, int16_to_float, read_audio, resample
from live_eval.audio.clipping import find_clipping
from live_eval.data import sample_path
from live_eval.impair.recording import clip


def recordings() -> list[Audio]:
    files = sorted((sample_path() / "data_human" / "audio").glob("*/*_target.flac"))
    return [resample(read_audio(file).audio, 48_000) for file in files]


def quantised(audio: Audio, gain: float = 1.0) -> Audio:
    return Audio(
        int16_to_float(Audio(np.float32(gain) * audio.samples, audio.rate_hz).int16()), audio.rate_hz
    )


@pytest.mark.parametrize("gain", [1.0, 0.1])
def test_speech_is_not_clipped(gain: float) -> None:
    assert [find_clipping(quantised(each, gain)) for each in recordings()] == [None] * len(recordings())


@pytest.mark.parametrize("gain", [1.0, 0.1])
def test_flat_peaks_are_found_at_any_level(gain: float) -> None:
    for each in recordings():
        clipped = quantised(clip(each, 0.01), gain)
        found = find_clipping(clipped)
        assert found is not None
        top = max(clipped.samples.max(), -clipped.samples.min())
        assert found.level_dbfs == pytest.approx(20 * np.log10(top), abs=0.1)


def test_one_side_and_noise_do_not_hide_flat_peaks() -> None:
    samples = np.sin(np.arange(48_000) / 30).astype(np.float32)
    noise = np.random.default_rng(1).normal(0, 5e-4, 48_000).astype(np.float32)
    found = find_clipping(Audio(np.maximum(samples, -0.4) * np.float32(0.5) + noise, 48_000))
    assert found is not None
    assert found.peaks > 200


def test_silence_and_faint_audio_are_not_clipped() -> None:
    assert find_clipping(Audio(np.zeros(0, np.float32), 48_000)) is None
    assert find_clipping(Audio(np.full(48_000, 0.001, np.float32), 48_000)) is None
