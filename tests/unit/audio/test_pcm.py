from itertools import pairwise

import numpy as np
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from live_eval.audio import (
    Audio,
    Codec,
    CodecName,
    decode,
    float_to_int16,
    frames_of,
    int16_to_float,
    resample,
)
from live_eval.errors import AudioError, FailureKind

RATE_HZ = 24_000


def tone(rate_hz: int = RATE_HZ, seconds: float = 0.5, hz: float = 440) -> NDArray[np.float32]:
    at = np.arange(round(rate_hz * seconds)) / rate_hz
    return (0.3 * np.sin(2 * np.pi * hz * at)).astype(np.float32)


class TestConversions:
    @given(arrays(np.int16, st.integers(0, 50)))
    def test_int16_survives_a_round_trip_through_float(self, pcm: NDArray[np.int16]) -> None:
        np.testing.assert_array_equal(float_to_int16(int16_to_float(pcm)), pcm)

    def test_full_scale_is_clipped_not_wrapped(self) -> None:
        samples = np.array([-2, -1, 1, 2], np.float32)
        np.testing.assert_array_equal(float_to_int16(samples), [-32768, -32768, 32767, 32767])

    @given(arrays(np.int16, st.integers(0, 700)), st.integers(1, 240))
    def test_frames_contain_every_sample_and_end_in_silence(
        self, pcm: NDArray[np.int16], frame_samples: int
    ) -> None:
        frames = frames_of(pcm, frame_samples)
        assert len(frames) == -(-len(pcm) // frame_samples)
        assert all(len(frame) == 2 * frame_samples for frame in frames)
        joined = np.frombuffer(b"".join(frames), "<i2")
        np.testing.assert_array_equal(joined[: len(pcm)], pcm)
        assert not joined[len(pcm) :].any()

    def test_resampling_is_soxr_vhq_and_keeps_the_length(self) -> None:
        audio = Audio(tone(48_000), 48_000)
        down = resample(audio, 24_000)
        assert down.rate_hz == 24_000
        assert abs(len(down.samples) - 12_000) <= 1
        expected = soxr.resample(audio.samples, 48_000, 24_000, quality="VHQ")
        np.testing.assert_allclose(down.samples, expected, atol=1e-6)
        np.testing.assert_allclose(down.samples[500:-500], tone()[500:-500], atol=1e-4)

    def test_resampling_to_the_same_rate_returns_the_same_object(self) -> None:
        audio = Audio(tone(), RATE_HZ)
        assert resample(audio, RATE_HZ) is audio


class TestCodecs:
    def test_pcm16(self) -> None:
        pcm = float_to_int16(tone())
        np.testing.assert_array_equal(decode(pcm.tobytes(), Codec(CodecName.PCM16, 24_000)), pcm)

    def test_an_odd_byte_is_an_error(self) -> None:
        with pytest.raises(AudioError, match="whole 16-bit samples, got 3 bytes") as caught:
            decode(b"\0\0\0", Codec(CodecName.PCM16, 24_000))
        assert caught.value.kind is FailureKind.MALFORMED_MESSAGE

    def test_mu_law_is_g711(self) -> None:
        # ITU-T G.711: the code is inverted; segments double, from a bias of 33 (132 at 16 bits).
        codes = np.arange(256, dtype=np.uint8)
        inverted = ~codes
        magnitude = (((inverted & 15).astype(int) << 3) + 132 << (inverted >> 4 & 7)) - 132
        expected = np.where(inverted & 128, -magnitude, magnitude)
        np.testing.assert_array_equal(decode(codes.tobytes(), Codec(CodecName.PCMU, 8_000)), expected)

    def test_a_law_is_g711(self) -> None:
        codes = np.arange(256, dtype=np.uint8)
        toggled = codes ^ 0x55
        segment, step = (toggled >> 4 & 7).astype(int), (toggled & 15).astype(int)
        magnitude = np.where(segment == 0, (step << 4) + 8, (step << 4) + 264 << np.maximum(segment - 1, 0))
        expected = np.where(toggled & 128, magnitude, -magnitude)
        np.testing.assert_array_equal(decode(codes.tobytes(), Codec(CodecName.PCMA, 8_000)), expected)

    @pytest.mark.parametrize("name", list(CodecName))
    def test_no_bytes_decode_to_no_samples(self, name: CodecName) -> None:
        assert len(decode(b"", Codec(name, 8_000))) == 0


@pytest.mark.echomind
def test_duration_runs_from_the_first_sample_to_the_end_of_the_last() -> None:
    lengths = [Audio(np.zeros(samples, np.float32), 8_000).duration_ns for samples in range(5)]
    assert {later - earlier for earlier, later in pairwise(lengths)} == {125_000}
