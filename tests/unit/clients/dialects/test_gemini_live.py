"""Gemini Live: addresses, setup, sent messages, moves to a new connection, and the log."""

from __future__ import annotations

import json
from typing import Any

import pybase64
import pytest

from live_eval.clients.dialects.gemini_live import GeminiLive
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Reconnect,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, TurnMode
from tests.support.dialects import sent
from tests.unit.clients.dialects.gemini_endpoint import Endpoint, of

BASE = "wss://generativelanguage.googleapis.com"


KEY = "AIzaSy-conformance-key"


SERVICE = "/ws/google.ai.generativelanguage.{}.GenerativeService.{}"


MS = 1_000_000


FRAME = bytes(range(64)) * 10


SAID = {
    "realtimeInput": {
        "audio": {"data": pybase64.b64encode_as_string(FRAME), "mimeType": "audio/pcm;rate=16000"}
    }
}


START: dict[str, Any] = {"realtimeInput": {"activityStart": {}}}


END: dict[str, Any] = {"realtimeInput": {"activityEnd": {}}}


# -- Addresses and keys --


@pytest.mark.parametrize(
    ("base", "extra", "url"),
    [
        (BASE, {}, BASE + SERVICE.format("v1", "BidiGenerateContent")),
        (BASE + "/", {}, BASE + SERVICE.format("v1", "BidiGenerateContent")),
        (BASE + "/v1beta", {}, BASE + SERVICE.format("v1beta", "BidiGenerateContent")),
        (BASE, {"api_version": "v1beta"}, BASE + SERVICE.format("v1beta", "BidiGenerateContent")),
        (BASE + "/v1", {"api_version": "v1alpha"}, BASE + SERVICE.format("v1alpha", "BidiGenerateContent")),
        (
            "http://127.0.0.1:80/gemini/v1beta/?a=1",
            {},
            "ws://127.0.0.1:80/gemini" + SERVICE.format("v1beta", "BidiGenerateContent") + "?a=1",
        ),
        ("wss://proxy.example/BidiGenerateContent?a=1", {}, "wss://proxy.example/BidiGenerateContent?a=1"),
    ],
)
def test_the_version_comes_from_the_url_or_from_extra(base: str, extra: dict[str, Any], url: str) -> None:
    endpoint = Endpoint(base=base, extra=extra)
    dial = endpoint.dialect.dial()
    assert dial.url == url
    assert dial.headers == {"x-goog-api-key": KEY}
    assert not dial.keepalive
    assert "api_version" not in endpoint.setup


def test_an_ephemeral_token_goes_to_the_constrained_method() -> None:
    dial = Endpoint(key="auth_tokens/abc").dialect.dial()
    assert dial.url == BASE + SERVICE.format("v1alpha", "BidiGenerateContentConstrained")
    assert dial.headers == {"Authorization": "Token auth_tokens/abc"}


def test_without_a_key_no_header_is_sent() -> None:
    dialect = GeminiLive(EndpointSettings(base_url="ws://127.0.0.1:80"))
    assert dialect.dial().headers == {}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base": "nothing"}, "expected an address"),
        ({"extra": {"api_version": 1}}, "api_version"),
        ({"turn_detection": {"type": "semantic_vad"}}, "only detector"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


# -- Requests --


def test_the_setup_equals_that_of_the_sdk() -> None:
    """google-genai 3.4 sends this for the same settings, in snake case below the third level."""
    endpoint = Endpoint(
        model="gemini-3.8-live",
        voice="Kore",
        instructions="Be brief.",
        language="en-US",
        transcription_model="built-in",
        max_output_tokens=200,
        turn_detection={"type": "server_vad", "silenceDurationMs": 300},
        extra={"realtimeInputConfig": {"activityHandling": "NO_INTERRUPTION"}},
    )
    assert endpoint.setup == {
        "model": "models/gemini-3.8-live",
        "generationConfig": {
            "maxOutputTokens": 200,
            "responseModalities": ["AUDIO"],
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}},
        },
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "realtimeInputConfig": {
            "automaticActivityDetection": {"silenceDurationMs": 300},
            "activityHandling": "NO_INTERRUPTION",
        },
        "inputAudioTranscription": {"languageCodes": ["en-US"]},
        "outputAudioTranscription": {},
        "sessionResumption": {},
    }


def test_manual_turns_turn_the_detector_off_and_text_needs_no_transcript() -> None:
    setup = Endpoint(
        model="tunedModels/mine",
        modality=Modality.TEXT,
        turn_mode=TurnMode.MANUAL,
        turn_detection={"silenceDurationMs": 300},
    ).setup
    assert setup == {
        "model": "tunedModels/mine",
        "generationConfig": {"responseModalities": ["TEXT"]},
        "realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}},
        "sessionResumption": {},
    }


def test_frames_are_sent_unchanged() -> None:
    assert Endpoint().frame() == [SAID]


def test_manual_activity_begins_with_a_frame_and_ends_with_the_turn() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    assert endpoint.frame() == [START, SAID]
    assert endpoint.frame() == [SAID]
    assert sent(endpoint.dialect.end_turn(0)) == [END]
    assert sent(endpoint.dialect.end_turn(0)) == [START, END]
    endpoint.audio()
    assert sent(endpoint.dialect.interrupt("reply_1", 20, 0)) == [START]
    assert endpoint.frame() == [SAID]


def test_the_end_of_the_stream_is_sent_to_the_detector_which_interrupts_by_itself() -> None:
    endpoint = Endpoint()
    assert sent(endpoint.dialect.end_turn(0)) == [{"realtimeInput": {"audioStreamEnd": True}}]
    endpoint.audio()
    assert endpoint.dialect.interrupt("reply_1", 20, 0) == ()


# -- Events --


def test_the_session_reports_its_name() -> None:
    endpoint = Endpoint(ready=False)
    assert endpoint.say({"setupComplete": {"sessionId": "s-1"}}) == [SessionReady("s-1")]
    assert endpoint.say({"setupComplete": {}}) == []


def test_json_in_binary_frames_is_read() -> None:
    endpoint = Endpoint(ready=False)
    assert endpoint.dialect.received(b'{"setupComplete": {}}\n', 0) == [SessionReady()]


# -- Errors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (1007, "API key not valid. Please pass a valid API key.", FailureKind.AUTHENTICATION),
        (1007, "API key expired. Please renew the API key.", FailureKind.AUTHENTICATION),
        (
            1008,
            "Your API key was reported as leaked. Please use another API key.",
            FailureKind.AUTHENTICATION,
        ),
        (1008, "Method doesn't allow unregistered callers", FailureKind.AUTHENTICATION),
        (1011, "You exceeded your current quota, please check your plan", FailureKind.RATE_LIMITED),
        (1011, "Resource has been exhausted: RESOURCE_EXHAUSTED", FailureKind.RATE_LIMITED),
        (
            1008,
            "models/x is not found for API version v1beta, or is not supported for bidiGenerateContent.",
            FailureKind.UNKNOWN_MODEL,
        ),
        (1008, "Publisher model projects/p/x was not found", FailureKind.UNKNOWN_MODEL),
        (1011, "Deadline expired before operation could complete.", FailureKind.SESSION_EXPIRED),
        (
            1008,
            "Connection aborted because the client failed to close the connection after receiving a GoAway",
            FailureKind.SESSION_EXPIRED,
        ),
        (1008, "The operation was aborted.", FailureKind.SESSION_EXPIRED),
        (1007, "Request contains an invalid argument.", FailureKind.SESSION_REFUSED),
        (1008, "Requested entity was not found.", FailureKind.ENDPOINT_ERROR),
        (1011, "Internal error encountered.", FailureKind.ENDPOINT_ERROR),
        (None, "", FailureKind.CLOSED),
    ],
)
def test_a_close_is_reported_with_its_reason(code: int | None, reason: str, kind: FailureKind) -> None:
    (problem,) = Endpoint(ready=False).dialect.closed(code, reason, 0)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (kind, True)
    assert reason in problem.message


def test_a_close_after_the_reply_is_not_a_failure() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    endpoint.content(turnComplete=True)
    (problem,) = endpoint.dialect.closed(1011, "Deadline expired before operation could complete.", 0)
    assert isinstance(problem, EndpointProblem)
    assert not problem.fatal


def test_an_error_in_a_message_ends_the_session() -> None:
    endpoint = Endpoint()
    error = {"code": 8, "status": "RESOURCE_EXHAUSTED", "message": "Too much. Please retry in 800ms."}
    problem = of(EndpointProblem, endpoint.say({"error": error}))
    assert (problem.kind, problem.fatal, problem.retry_after_s) == (FailureKind.RATE_LIMITED, True, 0.8)
    refused = of(EndpointProblem, Endpoint(ready=False).say({"error": {"message": "No."}}))
    assert (refused.kind, refused.message) == (
        FailureKind.NO_SESSION,
        "the endpoint refused the session: No.",
    )


def test_finishing_is_no_failure() -> None:
    endpoint = Endpoint()
    assert endpoint.dialect.finish(0) == (Close(),)
    assert endpoint.dialect.closed(1000, "", 0) == ()


# -- Moves to another connection --


def test_a_move_waits_until_shortly_before_the_end() -> None:
    endpoint = Endpoint()
    endpoint.handle()
    assert endpoint.go_away("50s", at_ms=1_000) == [SetTimer("move to a new connection", 45_000 * MS)]
    endpoint.audio(at_ms=44_000)
    assert endpoint.moves(45_000) == [SetTimer("move to a new connection", 48_000 * MS)]
    endpoint.content(at_ms=46_000, turnComplete=True)
    assert isinstance(endpoint.moves(48_000)[-1], Reconnect)


@pytest.mark.parametrize("left", ["1.5s", "", "soon"])
def test_a_short_notice_moves_at_once(left: str) -> None:
    endpoint = Endpoint()
    endpoint.handle()
    assert isinstance(endpoint.go_away(left, at_ms=1_000)[-1], Reconnect)


def test_without_a_handle_the_session_just_ends() -> None:
    endpoint = Endpoint()
    endpoint.say({"sessionResumptionUpdate": {"resumable": False}})
    assert endpoint.go_away("10s") == []
    assert endpoint.moves(8_000) == []
    (problem,) = endpoint.dialect.closed(1000, "The operation was cancelled.", 10_000 * MS)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (FailureKind.SESSION_EXPIRED, True)
    assert "goAway" in problem.message


def test_a_handle_received_after_the_notice_is_used() -> None:
    endpoint = Endpoint()
    endpoint.go_away("10s")
    assert endpoint.handle(at_ms=2_000) == [SetTimer("move to a new connection", 4_000 * MS)]


def test_audio_since_the_handle_is_sent_again_on_the_new_connection() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.frame()
    endpoint.handle()  # the session that it resumes includes this frame
    endpoint.frame()
    assert isinstance(endpoint.go_away("1s")[-1], Reconnect)
    assert endpoint.frame() == []
    assert endpoint.audio() == []  # messages on the old connection are ignored
    resumed = sent(endpoint.dialect.opened(100 * MS))[0]["setup"]
    assert resumed == {**endpoint.setup, "sessionResumption": {"handle": "handle-1"}}
    assert endpoint.audio() == []
    assert sent(endpoint.dialect.end_turn(0)) == []
    assert sent(endpoint.say({"setupComplete": {}})) == [SAID, SAID, END]
    assert endpoint.frame() == [START, SAID]


def test_audio_that_was_answered_is_not_sent_again() -> None:
    endpoint = Endpoint()
    endpoint.handle()
    endpoint.frame()
    endpoint.audio()
    endpoint.content(turnComplete=True)
    endpoint.go_away("1s")
    endpoint.dialect.opened(0)
    assert endpoint.say({"setupComplete": {}}) == []


def test_a_reply_that_cannot_end_in_time_is_cut_off_and_its_question_sent_again() -> None:
    endpoint = Endpoint()
    endpoint.handle()
    endpoint.content(inputTranscription={"text": "Why?"})
    endpoint.audio()
    lost, done, problem, _ = endpoint.go_away("1s")
    assert lost == InputTranscript("", True, "user_1")
    assert isinstance(done, ResponseDone)
    assert done.status is ResponseStatus.CANCELLED
    assert isinstance(problem, EndpointProblem)
    assert not problem.fatal
    endpoint.dialect.opened(0)
    endpoint.say({"setupComplete": {}})
    again = of(InputTranscript, endpoint.content(inputTranscription={"text": "Why?"}))
    assert again.text == "Why?"
    assert again.item_id != "user_1"
    assert endpoint.audio()[0] == ResponseStarted("reply_2")


def test_a_session_that_cannot_be_resumed_has_expired() -> None:
    endpoint = Endpoint()
    endpoint.handle()
    endpoint.go_away("1s")
    endpoint.dialect.opened(0)
    (problem,) = endpoint.dialect.closed(1007, "Request contains an invalid argument.", 0)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.SESSION_EXPIRED


# -- The log -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["newHandle", "new_handle"])
def test_the_log_contains_no_handle_no_key_and_no_audio(spelling: str) -> None:
    endpoint = Endpoint()
    update = {"sessionResumptionUpdate": {spelling: "hush-hush-1", "resumable": True}}
    assert "hush-hush-1" not in json.dumps(endpoint.dialect.redact(json.dumps(update)))
    assert "hush-hush-1" not in json.dumps(endpoint.dialect.redact(json.dumps(update)[:-12]))
    assert "hush-hush-1" not in json.dumps(endpoint.dialect.redact(json.dumps(update).encode()))
    endpoint.handle("hush-hush-2")
    resumed = of(Send, endpoint.dialect.opened(0)).message
    assert endpoint.dialect.redact(resumed)["setup"]["sessionResumption"] == {"handle": "***"}
    (problem,) = endpoint.dialect.closed(1008, f"handle hush-hush-2 of {KEY} is unknown", 0)
    assert isinstance(problem, EndpointProblem)
    assert "hush" not in problem.message
    assert KEY not in problem.message
    said = of(Send, Endpoint().dialect.frame(FRAME, 0)).message
    assert endpoint.dialect.redact(said)["realtimeInput"]["audio"]["data"] == {"bytes": len(FRAME)}


def test_bytes_that_are_not_text_are_logged_with_replacements() -> None:
    logged = Endpoint().dialect.redact(b"\xff{")
    assert json.dumps(logged)
    assert logged["characters"] == 2
