"""Read audio files, even those with wrong headers, and write FLAC and WAV."""

from __future__ import annotations

import io
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.audio.parquet import in_table, read_in_table, recording_exists
from live_eval.audio.pcm import Audio
from live_eval.errors import AudioError, FailureKind
from live_eval.files import atomic_write, open_regular

__all__ = ["MAX_RECORDING_S", "AudioFile", "encode_wav", "read_audio", "recording_s", "write_flac"]

MIN_RATE_HZ = 8_000
MAX_RATE_HZ = 192_000
MAX_RECORDING_S = 600.0
"""Default maximum length of a recording, in seconds."""

_BLOCK_SAMPLES = 1 << 20
# Placeholders for an unknown size: in RIFF headers, and for FLAC in libsndfile.
_STREAM_SIZE = 0xFFFFFFFF
_UNKNOWN_SAMPLES = 1 << 62
# Containers for which libsndfile clamps the stated length to the size of the file.
_LENGTH_IS_SURE = frozenset({"WAV", "WAVEX"})


@dataclass(frozen=True, slots=True, eq=False)
class AudioFile:
    """A recording read from a file.

    Args:
        audio: The audio, mixed down to mono.
        channels: Number of channels in the file.
        format: libsndfile's name for the container ("WAV").
        subtype: libsndfile's name for the encoding ("PCM_16").
        notes: Anomalies of the file, one sentence each.
    """

    audio: Audio
    channels: int
    format: str
    subtype: str
    notes: tuple[str, ...] = ()


def read_audio(path: Path, *, max_s: float = MAX_RECORDING_S) -> AudioFile:
    """Read any file that libsndfile reads (WAV, FLAC, Ogg, MP3, AIFF, …) and mix it down to mono.

    If the header states a wrong length (0xFFFFFFFF from a streaming writer, 0 from a crashed writer, or more
    than the file contains), the file is read to the end, with a note.

    Args:
        path: Audio file.
        max_s: Maximum length in seconds, which also limits memory.

    Returns:
        The audio at the file's own rate.

    Raises:
        AudioError: The file is missing, unreadable, too long or empty, contains non-finite samples, or has a
            rate outside 8 to 192 kHz; the message contains the reason and the path.
    """
    try:
        if not (path.is_file() if in_table(path) is None else recording_exists(path)):
            raise AudioError(FailureKind.AUDIO_MISSING, f"{path}: no such file")
        chunk = _data_chunk(path)
        with _opened(path, chunk) as file:
            declared = file.frames
            rate_hz, channels = int(file.samplerate), int(file.channels)
            container, subtype = str(file.format), str(file.subtype)
            if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
                raise AudioError(
                    FailureKind.AUDIO_RATE,
                    f"{path}: expected a rate of {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz, got {rate_hz} Hz",
                )
            most = max_s * rate_hz
            if container in _LENGTH_IS_SURE and declared > most:
                raise _too_long(path, max_s, f"got {declared / rate_hz:.0f} s")
            sound = _read_to_the_end(file, most)
    except (soundfile.LibsndfileError, RuntimeError, ValueError, MemoryError, OSError) as error:
        reason = getattr(error, "error_string", None) or getattr(error, "strerror", None) or error
        raise AudioError(
            FailureKind.AUDIO_UNREADABLE,
            f"{path}: libsndfile cannot read this file: {str(reason).rstrip('.')}",
        ) from None
    count = len(sound.samples)
    if count > most:
        raise _too_long(path, max_s, "got a longer one")
    if count == 0:
        raise AudioError(FailureKind.AUDIO_EMPTY, f"{path}: expected audio, but the file has no samples")
    finite = np.isfinite(sound.samples)
    if not finite.all():
        raise AudioError(
            FailureKind.AUDIO_NOT_FINITE,
            f"{path}: {count - int(finite.sum())} of {count} samples are not finite, the first at "
            f"{int(np.argmin(finite))}",
        )
    notes = [*_length_notes(chunk, declared, count)]
    if channels > 1:
        notes.append(f"{channels} channels mixed down to mono")
    if sound.peak == 0:
        notes.append("every sample is zero")
    elif sound.peak > 1:
        notes.append(f"the peak is {sound.peak:.3g} times full scale; the audio will be clipped")
    return AudioFile(Audio(sound.samples, rate_hz), channels, container, subtype, tuple(notes))


def recording_s(path: Path, *, max_s: float = MAX_RECORDING_S) -> float:
    """Return the length of a recording in seconds; decode it only if its header is unreliable.

    Args:
        max_s: Maximum length in seconds.

    Raises:
        AudioError: The recording cannot be used; see `read_audio`. With a reliable header, the samples are
            not checked.
    """
    # `read_audio` below reports problems.
    errors = (soundfile.LibsndfileError, RuntimeError, ValueError, OSError)
    with suppress(*errors), _opened(path, _data_chunk(path)) as file:
        length_s = file.frames / file.samplerate
        can_be_used = MIN_RATE_HZ <= file.samplerate <= MAX_RATE_HZ and 0 < length_s <= max_s
        if file.format in _LENGTH_IS_SURE and can_be_used:
            return float(length_s)
    audio = read_audio(path, max_s=max_s).audio
    return len(audio.samples) / audio.rate_hz


def _too_long(path: Path, max_s: float, what: str) -> AudioError:
    return AudioError(
        FailureKind.AUDIO_TOO_LONG,
        f"{path}: expected a recording of at most {max_s:g} s (--max-recording), {what}",
    )


class _Stream(soundfile.SoundFile):  # type: ignore[misc]  # soundfile is untyped
    """An audio file that is read only once, from start to end.

    soundfile seeks after each block of a seekable file, which fails at the end of a FLAC file with a wrong
    stated length.
    """

    def seekable(self) -> bool:
        return False


class _Content(mmap.mmap):
    """The content of a file, mapped into memory, with seeks clamped to valid positions.

    libsndfile seeks to positions stated in chunks, and exceptions in its callbacks are lost.
    """

    def seek(self, pos: int, whence: int = os.SEEK_SET) -> Any:  # returns an int since Python 3.13
        """Seek to the nearest valid position and return it."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: len(self)}[whence]
        super().seek(min(max(start + pos, 0), len(self)))
        return self.tell()


@contextmanager
def _opened(path: Path, chunk: _DataChunk | None) -> Iterator[soundfile.SoundFile]:
    """Open an audio file, which may be inside a Parquet table or have an incomplete RIFF header."""
    if (place := in_table(path)) is not None:
        with _Stream(io.BytesIO(read_in_table(place))) as file:
            yield file
        return
    # A crashed writer leaves a data chunk with a stated size of 0, which libsndfile reads as empty.
    if chunk is None or chunk.stated > 0 or not chunk.surplus:
        with open_regular(path, links=True) as raw, _Stream(raw.fileno(), closefd=False) as file:
            yield file
        return
    size = min(chunk.present, _STREAM_SIZE - 1).to_bytes(4, "little")
    with open_regular(path, links=True) as raw, _Content(raw.fileno(), 0, access=mmap.ACCESS_COPY) as content:
        content[chunk.at - 4 : chunk.at] = size  # in memory only
        with _Stream(content) as file:
            yield file


@dataclass(frozen=True, slots=True, eq=False)
class _Sound:
    """The samples of a file.

    Args:
        samples: float32 mono, shape (samples,).
        peak: Largest magnitude in any channel.
    """

    samples: NDArray[np.float32]
    peak: float


def _read_to_the_end(file: soundfile.SoundFile, most: float) -> _Sound:
    """Return all samples of a file, or at most one block more than `most`."""
    # Read in blocks, because the stated length may exceed memory or, for piped FLAC, be missing.
    blocks: list[NDArray[np.float32]] = []
    count, peak = 0, 0.0
    frames = max(1, _BLOCK_SAMPLES // file.channels)
    while count <= most and len(block := file.read(frames, dtype="float32", always_2d=True)):
        peak = max(peak, float(np.abs(block).max()))
        mono = block[:, 0] if file.channels == 1 else block.mean(axis=1, dtype=np.float32)
        blocks.append(mono)
        count += len(mono)
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    return _Sound(samples, peak)


@dataclass(frozen=True, slots=True)
class _DataChunk:
    """The data chunk of a RIFF file.

    Args:
        riff: File size stated in the header.
        at: Offset of the samples.
        stated: Number of sample bytes stated in the chunk.
        present: Number of bytes from `at` to the end of the file.
        surplus: Whether data other than a chunk follows the stated bytes.
    """

    riff: int
    at: int
    stated: int
    present: int
    surplus: bool


def _data_chunk(path: Path) -> _DataChunk | None:
    """Find the data chunk of a RIFF file; return None for other formats and for recordings inside a table."""
    if in_table(path) is not None:
        return None
    size = path.stat().st_size
    with open_regular(path, links=True) as file:
        header = file.read(12)
        if header[:4] != b"RIFF" or header[8:] != b"WAVE":
            return None
        riff = int.from_bytes(header[4:8], "little")
        while len(chunk := file.read(8)) == 8:
            stated = int.from_bytes(chunk[4:], "little")
            if chunk[:4] == b"data":
                at = file.tell()
                file.seek(stated + stated % 2, 1)
                left = size - file.tell()
                follows = file.read(8)
                another = follows[:3].isalpha() and int.from_bytes(follows[4:], "little") <= left - 8
                return _DataChunk(riff, at, stated, size - at, left > 0 and not another)
            file.seek(stated + stated % 2, 1)
    return None


def _length_notes(chunk: _DataChunk | None, stated_samples: int, samples: int) -> Iterator[str]:
    if chunk is not None and chunk.riff == _STREAM_SIZE:
        yield f"the header states the size of a stream (0x{_STREAM_SIZE:X})"
    elif chunk is not None and (chunk.stated > chunk.present or chunk.surplus):
        yield f"the data chunk states {chunk.stated} bytes but contains {chunk.present}"
    elif samples != stated_samples and 0 <= stated_samples < _UNKNOWN_SAMPLES:
        yield f"the header states {stated_samples} samples but the file contains {samples}"


def encode_wav(samples: NDArray[np.int16] | NDArray[np.floating[Any]], rate_hz: int) -> bytes:
    """Return samples, shape (samples,) or (samples, channels), as a WAV file of 16-bit PCM."""
    encoded = io.BytesIO()
    soundfile.write(encoded, samples, rate_hz, format="WAV", subtype="PCM_16")
    return encoded.getvalue()


def write_flac(path: Path, pcm: NDArray[np.int16], rate_hz: int) -> None:
    """Write int16 PCM as lossless FLAC.

    Args:
        path: Output file, written by `atomic_write`.
        pcm: int16, shape (samples,) or (samples, channels).
        rate_hz: Samples per second.

    Raises:
        OSError: The file cannot be written.
    """
    encoded = io.BytesIO()  # in memory, because libsndfile reports every write error as "system error"
    # For speech, the lowest level takes a third less time than the default and less than 1 % more space.
    soundfile.write(encoded, pcm, rate_hz, format="FLAC", subtype="PCM_16", compression_level=0.0)
    with atomic_write(path) as part:
        part.write_bytes(encoded.getbuffer())
