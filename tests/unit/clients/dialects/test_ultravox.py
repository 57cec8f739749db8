"""Ultravox calls: messages and events. Whole sessions: tests/conformance, tests/loopback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.ultravox import Ultravox
from live_eval.clients.specs import ULTRAVOX
from live_eval.dialect import (
    Committed,
    EarlierTurn,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Output,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SpeechStopped,
)
from live_eval.errors import UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode

BASE = "https://api.ultravox.ai/api"
KEY = "ultravox-5b1e77"
PIECE = bytes(1920)  # 20 ms
CODEC = Codec(CodecName.PCM16, 48_000)


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, key: Secret | None = None, **settings: Any) -> None:
        self.dialect = Ultravox(EndpointSettings(base_url=BASE, key=key, **settings))
        if ready:
            assert self.say("call_started", callId="call_1") == [SessionReady("call_1", None)]

    def say(self, kind: str, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": kind, **fields}), 0))

    def state(self, state: str) -> list[Output]:
        return self.say("state", state=state)

    def transcript(self, role: str, text: str) -> list[Output]:
        return self.say("transcript", role=role, text=text, delta=None, final=True, ordinal=1)

    def audio(self) -> list[Output]:
        return list(self.dialect.received(PIECE, 0))


def call_of(**settings: Any) -> Any:
    lookup = Endpoint(ready=False, **settings).dialect.dial().lookup
    assert lookup is not None
    return lookup.json


# -- The call ------------------------------------------------------------------------------------------


def test_a_call_is_created_with_the_key_and_joined_without_it() -> None:
    endpoint = Endpoint(ready=False, key=Secret(KEY))
    dial = endpoint.dialect.dial()
    assert (dial.url, dial.headers) == (f"{BASE}/calls", {"X-API-Key": KEY})
    assert dial.lookup is not None
    url = "wss://voice.ultravox.ai/calls/1?token=s-123456"
    joined = dial.lookup.read(json.dumps({"callId": "1", "joinUrl": url}))
    assert (joined.url, joined.headers) == (url, {})
    (closed,) = endpoint.dialect.closed(1008, "the token s-123456 has expired", 0)
    assert isinstance(closed, EndpointProblem)
    assert "s-123456" not in closed.message
    for body, said in (
        ("no JSON", "7 characters that are not JSON"),
        ("[]", "JSON of type list"),
        ('{"callId": "1"}', "an object without it"),
        ('{"joinUrl": 7}', "int as joinUrl"),
    ):
        with pytest.raises(ValueError, match=f"got {said}"):
            dial.lookup.read(body)


def test_the_call_has_the_settings_and_what_changes_its_latencies() -> None:
    medium = {"inputSampleRate": 48_000, "outputSampleRate": 48_000, "clientBufferSizeMs": 60}
    assert call_of() == {"firstSpeakerSettings": {"user": {}}, "medium": {"serverWebSocket": medium}}
    settings: dict[str, Any] = {
        "model": "ultravox-v0.7",
        "voice": "Mark",
        "language": "en",
        "instructions": "Be brief.",
        "turn_detection": {"turnEndpointDelay": "0.5s"},
        "extra": {"temperature": 0.2, "medium": {"serverWebSocket": {"clientBufferSizeMs": 30_000}}},
    }
    assert call_of(**settings) == {
        "model": "ultravox-v0.7",
        "voice": "Mark",
        "languageHint": "en",
        "systemPrompt": "Be brief.",
        "vadSettings": {"turnEndpointDelay": "0.5s"},
        "temperature": 0.2,
        "firstSpeakerSettings": {"user": {}},
        "medium": {"serverWebSocket": {**medium, "clientBufferSizeMs": 30_000}},
    }


def test_the_run_states_the_buffer() -> None:
    buffer = call_of()["medium"]["serverWebSocket"]["clientBufferSizeMs"]
    assert ULTRAVOX.line == f"clientBufferSizeMs {buffer}"
    other = {"medium": {"serverWebSocket": {"clientBufferSizeMs": 30_000}}}
    assert ULTRAVOX.with_extra(other).line == "clientBufferSizeMs 30000"
    assert ULTRAVOX.with_extra({"medium": "x", "temperature": 0.2}).line == ULTRAVOX.line


def test_a_stored_agent_has_its_own_settings() -> None:
    endpoint = Endpoint(ready=False, extra={"agent_id": "a1"})
    assert endpoint.dialect.dial().url == f"{BASE}/agents/a1/calls"
    assert list(call_of(extra={"agent_id": "a1"})) == ["medium"]
    other = Endpoint(ready=False, extra={"agent_id": "../voices?x=1#"})
    assert other.dialect.dial().url == f"{BASE}/agents/..%2Fvoices%3Fx%3D1%23/calls"


def test_a_refused_call_has_advice() -> None:
    assert Endpoint(ready=False).dialect.dial().advice[400] == "check the voice, the model and endpoint.extra"
    assert Endpoint(ready=False, extra={"agent_id": "a1"}).dialect.dial().advice[404] == (
        "check endpoint.extra.agent_id"
    )


def test_only_a_call_that_was_not_joined_in_time_has_advice() -> None:
    closed = [Endpoint(ready=ready).dialect.closed(1008, "over", 0) for ready in (False, True)]
    advised = ["joinTimeout" in each.message for (each,) in closed if isinstance(each, EndpointProblem)]
    assert advised == [True, False]


def test_earlier_turns_are_initial_messages() -> None:
    assert call_of(history=[EarlierTurn(text="Where is Lima?", reply="In Peru.")])["initialMessages"] == [
        {"role": "MESSAGE_ROLE_USER", "text": "Where is Lima?"},
        {"role": "MESSAGE_ROLE_AGENT", "text": "In Peru."},
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"turn_mode": TurnMode.MANUAL}, "detector ends turns"),
        ({"modality": Modality.TEXT}, "calls speak"),
        ({"max_output_tokens": 9}, "no reply length limit"),
        ({"extra": {"agent_id": 7}}, "agent_id: expected text"),
        ({"extra": {"agent_id": "a1"}, "voice": "Mark"}, "sets the voice"),
        ({"extra": {"medium": {"webRtc": {}, "serverWebSocket": {"inputSampleRate": 8_000}}}}, "medium"),
        ({"extra": {"medium": "x"}}, "medium: expected serverWebSocket"),
        ({"extra": {"medium": {"serverWebSocket": "x"}}}, "medium: expected serverWebSocket"),
    ],
)
def test_what_the_service_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


# -- The conversation ----------------------------------------------------------------------------------


def test_a_frame_is_sent_unchanged_and_the_call_is_hung_up() -> None:
    dialect = Endpoint().dialect
    assert dialect.frame(b"\x01\x02", 0) == (Send(b"\x01\x02"),)
    hang_up, _ = dialect.finish(0)
    assert isinstance(hang_up, Send)
    assert json.loads(hang_up.message) == {"type": "hang_up"}


def test_a_transcript_belongs_to_its_turn_even_if_it_arrives_after_the_reply() -> None:
    endpoint = Endpoint()
    assert endpoint.state("thinking") == [SpeechStopped(item_id="user_1"), Committed("user_1")]
    endpoint.state("speaking")
    assert endpoint.audio() == [ResponseStarted("reply_1"), ReplyAudio("reply_1", PIECE, CODEC)]
    assert endpoint.state("listening")[-1] == ResponseDone("reply_1", ResponseStatus.COMPLETED)
    assert endpoint.transcript("agent", "Ten.") == [ReplyText("reply_1", "Ten.", final=True)]
    assert endpoint.transcript("user", "Which?") == [InputTranscript("Which?", True, "user_1")]
    assert endpoint.state("thinking") == [SpeechStopped(item_id="user_2"), Committed("user_2")]


def test_a_turn_without_thinking_is_accepted_by_its_transcript() -> None:
    assert Endpoint().transcript("user", "Hi.") == [
        SpeechStopped(item_id="user_1"),
        Committed("user_1"),
        InputTranscript("Hi.", True, "user_1"),
    ]


def test_a_turn_is_accepted_once_although_the_agent_thinks_twice() -> None:
    endpoint = Endpoint()
    assert endpoint.state("thinking") == [SpeechStopped(item_id="user_1"), Committed("user_1")]
    endpoint.say("client_tool_invocation", toolName="clock", invocationId="1", parameters={})
    assert endpoint.state("listening") == endpoint.state("thinking") == []


def test_each_text_so_far_replaces_the_one_before() -> None:
    endpoint = Endpoint()
    for text in ("I", "I can", "I could"):
        endpoint.say("transcript", role="agent", text=text, delta=None, final=False)
    assert endpoint.transcript("agent", "I could help.") == [
        ReplyText("reply_1", "I could help.", final=True)
    ]
    endpoint.say("transcript", role="agent", text=None, delta="It", final=False)
    assert endpoint.say("transcript", role="agent", text="It is", delta=None, final=False) == [
        ReplyText("reply_1", " is")
    ]
