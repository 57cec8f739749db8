"""The server's side of Ultravox calls. No sockets, no clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine
from live_eval.reference.protocols.protocol import MessageError, TextMessage
from live_eval.reference.protocols.ultravox import ULTRAVOX_CONFIG, CallStore, UltravoxProtocol
from live_eval.reference.settings import ReferenceSettings
from tests.support.protocol_client import SpeakingClient, types_of

MEDIUM = {"serverWebSocket": {"inputSampleRate": 48_000}}


class Client(SpeakingClient[UltravoxProtocol]):
    def __init__(self, **settings: Any) -> None:
        session = ReferenceSettings(calibrate=True, **settings)
        store = CallStore()
        call = store.get(store.create(json.dumps({"systemPrompt": "Be brief.", "medium": MEDIUM}).encode()))
        engine = Engine("sess_0", session, ULTRAVOX_CONFIG, waits_for_words=False)
        super().__init__(UltravoxProtocol(engine, call))

    def parsed(self, message: bytes) -> Any:
        return json.loads(message) if isinstance(message, TextMessage) else message

    def heard(self, pcm: bytes) -> bytes:
        return pcm


def test_a_turn_has_the_documented_order() -> None:
    client = Client()
    assert client.greeting == [
        {"type": "call_started", "callId": "sess_0"},
        {"type": "state", "state": "listening"},
    ]
    messages = client.speak()
    assert types_of(messages) == ["state", "transcript", "bytes", "transcript", "state"]
    states = [each["state"] for each in messages if isinstance(each, dict) and each["type"] == "state"]
    assert states == ["thinking", "speaking", "listening"]
    assert client.answers[0].instructions == "Be brief."


def test_audio_is_sampled_as_the_call_asks() -> None:
    store = CallStore()
    rates = {"inputSampleRate": 16_000, "outputSampleRate": 24_000}
    call = store.get(store.create(json.dumps({"medium": {"serverWebSocket": rates}}).encode()))
    assert call is not None
    config = call.configured(ULTRAVOX_CONFIG)
    assert config.input_codec.rate_hz == 16_000
    assert config.output_codec.rate_hz == 24_000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"no JSON", "Expected a JSON object"),
        (b"{}", "medium: Field required"),
        (b'{"medium":{"serverWebSocket":{"inputSampleRate":4000}}}', "inputSampleRate"),
        (b'{"medium":{"twilio":{}}}', "medium: .*expected serverWebSocket or webRtc"),
    ],
)
def test_a_call_that_cannot_be_met_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        CallStore().create(body)


def test_an_unknown_call_cannot_be_joined() -> None:
    engine = Engine("sess_0", ReferenceSettings(), ULTRAVOX_CONFIG, waits_for_words=False)
    assert UltravoxProtocol(engine, CallStore().get("nobody")).opened() == [
        events.CloseConnection(1008, "unknown call")
    ]


def test_a_ping_is_answered_and_a_written_message_too() -> None:
    client = Client()
    assert client.say({"type": "ping", "timestamp": 1.5}) == [{"type": "pong", "timestamp": 1.5}]
    assert client.say({"type": "user_text_message", "text": "Hi"})[0] == {
        "type": "state",
        "state": "thinking",
    }
