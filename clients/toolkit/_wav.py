"""Write and read the headers of WAV files, which some services use for each audio chunk."""

from __future__ import annotations

import struct

RATES_HZ = range(8_000, 192_001)
"""Accepted PCM sample rates."""


def wav_header(size: int, rate_hz: int) -> bytes:
    """Return the 44-byte WAV header for `size` bytes of PCM, int16 little-endian mono."""
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", 36 + size, b"WAVE"),
        *(b"fmt ", 16, 1, 1, rate_hz, rate_hz * 2, 2, 16),
        *(b"data", size),
    )


def wav_rate_hz(data: bytes) -> int | None:
    """Return the sample rate of a WAV file, or None if `data` is not one.

    >>> wav_rate_hz(wav_header(0, 16_000)), wav_rate_hz(b"PCM")
    (16000, None)
    """
    if len(data) < 28 or data[:4] != b"RIFF" or data[8:16] != b"WAVEfmt ":
        return None
    return int.from_bytes(data[24:28], "little")
