"""Ultravox calls over WebRTC: the call, its room and its data messages. Sessions: tests/conformance."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.clients.dialects.ultravox_webrtc import UltravoxWebRtc
from live_eval.dialect import Dial, EndpointProblem, EndpointSettings, Output, Send, SessionReady, SetTimer
from live_eval.errors import UsageError
from live_eval.types import Secret, TurnMode

BASE = "https://api.ultravox.ai/api"
ROOM = {"type": "room_info", "roomUrl": "wss://room.example.org", "token": "eyJ0.eyJ1.c2ln"}


def dialect(**settings: Any) -> UltravoxWebRtc:
    given = {"base_url": BASE, "turn_mode": TurnMode.FULL_DUPLEX, **settings}
    return UltravoxWebRtc(EndpointSettings(**given))


def joined(client: UltravoxWebRtc, url: str = "wss://voice.ultravox.ai/calls/1") -> Dial:
    lookup = client.dial().lookup
    assert lookup is not None
    return lookup.read(json.dumps({"joinUrl": url}))


def say(client: UltravoxWebRtc, kind: str, **fields: Any) -> list[Output]:
    payload = base64.b64encode(json.dumps({"type": kind, **fields}).encode()).decode()
    return list(client.received(json.dumps({"type": "user", "payload": payload}), 0))


def test_a_call_is_created_with_the_key() -> None:
    client = dialect(key=Secret("ultravox-5b1e77"), voice="Mark", extra={"temperature": 0.2})
    dial = client.dial()
    assert (dial.url, dial.headers) == (f"{BASE}/calls", {"X-API-Key": "ultravox-5b1e77"})
    assert dial.lookup is not None
    assert dial.lookup.json == {
        "firstSpeakerSettings": {"user": {}},
        "medium": {"webRtc": {}},
        "temperature": 0.2,
        "voice": "Mark",
    }
    stored = dialect(extra={"agent_id": "a1"}).dial()
    assert stored.url == f"{BASE}/agents/a1/calls"
    assert stored.lookup is not None
    assert stored.lookup.json == {"medium": {"webRtc": {}}}


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("wss://voice.ultravox.ai/calls/1", "wss://voice.ultravox.ai/calls/1?apiVersion=1"),
        ("wss://voice.ultravox.ai/1?token=s-1", "wss://voice.ultravox.ai/1?token=s-1&apiVersion=1"),
    ],
)
def test_the_call_is_joined_without_the_key(url: str, asked: str) -> None:
    dial = joined(dialect(key=Secret("ultravox-5b1e77")), url)
    assert (dial.url, dial.headers) == (asked, {})


def test_the_first_message_names_the_room() -> None:
    client = dialect()
    lookup = joined(client).lookup
    assert lookup is not None
    room = lookup.read(json.dumps(ROOM))
    assert room.url == "wss://room.example.org/rtc?protocol=15&auto_subscribe=0"
    assert room.headers == {"Authorization": "Bearer eyJ0.eyJ1.c2ln"}
    assert client.redact(json.dumps({"said": "eyJ0.eyJ1.c2ln"})) == {"said": "***"}
    for wrong in ("", "[]", "{}", json.dumps({**ROOM, "token": 7}), json.dumps({**ROOM, "roomUrl": "room"})):
        with pytest.raises(ValueError, match=r"got|expected"):
            lookup.read(wrong)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"extra": {"medium": {"serverWebSocket": {}}}}, "medium: expected only webRtc"),
        ({"extra": {"medium": 7}}, "medium: expected only webRtc"),
        ({"extra": {"agent_id": "a1"}, "voice": "Mark"}, "sets the voice"),
        ({"max_output_tokens": 9}, "no reply length limit"),
        ({"base_url": "nowhere"}, "expected an address"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        dialect(**settings)


def test_a_call_is_ready_once_it_is_no_longer_idle() -> None:
    client = dialect()
    assert say(client, "call_started", callId="call_1") == []
    assert say(client, "state", state="idle") == []
    assert say(client, "state", state="listening") == [SessionReady("call_1", None)]


def test_a_call_that_stays_idle_has_failed() -> None:
    client = dialect()
    (timer,) = [output for output in client.opened(0) if isinstance(output, SetTimer)]
    say(client, "state", state="idle")
    (problem,) = client.timer(timer.name, 14)
    assert isinstance(problem, EndpointProblem)
    assert "check the call at Ultravox" in problem.message


def test_the_client_hangs_up() -> None:
    sent, *_ = dialect().finish(0)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, str)
    assert json.loads(base64.b64decode(json.loads(sent.message)["payload"])) == {"type": "hang_up"}
