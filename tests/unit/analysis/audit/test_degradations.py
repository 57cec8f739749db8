"""Each known degradation changes only what it describes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.analysis.audit.degradations import (
    add_noise,
    clip,
    drop_frames,
    flatten,
    halve_words,
    resynthesise,
    shuffle_words,
)
from live_eval.audio import Audio
from live_eval.audio.speech_level import speech_level
from live_eval.testing.judges import speechlike
from tests.support.sounds import decibels, with_pause

RATE_HZ = 16_000
SPEECH = speechlike(4.0, RATE_HZ)


def pitch_hz(audio: Audio) -> NDArray[np.float64]:
    """Return the pitch of each voiced 40 ms by autocorrelation, unlike the method under test."""
    step = audio.rate_hz // 25
    frames = audio.samples[: len(audio.samples) // step * step].reshape(-1, step).astype(np.float64)
    found = []
    lags = np.arange(audio.rate_hz // 250, audio.rate_hz // 70)
    for frame in frames[np.sqrt(np.square(frames).mean(axis=1)) > 0.3 * speech_level(audio).rms]:
        products = np.correlate(frame, frame, "full")[step - 1 :]
        scaled = products[lags] / (1 - lags / step)
        if scaled.max() > 0.7 * products[0]:
            found.append(audio.rate_hz / float(lags[np.argmax(scaled)]))
    return np.asarray(found)


class TestNoise:
    @pytest.mark.parametrize("snr_db", [20.0, 10.0, 0.0])
    def test_the_ratio_is_that_of_active_speech(self, snr_db: float) -> None:
        speech = with_pause(SPEECH, 8.0)
        noisy = add_noise(speech, snr_db, seed=1)
        # The pause contains only noise; the correlation with the speech gives the common attenuation.
        gain = float(noisy.samples @ speech.samples) / float(speech.samples @ speech.samples)
        noise = float(noisy.samples[5 * RATE_HZ :].std()) / gain
        assert decibels(speech_level(speech).rms / noise) == pytest.approx(snr_db, abs=0.3)

    def test_nothing_is_clipped(self) -> None:
        loud = Audio(SPEECH.samples / np.abs(SPEECH.samples).max() * np.float32(0.99), RATE_HZ)
        noisy = add_noise(loud, -10)
        assert np.abs(noisy.samples).max() < 1
        assert np.count_nonzero(np.abs(noisy.samples) > 0.999 * np.abs(noisy.samples).max()) <= 2


class TestClip:
    @pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
    def test_the_requested_share_of_the_speech_is_clipped(self, share: float) -> None:
        speech = with_pause(SPEECH, 6.0)
        clipped = clip(speech, share)
        peak = np.abs(clipped.samples).max()
        at_peak = np.count_nonzero(np.abs(clipped.samples) >= 0.9999 * peak)
        active = speech_level(speech).activity * len(speech.samples)
        assert at_peak / active == pytest.approx(share, abs=0.005)

    def test_the_level_is_kept(self) -> None:
        level = speech_level(clip(SPEECH, 0.2)).rms
        assert decibels(level / speech_level(SPEECH).rms) == pytest.approx(0, abs=0.1)


class TestDropFrames:
    def test_the_requested_share_of_frames_is_lost_and_the_rest_is_unchanged(self) -> None:
        speech = Audio(SPEECH.samples + np.float32(0.001), RATE_HZ)
        dropped = drop_frames(speech, 0.1, seed=3)
        frames = dropped.samples.reshape(-1, RATE_HZ // 50)
        lost = (frames == 0).all(axis=1)
        assert lost.sum() == 20  # of 200
        kept = speech.samples.reshape(-1, RATE_HZ // 50)
        np.testing.assert_array_equal(frames[~lost], kept[~lost])

    def test_a_partial_last_frame_may_be_lost(self) -> None:
        assert not drop_frames(Audio(np.ones(330, np.float32), RATE_HZ), 1.0).samples.any()


class TestFlatten:
    def test_pitch_is_flat(self) -> None:
        flat = flatten(SPEECH)
        before, after = pitch_hz(SPEECH), pitch_hz(flat)
        assert len(after) > 20
        assert np.ptp(before) > 30
        assert np.percentile(after, 90) - np.percentile(after, 10) < 3
        assert np.median(after) == pytest.approx(np.median(before), rel=0.05)

    def test_loudness_is_even(self) -> None:
        at = np.arange(len(SPEECH.samples)) / RATE_HZ
        swelling = 10 ** (8 * np.sin(2 * np.pi * 0.5 * at) / 20)
        uneven = Audio((0.3 * swelling * SPEECH.samples).astype(np.float32), RATE_HZ)
        assert spread_db(flatten(uneven)) < 0.7 * spread_db(uneven)

    def test_the_control_is_not_flat(self) -> None:
        same = resynthesise(SPEECH)
        assert np.ptp(pitch_hz(same)) > 30
        assert spread_db(same) == pytest.approx(spread_db(SPEECH), rel=0.2)

    @pytest.mark.parametrize("rate_hz", [8_000, 24_000, 96_000])
    def test_length_and_level_stay_at_any_rate(self, rate_hz: int) -> None:
        speech = speechlike(1.5, rate_hz)
        flat = flatten(speech)
        assert flat.rate_hz == rate_hz
        assert len(flat.samples) == len(speech.samples)
        assert decibels(speech_level(flat).rms / speech_level(speech).rms) == pytest.approx(0, abs=0.5)

    @pytest.mark.slow
    def test_a_long_recording_is_processed_in_pieces(self) -> None:
        speech = speechlike(25.0, RATE_HZ)  # pieces have at most 20 s
        flat = flatten(speech)
        assert len(flat.samples) == len(speech.samples)
        after = pitch_hz(flat)
        assert np.percentile(after, 90) - np.percentile(after, 10) < 3

    def test_unvoiced_audio_is_accepted(self) -> None:
        noise = Audio(np.random.default_rng(0).normal(0, 0.1, RATE_HZ).astype(np.float32), RATE_HZ)
        assert np.isfinite(flatten(noise).samples).all()


def spread_db(audio: Audio) -> float:
    """Return the standard deviation of the loudness of 40 ms windows outside pauses."""
    step = audio.rate_hz // 25
    frames = audio.samples[: len(audio.samples) // step * step].reshape(-1, step).astype(np.float64)
    loud = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-12)
    return float(loud[loud > decibels(speech_level(audio).rms) - 20].std())


class TestAll:
    def test_the_same_seed_gives_the_same(self) -> None:
        for one, again, other in (
            [add_noise(SPEECH, 10, seed) for seed in (1, 1, 2)],
            [drop_frames(SPEECH, 0.1, seed) for seed in (1, 1, 2)],
        ):
            np.testing.assert_array_equal(one.samples, again.samples)
            assert not np.array_equal(one.samples, other.samples)
        np.testing.assert_array_equal(flatten(SPEECH).samples, flatten(SPEECH).samples)

    @pytest.mark.parametrize(
        "samples",
        [
            np.zeros(0, np.float32),
            np.zeros(RATE_HZ, np.float32),
            np.full(1, 0.5, np.float32),
            np.full(300, 0.5, np.float32),
        ],
    )
    def test_nearly_silent_audio_is_accepted(self, samples: NDArray[np.float32]) -> None:
        audio = Audio(samples, RATE_HZ)
        for made in (
            add_noise(audio, 0),
            clip(audio),
            drop_frames(audio, 0.1),
            flatten(audio),
            resynthesise(audio),
        ):
            assert made.samples.shape == samples.shape
            assert made.samples.dtype == np.float32
            assert np.isfinite(made.samples).all()

    def test_the_recording_is_not_changed(self) -> None:
        before = SPEECH.samples.copy()
        add_noise(SPEECH, 0)
        clip(SPEECH)
        drop_frames(SPEECH, 0.5)
        flatten(SPEECH)
        np.testing.assert_array_equal(SPEECH.samples, before)


class TestWords:
    def test_shuffled_words_are_the_same_words(self) -> None:
        text = "I am so sorry to hear that"
        shuffled = shuffle_words(text, seed=4)
        assert shuffled != text
        assert sorted(shuffled.split()) == sorted(text.split())
        assert shuffle_words(text, seed=4) == shuffled

    @pytest.mark.parametrize(
        ("text", "half"), [("", ""), ("one", "one"), ("one two", "one"), ("a b c", "a b")]
    )
    def test_half_of_the_words(self, text: str, half: str) -> None:
        assert halve_words(text) == half
