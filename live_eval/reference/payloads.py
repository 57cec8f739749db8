"""Audio in base64, as most dialects carry it."""

from __future__ import annotations

import pybase64

from live_eval.audio import Codec, CodecName

__all__ = ["decoded"]

_MAX_BYTES = 15 * 1024 * 1024


def decoded(audio: str, codec: Codec) -> bytes | str:
    """Return the bytes of a client's audio, or in words what is wrong with them.

    Args:
        audio: Base64, of at most 15 MiB.
        codec: How the samples are encoded; they must be whole.
    """
    if len(audio) > _MAX_BYTES * 4 // 3 + 4:
        return f"Expected at most {_MAX_BYTES // 1024 // 1024} MiB of audio."
    try:
        data = pybase64.b64decode(audio, validate=True)
    except ValueError as error:
        return f"Expected audio in base64; {error}."
    if codec.name is CodecName.PCM16 and len(data) % 2:
        return f"Expected whole 16-bit samples, but {len(data)} bytes came."
    return data
