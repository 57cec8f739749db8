"""The server's side of a phone line. No sockets, no clock."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName, encode, frames_of
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import FindReply, ResponseCreated
from live_eval.reference.engine.reply_plan import GeneratedReply
from live_eval.reference.engine.signals import calibration_reply, calibration_speech
from live_eval.reference.protocols.twilio import TWILIO_CONFIG, TwilioProtocol
from live_eval.reference.server.client_session import packer
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import ProtocolClient

MS = 1_000_000
PHONE = Codec(CodecName.PCMU, 8_000)


class Client(ProtocolClient[TwilioProtocol]):
    def __init__(self, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        self.at_ms = 0
        self.responses: list[ResponseCreated] = []
        super().__init__(TwilioProtocol(Engine("sess_0", session, TWILIO_CONFIG, waits_for_words=False)))
        self.say({"event": "start", "streamSid": "MZ1", "start": {}})

    def parsed(self, message: bytes) -> Any:
        return json.loads(message)

    def rendered(self, event: Any) -> list[Any]:
        if isinstance(event, ResponseCreated):
            self.responses.append(event)
        return super().rendered(event)

    def find(self, request: FindReply) -> list[Any]:
        wire = packer(self.protocol, request.codec).pack(GeneratedReply("A tone.", calibration_reply(400), 0))
        return self.take(self.engine.reply(request.response_id, wire, self.at_ms * MS))

    def say(self, event: object) -> list[Any]:
        messages = self.take(self.protocol.received(json.dumps(event), self.at_ms * MS))
        while self.engine.wake_ns is not None and self.engine.wake_ns <= self.at_ms * MS:
            messages += self.take(self.engine.due(self.at_ms * MS))
        return messages

    def speak(self) -> list[Any]:
        """Say the calibration's speech, then silence."""
        speech = calibration_speech(400, 8_000, 20, lossy=True).audio.int16()
        messages = []
        for pcm in [*frames_of(speech, 160), *[bytes(320)] * 60]:
            self.at_ms += 20
            payload = base64.b64encode(encode(np.frombuffer(pcm, "<i2"), PHONE))
            messages += self.say({"event": "media", "media": {"payload": payload.decode()}})
        return messages


def test_a_reply_ends_with_a_mark() -> None:
    client = Client()
    events = [message["event"] for message in client.speak()]
    assert events[0] == "clear", "the user began to speak"
    assert events[-1] == "mark"
    assert set(events[1:-1]) == {"media"}


def test_messages_name_the_stream() -> None:
    assert {message["streamSid"] for message in Client().speak()} == {"MZ1"}


@pytest.mark.parametrize(
    "message",
    [
        "no JSON",
        "[]",
        json.dumps({"event": "media", "media": {"payload": "?"}}),
    ],
)
def test_an_unreadable_message_ends_the_call(message: str) -> None:
    client = Client()
    client.take(client.protocol.received(message, 0))
    assert client.closed is not None
    assert client.closed.code == 1002


@pytest.mark.parametrize("event", [{}, {"event": 5}, {"event": "dtmf", "dtmf": None}, {"event": "mark"}])
def test_other_events_are_ignored(event: object) -> None:
    client = Client()
    assert client.say(event) == []
    assert client.closed is None


def test_stop_ends_the_call() -> None:
    client = Client()
    client.say({"event": "stop"})
    assert client.closed is not None
    assert client.closed.code == 1000
