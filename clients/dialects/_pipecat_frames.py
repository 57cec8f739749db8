"""Encode and parse pipecat's protobuf frames (``pipecat/frames/frames.proto``, pipecat-ai 1.14).

A message is a ``Frame`` with one of five kinds; only the fields below are used. A protobuf field is a key
(number and wire type), followed by a varint, a fixed number of bytes, or a length and bytes
(https://protobuf.dev/programming-guides/encoding).

    Frame: 1 text, 2 audio, 3 transcription, 4 message, 5 interruption
    AudioRawFrame: 3 audio (bytes), 4 sample_rate, 5 num_channels
    MessageFrame: 1 data (text: JSON)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from live_eval.clients.toolkit import MalformedError

__all__ = [
    "KINDS",
    "AudioFrame",
    "PipecatFrame",
    "audio_frame",
    "audio_of",
    "message_frame",
    "message_of",
    "read_frame",
]

KINDS = {1: "text", 2: "audio", 3: "transcription", 4: "message", 5: "interruption"}
_AUDIO, _MESSAGE = 2, 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES = 10


class PipecatFrame(NamedTuple):
    """A frame's kind and the bytes of its fields."""

    kind: str
    body: bytes


class AudioFrame(NamedTuple):
    """The fields of an audio frame; `pcm` is int16 little-endian or a WAV file."""

    pcm: bytes
    rate_hz: int
    channels: int


def audio_frame(pcm: bytes, rate_hz: int) -> bytes:
    """Return a frame with mono audio, int16 little-endian."""
    body = _bytes_field(3, pcm) + _varint(4 << 3) + _varint(rate_hz) + _varint(5 << 3) + _varint(1)
    return _bytes_field(_AUDIO, body)


def message_frame(text: str) -> bytes:
    """Return a frame with an application message."""
    return _bytes_field(_MESSAGE, _bytes_field(1, text.encode()))


def read_frame(message: bytes) -> PipecatFrame:
    """Parse a frame; the name of an unknown kind is its number.

    Raises:
        MalformedError: The message is not a frame.
    """
    frame = None
    for number, value in _fields(message):
        if isinstance(value, bytes):
            frame = PipecatFrame(KINDS.get(number, f"kind {number}"), value)
    if frame is None:
        raise MalformedError(f"expected a pipecat protobuf frame, got {len(message)} invalid bytes")
    return frame


def audio_of(body: bytes) -> AudioFrame:
    """Parse the body of an audio frame.

    Raises:
        MalformedError: The bytes are not the body of an audio frame.
    """
    fields = dict(_fields(body))
    pcm, rate_hz, channels = fields.get(3, b""), fields.get(4, 0), fields.get(5, 1)
    if not (isinstance(pcm, bytes) and isinstance(rate_hz, int) and isinstance(channels, int)):
        raise MalformedError("audio: expected bytes, sample rate and channel count")
    return AudioFrame(pcm, rate_hz, channels)


def message_of(body: bytes) -> str:
    """Parse the body of a message frame.

    Raises:
        MalformedError: The bytes are not the body of a message frame.
    """
    data = dict(_fields(body)).get(1, b"")
    if not isinstance(data, bytes):
        raise MalformedError("message: expected text")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"message: expected UTF-8, got {error.reason} at byte {error.start}") from None


def _bytes_field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field.

    Raises:
        MalformedError: `data` is not a protobuf message.
    """
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:  # reserved by protobuf; without this check, zeros would parse as millions of fields
            raise MalformedError(f"expected a protobuf message, got field number 0 before byte {at}")
        value: int | bytes
        if wire == _VARINT:
            value, at = _read_varint(data, at)
        elif wire in (_BYTES, _FIXED64, _FIXED32):
            size = {_FIXED64: 8, _FIXED32: 4}.get(wire, 0)
            if wire == _BYTES:
                size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise MalformedError(f"expected a protobuf message, got wire type {wire} at byte {at}")
        if at > len(data):
            raise MalformedError(f"protobuf message is {at - len(data)} bytes too short")
        yield number, value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a position and the position after it."""
    value = 0
    for index, byte in enumerate(data[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, at + index + 1
    raise MalformedError(f"protobuf message ends inside the number at byte {at}")
