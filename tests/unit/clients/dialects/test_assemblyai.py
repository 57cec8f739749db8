"""AssemblyAI's Voice Agent: messages and events. Whole sessions: tests/conformance, tests/loopback."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.assemblyai import AssemblyAiAgent
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Interrupted,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SessionReady,
    SpeechStarted,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import problem, sent

BASE = "wss://agents.assemblyai.com/v1"
KEY = "assemblyai-5b1e77"
MS = 1_000_000
PIECE = bytes(960)  # 20 ms
PCM = Codec(CodecName.PCM16, 24_000)
FORMAT = {"encoding": "audio/pcm"}


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        self.dialect = AssemblyAiAgent(EndpointSettings(base_url=BASE, key=Secret(KEY), **settings))
        (self.asked,) = sent(self.dialect.opened(0))
        if ready:
            assert self.say("session.ready", session_id="sess_1") == [SessionReady("sess_1", None)]

    def say(self, kind: str, at_ms: int = 0, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": kind, **fields}), at_ms * MS))

    def audio(self, at_ms: int = 0, data: bytes = PIECE) -> list[Output]:
        return self.say("reply.audio", at_ms, data=base64.b64encode(data).decode())

    def refused(self, code: str) -> tuple[FailureKind, bool]:
        found = problem(self.say("session.error", code=code, message="No."))
        assert code in found.message
        return found.kind, found.fatal


# -- What is asked for ---------------------------------------------------------------------------------


def test_settings_are_the_first_message_and_the_key_is_in_a_header() -> None:
    endpoint = Endpoint(
        ready=False,
        voice="ivy",
        instructions="Be brief.",
        language="en",
        turn_detection={"vad_threshold": 0.4},
        extra={"greeting": "Hello.", "input": {"keyterms": ["Tokyo"]}},
    )
    dial = endpoint.dialect.dial()
    assert (dial.url, dial.headers) == (f"{BASE}/ws", {"Authorization": f"Bearer {KEY}"})
    assert endpoint.asked == {
        "type": "session.update",
        "session": {
            "system_prompt": "Be brief.",
            "greeting": "Hello.",
            "input": {
                "format": FORMAT,
                "language_codes": ["en"],
                "turn_detection": {"vad_threshold": 0.4},
                "keyterms": ["Tokyo"],
            },
            "output": {"format": FORMAT, "voice": "ivy"},
        },
    }


def test_a_stored_agent_replaces_its_settings() -> None:
    assert Endpoint(ready=False, extra={"agent_id": "a-1"}).asked["session"] == {"agent_id": "a-1"}
    with pytest.raises(UsageError, match=r"stored agent .* sets the voice"):
        Endpoint(extra={"agent_id": "a-1"}, voice="ivy")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"turn_mode": TurnMode.MANUAL}, "detector ends turns"),
        ({"modality": Modality.TEXT}, "always speaks"),
        ({"max_output_tokens": 10}, "no reply length limit"),
        ({"model": "m"}, "chooses the model"),
        ({"extra": {"output": {"format": {"encoding": "audio/pcmu"}}}}, "expected .*audio/pcm"),
        (
            {"extra": {"agent_id": "a", "input": {"format": {"encoding": "audio/pcmu"}}}},
            "expected .*audio/pcm",
        ),
        ({"extra": {"agent_id": "a", "input": "x"}}, "expected .*audio/pcm"),
        ({"extra": {"agent_id": 5}}, "agent_id: expected text, got 5"),
    ],
)
def test_what_the_service_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


def test_a_frame_is_base64_and_the_session_is_ended_before_closing() -> None:
    dialect = Endpoint().dialect
    assert sent(dialect.frame(b"\x01\x02", 0)) == [{"type": "input.audio", "audio": "AQI="}]
    assert sent(dialect.finish(0)) == [{"type": "session.end"}]
    assert dialect.needs_continuous_input
    assert not dialect.received('{"type":"session.ended"}', 0), "it confirms our own end"


# -- Replies -------------------------------------------------------------------------------------------


def test_a_reply_has_audio_fragments_and_the_complete_text() -> None:
    endpoint = Endpoint()
    assert endpoint.say("reply.started", reply_id="r1") == [ResponseStarted("r1")]
    assert endpoint.audio() == [ReplyAudio("r1", PIECE, PCM)]
    assert endpoint.say("transcript.agent.delta", reply_id="r1", delta="It") == [ReplyText("r1", "It ")]
    whole = endpoint.say("transcript.agent", reply_id="r1", text="It is ten.", interrupted=False)
    assert whole == [ReplyText("r1", "It is ten.", final=True)]
    assert endpoint.say("transcript.agent.delta", reply_id="r1", delta="late") == []
    done = endpoint.say("reply.done", reply_id="r1", status="completed")
    assert done == [ReplyAudioDone("r1"), ResponseDone("r1", ResponseStatus.COMPLETED)]
    assert endpoint.say("reply.done", reply_id="r1", status="completed") == []


def test_late_audio_of_a_reply_that_was_interrupted_is_dropped() -> None:
    endpoint = Endpoint()
    endpoint.say("reply.started", reply_id="r1")
    endpoint.audio()
    assert endpoint.say("input.speech.started", 10) == [SpeechStarted()], "it may be a word of agreement"
    assert endpoint.say("reply.done", 20, reply_id="r1", status="interrupted") == [
        Interrupted("r1"),
        ResponseDone("r1", ResponseStatus.CANCELLED, "interrupted"),
    ]
    assert endpoint.audio(30) == []
    endpoint.say("reply.started", reply_id="r2")
    assert endpoint.audio(900) == [ReplyAudio("r2", PIECE, PCM)]


def test_speech_stops_a_complete_reply_that_is_still_played() -> None:
    endpoint = Endpoint()
    endpoint.say("reply.started", reply_id="r1")
    endpoint.audio(0, PIECE * 100)  # two seconds
    endpoint.say("reply.done", 10, status="completed")
    assert endpoint.say("input.speech.started", 500) == [SpeechStarted(), Interrupted("r1")]
    assert endpoint.say("input.speech.started", 600) == [SpeechStarted()]


# -- Problems ------------------------------------------------------------------------------------------


def test_only_a_full_service_is_tried_again() -> None:
    assert Endpoint(ready=False).refused("at_capacity") == (FailureKind.BUSY, True)
    assert Endpoint(ready=False).refused("concurrency_exceeded") == (FailureKind.BUSY, True)
    assert Endpoint(ready=False).refused("UNAUTHORIZED") == (FailureKind.AUTHENTICATION, True)
    assert Endpoint(ready=False).refused("agent_not_found") == (FailureKind.SESSION_REFUSED, True)


@pytest.mark.parametrize(
    ("extra", "check"),
    [
        ({}, "check the voice, the language and endpoint.extra"),
        ({"agent_id": "a1"}, "endpoint.extra.agent_id"),
    ],
)
def test_a_refused_session_has_advice(extra: dict[str, str], check: str) -> None:
    endpoint = Endpoint(ready=False, extra=extra)
    refused = problem(endpoint.say("session.error", code="not_found", message="No."))
    assert refused.message.endswith(check)


def test_a_key_may_be_refused_by_a_close() -> None:
    (closed,) = Endpoint(ready=False).dialect.closed(1008, "Unauthorized: invalid API key", 0)
    assert isinstance(closed, EndpointProblem)
    assert (closed.kind, closed.fatal) == (FailureKind.AUTHENTICATION, True)
    assert closed.message.endswith("; check the key")
    (closed,) = Endpoint(ready=False).dialect.closed(1011, "internal error", 0)
    assert isinstance(closed, EndpointProblem)
    assert closed.kind is FailureKind.CLOSED


def test_an_error_fails_the_reply_that_it_replaces() -> None:
    endpoint = Endpoint()
    endpoint.say("reply.started", reply_id="r1")
    assert not endpoint.refused("INTERNAL_ERROR")[1]
    (done,) = endpoint.say("reply.done", reply_id="r1", status="completed")
    assert done == ResponseDone("r1", ResponseStatus.FAILED, "INTERNAL_ERROR: No.")


def test_a_session_that_the_endpoint_ends_has_expired() -> None:
    assert problem(Endpoint().say("session.ended")).kind is FailureKind.SESSION_EXPIRED


def test_half_a_sample_and_a_second_start_are_malformed() -> None:
    endpoint = Endpoint()
    assert problem(endpoint.audio(data=PIECE[:101])).kind is FailureKind.MALFORMED_MESSAGE
    assert endpoint.audio(data=b"") == []
    endpoint.say("reply.started", reply_id="r1")
    assert "already started" in problem(endpoint.say("reply.started", reply_id="r1")).message


def test_a_tool_is_reported_without_the_key() -> None:
    said = problem(Endpoint().say("tool.call", call_id="c1", name=f"clock {KEY}", arguments={}))
    assert "clock" in said.message
    assert KEY not in said.message
