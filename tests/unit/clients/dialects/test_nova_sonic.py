"""Nova Sonic: events. Whole sessions: tests/conformance; over HTTP/2: tests/loopback."""

from __future__ import annotations

import json
from typing import Any

import pybase64
import pytest

from live_eval.clients.dialects.nova_sonic import NovaSonic
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Interrupted,
    Output,
    Reconnect,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SessionReady,
    SetTimer,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus
from live_eval.types import Secret, Usage
from tests.support.dialects import problem, sent

MS, SECOND = 1_000_000, 1_000_000_000
KEY, TOKEN = "wJalrX-secret-key", "FwoG-session-token"
PIECE = pybase64.b64encode_as_string(bytes(48_000))  # a second


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, **settings: Any) -> None:
        base = "https://bedrock-runtime.us-east-1.amazonaws.com"
        asked = {"key": Secret(KEY), "key_id": "AKIAEXAMPLE7", "key_token": Secret(TOKEN), **settings}
        self.dialect = NovaSonic(EndpointSettings(base_url=base, **asked))
        self.opened = self.open()

    def open(self, at_ns: int = 0) -> list[Output]:
        opened = self.dialect.opened(at_ns)
        return [*opened, *self.dialect.received('{"response":{}}', at_ns)]

    def say(self, kind: str, at_ms: int = 0, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"event": {kind: fields}}), at_ms * MS))

    def content(
        self, role: str, kind: str, said: str, stage: str = "", reason: str = "PARTIAL_TURN", at_ms: int = 0
    ) -> list[Output]:
        """Return the events of a content block with one output."""
        fields = {"additionalModelFields": json.dumps({"generationStage": stage})} if stage else {}
        name = "audioOutput" if kind == "AUDIO" else "textOutput"
        return [
            *self.say("contentStart", at_ms, type=kind, role=role, **fields),
            *self.say(name, at_ms, content=said),
            *self.say("contentEnd", at_ms, stopReason=reason),
        ]

    def heard(self, text: str) -> list[Output]:
        return self.content("USER", "TEXT", text, stage="FINAL", reason="END_TURN")

    def planned(self, text: str) -> list[Output]:
        return self.content("ASSISTANT", "TEXT", text, stage="SPECULATIVE")

    def spoken(self, text: str, reason: str = "PARTIAL_TURN", at_ms: int = 0) -> list[Output]:
        return self.content("ASSISTANT", "TEXT", text, stage="FINAL", reason=reason, at_ms=at_ms)

    def audio(self, reason: str = "END_TURN", at_ms: int = 0) -> list[Output]:
        return self.content("ASSISTANT", "AUDIO", PIECE, reason=reason, at_ms=at_ms)

    def failed(self, kind: str, message: str = "No.", at_ns: int = 0) -> EndpointProblem:
        said = json.dumps({"exception": {"type": kind, "message": message}})
        return problem(list(self.dialect.received(said, at_ns)))


def kinds(outputs: list[Output]) -> list[type]:
    return [type(output) for output in outputs]


def done(outputs: list[Output]) -> ResponseDone:
    (found,) = (output for output in outputs if isinstance(output, ResponseDone))
    return found


@pytest.mark.parametrize("slow", [False, True])
def test_audio_begins_after_the_headers_or_a_second(slow: bool) -> None:
    """Under load, Bedrock refuses audio that follows the conversation too closely."""
    dialect = Endpoint().dialect
    opened = list(dialect.opened(0))
    assert opened[-1] == SetTimer("no headers", SECOND)
    assert len(sent(opened)) == 5
    dialect = NovaSonic(dialect.settings)
    dialect.opened(0)
    assert dialect.frame(bytes(640), 0) == []
    begun = dialect.timer("no headers", SECOND) if slow else dialect.received('{"response":{}}', 100 * MS)
    assert [next(iter(each["event"])) for each in sent(list(begun))] == ["contentStart", "audioInput"]
    assert SessionReady() in begun
    assert dialect.timer("no headers", SECOND) == []


def test_a_turn_is_accepted_when_the_reply_begins() -> None:
    endpoint = Endpoint()
    assert endpoint.heard("What time") == [InputTranscript("What time ", False, "user_1")]
    endpoint.heard("is it?")
    _, _, whole, *_ = endpoint.planned("Noon.")
    assert whole == InputTranscript("What time is it?", True, "user_1")


def test_audio_that_ends_with_end_turn_does_not_complete_the_reply() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    outputs = endpoint.audio()
    assert kinds(outputs) == [ReplyAudio, ReplyAudioDone, SetTimer]
    (*_, timer) = outputs
    assert timer == SetTimer("complete the reply", 2 * SECOND)  # a second after its playback
    assert done(endpoint.spoken("Noon.", "END_TURN")).status is ResponseStatus.COMPLETED


def test_an_interruption_after_end_turn_cancels_the_reply() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon in London,")
    endpoint.audio("PARTIAL_TURN")
    endpoint.planned("and seven in New York.")
    endpoint.audio()
    outputs = [*endpoint.spoken("Noon in London,"), *endpoint.spoken("and", "INTERRUPTED")]
    assert kinds(outputs) == [SetTimer, ReplyText, Interrupted, ResponseDone]
    assert outputs[1] == ReplyText("reply_1", "Noon in London, and", final=True)
    assert done(outputs).status is ResponseStatus.CANCELLED
    assert endpoint.audio() == []  # late audio
    assert endpoint.dialect.timer("complete the reply", SECOND) == []


def test_a_complete_reply_is_interrupted_while_it_is_played() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    endpoint.audio()
    endpoint.spoken("Noon.", "END_TURN")
    outputs = endpoint.spoken('{ "interrupted" : true }', "INTERRUPTED", at_ms=500)
    assert Interrupted("reply_1") in outputs
    assert not any(isinstance(output, ResponseDone) for output in outputs)


def test_an_interruption_after_the_playback_has_no_effect() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    endpoint.audio()
    endpoint.spoken("Noon.", "END_TURN")
    assert endpoint.spoken("", "INTERRUPTED", at_ms=1_500) == []


def test_without_final_texts_a_timer_completes_the_reply_with_its_planned_text() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    endpoint.audio()
    outputs = list(endpoint.dialect.timer("complete the reply", 2 * SECOND))
    assert kinds(outputs) == [ResponseDone, SetTimer]


def test_a_new_reply_completes_one_that_awaits_its_final_texts() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    endpoint.audio()
    outputs = endpoint.planned("And one in Rome.")
    assert kinds(outputs) == [ResponseDone, SetTimer, ResponseStarted, ReplyText]


def test_tokens_are_counted_for_each_reply() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    side = {"speechTokens": 10, "textTokens": 3}
    for _ in range(2):
        endpoint.say("usageEvent", details={"delta": {"input": side, "output": side}, "total": {}})
    endpoint.audio()
    assert done(endpoint.spoken("Noon.")).usage == Usage(26, 26, 20, 20)
    endpoint.planned("Yes.")
    endpoint.audio()
    assert done(endpoint.spoken("Yes.")).usage is None


def test_a_session_is_renewed_after_the_first_reply_that_completes_late() -> None:
    endpoint = Endpoint(instructions="Be brief.")
    endpoint.heard("What time is it?")
    endpoint.planned("Noon.")
    endpoint.audio(at_ms=370_000)
    frame = bytes(640)
    endpoint.dialect.frame(frame, 0)
    outputs = endpoint.spoken("Noon.", at_ms=370_100)
    assert outputs[-1] == Reconnect()
    assert [next(iter(each["event"])) for each in sent(outputs)] == ["contentEnd", "promptEnd", "sessionEnd"]
    assert endpoint.dialect.frame(frame, 0) == []
    assert endpoint.audio() == []  # of the old session
    opened = endpoint.open(371 * SECOND)
    assert not any(isinstance(output, SessionReady) for output in opened)
    events = [next(iter(each["event"].items())) for each in sent(opened)]
    assert [event["content"] for kind, event in events if kind == "textInput"] == [
        "Be brief.", "What time is it?", "Noon."
    ]  # fmt: skip
    assert [kind for kind, _ in events][-2:] == ["audioInput", "audioInput"]
    assert SetTimer("renew the session", 821 * SECOND) in opened


def test_a_session_is_renewed_at_the_latest_before_its_end() -> None:
    endpoint = Endpoint()
    endpoint.planned("Noon.")
    for _ in range(200):
        endpoint.dialect.frame(bytes(640), 0)
    outputs = list(endpoint.dialect.timer("renew the session", 450 * SECOND))
    assert done(outputs).status is ResponseStatus.CANCELLED
    assert outputs[-1] == Reconnect()
    opened = endpoint.open(451 * SECOND)
    assert sum("audioInput" in each["event"] for each in sent(opened)) == 150  # three seconds
    assert sent(endpoint.dialect.finish(452 * SECOND))


def test_nothing_is_sent_to_a_session_that_is_being_replaced() -> None:
    endpoint = Endpoint()
    endpoint.dialect.timer("renew the session", 450 * SECOND)
    assert endpoint.dialect.timer("renew the session", 450 * SECOND) == []
    assert sent(endpoint.dialect.finish(451 * SECOND)) == []


@pytest.mark.parametrize(
    ("name", "message", "kind"),
    [
        ("UnrecognizedClientException", "The security token is invalid.", FailureKind.AUTHENTICATION),
        ("AccessDeniedException", "You don't have access to the model.", FailureKind.AUTHENTICATION),
        ("ThrottlingException", "Too many requests.", FailureKind.RATE_LIMITED),
        ("ServiceQuotaExceededException", "Too many sessions.", FailureKind.BUSY),
        ("ValidationException", "The provided model identifier is invalid.", FailureKind.UNKNOWN_MODEL),
        ("ValidationException", "The provided model ID is not supported.", FailureKind.UNKNOWN_MODEL),
        ("ValidationException", "Timed out waiting for input events", FailureKind.ENDPOINT_ERROR),
        ("ValidationException", "System instability detected. Please retry.", FailureKind.ENDPOINT_ERROR),
        ("ValidationException", "Invalid voice ID.", FailureKind.SESSION_REFUSED),
        ("ModelTimeoutException", "Model has timed out.", FailureKind.ENDPOINT_ERROR),
        ("CallError", "Unknown error", FailureKind.ENDPOINT_ERROR),
    ],
)
def test_exceptions_of_the_service(name: str, message: str, kind: FailureKind) -> None:
    found = Endpoint().failed(name, message)
    assert (found.kind, found.fatal, found.code) == (kind, True, name)
    assert message in found.message
    assert ("check the AWS credentials" in found.message) == (kind is FailureKind.AUTHENTICATION)


def test_a_time_out_after_six_minutes_is_the_end_of_the_session() -> None:
    found = Endpoint().failed("ModelTimeoutException", at_ns=361 * SECOND)
    assert found.kind is FailureKind.SESSION_EXPIRED


def test_no_part_of_the_credentials_is_shown() -> None:
    found = Endpoint().failed("AccessDeniedException", f"key AKIAEXAMPLE7 with {KEY} and {TOKEN}")
    assert not any(word in found.message for word in (KEY, TOKEN, "AKIAEXAMPLE7"))


def test_the_log_shows_text_but_no_audio() -> None:
    dialect = Endpoint().dialect
    text = {"event": {"textOutput": {"content": "Noon."}}}
    assert dialect.redact(json.dumps(text)) == text
    audio = json.dumps({"event": {"audioOutput": {"content": PIECE}}})
    assert dialect.redact(audio) == {"event": {"audioOutput": {"content": {"bytes": 48_000}}}}


def test_a_tool_call_is_a_warning() -> None:
    found = problem(Endpoint().say("toolUse", toolName="get_time"))
    assert (found.kind, found.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert "'get_time'" in found.message
