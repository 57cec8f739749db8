"""Chat completions with audio: requests and answers. Whole sessions are in tests/conformance."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile
from openai.types.chat import completion_create_params
from pydantic import TypeAdapter

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.openai_chat_audio import OpenAIChatAudio
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
    UnknownEvent,
    Usage,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import problem

BASE = "https://api.openai.com/v1"
KEY = "sk-proj-1a2b3c"
ID = "chatcmpl-1"
PCM = Codec(CodecName.PCM16, 24_000)
SECOND = 1_000_000_000
REQUEST: TypeAdapter[Any] = TypeAdapter(completion_create_params.CompletionCreateParamsStreaming)


class Endpoint:
    """Plays the endpoint to a dialect."""

    def __init__(self, *, asked: bool = True, **settings: Any) -> None:
        given = {"model": "gpt-audio", "turn_mode": TurnMode.MANUAL, **settings}
        self.dialect = OpenAIChatAudio(EndpointSettings(base_url=BASE, key=Secret(KEY), **given))
        self.request: Any = None
        if asked:
            self.ask(b"\x01\x02", b"\x03\x04")

    def ask(self, *frames: bytes) -> None:
        assert self.dialect.opened(0) == (SessionReady(),)
        for frame in frames:
            assert self.dialect.frame(frame, 0) == ()
        (request,) = self.dialect.end_turn(0)
        assert isinstance(request, Send)
        self.request = json.loads(request.message)

    def say(self, event: object, at_s: int = 0) -> list[Output]:
        text = event if isinstance(event, str | bytes) else json.dumps(event)
        return list(self.dialect.received(text, at_s * SECOND))

    def chunk(self, delta: dict[str, Any], finish: str | None = None, **more: Any) -> list[Output]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return self.say({"id": ID, "object": "chat.completion.chunk", "choices": [choice], **more})

    def whole(self, *messages: dict[str, Any], finish: str = "stop") -> list[Output]:
        choices = [{"index": 0, "message": said, "finish_reason": finish} for said in messages]
        return self.say({"id": ID, "object": "chat.completion", "choices": choices})


def audio(data: bytes, **more: Any) -> dict[str, Any]:
    return {"audio": {"id": "audio_1", "data": base64.b64encode(data).decode(), **more}}


def wav(rate_hz: int = 16_000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.full(80, 900, np.int16), rate_hz, format="WAV")
    return file.getvalue()


def ended(outputs: list[Output]) -> ResponseDone:
    done = outputs[-1]
    assert isinstance(done, ResponseDone)
    return done


# -- The request ---------------------------------------------------------------------------------------


def test_the_request_is_one_post_with_the_recording() -> None:
    endpoint = Endpoint(voice="marin", instructions="Be brief.", max_output_tokens=50)
    REQUEST.validate_python(endpoint.request)
    messages = endpoint.request.pop("messages")
    assert endpoint.request == {
        "model": "gpt-audio",
        "modalities": ["text", "audio"],
        "audio": {"format": "pcm16", "voice": "marin"},
        "max_completion_tokens": 50,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert messages[0] == {"role": "system", "content": "Be brief."}
    (heard,) = messages[1]["content"]
    assert heard["input_audio"]["format"] == "wav"
    recording = io.BytesIO(base64.b64decode(heard["input_audio"]["data"]))
    samples, rate_hz = soundfile.read(recording, dtype="int16")
    assert rate_hz == 24_000
    assert samples.tolist() == [0x0201, 0x0403]


def test_the_request_is_sent_once_and_later_frames_are_ignored() -> None:
    dialect = Endpoint().dialect
    assert dialect.end_turn(0) == ()
    assert dialect.frame(b"\x05\x06", 0) == ()
    assert dialect.interrupt(ID, 20, 0) == ()
    assert not dialect.needs_continuous_input
    assert not dialect.continuous_media


def test_the_url_and_the_key() -> None:
    dial = Endpoint().dialect.dial()
    assert dial.url == "https://api.openai.com/v1/chat/completions"
    assert dial.headers["Authorization"] == f"Bearer {KEY}"
    keyless = OpenAIChatAudio(EndpointSettings(base_url="http://h/v1", turn_mode=TurnMode.MANUAL))
    assert "Authorization" not in keyless.dial().headers


def test_text_is_requested_without_audio_and_extra_is_merged() -> None:
    endpoint = Endpoint(modality=Modality.TEXT, extra={"temperature": 0.2, "stream": False})
    assert endpoint.request["modalities"] == ["text"]
    assert "audio" not in endpoint.request
    assert (endpoint.request["temperature"], endpoint.request["stream"]) == (0.2, False)
    assert "stream_options" not in endpoint.request
    assert [message["role"] for message in endpoint.request["messages"]] == ["user"]


def test_wav_can_be_requested_for_servers_that_support_only_wav() -> None:
    assert Endpoint(extra={"audio": {"format": "wav"}}).request["audio"] == {"format": "wav"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"turn_mode": TurnMode.SERVER_VAD}, "turns.mode: expected 'manual' .* got 'server_vad'"),
        ({"turn_detection": {"threshold": 0.5}}, "endpoint.turn_detection"),
        ({"extra": {"audio": {"format": "mp3"}}}, "endpoint.extra.audio.format: .*, got 'mp3'"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


# -- The answer ----------------------------------------------------------------------------------------


def test_a_stream_is_reported_as_it_arrives() -> None:
    endpoint = Endpoint()
    assert endpoint.chunk({"role": "assistant", "audio": {"id": "audio_1", "transcript": "It is"}}) == [
        ResponseStarted(ID),
        ReplyText(ID, "It is", final=False),
    ]
    assert endpoint.chunk(audio(b"\x01\x02")) == [ReplyAudio(ID, b"\x01\x02", PCM, "audio_1")]
    assert endpoint.chunk({}, "stop") == [SetTimer("no [DONE]", 2 * SECOND)]
    usage = {
        "prompt_tokens": 29,
        "completion_tokens": 41,
        "prompt_tokens_details": {"audio_tokens": 18, "cached_tokens": 3},
        "completion_tokens_details": {"audio_tokens": 30},
    }
    assert endpoint.say({"id": ID, "object": "chat.completion.chunk", "choices": [], "usage": usage}) == [
        SetTimer("no [DONE]", 2 * SECOND)
    ]
    assert endpoint.say("[DONE]") == [
        SetTimer("no [DONE]", None),
        ReplyAudioDone(ID),
        ResponseDone(ID, ResponseStatus.COMPLETED, "", Usage(29, 41, 18, 30, 3)),
    ]
    assert endpoint.chunk(audio(b"\x01\x02")) == []
    assert endpoint.say("[DONE]") == []


def test_a_server_that_omits_the_end() -> None:
    endpoint = Endpoint()
    assert endpoint.dialect.timer("no [DONE]", 0) == ()
    endpoint.chunk(audio(b"\x01\x02"), "stop")
    told = list(endpoint.dialect.timer("no [DONE]", 2 * SECOND))
    assert ended(told).status is ResponseStatus.COMPLETED


def test_the_end_of_the_text_does_not_end_an_answer_that_has_not_spoken() -> None:
    """vLLM-Omni may send the text's finish_reason seconds before the first audio."""
    assert Endpoint().chunk({"content": "It is ten."}, "stop") == [
        ResponseStarted(ID),
        ReplyText(ID, "It is ten.", final=False),
    ]
    silent = Endpoint(modality=Modality.TEXT).chunk({"content": "It is ten."}, "stop")
    assert silent[-1] == SetTimer("no [DONE]", 2 * SECOND)


@pytest.mark.parametrize("finish", ["length", "content_filter", "tool_calls"])
def test_any_other_end_is_incomplete(finish: str) -> None:
    endpoint = Endpoint()
    endpoint.chunk(audio(b"\x01\x02"), finish)
    done = ended(endpoint.say("[DONE]"))
    assert (done.status, done.reason) == (ResponseStatus.INCOMPLETE, finish)


def test_an_end_without_a_reason_is_incomplete() -> None:
    endpoint = Endpoint()
    endpoint.chunk(audio(b"\x01\x02"))
    done = ended(endpoint.say("[DONE]"))
    assert (done.status, done.reason) == (ResponseStatus.INCOMPLETE, "no finish_reason")


def test_a_refusal_is_a_text() -> None:
    assert ReplyText(ID, "I cannot.", final=False) in Endpoint().chunk({"refusal": "I cannot."})


@pytest.mark.parametrize(
    ("data", "codec"),
    [
        (b"\x01\x02", PCM),
        (wav(), Codec(CodecName.WAV, 16_000)),
        (wav(44_100), Codec(CodecName.WAV, 44_100)),
    ],
)
def test_a_server_that_does_not_stream(data: bytes, codec: Codec) -> None:
    message = {"role": "assistant", "content": None, **audio(data, transcript="Ten.")}
    assert Endpoint().whole(message) == [
        ResponseStarted(ID),
        ReplyAudio(ID, data, codec, "audio_1"),
        ReplyText(ID, "Ten.", final=True),
        SetTimer("no [DONE]", None),
        ReplyAudioDone(ID),
        ResponseDone(ID, ResponseStatus.COMPLETED),
    ]


def test_text_and_audio_may_come_as_a_choice_each() -> None:
    told = Endpoint().whole({"content": "Ten."}, audio(wav(), transcript=""))
    assert ReplyText(ID, "Ten.", final=True) in told
    assert ReplyAudio(ID, wav(), Codec(CodecName.WAV, 16_000), "audio_1") in told
    assert sum(isinstance(event, ResponseDone) for event in told) == 1


def omni(content: object, rate_hz: object) -> dict[str, Any]:
    """Return an audio event of vLLM-Omni."""
    choice = {"index": 0, "delta": {"content": content}, "audio_metadata": {"sample_rate_hz": rate_hz}}
    return {"id": ID, "object": "chat.completion.chunk", "modality": "audio", "choices": [choice]}


@pytest.mark.parametrize(("told_hz", "rate_hz"), [(44_100, 44_100), (None, 24_000)])
def test_vllm_omni_sends_audio_as_content_of_its_own_events(told_hz: int | None, rate_hz: int) -> None:
    endpoint = Endpoint()
    assert endpoint.chunk({"content": "Ten."}, modality="text")[-1] == ReplyText(ID, "Ten.", final=False)
    event = omni(base64.b64encode(b"\x01\x02").decode(), told_hz)
    assert endpoint.say(event) == [ReplyAudio(ID, b"\x01\x02", Codec(CodecName.PCM16, rate_hz), None)]
    assert endpoint.say(omni("", told_hz)) == []


# -- Failures --


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (
            {"error": {"message": f"bad {KEY}", "type": "server_error", "code": None}},
            FailureKind.ENDPOINT_ERROR,
            "server_error: bad ***",
        ),
        (
            {"error": {"message": "Slow down. Please try again in 2.5s.", "code": "rate_limit_exceeded"}},
            FailureKind.RATE_LIMITED,
            "rate_limit_exceeded: Slow down.",
        ),
        ({"error": {"message": "Provider", "code": 429}}, FailureKind.RATE_LIMITED, "Provider"),
        ({"error": {"message": "No.", "code": 401}}, FailureKind.AUTHENTICATION, "No."),
        ({"error": {"code": "model_not_found"}}, FailureKind.UNKNOWN_MODEL, "model_not_found"),
        ({"error": "broken"}, FailureKind.ENDPOINT_ERROR, "broken"),
        ({"error": {}}, FailureKind.ENDPOINT_ERROR, "without details"),
        ({"object": "error", "message": "Too long.", "code": 400}, FailureKind.ENDPOINT_ERROR, "Too long."),
    ],
)
def test_an_error_ends_the_answer(event: dict[str, Any], kind: FailureKind, words: str) -> None:
    endpoint = Endpoint()
    told = problem(endpoint.say(event))
    assert (told.kind, told.fatal) == (kind, True)
    assert words in told.message
    assert told.retry_after_s == (2.5 if "2.5s" in told.message else None)
    assert endpoint.dialect.closed(None, "", 0) == ()
    assert endpoint.say("[DONE]") == []


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("{", "expected JSON"),
        (b"\xff", "expected a text message"),
        (
            {"id": ID, "object": "chat.completion.chunk", "choices": {}},
            "expected a list of objects in 'choices'",
        ),
        (
            {"id": ID, "choices": [{"delta": {"audio": {"data": "no!"}}}]},
            "expected base64 audio in 'data': ",
        ),
        ({"id": ID, "choices": [{"delta": audio(b"RIFF" + bytes(40))}]}, "cannot play audio at 0 Hz"),
        (omni("no!", 24_000), "expected base64 audio in 'content': "),
        (omni("AAAA", 7), "cannot play audio at 7 Hz"),
        (omni("AAAA", "24k"), "expected a number in 'sample_rate_hz', got a string"),
    ],
)
def test_unreadable_messages_are_reported(event: object, words: str) -> None:
    told = Endpoint().say(event)[-1]
    assert isinstance(told, EndpointProblem)
    assert (told.kind, told.fatal) == (FailureKind.MALFORMED_MESSAGE, False)
    assert words in told.message


def test_other_objects_are_unknown_events() -> None:
    endpoint = Endpoint()
    assert endpoint.say({"type": "response.created"}) == [UnknownEvent("response.created")]
    assert endpoint.say({"a": 1}) == [UnknownEvent("an object without 'choices'")]
    assert endpoint.say({"object": f"list.{KEY}"}) == [UnknownEvent("list.***")]


def test_messages_before_the_request_are_ignored() -> None:
    endpoint = Endpoint(asked=False)
    assert endpoint.chunk(audio(b"\x01\x02")) == []
    assert endpoint.say("[DONE]") == []


def test_a_stream_that_ends_before_it_begins() -> None:
    told = problem(Endpoint().say("[DONE]"))
    assert (told.kind, told.fatal) == (FailureKind.NO_RESPONSE, True)


def test_an_answer_that_breaks_off() -> None:
    endpoint = Endpoint()
    endpoint.chunk(audio(b"\x01\x02"))
    end = problem(list(endpoint.dialect.closed(None, f"cut off {KEY}", 0)))
    assert (end.kind, end.fatal) == (FailureKind.CLOSED, True)
    assert end.message == "the connection ended before the response was complete: cut off ***"
    early = problem(list(Endpoint().dialect.closed(None, "", 0)))
    assert early.message == "the connection ended before the response began: no reason given"


def test_the_end_is_not_reported_after_finishing() -> None:
    dialect = Endpoint().dialect
    assert list(dialect.finish(0)) == [Close()]
    assert dialect.closed(1000, "", 0) == ()


# -- The log -------------------------------------------------------------------------------------------


def logged() -> Iterator[tuple[str | bytes, dict[str, Any]]]:
    yield json.dumps(audio(bytes(100))), {"audio": {"id": "audio_1", "data": {"bytes": 100}}}
    yield json.dumps({"content": KEY}), {"content": "***"}
    spoken = {"modality": "audio", "choices": [{"delta": {"content": "AQIDBA=="}}]}
    yield json.dumps(spoken), {"modality": "audio", "choices": [{"delta": {"content": {"bytes": 4}}}]}
    yield "[DONE]", {"raw": "[DONE]", "characters": 6}
    yield b"\xff", {"raw": "\ufffd", "characters": 1}


@pytest.mark.parametrize(("message", "body"), list(logged()))
def test_the_log_contains_no_audio_and_no_key(message: str | bytes, body: dict[str, Any]) -> None:
    assert Endpoint().dialect.redact(message) == body
