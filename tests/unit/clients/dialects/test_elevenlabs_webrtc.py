"""ElevenLabs Agents over WebRTC: addresses, packets and the log. Whole sessions: tests/conformance."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.clients.dialects.elevenlabs_webrtc import ElevenLabsWebRtc
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    EndpointSettings,
    Send,
    SessionReady,
    SetTimer,
    StreamText,
)
from live_eval.errors import UsageError
from live_eval.types import Secret, TurnMode

KEY = "xi-key-1234567890"
BASE = "https://api.elevenlabs.io/v1"


def dialect(base_url: str = BASE, **settings: Any) -> ElevenLabsWebRtc:
    given = {"extra": {"agent_id": "a1"}, "turn_mode": TurnMode.FULL_DUPLEX, **settings}
    return ElevenLabsWebRtc(EndpointSettings(base_url=base_url, **given))


def room_of(client: ElevenLabsWebRtc, body: str) -> Dial:
    lookup = client.dial().lookup
    assert lookup is not None
    return lookup.read(body)


@pytest.mark.parametrize(
    ("base_url", "extra", "room"),
    [
        (BASE, {}, "wss://livekit.rtc.elevenlabs.io"),
        (
            "https://api.eu.residency.elevenlabs.io/v1",
            {},
            "wss://livekit.rtc.eu.residency.elevenlabs.io",
        ),
        (
            "https://api.in.residency.elevenlabs.io/v1",
            {},
            "wss://livekit.rtc.in.residency.elevenlabs.io",
        ),
        ("http://127.0.0.1:8765/v1", {}, "ws://127.0.0.1:8765"),
        ("https://elevenlabs.io.example.org/v1", {}, "wss://elevenlabs.io.example.org"),
        (BASE, {"livekit_url": "wss://room.example.org"}, "wss://room.example.org"),
    ],
)
def test_a_token_is_requested_for_the_room(base_url: str, extra: dict[str, str], room: str) -> None:
    client = dialect(base_url, extra={"agent_id": "a1", **extra}, key=Secret(KEY))
    dial = client.dial()
    assert dial.url == f"{base_url}/convai/conversation/token?agent_id=a1"
    assert dial.headers == {"xi-api-key": KEY}
    found = room_of(client, '{"token": "eyJ0.eyJ1.c2ln"}')
    assert found.url == f"{room}/rtc?protocol=15&auto_subscribe=0"
    assert found.headers == {"Authorization": "Bearer eyJ0.eyJ1.c2ln"}


def test_a_public_agent_needs_no_key() -> None:
    assert dialect().dial().headers == {}


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"token": 7}'])
def test_a_response_without_a_token(body: str) -> None:
    with pytest.raises(ValueError, match="got"):
        room_of(dialect(), body)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"extra": {"agent_id": 7}}, "agent_id: expected text"),
        ({"extra": {"livekit_url": 7}}, "livekit_url: expected text"),
        ({"extra": {"livekit_url": "nowhere"}}, "expected an address"),
        ({"turn_detection": {"threshold": 1}}, "sets the turn model"),
        ({"base_url": "nowhere"}, "expected an address"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        dialect(**settings)


@pytest.mark.parametrize(
    ("extra", "said"),
    [({"agent_id": "a1"}, "check endpoint.extra.agent_id"), ({}, "set endpoint.extra.agent_id")],
)
def test_a_room_without_an_agent(extra: dict[str, str], said: str) -> None:
    client = dialect(extra=extra)
    (timer,) = [output for output in client.opened(0) if isinstance(output, SetTimer)]
    (problem,) = client.timer(timer.name, 14)
    assert isinstance(problem, EndpointProblem)
    assert said in problem.message
    assert "worker" not in problem.message


def test_the_first_message_is_a_packet_with_the_overrides() -> None:
    client = dialect(instructions="Be brief.", voice="v1", extra={"agent_id": "a1", "user_id": "u1"})
    (sent,) = [output for output in client.opened(0) if isinstance(output, Send)]
    assert isinstance(sent.message, str)
    packet = json.loads(sent.message)
    assert packet["type"] == "user"
    assert json.loads(base64.b64decode(packet["payload"])) == {
        "type": "conversation_initiation_client_data",
        "conversation_config_override": {
            "agent": {"prompt": {"prompt": "Be brief."}},
            "tts": {"voice_id": "v1"},
        },
        "user_id": "u1",
    }


def test_the_log_shows_the_event_in_a_packet_without_secrets() -> None:
    client = dialect(key=Secret(KEY))
    event = json.dumps({"type": "error", "message": f"wrong key {KEY}"}).encode()
    packet = {"type": "user", "payload": base64.b64encode(event).decode()}
    logged = client.redact(json.dumps(packet))
    assert logged["payload"] == {"type": "error", "message": "wrong key ***"}
    assert client.redact(json.dumps({"type": "user", "payload": "*"}))["payload"] == "*"
    text = base64.b64encode(f"leak {KEY}".encode()).decode()
    for kind, field in (("user", "payload"), ("stream_chunk", "content")):
        assert client.redact(json.dumps({"type": kind, field: text}))[field] == "leak ***"


def test_the_log_shows_only_the_length_of_a_packet_nested_too_deeply() -> None:
    event = base64.b64encode(b"[" * 300 + b"]" * 300).decode()
    message = json.dumps({"type": "user", "payload": event})
    assert dialect().redact(message) == {"characters": len(message)}


VOICE = {"sid": "TR_a1", "source": "MICROPHONE", "mime_type": "audio/opus"}
AGENT = {"sid": "PA_a", "identity": "agent_1", "state": "ACTIVE", "tracks": [VOICE], "kind": "AGENT"}


def test_it_is_ready_without_metadata_two_seconds_after_the_voice() -> None:
    """The SDK does not wait for metadata."""
    client = dialect()
    client.opened(0)
    waits = client.received(json.dumps({"type": "update", "participants": [AGENT]}), 0)[-1]
    assert waits == SetTimer("no state", 2_000_000_000)
    (ready,) = client.timer("no state", 2_000_000_000)
    assert isinstance(ready, SessionReady)


def test_a_correction_replaces_the_text_that_it_names() -> None:
    client = dialect()
    for text in ("It is ten.", "Bye now."):
        client.said(text, 0)
    assert client.corrected("Never said.", "x") == []
    assert client.corrected("It is ten.", "It is") == [StreamText("It is Bye now.", final=True)]
