"""The server's side of a phone line. No sockets, no clock."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName, encode
from live_eval.reference.engine.engine import Engine
from live_eval.reference.engine.events import CloseConnection, ResponseCreated
from live_eval.reference.protocols.twilio import TWILIO_CONFIG, TwilioProtocol
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import SpeakingClient

PHONE = Codec(CodecName.PCMU, 8_000)


class Client(SpeakingClient[TwilioProtocol]):
    def __init__(self, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        self.responses: list[ResponseCreated] = []
        super().__init__(TwilioProtocol(Engine("sess_0", session, TWILIO_CONFIG, waits_for_words=False)))
        self.say({"event": "start", "streamSid": "MZ1", "start": {}})

    def parsed(self, message: bytes) -> Any:
        return json.loads(message)

    def rendered(self, event: Any) -> list[Any]:
        if isinstance(event, ResponseCreated):
            self.responses.append(event)
        return super().rendered(event)

    def heard(self, pcm: bytes) -> dict[str, Any]:
        payload = base64.b64encode(encode(np.frombuffer(pcm, "<i2"), PHONE))
        return {"event": "media", "media": {"payload": payload.decode()}}


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


def test_a_call_that_was_not_started_ends() -> None:
    engine = Engine("sess_0", ReferenceSettings(calibrate=True), TWILIO_CONFIG, waits_for_words=False)
    protocol = TwilioProtocol(engine)
    protocol.received('{"event":"connected"}', 0)
    (closed,) = protocol.not_started()
    assert closed == CloseConnection(1002, "expected 'connected' and 'start' within 10 s of connecting")
    (closed,) = protocol.received('{"event":"media","media":{"payload":"fw=="}}', 0)
    assert closed == CloseConnection(1002, "expected 'start' before 'media'")
    assert not Client().protocol.not_started()


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
