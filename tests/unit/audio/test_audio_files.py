import contextlib
import errno
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from live_eval.audio import (
    encode_wav,
    float_to_int16,
    read_audio,
    recording_s,
    write_flac,
)
from live_eval.errors import AudioError, FailureKind

RATE_HZ = 24_000


def tone(rate_hz: int = RATE_HZ, seconds: float = 0.5, hz: float = 440) -> NDArray[np.float32]:
    at = np.arange(round(rate_hz * seconds)) / rate_hz
    return (0.3 * np.sin(2 * np.pi * hz * at)).astype(np.float32)


def wav_bytes(
    data: bytes,
    *,
    riff: int | None = None,
    stated: int | None = None,
    rate_hz: int = RATE_HZ,
    behind: bytes = b"",
) -> bytes:
    """Return a 16-bit mono WAV with arbitrary sizes in its header."""
    size = len(data) if stated is None else stated
    form = struct.pack("<IHHIIHH", 16, 1, 1, rate_hz, 2 * rate_hz, 2, 16)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", size) + data + behind
    return b"RIFF" + struct.pack("<I", len(body) if riff is None else riff) + body


def failure_of(path: Path) -> AudioError:
    with pytest.raises(AudioError) as caught:
        read_audio(path)
    assert str(path) in caught.value.message
    return caught.value


def test_the_length_of_a_recording_is_the_readers(tmp_path: Path) -> None:
    for name, data in (
        ("a.wav", wav_bytes(bytes(2 * RATE_HZ))),
        ("crashed.wav", wav_bytes(bytes(2 * RATE_HZ), stated=0)),
        ("streamed.wav", wav_bytes(bytes(2 * RATE_HZ), riff=0xFFFFFFFF, stated=0xFFFFFFFF)),
    ):
        (tmp_path / name).write_bytes(data)
    write_flac(tmp_path / "a.flac", np.zeros(RATE_HZ, np.int16), RATE_HZ)
    for path in tmp_path.iterdir():
        assert recording_s(path) == pytest.approx(1), path.name
    with pytest.raises(AudioError, match=r"at most 0\.5 s"):
        recording_s(tmp_path / "a.wav", max_s=0.5)
    (tmp_path / "empty.wav").write_bytes(b"")
    with pytest.raises(AudioError, match="libsndfile cannot read this file"):
        recording_s(tmp_path / "empty.wav")


def test_the_length_of_a_recording_needs_a_supported_rate(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(encode_wav(np.zeros(RATE_HZ, np.int16), 200_000))
    with pytest.raises(AudioError, match="expected a rate of 8000 to 192000 Hz, got 200000 Hz"):
        recording_s(tmp_path / "a.wav")


def test_a_wav_file_contains_the_samples() -> None:
    pcm = float_to_int16(tone())
    read, rate_hz = soundfile.read(io.BytesIO(encode_wav(pcm, RATE_HZ)), dtype="int16")
    assert rate_hz == RATE_HZ
    assert np.array_equal(read, pcm)


class TestReading:
    @pytest.mark.parametrize("rate_hz", [8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000])
    def test_every_common_rate(self, tmp_path: Path, rate_hz: int) -> None:
        path = tmp_path / "a.wav"
        soundfile.write(path, tone(rate_hz), rate_hz, subtype="PCM_16")
        read = read_audio(path)
        assert read.audio.rate_hz == rate_hz
        assert read.audio.duration_ns == pytest.approx(500_000_000, abs=1e9 / rate_hz)
        assert (read.format, read.subtype, read.channels, read.notes) == ("WAV", "PCM_16", 1, ())

    @pytest.mark.parametrize(
        ("container", "subtype", "tolerance"),
        [
            ("WAV", "PCM_U8", 1 / 128),
            ("WAV", "PCM_24", 1e-6),
            ("WAV", "PCM_32", 1e-6),
            ("WAV", "FLOAT", 1e-7),
            ("WAV", "ULAW", 0.02),
            ("AIFF", "PCM_16", 1e-4),
            ("FLAC", "PCM_16", 1e-4),
            ("OGG", "VORBIS", 0.05),
            ("OGG", "OPUS", 0.05),
            ("MP3", "MPEG_LAYER_III", 0.05),
        ],
    )
    def test_every_common_encoding(
        self, tmp_path: Path, container: str, subtype: str, tolerance: float
    ) -> None:
        path = tmp_path / f"a.{container.lower()}"
        soundfile.write(path, tone(), RATE_HZ, format=container, subtype=subtype)
        read = read_audio(path)
        assert (read.format, read.subtype) == (container, subtype)
        middle = slice(4_000, 8_000)
        assert read.audio.samples.dtype == np.float32
        assert np.abs(read.audio.samples[middle] - tone()[middle]).max() < tolerance

    def test_channels_are_mixed_down_and_noted(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        left = tone()
        soundfile.write(path, np.stack([left, np.zeros_like(left)], axis=1), RATE_HZ, subtype="FLOAT")
        read = read_audio(path)
        assert read.channels == 2
        assert read.notes == ("2 channels mixed down to mono",)
        np.testing.assert_allclose(read.audio.samples, left / 2, atol=1e-7)

    def test_unicode_and_spaces_in_names(self, tmp_path: Path) -> None:
        path = tmp_path / "sound of wind – 風.wav"
        soundfile.write(path, tone(), RATE_HZ)
        assert len(read_audio(path).audio.samples) == 12_000

    def test_more_than_one_block_is_read_completely(self, tmp_path: Path) -> None:
        path = tmp_path / "long.flac"
        pcm = np.random.default_rng(0).integers(-99, 99, 2_500_000).astype(np.int16)
        soundfile.write(path, pcm, 96_000, subtype="PCM_16")
        np.testing.assert_array_equal(read_audio(path).audio.int16(), pcm)

    def test_clipping_ahead_is_noted(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        soundfile.write(path, 5 * tone(), RATE_HZ, subtype="FLOAT")
        assert read_audio(path).notes == ("the peak is 1.5 times full scale; the audio will be clipped",)

    def test_digital_silence_is_noted(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        soundfile.write(path, 0 * tone(), RATE_HZ)
        assert read_audio(path).notes == ("every sample is zero",)


class TestHeadersThatLie:
    PCM = float_to_int16(tone()).tobytes()

    @pytest.mark.parametrize(
        ("riff", "stated", "note"),
        [
            (0xFFFFFFFF, 0xFFFFFFFF, "the header states the size of a stream (0xFFFFFFFF)"),
            (None, 0xFFFFFFFF, "the data chunk states 4294967295 bytes but contains 24000"),
            (None, 240_000, "the data chunk states 240000 bytes but contains 24000"),
            (0, 0, "the data chunk states 0 bytes but contains 24000"),
            (None, 0, "the data chunk states 0 bytes but contains 24000"),
        ],
        ids=["stream", "data of a stream", "too much", "never completed", "data never completed"],
    )
    def test_every_sample_in_the_file_is_read(
        self, tmp_path: Path, riff: int | None, stated: int, note: str
    ) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(self.PCM, riff=riff, stated=stated))
        read = read_audio(path)
        assert read.audio.int16().tobytes() == self.PCM
        assert read.notes == (note,)

    def test_stray_bytes_after_the_data_are_noted(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(self.PCM, stated=1_000))
        read = read_audio(path)
        assert len(read.audio.samples) == 500
        assert read.notes == ("the data chunk states 1000 bytes but contains 24000",)

    def test_a_chunk_after_the_data_is_normal(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(self.PCM, behind=b"LIST" + struct.pack("<I", 4) + b"INFO"))
        read = read_audio(path)
        assert read.audio.int16().tobytes() == self.PCM
        assert read.notes == ()

    def test_an_empty_data_chunk_before_another_is_empty(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(b"", behind=b"LIST" + struct.pack("<I", 4) + b"INFO"))
        assert failure_of(path).kind is FailureKind.AUDIO_EMPTY

    @pytest.mark.parametrize(
        ("total", "notes"),
        [
            # FLAC from a pipe states no length, which is valid and not an anomaly.
            (0, ()),
            (2**36 - 1, ("the header states 68719476735 samples but the file contains 12000",)),
        ],
    )
    def test_flac_of_unknown_or_absurd_length(
        self, tmp_path: Path, total: int, notes: tuple[str, ...]
    ) -> None:
        file = io.BytesIO()
        soundfile.write(file, tone(), RATE_HZ, format="FLAC", subtype="PCM_16")
        content = bytearray(file.getvalue())
        # The last 36 bits before the checksum in STREAMINFO (RFC 9639, section 8.2).
        content[21] = content[21] & 0xF0 | total >> 32
        content[22:26] = (total & 0xFFFFFFFF).to_bytes(4, "big")
        path = tmp_path / "a.flac"
        path.write_bytes(content)
        read = read_audio(path)
        assert len(read.audio.samples) == 12_000
        assert read.notes == notes


class TestTooLong:
    LONGEST = FailureKind.AUDIO_TOO_LONG

    @pytest.mark.parametrize(("riff", "stated"), [(None, 400_000), (0xFFFFFFFF, 0xFFFFFFFF), (0, 0)])
    def test_a_wav_that_is_too_long_is_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, riff: int | None, stated: int
    ) -> None:
        path = tmp_path / "sparse.wav"
        path.write_bytes(wav_bytes(b"", riff=riff, stated=stated))
        with path.open("r+b") as file:
            file.truncate(44 + 400_000)
        monkeypatch.setattr(soundfile.SoundFile, "read", lambda *_, **__: pytest.fail("was read"))
        with pytest.raises(AudioError, match=r"at most 5 s .*, got 8 s") as caught:
            read_audio(path, max_s=5)
        assert caught.value.kind is self.LONGEST

    @pytest.mark.parametrize("container", ["FLAC", "OGG", "MP3", "AIFF"])
    def test_at_most_one_block_beyond_the_limit_is_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str
    ) -> None:
        path = tmp_path / "a"
        soundfile.write(path, np.zeros(RATE_HZ * 4, np.int16), RATE_HZ, format=container)
        blocks: list[int] = []

        def read(file: soundfile.SoundFile, frames: int, **how: Any) -> NDArray[np.float32]:
            blocks.append(frames)
            return np.zeros((frames, 1), np.float32)

        monkeypatch.setattr(soundfile.SoundFile, "read", read)
        block = 1 << 20
        with pytest.raises(AudioError, match="at most") as caught:
            read_audio(path, max_s=block / RATE_HZ)
        assert caught.value.kind is self.LONGEST
        assert blocks == [block] * 2

    def test_a_recording_of_exactly_the_limit_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        soundfile.write(path, tone(seconds=1), RATE_HZ)
        assert read_audio(path, max_s=1).audio.duration_ns == 1_000_000_000

    def test_a_header_with_too_large_a_length_is_ignored(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(tone_pcm := float_to_int16(tone()).tobytes(), stated=4_000_000))
        assert read_audio(path, max_s=1).audio.int16().tobytes() == tone_pcm


class TestUnusable:
    def test_missing(self, tmp_path: Path) -> None:
        assert failure_of(tmp_path / "absent.wav").kind is FailureKind.AUDIO_MISSING
        assert failure_of(tmp_path).kind is FailureKind.AUDIO_MISSING

    def test_an_impossible_file_name(self, tmp_path: Path) -> None:
        assert failure_of(tmp_path / ("x" * 300 + ".wav")).kind is FailureKind.AUDIO_UNREADABLE

    @pytest.mark.parametrize(
        "content", [b"", b"hello " * 50, b"RIFF\xff\xff\xff\xffWAVE", b"fLaC" + bytes(40)]
    )
    def test_not_a_sound_file(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(content)
        error = failure_of(path)
        assert error.kind is FailureKind.AUDIO_UNREADABLE
        assert error.message.count(str(path)) == 1

    def test_zero_samples(self, tmp_path: Path) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(b""))
        assert failure_of(path).kind is FailureKind.AUDIO_EMPTY

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_samples_that_are_not_finite(self, tmp_path: Path, value: float) -> None:
        path = tmp_path / "a.wav"
        samples = tone()
        samples[[7, 9]] = value
        soundfile.write(path, samples, RATE_HZ, subtype="FLOAT")
        error = failure_of(path)
        assert error.kind is FailureKind.AUDIO_NOT_FINITE
        assert "2 of 12000 samples are not finite, the first at 7" in error.message

    @pytest.mark.parametrize("rate_hz", [4_000, 7_999, 384_000])
    def test_a_rate_outside_8_to_192_khz(self, tmp_path: Path, rate_hz: int) -> None:
        path = tmp_path / "a.wav"
        path.write_bytes(wav_bytes(bytes(2_000), rate_hz=rate_hz))
        assert failure_of(path).kind is FailureKind.AUDIO_RATE

    @settings(max_examples=150)
    @given(
        st.sampled_from(["WAV", "FLAC", "AIFF"]),
        st.dictionaries(st.integers(0, 120), st.integers(0, 255), min_size=1, max_size=6),
        st.integers(0, 700),
    )
    def test_only_documented_errors_are_raised(
        self, tmp_path_factory: pytest.TempPathFactory, container: str, changes: dict[int, int], length: int
    ) -> None:
        file = io.BytesIO()
        soundfile.write(file, tone(seconds=0.01), RATE_HZ, format=container, subtype="PCM_16")
        content = bytearray(file.getvalue())
        for at, value in changes.items():
            content[at] = value
        path = tmp_path_factory.getbasetemp() / "fuzz"
        path.write_bytes(content[:length])
        with contextlib.suppress(AudioError):
            read = read_audio(path)
            assert len(read.audio.samples) > 0
            assert np.isfinite(read.audio.samples).all()


def test_a_chunk_that_ends_out_of_range_raises_no_error_in_callbacks(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    form = struct.pack("<IHHIIHH", 0x120, 1, 1, 0x5DC0, 0xBB80, 2, 0x2E10)
    path.write_bytes(
        b"RIFF" + struct.pack("<I", 516) + b"WAVEfmt " + form + b"data" + bytes(4) + b"\xa0" * 16
    )
    assert failure_of(path).kind is FailureKind.AUDIO_UNREADABLE


class TestWriting:
    def test_flac_is_lossless_and_never_partly_written(self, tmp_path: Path) -> None:
        path = tmp_path / "a.flac"
        stereo = np.stack([float_to_int16(tone()), float_to_int16(tone(hz=660))], axis=1)
        write_flac(path, stereo, RATE_HZ)
        read, rate_hz = soundfile.read(path, dtype="int16")
        assert rate_hz == RATE_HZ
        np.testing.assert_array_equal(read, stereo)
        assert [each.name for each in tmp_path.iterdir()] == ["a.flac"]

    def test_a_full_disk_leaves_no_file_and_is_reported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(path: Path, data: object) -> int:
            path.touch()
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="No space left on device"):
            write_flac(tmp_path / "a.flac", float_to_int16(tone()), RATE_HZ)
        assert not list(tmp_path.iterdir())


def test_streaming_headers_of_echomind_are_read_to_the_end(echomind_demo: Path) -> None:
    path = echomind_demo / "data_synthesis/audio/breath/id_1536_breath_work_target.wav"
    read = read_audio(path)
    assert read.audio.duration_ns == 6_050_000_000
    assert read.notes == ("the header states the size of a stream (0xFFFFFFFF)",)
