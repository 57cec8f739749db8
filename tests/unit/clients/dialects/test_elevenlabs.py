"""ElevenLabs Agents: messages and events. Whole sessions: tests/conformance, tests/loopback."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.elevenlabs import ElevenLabsAgent
from live_eval.clients.toolkit import UnmarkedReplies
from live_eval.dialect import (
    Committed,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Interrupted,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import problem

BASE = "wss://api.elevenlabs.io/v1"
KEY = "elevenlabs-5b1e77"
AGENT = {"agent_id": "agent_1"}
MS = 1_000_000
PIECE = bytes(640)  # 20 ms
PCM = Codec(CodecName.PCM16, 16_000)


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, key: Secret | None = None, **settings: Any) -> None:
        settings = {"extra": AGENT, **settings}
        self.dialect = ElevenLabsAgent(EndpointSettings(base_url=BASE, key=key, **settings))
        (self.start,) = self.dialect.opened(0)
        if ready:
            assert self.begin() == [SessionReady("conv_1", None)]

    def say(self, kind: str, event: object, at_ms: int = 0, name: str = "") -> list[Output]:
        message = {"type": kind, name or f"{kind}_event": event}
        return list(self.dialect.received(json.dumps(message), at_ms * MS))

    def begin(self, **formats: str) -> list[Output]:
        return self.say("conversation_initiation_metadata", {"conversation_id": "conv_1", **formats})

    def audio(self, number: int, at_ms: int = 0, data: bytes = PIECE) -> list[Output]:
        event = {"audio_base_64": base64.b64encode(data).decode(), "event_id": number}
        return self.say("audio", event, at_ms)

    def user(self, text: str) -> list[Output]:
        return self.say("user_transcript", {"user_transcript": text}, name="user_transcription_event")

    def close(self, code: int, reason: str) -> EndpointProblem:
        (closed,) = self.dialect.closed(code, reason, 0)
        assert isinstance(closed, EndpointProblem)
        return closed


def sent(output: Output) -> Any:
    assert isinstance(output, Send)
    return json.loads(output.message)


# -- What is asked for ---------------------------------------------------------------------------------


def test_a_public_agent_needs_no_key() -> None:
    dial = Endpoint(extra={**AGENT, "environment": "staging"}).dialect.dial()
    assert dial.url == f"{BASE}/convai/conversation?agent_id=agent_1&environment=staging"
    assert dial.headers == {}
    assert dial.lookup is None


def test_a_key_asks_for_a_signed_address_whose_signature_is_a_secret() -> None:
    endpoint = Endpoint(ready=False, key=Secret(KEY))
    dial = endpoint.dialect.dial()
    assert dial.url == "https://api.elevenlabs.io/v1/convai/conversation/get-signed-url?agent_id=agent_1"
    assert dial.headers == {"xi-api-key": KEY}
    assert dial.lookup is not None
    assert dial.lookup.form is None
    url = f"{BASE}/convai/conversation?agent_id=agent_1&conversation_signature=s-123456"
    signed = dial.lookup.read(json.dumps({"signed_url": url}))
    assert (signed.url, signed.headers) == (url, {})
    assert "s-123456" not in str(endpoint.dialect.redact('{"type": "ping", "note": "for s-123456"}'))
    assert "s-123456" not in endpoint.close(1008, "the signature s-123456 has expired").message
    for body in ("no JSON", "[]", "{}", '{"signed_url": 7}'):
        with pytest.raises(ValueError, match="got"):
            dial.lookup.read(body)


def test_overrides_are_sent_only_if_given() -> None:
    assert sent(Endpoint().start) == {"type": "conversation_initiation_client_data"}
    override = {"agent": {"first_message": ""}}
    extra = {**AGENT, "dynamic_variables": {"name": "Ada"}, "conversation_config_override": override}
    start = Endpoint(voice="v1", model="llm", instructions="Be brief.", language="en", extra=extra).start
    assert sent(start) == {
        "type": "conversation_initiation_client_data",
        "dynamic_variables": {"name": "Ada"},
        "conversation_config_override": {
            "agent": {
                "prompt": {"prompt": "Be brief.", "llm": "llm"},
                "language": "en",
                "first_message": "",
            },
            "tts": {"voice_id": "v1"},
        },
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"turn_mode": TurnMode.MANUAL}, "turn model ends turns"),
        ({"modality": Modality.TEXT}, "agents speak"),
        ({"turn_detection": {"type": "x"}}, "sets the turn model"),
        ({"extra": {"agent_id": 7}}, "agent_id: expected text"),
    ],
)
def test_what_the_service_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


def test_a_frame_is_sent_unchanged() -> None:
    (frame,) = Endpoint().dialect.frame(b"\x01\x02\x03\x04", 0)
    assert sent(frame) == {"user_audio_chunk": "AQIDBA=="}


# -- Formats, which belong to the agent ----------------------------------------------------------------


def test_audio_is_decoded_as_the_agent_says() -> None:
    endpoint = Endpoint(ready=False)
    endpoint.begin(agent_output_audio_format="ulaw_8000")
    assert ReplyAudio("reply_1", PIECE, Codec(CodecName.PCMU, 8_000)) in endpoint.audio(1)
    endpoint = Endpoint(ready=False)
    told, _ = endpoint.begin(agent_output_audio_format="pcm_44100", user_input_audio_format="pcm_16000")
    assert told == EndpointProblem(FailureKind.AUDIO_FORMAT, "pcm_16000 in, pcm_44100 out", fatal=False)
    assert ReplyAudio("reply_1", PIECE, Codec(CodecName.PCM16, 44_100)) in endpoint.audio(1)


@pytest.mark.parametrize(("name", "size", "later"), [("pcm_24000", 960, "1 ms"), ("ulaw_8000", 160, "2 ms")])
def test_the_users_audio_is_converted_to_the_agents_input(name: str, size: int, later: str) -> None:
    endpoint = Endpoint(ready=False)
    told, ready = endpoint.begin(user_input_audio_format=name)
    assert isinstance(told, EndpointProblem)
    assert told.message == f"{name} in, pcm_16000 out, converted from pcm_16000 {later} later"
    assert (told.fatal, ready) == (False, SessionReady("conv_1", None))
    (frame,) = endpoint.dialect.frame(PIECE, 0)
    assert len(base64.b64decode(sent(frame)["user_audio_chunk"])) == size


@pytest.mark.parametrize(
    "formats",
    [
        {"user_input_audio_format": "opus_16000"},
        {"agent_output_audio_format": "mp3_44100"},
        {"agent_output_audio_format": "pcm_999999"},
    ],
)
def test_another_format_ends_the_session_with_advice(formats: dict[str, str]) -> None:
    refused = problem(Endpoint(ready=False).begin(**formats))
    assert (refused.kind, refused.fatal) == (FailureKind.WRONG_RATE, True)
    assert "set this format to PCM" in refused.message


# -- Replies -------------------------------------------------------------------------------------------


def test_a_reply_ends_when_its_audio_was_played_and_a_pause_has_passed() -> None:
    endpoint = Endpoint()
    assert endpoint.audio(1, 100) == [
        ResponseStarted("reply_1"),
        ReplyAudio("reply_1", PIECE, PCM),
        SetTimer(UnmarkedReplies.TIMER, 1_620 * MS),
    ]
    done = ResponseDone("reply_1", ResponseStatus.COMPLETED)
    ended = endpoint.dialect.timer(UnmarkedReplies.TIMER, 1_620 * MS)
    assert ended == [SetTimer(UnmarkedReplies.TIMER, None), ReplyAudioDone("reply_1"), done]


def test_an_agent_may_report_the_end() -> None:
    endpoint = Endpoint()
    endpoint.audio(1)
    assert endpoint.say("agent_response_complete", {})[-1] == ResponseDone(
        "reply_1", ResponseStatus.COMPLETED
    )


def test_text_belongs_to_the_reply_before_and_after_its_audio() -> None:
    endpoint = Endpoint()
    waits = [SetTimer(UnmarkedReplies.TIMER, 5_000 * MS)]
    assert endpoint.say("agent_response", {"agent_response": "It is ten. "}) == waits
    assert ReplyText("reply_1", "It is ten.") in endpoint.audio(1)


def test_text_without_audio_is_a_reply_without_audio() -> None:
    endpoint = Endpoint()
    endpoint.say("agent_response", {"agent_response": "It is ten."})
    assert endpoint.dialect.timer(UnmarkedReplies.TIMER, 5_000 * MS) == [
        SetTimer(UnmarkedReplies.TIMER, None),
        ResponseStarted("reply_1"),
        ReplyText("reply_1", "It is ten."),
        ReplyAudioDone("reply_1"),
        ResponseDone("reply_1", ResponseStatus.COMPLETED),
    ]


def test_audio_up_to_the_interruption_is_dropped_and_the_text_corrected() -> None:
    endpoint = Endpoint()
    endpoint.audio(1, 0, PIECE * 100)
    endpoint.say("agent_response", {"agent_response": "Well."})
    endpoint.say("agent_response", {"agent_response": "It is ten."})
    assert endpoint.say("interruption", {"event_id": 5}, 300) == [
        SpeechStarted(),
        SetTimer(UnmarkedReplies.TIMER, None),
        Interrupted("reply_1"),
        ResponseDone("reply_1", ResponseStatus.CANCELLED, "interruption"),
    ]
    correction = {"original_agent_response": "It is ten.", "corrected_agent_response": "It is"}
    corrected = endpoint.say("agent_response_correction", correction)
    assert corrected == [ReplyText("reply_1", "Well. It is", final=True)]
    assert endpoint.audio(4, 310) == []
    assert endpoint.audio(5, 320) == []
    assert endpoint.audio(6, 900)[0] == ResponseStarted("reply_2")


def test_a_correction_belongs_to_the_text_that_it_names() -> None:
    endpoint = Endpoint()
    for number, text in enumerate(("It is ten.", "Bye now."), 1):
        endpoint.say("agent_response", {"agent_response": text})
        endpoint.audio(number)
        endpoint.say("agent_response_complete", {})
    correction = {"original_agent_response": "It is ten.", "corrected_agent_response": "It is"}
    assert endpoint.say("agent_response_correction", correction) == [
        ReplyText("reply_1", "It is", final=True)
    ]
    assert "ignored a correction" in problem(endpoint.say("agent_response_correction", correction)).message


def test_a_reply_that_is_still_played_is_interrupted_after_its_end() -> None:
    endpoint = Endpoint()
    endpoint.audio(1, 0, PIECE * 100)  # two seconds
    endpoint.say("agent_response_complete", {}, 100)
    stopped = endpoint.say("interruption", {"event_id": 1}, 500)
    assert stopped == [SpeechStarted(), Interrupted("reply_1")]
    assert endpoint.say("interruption", {"event_id": 1}, 600) == []
    assert endpoint.audio(2, 900)[0] == ResponseStarted("reply_2")


def test_transcripts_show_when_the_user_speaks() -> None:
    endpoint = Endpoint()
    name = "tentative_user_transcription_event"
    tentative = {"user_transcript": "What"}
    assert endpoint.say("tentative_user_transcript", tentative, name=name) == [SpeechStarted()]
    assert endpoint.say("tentative_user_transcript", tentative, name=name) == []
    assert endpoint.user("What time is it?") == [
        SpeechStopped(item_id="user_1"),
        Committed("user_1"),
        InputTranscript("What time is it?", True, "user_1"),
    ]


def test_a_ping_is_answered() -> None:
    (pong,) = Endpoint().say("ping", {"event_id": 3, "ping_ms": None})
    assert sent(pong) == {"type": "pong", "event_id": 3}


# -- Problems ------------------------------------------------------------------------------------------


def test_a_refused_override_has_advice() -> None:
    endpoint = Endpoint(ready=False, instructions="Be brief.")
    assert not problem(
        endpoint.say("client_error", {"code": 1008, "message": "override"}, name="error_event")
    ).fatal
    closed = endpoint.close(1008, "override_error")
    assert (closed.kind, closed.fatal) == (FailureKind.SESSION_REFUSED, True)
    assert "allow overrides in the agent's security settings" in closed.message


@pytest.mark.parametrize(
    ("code", "reason"), [(1000, "max_duration_exceeded"), (1002, "transport_receive_timeout")]
)
def test_limits_of_a_conversation_are_named(code: int, reason: str) -> None:
    closed = Endpoint().close(code, reason)
    assert (closed.kind, closed.fatal) == (FailureKind.SESSION_EXPIRED, True)


def test_an_error_is_fatal_unless_the_agent_continues() -> None:
    error = {"code": 1002, "error_type": "llm_timeout", "message": "too slow"}
    endpoint = Endpoint()
    endpoint.say("error", error)
    closed = endpoint.close(1002, "")
    assert (closed.kind, closed.fatal) == (FailureKind.ENDPOINT_ERROR, True)
    assert "llm_timeout: too slow" in closed.message
    endpoint = Endpoint()
    endpoint.say("error", error)
    endpoint.audio(1)
    assert endpoint.close(1000, "").kind is FailureKind.CLOSED


def test_a_missing_agent_is_reported_even_if_the_service_is_silent() -> None:
    assert "endpoint.extra.agent_id" in Endpoint(ready=False, extra={}).close(1008, "").message


def test_an_agent_that_does_not_exist() -> None:
    closed = Endpoint(ready=False).close(1008, "The AI agent you are trying to reach does not exist.")
    assert closed.kind is FailureKind.SESSION_REFUSED
    assert "check endpoint.extra.agent_id" in closed.message


@pytest.mark.parametrize(
    ("reason", "kind", "advice"),
    [
        ("missing_dynamic_variable", FailureKind.SESSION_REFUSED, "check endpoint.extra"),
        ("Exceeds your quota limit.", FailureKind.RATE_LIMITED, "check the account's limits"),
    ],
)
def test_a_refused_first_message_says_what_to_check(reason: str, kind: FailureKind, advice: str) -> None:
    closed = Endpoint(ready=False).close(1008, reason)
    assert (closed.kind, closed.fatal) == (kind, True)
    assert advice in closed.message


def test_a_private_agent_needs_a_key() -> None:
    (refused,) = Endpoint(ready=False).dialect.closed(3000, "You must be authenticated to access it.", 0)
    assert isinstance(refused, EndpointProblem)
    assert refused.kind is FailureKind.AUTHENTICATION
    assert "set ELEVENLABS_API_KEY" in refused.message
