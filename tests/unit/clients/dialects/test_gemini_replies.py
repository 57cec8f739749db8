"""Replies of Gemini Live: audio, transcripts, interruptions and ends."""

from __future__ import annotations

import pybase64
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.dialect import (
    EndpointProblem,
    InputTranscript,
    Interrupted,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
    UnknownEvent,
    Usage,
)
from live_eval.errors import FailureKind
from live_eval.timing import ResponseStatus
from tests.unit.clients.dialects.gemini_endpoint import Endpoint, of

BASE = "wss://generativelanguage.googleapis.com"


KEY = "AIzaSy-conformance-key"


PCM = Codec(CodecName.PCM16, 24_000)


MS = 1_000_000


FRAME = bytes(range(64)) * 10


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


def test_an_unspecified_status_is_ignored() -> None:
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


def test_late_audio_belongs_to_the_ended_reply() -> None:
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


def test_audio_beyond_the_grace_period_begins_another_reply() -> None:
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
    assert endpoint.content(turnComplete=True) == []  # no message confirms that the user was heard
    endpoint.say({"sessionResumptionUpdate": {}})  # JSON omits false values
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
    assert endpoint.dialect.closed(1000, "", 0) == ()  # already reported


@pytest.mark.parametrize("mime", ["audio/pcm;rate=24000", "audio/L16; codec=pcm; rate=24000"])
def test_both_names_of_pcm_are_known(mime: str) -> None:
    assert of(ReplyAudio, Endpoint().audio(mime=mime)).codec == PCM
