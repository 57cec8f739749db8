"""pipecat's protobuf frames, as Google's protobuf package reads and writes them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from live_eval.clients.dialects._pipecat_frames import (
    KINDS,
    audio_frame,
    audio_of,
    message_frame,
    message_of,
    read_frame,
)
from live_eval.clients.toolkit import MalformedError

FIELDS = {
    "TextFrame": {"id": 1, "name": 2, "text": 3},
    "AudioRawFrame": {"id": 1, "name": 2, "audio": 3, "sample_rate": 4, "num_channels": 5, "pts": 6},
    "TranscriptionFrame": {"id": 1, "name": 2, "text": 3, "user_id": 4, "timestamp": 5},
    "MessageFrame": {"data": 1},
    "InterruptionFrame": {"id": 1, "name": 2},
}
NUMBERS = {
    "id": "UINT64",
    "sample_rate": "UINT32",
    "num_channels": "UINT32",
    "pts": "UINT64",
    "audio": "BYTES",
}


def frame_class() -> Any:
    """Return the class of pipecat's ``Frame``, built from its fields in frames.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="frames.proto", package="pipecat", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number in fields.items():
            scalar = kind.Type.Value(f"TYPE_{NUMBERS.get(field, 'STRING')}")
            message.field.add(name=field, number=number, type=scalar, label=kind.LABEL_OPTIONAL)
    frame = file.message_type.add(name="Frame")
    frame.oneof_decl.add(name="frame")
    for (number, name), of in zip(KINDS.items(), FIELDS, strict=True):
        frame.field.add(
            name=name,
            number=number,
            type=kind.TYPE_MESSAGE,
            type_name=f".pipecat.{of}",
            label=kind.LABEL_OPTIONAL,
            oneof_index=0,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("pipecat.Frame"))


FRAME = frame_class()


@given(pcm=st.binary(max_size=400), rate_hz=st.integers(1, 200_000))
def test_google_reads_our_audio(pcm: bytes, rate_hz: int) -> None:
    frame = FRAME.FromString(audio_frame(pcm, rate_hz))
    assert frame.WhichOneof("frame") == "audio"
    assert (frame.audio.audio, frame.audio.sample_rate, frame.audio.num_channels) == (pcm, rate_hz, 1)


@given(text=st.text(max_size=200))
def test_google_reads_our_messages(text: str) -> None:
    frame = FRAME.FromString(message_frame(text))
    assert (frame.WhichOneof("frame"), frame.message.data) == ("message", text)


@given(
    pcm=st.binary(max_size=400),
    rate_hz=st.integers(0, 2**32 - 1),
    channels=st.integers(1, 2**32 - 1),
    number=st.integers(0, 2**64 - 1),
    name=st.text(max_size=9),
)
def test_we_read_googles_audio(pcm: bytes, rate_hz: int, channels: int, number: int, name: str) -> None:
    frame = FRAME()
    frame.audio.id = frame.audio.pts = number
    frame.audio.name, frame.audio.audio = name, pcm
    frame.audio.sample_rate, frame.audio.num_channels = rate_hz, channels
    kind, body = read_frame(frame.SerializeToString())
    assert (kind, audio_of(body)) == ("audio", (pcm, rate_hz, channels))


@given(text=st.text(max_size=200))
def test_we_read_googles_messages(text: str) -> None:
    frame = FRAME()
    frame.message.data = text
    kind, body = read_frame(frame.SerializeToString())
    assert (kind, message_of(body)) == ("message", text)


@pytest.mark.parametrize("kind", KINDS.values())
def test_every_kind_is_recognised(kind: str) -> None:
    frame = FRAME()
    getattr(frame, kind).SetInParent()
    assert read_frame(frame.SerializeToString()).kind == kind


def test_other_kinds_and_fields_are_tolerated() -> None:
    assert read_frame(b"\x32\x00").kind == "kind 6"
    fixed = b"\x0d\x00\x00\x00\x00" + b"\x09" + bytes(8)  # fields of four and of eight bytes
    assert audio_of(fixed + b"\x1a\x02ab") == (b"ab", 0, 1)


@given(data=st.binary(max_size=60))
def test_anything_else_is_malformed(data: bytes) -> None:
    for read in (read_frame, audio_of, message_of):
        with suppress(MalformedError):
            read(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "expected a pipecat protobuf frame, got 0 invalid bytes"),
        (b"\x08\x01", "expected a pipecat protobuf frame, got 2 invalid bytes"),
        (b"\x12\x05ab", "is 3 bytes too short"),
        (b"\x13", "got wire type 3 at byte 1"),
        (b"\x12\x00\x00\x00", "got field number 0 before byte 3"),
        (b"\xff" * 11, "ends inside the number at byte 0"),
    ],
)
def test_invalid_fields_are_reported(data: bytes, told: str) -> None:
    with pytest.raises(MalformedError, match=told):
        read_frame(data)


def test_fields_of_another_type_are_malformed() -> None:
    with pytest.raises(MalformedError, match="audio: expected bytes"):
        audio_of(b"\x18\x01")
    with pytest.raises(MalformedError, match="message: expected text"):
        message_of(b"\x08\x01")
    with pytest.raises(MalformedError, match="message: expected UTF-8"):
        message_of(b"\x0a\x01\xff")
