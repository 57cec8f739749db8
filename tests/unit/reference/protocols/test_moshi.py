"""The server's side of Moshi. No sockets, no clock."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName, frames_of
from live_eval.audio.codecs import Decoder, OggOpusEncoder
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import CloseConnection, FindReply, ResponseCreated
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.faults.fault_script import parse_faults
from live_eval.reference.protocols.moshi import MOSHI_CONFIG, MoshiProtocol
from live_eval.reference.server.client_session import packer
from live_eval.reference.settings import ReferenceSettings
from live_eval.timing import audible_onset
from tests.support.protocol_client import ProtocolClient

MS = 1_000_000
FRAME_MS = 80
FRAME_SAMPLES = 1_920
HANDSHAKE, AUDIO, TEXT, METADATA, ERROR = 0, 1, 2, 4, 5


class Client(ProtocolClient[MoshiProtocol]):
    def __init__(self, **settings: Any) -> None:
        engine = Engine(
            "sess_0123456789abcdef",
            ReferenceSettings(calibrate=True, **settings),
            MOSHI_CONFIG,
            waits_for_words=False,
        )
        self.at_ms = 0
        self.responses: list[ResponseCreated] = []
        self._voice = OggOpusEncoder(24_000)
        self._unsent = self._voice.headers()
        self._ears = Decoder(Codec(CodecName.OGG_OPUS, 48_000))
        super().__init__(MoshiProtocol(engine))

    def parsed(self, message: bytes) -> bytes:
        return message

    def rendered(self, event: Any) -> list[bytes]:
        if isinstance(event, ResponseCreated):
            self.responses.append(event)
        return super().rendered(event)

    def find(self, request: FindReply) -> list[bytes]:
        wire = packer(self.protocol, request.codec).pack(GeneratedReply("A tone.", calibration_reply(400), 0))
        return self.take(self.engine.reply(request.response_id, wire, self.at_ms * MS))

    def append(self, frame: bytes) -> list[bytes]:
        """Send a frame when its last sample is spoken; return the output due by then."""
        self.at_ms += FRAME_MS
        pages, self._unsent = self._unsent + self._voice.encode(frame), b""
        frames = self.take(self.protocol.received(bytes([AUDIO]) + pages, self.at_ms * MS))
        engine = self.protocol.engine
        while engine.wake_ns is not None and engine.wake_ns <= self.at_ms * MS:
            frames += self.take(engine.due(self.at_ms * MS))
        return frames

    def speak(self, silent_frames: int = 12) -> list[bytes]:
        """Send 400 ms of the calibration's speech, then silence."""
        speech = calibration_speech(400, frame_ms=FRAME_MS, lossy=True).audio.int16()
        frames = [*frames_of(speech, FRAME_SAMPLES), *[bytes(2 * FRAME_SAMPLES)] * silent_frames]
        return [told for frame in frames for told in self.append(frame)]

    def heard(self, frames: Sequence[bytes]) -> NDArray[np.int16]:
        """Decode the audio of frames, int16 mono, shape (samples,), at 48_000 Hz."""
        pcm = [self._ears.decode(frame[1:]) for frame in frames if frame[0] == AUDIO]
        return np.concatenate(pcm)


def kinds(frames: Sequence[bytes]) -> list[int]:
    return [frame[0] for frame in frames]


def test_metadata_with_the_session_id_precede_the_handshake() -> None:
    metadata, handshake = Client().greeting
    assert metadata[0] == METADATA
    assert json.loads(metadata[1:])["session_id"] == "sess_0123456789abcdef"
    assert handshake == bytes([HANDSHAKE]) + bytes(8)


def test_every_input_frame_gets_an_output_frame() -> None:
    client = Client()
    frames = client.speak()
    sound = [frame for frame in frames if frame[0] == AUDIO]
    assert len(sound) == 17
    assert [frame[1:].decode() for frame in frames if frame[0] == TEXT] == ["A tone."]
    pcm = client.heard(frames)
    # The encoder's lookahead is omitted at the beginning.
    assert len(pcm) == 17 * 2 * FRAME_SAMPLES - OggOpusEncoder.PRE_SKIP
    (response,) = client.responses
    assert response.response.voice_end is not None
    assert (response.response.voice_end.at_ns, response.response.voice_end.by) == (400 * MS, "energy")


def test_the_onset_includes_the_decoders_delay() -> None:
    client = Client()
    frames = client.speak()
    engine = client.protocol.engine
    tone = calibration_reply(400)
    told = (
        packer(client.protocol, engine.config.output_codec)
        .pack(GeneratedReply("A tone.", tone, 0))
        .onset_sample
    )
    assert told is not None
    sound = [frame for frame in frames if frame[0] == AUDIO]
    pieces = [client.heard([frame]) for frame in sound]
    loud = next(number for number, piece in enumerate(pieces) if np.abs(piece.astype(int)).max() > 1_000)
    onset = audible_onset(np.concatenate(pieces[loud:]), 48_000)
    assert onset is not None
    assert abs(onset / 48 - told / 24) < 1.5


def test_text_precedes_audio() -> None:
    frames = Client().speak()
    client = Client()
    loud = [
        number
        for number, frame in enumerate(frames)
        if frame[0] == AUDIO and np.abs(client.heard([frame]).astype(int)).max(initial=0) > 1_000
    ]
    assert kinds(frames).index(TEXT) < loud[0]


def test_other_kinds_of_message_are_ignored() -> None:
    client = Client()
    for kind in (0, 2, 3, 4, 6, 200):
        assert client.protocol.received(bytes([kind]) + b"x", 0) == ()
    assert client.protocol.received(b"", 0) == ()


def test_text_is_refused_and_invalid_audio_ends_the_session() -> None:
    client = Client()
    (told,) = client.take(client.protocol.received("hello", 0))
    assert told[0] == ERROR
    assert client.closed is None
    (told,) = client.take(client.protocol.received(bytes([AUDIO]) + b"no page of Ogg", 0))
    assert told[0] == ERROR
    assert "OggS" in told[1:].decode()
    assert client.closed == CloseConnection(1011, "malformed audio")


def test_a_session_expires() -> None:
    client = Client()
    (told,) = client.take(client.protocol.expired())
    assert told[0] == ERROR
    assert client.closed is not None
    assert client.closed.code == 1001


@pytest.mark.parametrize(
    ("fault", "beginning"),
    [
        ("error_event", bytes([ERROR])),
        ("malformed", bytes([METADATA]) + b'{"instance_name":'),
        ("unknown_event", b"\x2a"),
        ("failed_response", bytes([ERROR])),
    ],
)
def test_faults_use_events_of_the_dialect(fault: str, beginning: bytes) -> None:
    frames = Client(faults=parse_faults(fault)).speak()
    (odd,) = (frame for frame in frames if frame[0] not in (AUDIO, TEXT))
    assert odd.startswith(beginning)


@given(st.lists(st.text() | st.binary() | st.binary().map(lambda data: b"\x01" + data), max_size=6))
def test_no_message_breaks_the_protocol(messages: list[str | bytes]) -> None:
    client = Client()
    for message in messages:
        client.take(client.protocol.received(message, 0))
