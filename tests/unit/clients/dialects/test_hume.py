"""Hume EVI: what it sends and reports. Whole sessions are in tests/conformance and tests/loopback."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.hume import HumeEvi
from live_eval.dialect import (
    Close,
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
    SpeechStarted,
    SpeechStopped,
    UnknownEvent,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import problem

BASE = "wss://api.hume.ai/v0/evi"
KEY = "hume-5b1e77"
MS = 1_000_000
WAV = Codec(CodecName.WAV, 48_000)


def wav(length_ms: int = 20, rate_hz: int = 48_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.full(rate_hz * length_ms // 1000, 900, np.int16), rate_hz, format="WAV")
    return file.getvalue()


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, ready: bool = True, **settings: Any) -> None:
        self.dialect = HumeEvi(EndpointSettings(base_url=BASE, key=Secret(KEY), **settings))
        (self.start,) = self.dialect.opened(0)
        if ready:
            self.say("chat_metadata", chat_id="chat_1", chat_group_id="group_1")

    def say(self, kind: str, at_ms: int = 0, **fields: Any) -> list[Output]:
        return list(self.dialect.received(json.dumps({"type": kind, **fields}), at_ms * MS))

    def user(self, text: str, *, interim: bool = False, from_text: bool = False) -> list[Output]:
        message = {"role": "user", "content": text}
        time = {"begin": 320, "end": 700}
        return self.say("user_message", interim=interim, from_text=from_text, message=message, time=time)

    def assistant(self, text: str, name: str = "s1") -> list[Output]:
        return self.say("assistant_message", id=name, message={"role": "assistant", "content": text})

    def audio(self, at_ms: int = 0, name: str = "s1", data: bytes | None = None) -> list[Output]:
        sound = base64.b64encode(wav() if data is None else data).decode()
        return self.say("audio_output", at_ms, id=name, index=0, data=sound)

    def error(self, **error: Any) -> list[Output]:
        return self.say("error", **error)


def sent(output: Output) -> Any:
    assert isinstance(output, Send)
    return json.loads(output.message)


# -- What is asked for ---------------------------------------------------------------------------------


def test_the_key_is_a_header_and_the_configuration_is_in_the_query() -> None:
    extra = {"config_id": "c-1", "config_version": 2, "allow_connection": False}
    dial = Endpoint(extra=extra).dialect.dial()
    address, _, query = dial.url.partition("?")
    assert address == "wss://api.hume.ai/v0/evi/chat"
    assert sorted(query.split("&")) == [
        "allow_connection=false",
        "config_id=c-1",
        "config_version=2",
        "verbose_transcription=true",
    ]
    assert dial.headers == {"X-Hume-Api-Key": KEY}
    assert HumeEvi(EndpointSettings(base_url=BASE)).dial().headers == {}


def test_the_settings_are_sent_as_soon_as_the_connection_is_open() -> None:
    extra = {"config_id": "c-1", "variables": {"name": "Ada"}}
    endpoint = Endpoint(ready=False, instructions="Be brief.", voice="v-1", extra=extra)
    assert sent(endpoint.start) == {
        "type": "session_settings",
        "audio": {"encoding": "linear16", "sample_rate": 24_000, "channels": 1},
        "system_prompt": "Be brief.",
        "voice_id": "v-1",
        "variables": {"name": "Ada"},
    }


def test_a_frame_is_sent_unchanged() -> None:
    dialect = Endpoint().dialect
    (frame,) = dialect.frame(b"\x01\x02\x03\x04", 0)
    assert sent(frame) == {"type": "audio_input", "data": "AQIDBA=="}
    assert dialect.needs_continuous_input
    assert not dialect.continuous_media
    assert dialect.end_turn(0) == ()
    assert dialect.interrupt("reply_1", 20, 0) == ()
    assert dialect.timer("any", 0) == ()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modality": Modality.TEXT}, "endpoint.modality"),
        ({"turn_mode": TurnMode.MANUAL}, "turns.mode"),
        ({"model": "evi-3"}, "endpoint.model: .*endpoint.extra.config_id"),
        ({"turn_detection": {"threshold": 0.5}}, "endpoint.turn_detection"),
        ({"max_output_tokens": 100}, "endpoint.max_output_tokens"),
        ({"extra": {"audio": {"sample_rate": 16_000}}}, "endpoint.extra.audio: expected"),
        ({"extra": {"config_id": ["c-1"]}}, "endpoint.extra.config_id: expected text"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


# -- A turn --------------------------------------------------------------------------------------------


def test_the_metadata_make_the_session_ready_once() -> None:
    endpoint = Endpoint(ready=False)
    early = problem(endpoint.user("Hello"))
    assert (early.kind, early.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert endpoint.say("chat_metadata", chat_id="chat_1") == [SessionReady("chat_1")]
    assert endpoint.say("chat_metadata", chat_id="chat_1") == []


def test_speech_begins_with_the_first_interim_transcript_and_is_accepted_with_the_final_one() -> None:
    endpoint = Endpoint()
    assert endpoint.user(" ", interim=True) == []
    assert endpoint.user("What", interim=True) == [SpeechStarted(320)]
    assert endpoint.user("What time", interim=True) == []
    assert endpoint.user("What time is it?") == [
        SpeechStopped(item_id="user_1"),
        Committed("user_1"),
        InputTranscript("What time is it?", True, "user_1"),
    ]
    assert endpoint.user("And in Tokyo?", interim=True) == [SpeechStarted(320)]
    assert endpoint.user("A text", from_text=True) == []


def test_a_reply_has_as_many_sentences_as_come_before_its_end() -> None:
    endpoint = Endpoint()
    assert endpoint.assistant("It is ten.") == [
        ResponseStarted("reply_1"),
        ReplyText("reply_1", "It is ten.", final=True),
    ]
    assert endpoint.say("assistant_prosody", id="s1", models={}) == []
    assert endpoint.audio() == [ReplyAudio("reply_1", wav(), WAV, "s1")]
    assert endpoint.assistant("Good night.", "s2") == [ReplyText("reply_1", "Good night.", final=True)]
    assert endpoint.audio(name="s2") == [ReplyAudio("reply_1", wav(), WAV, "s2")]
    assert endpoint.say("assistant_end") == [
        ReplyAudioDone("reply_1"),
        ResponseDone("reply_1", ResponseStatus.COMPLETED),
    ]
    assert endpoint.say("assistant_end") == []
    assert endpoint.assistant("Hello?", "s3")[0] == ResponseStarted("reply_2")


def test_audio_may_arrive_before_its_text() -> None:
    endpoint = Endpoint()
    assert endpoint.audio() == [
        ResponseStarted("reply_1"),
        ReplyAudio("reply_1", wav(), WAV, "s1"),
    ]
    assert endpoint.assistant("Ten.") == [ReplyText("reply_1", "Ten.", final=True)]


def test_an_interruption_cancels_the_reply_and_late_messages_still_belong_to_it() -> None:
    endpoint = Endpoint()
    endpoint.assistant("It is ten.")
    endpoint.audio()
    assert endpoint.say("user_interruption", time=1) == [
        SpeechStarted(),
        Interrupted("reply_1"),
        ResponseDone("reply_1", ResponseStatus.CANCELLED, "user_interruption"),
    ]
    assert endpoint.audio() == [ReplyAudio("reply_1", wav(), WAV, "s1")]
    assert endpoint.say("assistant_end") == []
    assert endpoint.say("user_interruption", time=1) == []
    assert endpoint.assistant("Yes?", "s2")[0] == ResponseStarted("reply_2")


@pytest.mark.parametrize(("at_ms", "stops"), [(90, True), (110, False)])
def test_an_interruption_after_the_end_stops_what_still_plays(at_ms: int, stops: bool) -> None:
    endpoint = Endpoint()
    endpoint.audio(0, data=wav(100))
    endpoint.say("assistant_end", 10)
    expected: list[Output] = [SpeechStarted(), *([Interrupted("reply_1")] if stops else [])]
    assert endpoint.say("user_interruption", at_ms, time=1) == expected


def test_an_interruption_without_a_reply_is_speech() -> None:
    endpoint = Endpoint()
    endpoint.user("Well", interim=True)
    assert endpoint.say("user_interruption", time=1) == []


# -- Failures --


def test_audio_at_another_rate_is_a_named_failure() -> None:
    wrong = problem(Endpoint().audio(data=wav(rate_hz=24_000)))
    assert (wrong.kind, wrong.fatal) == (FailureKind.WRONG_RATE, True)
    assert wrong.message == "expected audio at 48000 Hz, got a WAV file at 24000 Hz"


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("audio_output", {"id": "s1", "data": "not base64!"}, "audio_output: expected base64 in 'data'"),
        ("audio_output", {"id": "s1"}, "audio_output: expected a string in 'data', got nothing"),
        (
            "audio_output",
            {"id": "s1", "data": "AAAA"},
            "audio_output: expected a WAV file, got 3 invalid bytes",
        ),
        ("user_message", {"message": "hello"}, "user_message: expected an object in 'message'"),
        ("chat_metadata", {"chat_id": 7}, "chat_metadata: expected a string in 'chat_id'"),
    ],
)
def test_unreadable_messages_are_reported(kind: str, fields: dict[str, Any], words: str) -> None:
    outputs = Endpoint(ready=kind != "chat_metadata").say(kind, **fields)
    told = outputs[-1]
    assert isinstance(told, EndpointProblem)
    assert (told.kind, told.fatal) == (FailureKind.MALFORMED_MESSAGE, False)
    assert words in told.message


@pytest.mark.parametrize("message", ["{", "[]", b"\x00", '{"kind": "x"}'])
def test_input_that_is_not_a_message_is_reported(message: str | bytes) -> None:
    told = problem(list(Endpoint().dialect.received(message, 0)))
    assert told.kind is FailureKind.MALFORMED_MESSAGE


def test_unknown_and_ignored_messages() -> None:
    endpoint = Endpoint()
    assert endpoint.say("assistant_dance") == [UnknownEvent("assistant_dance")]
    assert endpoint.say("tool_response") == []
    assert endpoint.say("session_settings") == []
    assert endpoint.say("tool_call", name="web_search", response_required=False) == []
    called, answer = endpoint.say("tool_call", name="get_weather", tool_call_id="t1", response_required=True)
    assert "called the tool 'get_weather', which this client cannot run" in problem([called]).message
    error = '{"type":"tool_error","tool_call_id":"t1","error":"this client has no tools"}'
    assert answer == Send(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "E0300", "slug": "out_of_credits", "message": "Exhausted."}, FailureKind.RATE_LIMITED),
        ({"code": "E0301", "slug": "usage_limit", "message": "Monthly."}, FailureKind.RATE_LIMITED),
        (
            {"code": "E0713", "slug": "x", "message": "Too many active chats."},
            FailureKind.RATE_LIMITED,
        ),
        ({"code": "E0714", "slug": "inactivity_timeout", "message": "Bye."}, FailureKind.SESSION_EXPIRED),
        ({"code": "E0715", "slug": "max_duration_timeout", "message": ""}, FailureKind.SESSION_EXPIRED),
        ({"code": "E0700", "slug": "x", "message": "Invalid API key."}, FailureKind.AUTHENTICATION),
    ],
)
def test_errors_that_end_the_chat(error: dict[str, str], kind: FailureKind) -> None:
    endpoint = Endpoint()
    told = problem(endpoint.error(**error))
    assert (told.kind, told.fatal, told.code) == (kind, True, error["code"])
    assert told.message.startswith(f"{error['code']}: {error['slug']}")
    assert endpoint.dialect.closed(1000, "", 0) == ()


def test_an_error_before_the_chat_began_refused_it() -> None:
    told = problem(Endpoint(ready=False).error(code="E0704", slug="config_not_found", message="No."))
    assert (told.kind, told.fatal) == (FailureKind.SESSION_REFUSED, True)
    said = "the endpoint refused the chat: E0704: config_not_found: No."
    assert told.message == f"{said}; check the voice and endpoint.extra"
    broken = problem(Endpoint(ready=False).error(code="E0500", slug="x", message="Internal error."))
    assert broken.kind is FailureKind.SERVER_ERROR


def test_other_errors_count_if_the_connection_ends_after_them() -> None:
    endpoint = Endpoint()
    told = problem(endpoint.error(code="E0705", slug="x", message=f"broken {KEY}"))
    assert (told.kind, told.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert told.message == "E0705: x: broken ***"
    end = problem(list(endpoint.dialect.closed(1011, "", 0)))
    assert (end.kind, end.fatal) == (FailureKind.ENDPOINT_ERROR, True)
    assert end.message.endswith("after E0705: x: broken ***")


def test_an_error_followed_by_an_answer_is_discarded() -> None:
    endpoint = Endpoint()
    endpoint.error(code="E0101", slug="x", message="What?")
    endpoint.audio()
    endpoint.say("assistant_end")
    end = problem(list(endpoint.dialect.closed(1000, "", 0)))
    assert (end.kind, end.fatal) == (FailureKind.CLOSED, False)


def test_an_error_of_another_shape_is_an_error() -> None:
    told = Endpoint().error(code=7)[0]
    assert isinstance(told, EndpointProblem)
    assert told.message == "an error without details"


@pytest.mark.parametrize(
    ("ready", "reason", "kind", "fatal"),
    [
        (True, "", FailureKind.CLOSED, False),
        (False, "", FailureKind.CLOSED, True),
        (True, "Chat timed out due to inactivity", FailureKind.SESSION_EXPIRED, True),
        (True, "Maximum chat duration reached", FailureKind.SESSION_EXPIRED, True),
    ],
)
def test_what_the_end_of_a_connection_means(ready: bool, reason: str, kind: FailureKind, fatal: bool) -> None:
    end = problem(list(Endpoint(ready=ready).dialect.closed(1000, reason, 0)))
    assert (end.kind, end.fatal) == (kind, fatal)


def test_the_end_is_not_reported_after_finishing() -> None:
    dialect = Endpoint().dialect
    assert list(dialect.finish(0)) == [Close()]
    assert dialect.closed(1000, "", 0) == ()


# -- The log -------------------------------------------------------------------------------------------


def logged() -> Iterator[tuple[str | bytes, dict[str, Any]]]:
    yield '{"type": "audio_input", "data": "AQIDBA=="}', {"type": "audio_input", "data": {"bytes": 4}}
    yield (
        '{"type": "session_settings", "language_model_api_key": "sk-1"}',
        {"type": "session_settings", "language_model_api_key": "***"},
    )
    yield f'{{"type": "error", "message": "{KEY}"}}', {"type": "error", "message": "***"}
    yield "{", {"raw": "{", "characters": 1}
    yield b"\x00", {"raw": "\x00", "characters": 1}


@pytest.mark.parametrize(("message", "body"), list(logged()))
def test_the_log_contains_no_audio_and_no_key(message: str | bytes, body: dict[str, Any]) -> None:
    assert Endpoint().dialect.redact(message) == body
