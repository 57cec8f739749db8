"""Deepgram's Voice Agent: what it sends and reports. Whole sessions: tests/conformance, tests/loopback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.deepgram import DeepgramAgent
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Interrupted,
    Output,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
    SpeechStarted,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import problem

BASE = "wss://agent.deepgram.com/v1"
KEY = "deepgram-5b1e77"
MS = 1_000_000
PIECE = bytes(960)
PCM = Codec(CodecName.PCM16, 24_000)


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        self.dialect = DeepgramAgent(EndpointSettings(base_url=BASE, key=Secret(KEY), **settings))
        (self.start,) = self.say("Welcome", request_id="r1")
        if ready:
            assert self.say("SettingsApplied") == [SessionReady("r1", None)]

    @property
    def asked(self) -> Any:
        assert isinstance(self.start, Send)
        return json.loads(self.start.message)

    def say(self, kind: str, at_ms: int = 0, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": kind, **fields}), at_ms * MS))

    def text(self, role: str, content: str, at_ms: int = 0) -> list[Output]:
        return self.say("ConversationText", at_ms, role=role, content=content)

    def audio(self, at_ms: int = 0, data: bytes = PIECE) -> list[Output]:
        return list(self.dialect.received(data, at_ms * MS))


# -- What is asked for ---------------------------------------------------------------------------------


def test_the_key_is_a_token_in_a_header() -> None:
    dial = Endpoint().dialect.dial()
    assert dial.url == "wss://agent.deepgram.com/v1/agent/converse"
    assert dial.headers == {"Authorization": f"Token {KEY}"}
    assert DeepgramAgent(EndpointSettings(base_url=BASE)).dial().headers == {}


def test_settings_name_models_voice_prompt_and_detector() -> None:
    extra = {
        "agent": {"think": {"provider": {"type": "anthropic"}}, "greeting": "Hello."},
        "mip_opt_out": True,
    }
    asked = Endpoint(
        ready=False,
        model="claude",
        voice="aura-2-thalia-en",
        transcription_model="flux-general-en",
        instructions="Be brief.",
        turn_detection={"eot_threshold": 0.8},
        language="en",
        extra=extra,
    ).asked
    assert asked == {
        "type": "Settings",
        "mip_opt_out": True,
        "audio": {
            "input": {"encoding": "linear16", "sample_rate": 24_000},
            "output": {"encoding": "linear16", "sample_rate": 24_000, "container": "none"},
        },
        "agent": {
            "greeting": "Hello.",
            "listen": {
                "provider": {
                    "type": "deepgram",
                    "model": "flux-general-en",
                    "version": "v2",
                    "eot_threshold": 0.8,
                }
            },
            "think": {"provider": {"type": "anthropic", "model": "claude"}, "prompt": "Be brief."},
            "speak": {"provider": {"type": "deepgram", "model": "aura-2-thalia-en"}},
        },
    }
    assert type(asked["audio"]["input"]["sample_rate"]) is int, "Deepgram refuses 24000.0"


def test_a_stored_agent_replaces_its_settings() -> None:
    agent = {"agent": "a-1"}
    assert Endpoint(extra=agent, transcription_model="built-in").asked["agent"] == "a-1"
    changed = {
        "instructions": "prompt",
        "language": "language",
        "model": "model",
        "transcription_model": "recogniser",
        "voice": "voice",
    }
    for name, what in changed.items():
        with pytest.raises(UsageError, match=rf"endpoint\.{name}: the stored agent .* sets the {what}"):
            Endpoint(extra=agent, **{name: "x"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected text, got 7"):
        Endpoint(extra={"agent": 7})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"turn_mode": TurnMode.MANUAL, "transcription_model": "nova-3"}, "for manual turns, got nova-3"),
        ({"turn_mode": TurnMode.MANUAL, "extra": {"agent": "a-1"}}, "stored agent's detector ends turns"),
        ({"transcription_model": "flux-general-en", "language": "de"}, "flux-general-en does not hear de"),
        ({"modality": Modality.TEXT}, "always speaks"),
        ({"max_output_tokens": 10}, "no reply length limit"),
        ({"extra": {"audio": {"input": {"sample_rate": 16_000}}}}, "expected .*24000"),
    ],
)
def test_what_the_service_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


def test_a_frame_is_sent_unchanged() -> None:
    dialect = Endpoint().dialect
    assert dialect.frame(b"\x01\x02", 0) == (Send(b"\x01\x02"),)
    assert dialect.needs_continuous_input


# -- Replies -------------------------------------------------------------------------------------------


def test_audio_belongs_to_the_reply_of_its_text() -> None:
    endpoint = Endpoint()
    assert endpoint.text("assistant", "It is ten.") == [
        ResponseStarted("reply_1"),
        ReplyText("reply_1", "It is ten.", final=True),
    ]
    assert endpoint.audio() == [ReplyAudio("reply_1", PIECE, PCM)]
    done = endpoint.say("AgentAudioDone")[-1]
    assert done == ResponseDone("reply_1", ResponseStatus.COMPLETED)


def test_every_utterance_begins_with_a_message_which_is_no_interruption_by_itself() -> None:
    assert Endpoint().say("UserStartedSpeaking") == [SpeechStarted()]


def test_late_audio_of_a_reply_that_was_cut_off_is_dropped() -> None:
    endpoint = Endpoint()
    endpoint.text("assistant", "It is ten.")
    endpoint.audio()
    assert endpoint.say("UserStartedSpeaking", 10) == [
        SpeechStarted(),
        Interrupted("reply_1"),
        ResponseDone("reply_1", ResponseStatus.CANCELLED, "UserStartedSpeaking"),
    ]
    assert endpoint.audio(20) == []
    endpoint.text("user", "No.")
    assert endpoint.audio(900)[-1] == ReplyAudio("reply_2", PIECE, PCM)


def test_a_reply_that_is_still_played_is_interrupted_after_its_end() -> None:
    endpoint = Endpoint()
    endpoint.audio(0, PIECE * 100)  # two seconds
    endpoint.say("AgentAudioDone", 10)
    assert endpoint.say("UserStartedSpeaking", 500) == [SpeechStarted(), Interrupted("reply_1")]
    assert endpoint.audio(2_500)[0] == ResponseStarted("reply_2")


def test_text_after_the_audio_belongs_to_the_same_reply() -> None:
    endpoint = Endpoint()
    endpoint.text("assistant", "It is ten.")
    endpoint.say("AgentAudioDone")
    assert endpoint.text("assistant", " Good night. ") == [ReplyText("reply_1", "Good night.", final=True)]
    endpoint.text("user", "Thanks.")
    assert endpoint.text("assistant", "Welcome.")[0] == ResponseStarted("reply_2")


# -- Problems ------------------------------------------------------------------------------------------


def test_refused_settings_end_the_session() -> None:
    refused = problem(Endpoint(ready=False).say("Error", code="INVALID_SETTINGS", description="think"))
    assert (refused.kind, refused.fatal, refused.code) == (
        FailureKind.SESSION_REFUSED,
        True,
        "INVALID_SETTINGS",
    )
    assert refused.message.endswith("think; check the model, the voice and endpoint.extra")
    refused = problem(Endpoint(ready=False, extra={"agent": "a1"}).say("Error", description="not found"))
    assert refused.message.endswith("not found; check endpoint.extra.agent")
    refused = problem(Endpoint(ready=False).say("Error", code="INTERNAL_SERVER_ERROR"))
    assert refused.kind is FailureKind.SERVER_ERROR
    assert "check" not in refused.message


def test_an_error_is_fatal_if_the_connection_ends_after_it() -> None:
    endpoint = Endpoint()
    warned, waits = endpoint.say("Error", code="FAILED_TO_THINK", description="no model")
    assert not problem([warned]).fatal
    assert waits == SetTimer("nothing follows an error", 3_000 * MS)
    (closed,) = endpoint.dialect.closed(1011, "", 0)
    assert isinstance(closed, EndpointProblem)
    assert (closed.kind, closed.fatal) == (FailureKind.ENDPOINT_ERROR, True)
    assert "FAILED_TO_THINK: no model" in closed.message

    endpoint = Endpoint()
    endpoint.say("Error", code="FAILED_TO_THINK", description="no model")
    endpoint.audio()
    assert list(endpoint.dialect.timer("nothing follows an error", 3_000 * MS)) == []
    endpoint.say("AgentAudioDone")  # the service continued
    (closed,) = endpoint.dialect.closed(1000, "", 0)
    assert isinstance(closed, EndpointProblem)
    assert closed.kind is FailureKind.CLOSED


def test_an_error_is_fatal_if_nothing_follows_it() -> None:
    endpoint = Endpoint()
    endpoint.say("Error", code="FAILED_TO_THINK", description="no model")
    failed = problem(list(endpoint.dialect.timer("nothing follows an error", 3_000 * MS)))
    recovers = Endpoint()
    recovers.say("Error", code="FAILED_TO_THINK", description="no model")
    recovers.text("user", "Hello?", 2_500)
    assert list(recovers.dialect.timer("nothing follows an error", 3_000 * MS)) == []
    assert (failed.kind, failed.fatal) == (FailureKind.ENDPOINT_ERROR, True)
    assert failed.message == "FAILED_TO_THINK: no model"


def test_flux_voices_have_a_version() -> None:
    speak = Endpoint(voice="flux-alexis-en").asked["agent"]["speak"]["provider"]
    assert speak == {"type": "deepgram", "model": "flux-alexis-en", "version": "v2"}


def test_the_recogniser_takes_the_language() -> None:
    heard = Endpoint(language="de", transcription_model="nova-3").asked["agent"]["listen"]["provider"]
    assert heard == {"type": "deepgram", "model": "nova-3", "language": "de"}
    heard = Endpoint(language="de", transcription_model="flux-general-multi").asked["agent"]["listen"]
    assert heard["provider"]["language_hints"] == ["de"]


def test_a_manual_turn_is_ended_by_the_client() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    heard = endpoint.asked["agent"]["listen"]["provider"]
    assert (heard["model"], heard["eot_threshold"]) == ("flux-general-en", 1)
    assert endpoint.dialect.end_turn(0) == (Send('{"type":"ForceEndTurn"}'),)


def test_only_functions_of_the_client_are_reported() -> None:
    endpoint = Endpoint()
    functions = [{"id": "f1", "name": "lookup", "arguments": "{}", "client_side": False}]
    assert endpoint.say("FunctionCallRequest", functions=functions) == []
    functions += [{"id": "f2", "name": "clock", "arguments": "{}", "client_side": True}]
    warned, answer = endpoint.say("FunctionCallRequest", functions=functions)
    assert "clock" in problem([warned]).message
    assert isinstance(answer, Send)
    assert json.loads(answer.message)["id"] == "f2"


def test_half_a_sample_is_malformed() -> None:
    endpoint = Endpoint()
    assert problem(endpoint.audio(data=PIECE[:101])).kind is FailureKind.MALFORMED_MESSAGE
    assert endpoint.audio(data=b"") == []


def test_the_key_is_not_in_what_the_endpoint_says() -> None:
    said = problem(Endpoint().say("Warning", code="W", description=f"key {KEY}"))
    assert KEY not in said.message
