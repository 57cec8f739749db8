"""Gemini Live: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import json
from typing import Any

import pybase64
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.gemini_live import GeminiLive
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Interrupted,
    Output,
    Reconnect,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
    UnknownEvent,
    Usage,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import sent

BASE = "wss://generativelanguage.googleapis.com"
KEY = "AIzaSy-conformance-key"
SERVICE = "/ws/google.ai.generativelanguage.{}.GenerativeService.{}"
PCM = Codec(CodecName.PCM16, 24_000)
MS = 1_000_000
FRAME = bytes(range(64)) * 10
SAID = {
    "realtimeInput": {
        "audio": {"data": pybase64.b64encode_as_string(FRAME), "mimeType": "audio/pcm;rate=16000"}
    }
}
START: dict[str, Any] = {"realtimeInput": {"activityStart": {}}}
END: dict[str, Any] = {"realtimeInput": {"activityEnd": {}}}


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, base: str = BASE, key: str = KEY, **settings: Any) -> None:
        self.dialect = GeminiLive(EndpointSettings(base_url=base, key=Secret(key), **settings))
        self.setup = sent(self.dialect.opened(0))[0]["setup"]
        if ready:
            self.say({"setupComplete": {}})

    def say(self, message: dict[str, Any], at_ms: int = 0) -> list[Output]:
        return list(self.dialect.received(json.dumps(message), at_ms * MS))

    def content(self, at_ms: int = 0, **fields: Any) -> list[Output]:
        return self.say({"serverContent": fields}, at_ms)

    def audio(self, samples: int = 480, at_ms: int = 0, mime: str = "audio/pcm;rate=24000") -> list[Output]:
        data = pybase64.b64encode_as_string(bytes(2 * samples))
        return self.content(at_ms, modelTurn={"parts": [{"inlineData": {"mimeType": mime, "data": data}}]})

    def handle(self, handle: str = "handle-1", at_ms: int = 0) -> list[Output]:
        return self.say({"sessionResumptionUpdate": {"newHandle": handle, "resumable": True}}, at_ms)

    def go_away(self, left: str, at_ms: int = 0) -> list[Output]:
        return self.say({"goAway": {"timeLeft": left}}, at_ms)

    def frame(self) -> list[Any]:
        return sent(self.dialect.frame(FRAME, 0))

    def moves(self, at_ms: int) -> list[Output]:
        return list(self.dialect.timer("move to a new connection", at_ms * MS))


def of(kind: type, outputs: Any) -> Any:
    (output,) = [output for output in outputs if isinstance(output, kind)]
    return output


# -- Where, and with which credentials -----------------------------------------------------------------


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


def test_no_key_is_sent_without_one() -> None:
    dialect = GeminiLive(EndpointSettings(base_url="ws://127.0.0.1:80"))
    assert dialect.dial().headers == {}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base": "nothing"}, "expected an address"),
        ({"extra": {"api_version": 1}}, "api_version"),
        ({"turn_detection": {"type": "semantic_vad"}}, "one detector"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


# -- What is asked for ---------------------------------------------------------------------------------


def test_the_setup_is_what_the_sdk_writes() -> None:
    """google-genai 3.4 writes this for the same wishes, in snake case below the third level."""
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


# -- What is told --------------------------------------------------------------------------------------


def test_the_session_reports_its_name() -> None:
    endpoint = Endpoint(ready=False)
    assert endpoint.say({"setupComplete": {"sessionId": "s-1"}}) == [SessionReady("s-1")]
    assert endpoint.say({"setupComplete": {}}) == []


def test_json_in_binary_frames_is_read() -> None:
    endpoint = Endpoint(ready=False)
    assert endpoint.dialect.received(b'{"setupComplete": {}}\n', 0) == [SessionReady()]


def test_a_reply_begins_with_its_first_content_and_ends_with_the_turn() -> None:
    endpoint = Endpoint()
    assert endpoint.audio() == [ResponseStarted("reply_1"), ReplyAudio("reply_1", bytes(960), PCM)]
    assert endpoint.content(outputTranscription={"text": "Hi."}) == [ReplyText("reply_1", "Hi.")]
    usage = {
        "promptTokenCount": 400,
        "cachedContentTokenCount": 6,
        "responseTokenCount": 58,
        "thoughtsTokenCount": 20,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": 12},
            {"modality": "AUDIO", "tokenCount": 388},
        ],
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 58}],
    }
    outputs = endpoint.say({"serverContent": {"turnComplete": True}, "usageMetadata": usage})
    assert outputs == [
        ResponseDone("reply_1", ResponseStatus.COMPLETED, "", Usage(400, 78, 388, 58, 6)),
    ]
    assert endpoint.audio(at_ms=1_000)[0] == ResponseStarted("reply_2")


def test_missing_usage_is_none() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    assert of(ResponseDone, endpoint.content(turnComplete=True)).usage is None


def test_thoughts_and_text_parts_of_spoken_replies_are_ignored() -> None:
    endpoint = Endpoint()
    assert endpoint.content(modelTurn={"parts": [{"text": "**Thinking**", "thought": True}]}) == []
    assert endpoint.content(modelTurn={"parts": [{"text": "Hm."}]}) == []


@pytest.mark.parametrize("status", ["IDLE", "REQUIRES_ACTION"])
def test_with_a_status_a_turn_ends_only_when_the_model_is_idle(status: str) -> None:
    endpoint = Endpoint()
    endpoint.audio()
    assert endpoint.content(turnComplete=True, interactionStatus="IN_PROGRESS") == []
    assert endpoint.audio(at_ms=3_000) == [ReplyAudio("reply_1", bytes(960), PCM)]
    done = of(ResponseDone, endpoint.content(interactionStatus=status))
    assert done.status is ResponseStatus.COMPLETED


def test_an_unspecified_status_says_nothing() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    unspecified = "INTERACTION_STATUS_UNSPECIFIED"
    assert endpoint.content(interactionStatus=unspecified) == []
    assert of(ResponseDone, endpoint.content(turnComplete=True, interactionStatus=unspecified))


def test_an_interrupted_reply_is_cancelled_by_the_end_of_its_turn() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    stopped = endpoint.content(at_ms=900, interrupted=True)
    assert stopped == [Interrupted("reply_1"), SetTimer("silent after interruption", 5_900 * MS)]
    assert endpoint.dialect.interrupt("reply_1", 10, 900 * MS) == ()  # the endpoint knows
    outputs = endpoint.content(at_ms=950, turnComplete=True)
    assert outputs == [
        SetTimer("silent after interruption", None),
        ResponseDone("reply_1", ResponseStatus.CANCELLED, "interrupted"),
    ]
    assert endpoint.dialect.timer("silent after interruption", 5_900 * MS) == []


def test_audio_that_comes_late_is_of_the_reply_that_has_ended() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.content(at_ms=1_000, turnComplete=True)
    audio, late = endpoint.audio(at_ms=1_020)
    assert isinstance(audio, ReplyAudio)
    assert isinstance(late, EndpointProblem)
    assert (audio.response_id, late.kind, late.fatal) == ("reply_1", FailureKind.AUDIO_AFTER_DONE, False)
    (more,) = endpoint.audio(at_ms=1_500)  # reported once
    assert isinstance(more, ReplyAudio)
    assert endpoint.content(at_ms=1_600, turnComplete=True) == []


def test_audio_later_than_that_begins_another_reply() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.content(at_ms=1_000, turnComplete=True)
    assert of(ResponseStarted, endpoint.audio(at_ms=1_600)).response_id == "reply_2"
    assert of(ResponseDone, endpoint.content(at_ms=1_700, turnComplete=True)).response_id == "reply_2"


def test_audio_after_the_user_was_heard_again_begins_another_reply() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.content(at_ms=1_000, turnComplete=True)
    endpoint.say({"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}, at_ms=1_010)
    assert of(ResponseStarted, endpoint.audio(at_ms=1_020)).response_id == "reply_2"


def test_late_audio_is_late_for_half_a_second_at_most() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.content(at_ms=1_000, turnComplete=True)
    assert of(ReplyAudio, endpoint.audio(at_ms=1_400)).response_id == "reply_1"
    assert of(ReplyAudio, endpoint.audio(at_ms=1_800)).response_id == "reply_2"


def test_audio_after_the_user_spoke_over_a_reply_is_another_reply() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.say({"voiceActivity": {"voiceActivityType": "ACTIVITY_START"}}, at_ms=950)
    endpoint.content(at_ms=1_000, turnComplete=True)
    pieces = [of(ReplyAudio, endpoint.audio(at_ms=at_ms)) for at_ms in range(1_300, 3_000, 400)]
    assert {piece.response_id for piece in pieces} == {"reply_2"}
    assert of(ResponseDone, endpoint.content(at_ms=3_000, turnComplete=True)).response_id == "reply_2"


def test_audio_while_the_model_generates_again_is_another_reply() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.content(at_ms=1_000, turnComplete=True)
    endpoint.say({"sessionResumptionUpdate": {"resumable": False}}, at_ms=1_010)
    assert of(ReplyAudio, endpoint.audio(at_ms=1_020)).response_id == "reply_2"


def test_a_transcript_that_comes_during_the_reply_is_not_speech_over_it() -> None:
    endpoint = Endpoint()
    endpoint.audio(at_ms=900)
    endpoint.content(at_ms=950, inputTranscription={"text": "What time is it?"})
    endpoint.content(at_ms=1_000, turnComplete=True)
    assert of(ReplyAudio, endpoint.audio(at_ms=1_020)).response_id == "reply_1"


def test_a_turn_that_ends_without_content_is_an_empty_reply_if_the_model_was_at_work() -> None:
    endpoint = Endpoint()
    assert endpoint.content(turnComplete=True) == []  # nothing says that the user was heard
    endpoint.say({"sessionResumptionUpdate": {}})  # JSON leaves out what is false
    done = of(ResponseDone, endpoint.content(turnComplete=True))
    assert (done.response_id, done.status) == ("reply_1", ResponseStatus.COMPLETED)
    assert endpoint.content(turnComplete=True) == []
    endpoint = Endpoint()
    endpoint.say({"sessionResumptionUpdate": {}})
    endpoint.handle()
    assert endpoint.content(turnComplete=True) == []


def test_silence_after_an_interruption_ends_the_reply() -> None:
    endpoint = Endpoint()
    endpoint.audio()
    endpoint.content(interrupted=True)
    outputs = endpoint.dialect.timer("silent after interruption", 5_000 * MS)
    assert of(ResponseDone, outputs).status is ResponseStatus.CANCELLED
    assert endpoint.content(at_ms=6_000, turnComplete=True) == []


def test_an_interruption_before_the_model_speaks_begins_no_reply() -> None:
    endpoint = Endpoint()
    endpoint.content(inputTranscription={"text": "Wait"})
    assert endpoint.content(interrupted=True) == []
    assert endpoint.content(turnComplete=True) == []


@pytest.mark.parametrize(
    ("samples", "reason", "status"),
    [
        (480, "GENERATED_AUDIO_SAFETY", ResponseStatus.INCOMPLETE),
        (0, "RESPONSE_REJECTED", ResponseStatus.FAILED),
        (480, "NEED_MORE_INPUT", ResponseStatus.COMPLETED),
    ],
)
def test_the_reason_of_an_end_is_a_status(samples: int, reason: str, status: ResponseStatus) -> None:
    endpoint = Endpoint()
    endpoint.content(inputTranscription={"text": "Hm."})
    if samples:
        endpoint.audio(samples)
    done = of(ResponseDone, endpoint.content(turnComplete=True, turnCompleteReason=reason))
    assert done.status is status
    assert done.reason == ("" if status is ResponseStatus.COMPLETED else reason)


def test_the_detector_of_older_models_reports_speech() -> None:
    endpoint = Endpoint()
    heard = {"voiceActivityType": "ACTIVITY_START", "audioOffset": "1.250s"}
    assert endpoint.say({"voiceActivity": heard}) == [SpeechStarted(1_250)]
    assert endpoint.say({"voiceActivity": {"voiceActivityType": "ACTIVITY_END"}}) == [SpeechStopped()]
    signal = {"vadSignalType": "VAD_SIGNAL_TYPE_SOS"}
    assert endpoint.say({"voiceActivityDetectionSignal": signal}) == [SpeechStarted()]


def test_the_input_transcript_is_complete_when_the_turn_ends() -> None:
    endpoint = Endpoint()
    assert endpoint.content(inputTranscription={"text": " Good"}) == [
        InputTranscript("Good", False, "user_1")
    ]
    assert endpoint.content(inputTranscription={"text": " day."}) == [
        InputTranscript(" day.", False, "user_1")
    ]
    endpoint.audio()
    whole = InputTranscript("Good day.", True, "user_1")
    assert of(InputTranscript, endpoint.content(turnComplete=True)) == whole


def test_a_transcript_marked_as_complete_is_reported_once() -> None:
    endpoint = Endpoint()
    endpoint.content(inputTranscription={"text": "Good"})
    outputs = endpoint.content(inputTranscription={"text": " day.", "finished": True})
    assert outputs == [InputTranscript("Good day.", True, "user_1")]
    endpoint.audio()
    assert [type(output) for output in endpoint.content(turnComplete=True)] == [ResponseDone]


def test_unusable_fields_are_reported_and_the_rest_is_used() -> None:
    endpoint = Endpoint()
    data = pybase64.b64encode_as_string(bytes(4))
    parts = [
        {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "?"}},
        {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}},
    ]
    outputs = endpoint.content(modelTurn={"parts": parts}, newThing=1)
    assert of(EndpointProblem, outputs).kind is FailureKind.MALFORMED_MESSAGE
    assert of(ReplyAudio, outputs).data == bytes(4)
    assert of(UnknownEvent, outputs).type == "serverContent.newThing"
    assert of(UnknownEvent, endpoint.say({f"new {KEY}": 1})).type == "new ***"


@pytest.mark.parametrize(
    ("mime", "kind"),
    [
        ("audio/pcm;rate=16000", FailureKind.WRONG_RATE),
        ("audio/pcm; rate=x", FailureKind.WRONG_RATE),
        ("audio/pcm", FailureKind.WRONG_RATE),
        ("audio/ogg", FailureKind.MALFORMED_AUDIO),
    ],
)
def test_undocumented_audio_is_rejected(mime: str, kind: FailureKind) -> None:
    endpoint = Endpoint()
    (problem,) = endpoint.audio(mime=mime)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (kind, True)
    assert mime in problem.message
    assert endpoint.dialect.closed(1000, "", 0) == ()  # told already


@pytest.mark.parametrize("mime", ["audio/pcm;rate=24000", "audio/L16; codec=pcm; rate=24000"])
def test_both_names_of_pcm_are_known(mime: str) -> None:
    assert of(ReplyAudio, Endpoint().audio(mime=mime)).codec == PCM


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
        (1007, "Request contains an invalid argument.", FailureKind.NO_SESSION),
        (1008, "Requested entity was not found.", FailureKind.ENDPOINT_ERROR),
        (1011, "Internal error encountered.", FailureKind.ENDPOINT_ERROR),
        (None, "", FailureKind.CLOSED),
    ],
)
def test_a_close_is_named_by_its_reason(code: int | None, reason: str, kind: FailureKind) -> None:
    (problem,) = Endpoint(ready=False).dialect.closed(code, reason, 0)
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal) == (kind, True)
    assert reason in problem.message


def test_a_close_after_the_reply_is_no_failure() -> None:
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
    assert (refused.kind, refused.message) == (FailureKind.NO_SESSION, "the session was refused: No.")


def test_finishing_is_no_failure() -> None:
    endpoint = Endpoint()
    assert endpoint.dialect.finish(0) == (Close(),)
    assert endpoint.dialect.closed(1000, "", 0) == ()


# -- Going on over another connection ------------------------------------------------------------------


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


def test_a_handle_that_comes_after_the_notice_is_used() -> None:
    endpoint = Endpoint()
    endpoint.go_away("10s")
    assert endpoint.handle(at_ms=2_000) == [SetTimer("move to a new connection", 4_000 * MS)]


def test_audio_since_the_handle_is_sent_again_on_the_new_connection() -> None:
    endpoint = Endpoint(turn_mode=TurnMode.MANUAL)
    endpoint.frame()
    endpoint.handle()  # it restores this frame
    endpoint.frame()
    assert isinstance(endpoint.go_away("1s")[-1], Reconnect)
    assert endpoint.frame() == []
    assert endpoint.audio() == []  # the old connection is not heard any more
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
def test_the_log_holds_no_handle_no_key_and_no_audio(spelling: str) -> None:
    endpoint = Endpoint()
    update = {"sessionResumptionUpdate": {spelling: "hush-1", "resumable": True}}
    assert "hush-1" not in json.dumps(endpoint.dialect.redact(json.dumps(update)))
    assert "hush-1" not in json.dumps(endpoint.dialect.redact(json.dumps(update)[:-12]))
    assert "hush-1" not in json.dumps(endpoint.dialect.redact(json.dumps(update).encode()))
    endpoint.handle("hush-2")
    resumed = of(Send, endpoint.dialect.opened(0)).message
    assert endpoint.dialect.redact(resumed)["setup"]["sessionResumption"] == {"handle": "***"}
    (problem,) = endpoint.dialect.closed(1008, f"handle hush-2 of {KEY} is unknown", 0)
    assert isinstance(problem, EndpointProblem)
    assert "hush" not in problem.message
    assert KEY not in problem.message
    said = of(Send, Endpoint().dialect.frame(FRAME, 0)).message
    assert endpoint.dialect.redact(said)["realtimeInput"]["audio"]["data"] == {"bytes": len(FRAME)}


def test_bytes_that_are_not_text_are_logged_with_replacements() -> None:
    logged = Endpoint().dialect.redact(b"\xff{")
    assert json.dumps(logged)
    assert logged["characters"] == 2
