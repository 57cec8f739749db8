"""Represent PCM with its sample rate: conversion, resampling, framing, and stateless wire codecs.

Wire audio is int16 mono; analysis uses float32 mono in [-1, 1). Conversion between them is lossless.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from live_eval.errors import AudioError, FailureKind

__all__ = [
    "Audio",
    "Codec",
    "CodecName",
    "decode",
    "encode",
    "float_to_int16",
    "frames_of",
    "int16_to_float",
    "resample",
]


@dataclass(frozen=True, slots=True, eq=False)
class Audio:
    """Audio samples with their sample rate.

    Args:
        samples: float32 mono in [-1, 1), shape (samples,).
        rate_hz: Samples per second.
    """

    samples: NDArray[np.float32]
    rate_hz: int

    @property
    def duration_ns(self) -> int:
        """The duration in nanoseconds."""
        return len(self.samples) * 1_000_000_000 // self.rate_hz

    def int16(self) -> NDArray[np.int16]:
        """Return the samples as int16 mono, shape (samples,)."""
        return float_to_int16(self.samples)


class CodecName(StrEnum):
    """The name of an audio encoding on the wire."""

    PCM16 = "pcm16"
    PCMU = "pcmu"
    PCMA = "pcma"
    WAV = "wav"
    """Each chunk is a PCM WAV file with a header."""
    OPUS = "opus"
    """Each chunk is an Opus packet, which is decoded at 48 kHz."""
    OGG_OPUS = "ogg_opus"
    """Chunks are pieces of an Ogg-Opus stream, the first with the headers; they are decoded at 48 kHz."""


@dataclass(frozen=True, slots=True)
class Codec:
    """An audio encoding on the wire, with its sample rate."""

    name: CodecName
    rate_hz: int


def int16_to_float(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """Convert int16 samples to float32 in [-1, 1)."""
    return samples.astype(np.float32) / np.float32(32768)


def float_to_int16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Convert float samples to int16, rounded and clipped at full scale."""
    scaled = np.rint(samples * np.float32(32768))
    return np.asarray(np.clip(scaled, -32768, 32767), dtype=np.int16)


def resample(audio: Audio, rate_hz: int) -> Audio:
    """Resample `audio` to `rate_hz` (soxr, very high quality); return it unchanged if it has this rate."""
    if audio.rate_hz == rate_hz:
        return audio
    samples = soxr.resample(audio.samples, audio.rate_hz, rate_hz, quality="VHQ")
    return Audio(np.ascontiguousarray(samples, dtype=np.float32), rate_hz)


def resample_int16(pcm: NDArray[np.int16], rate_hz: int, to_hz: int) -> NDArray[np.int16]:
    """Resample int16 PCM from `rate_hz` to `to_hz`; see `resample`."""
    return pcm if rate_hz == to_hz else resample(Audio(int16_to_float(pcm), rate_hz), to_hz).int16()


def frames_of(pcm: NDArray[np.int16], frame_samples: int) -> list[bytes]:
    """Split PCM into frames of little-endian bytes; the last frame is padded with silence.

    Args:
        pcm: int16 mono, shape (samples,).
        frame_samples: Samples per frame.

    Returns:
        ``ceil(samples / frame_samples)`` frames of ``2 * frame_samples`` bytes.
    """
    padding = -len(pcm) % frame_samples
    data = np.pad(pcm, (0, padding)).astype("<i2", copy=False).tobytes()
    step = 2 * frame_samples
    return [data[start : start + step] for start in range(0, len(data), step)]


def decode(data: bytes, codec: Codec) -> NDArray[np.int16]:
    """Decode PCM or G.711 from the wire to int16 mono, shape (samples,), at ``codec.rate_hz``.

    Raises:
        AudioError: The length is not a whole number of samples.
    """
    if codec.name is CodecName.PCM16:
        if len(data) % 2:  # all following samples would be misaligned
            raise AudioError(
                FailureKind.MALFORMED_MESSAGE, f"expected whole 16-bit samples, got {len(data)} bytes"
            )
        return np.frombuffer(data, dtype="<i2").astype(np.int16, copy=False)
    samples, _ = soundfile.read(
        io.BytesIO(data),
        dtype="int16",
        channels=1,
        samplerate=codec.rate_hz,
        format="RAW",
        subtype=_g711_subtype(codec),
    )
    return np.asarray(samples, dtype=np.int16)


def encode(pcm: NDArray[np.int16], codec: Codec) -> bytes:
    """Encode int16 mono, shape (samples,), at ``codec.rate_hz``, as PCM or G.711."""
    if codec.name is CodecName.PCM16:
        return pcm.astype("<i2", copy=False).tobytes()
    return _g711_codes(codec)[pcm.astype(np.int16, copy=False).view(np.uint16)].tobytes()


@cache
def _g711_codes(codec: Codec) -> NDArray[np.uint8]:
    """Return the G.711 code of each 16-bit sample, indexed by the sample as an unsigned integer.

    With a table, encoding a frame is much faster than with libsndfile.
    """
    wire = io.BytesIO()
    every = np.arange(1 << 16, dtype=np.uint16).view(np.int16)
    soundfile.write(wire, every, codec.rate_hz, format="RAW", subtype=_g711_subtype(codec))
    return np.frombuffer(wire.getvalue(), np.uint8)


def _g711_subtype(codec: Codec) -> str:
    return "ULAW" if codec.name is CodecName.PCMU else "ALAW"
