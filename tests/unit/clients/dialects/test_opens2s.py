"""OpenS2S's worker: the request and its pieces. Whole sessions: tests/conformance, tests/loopback."""

from __future__ import annotations

import json
from typing import Any

import pybase64
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.opens2s import OpenS2S
from live_eval.clients.toolkit import wav_header
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Output,
    ReplyAudio,
    ReplyAudioDone,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    UnknownEvent,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Modality, Secret, TurnMode
from tests.support.dialects import problem, sent

BASE = "http://127.0.0.1:21002"
WAV = wav_header(8, 22_050) + bytes(8)
AUDIO = pybase64.b64encode_as_string(WAV)


class Endpoint:
    """Plays the worker to a dialect."""

    def __init__(self, **settings: Any) -> None:
        given = {"turn_mode": TurnMode.MANUAL, **settings}
        self.dialect = OpenS2S(EndpointSettings(base_url=BASE, **given))
        self.dialect.opened(0)
        assert self.dialect.frame(b"\x01\x02", 0) == ()
        (self.asked,) = sent(self.dialect.end_turn(0))

    def say(self, text: str = "", audio: str = "", *, final: bool = False, **more: Any) -> list[Output]:
        piece = {"text": text, "audio": audio, "finalize": final, "error_code": 0, **more}
        return list(self.dialect.received(json.dumps(piece), 0))


def test_a_turn_is_a_request_with_a_wav_file() -> None:
    endpoint = Endpoint(instructions="Be brief.", max_output_tokens=512, extra={"temperature": 0.2})
    wav = wav_header(2, 16_000) + b"\x01\x02"
    assert endpoint.asked == {
        "max_new_tokens": 512,
        "temperature": 0.2,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"audio": pybase64.b64encode_as_string(wav)}]},
        ],
    }
    assert endpoint.dialect.end_turn(0) == ()
    dial = endpoint.dialect.dial()
    assert dial.url == f"{BASE}/worker_generate_stream"
    assert dial.headers == {"Content-Type": "application/json"}
    assert Endpoint(key=Secret("k-1")).dialect.dial().headers["Authorization"] == "Bearer k-1"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"turn_mode": TurnMode.SERVER_VAD}, "expected 'manual'"),
        ({"modality": Modality.TEXT}, "always speaks"),
        ({"turn_detection": {"threshold": 1}}, "no detector"),
        ({"voice": "v"}, "one voice"),
        ({"max_output_tokens": 1025}, "expected 1024 or less"),
    ],
)
def test_what_the_worker_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Endpoint(**settings)


def test_text_replaces_the_earlier_text_and_is_reported_once() -> None:
    endpoint = Endpoint()
    assert endpoint.say("It") == [ResponseStarted("reply_1"), ReplyText("reply_1", "It")]
    heard = ReplyAudio("reply_1", WAV, Codec(CodecName.WAV, 22_050))
    assert endpoint.say("It", AUDIO) == [heard]
    assert endpoint.say("It is", AUDIO, final=True) == [
        ReplyText("reply_1", " is"),
        heard,
        ReplyText("reply_1", "It is", final=True),
        ReplyAudioDone("reply_1"),
        ResponseDone("reply_1", ResponseStatus.COMPLETED),
    ]
    assert endpoint.say("late") == []
    assert endpoint.dialect.closed(None, "closed", 0) == ()


def test_an_error_code_is_a_failure_even_during_a_reply() -> None:
    endpoint = Endpoint()
    endpoint.say("It", AUDIO)
    failed = problem(endpoint.say("**NETWORK ERROR**", error_code=1))
    assert (failed.kind, failed.fatal, failed.code) == (FailureKind.ENDPOINT_ERROR, True, "1")
    assert "NETWORK ERROR" in failed.message


@pytest.mark.parametrize(("audio", "words"), [("?", "base64"), ("AAAA", "expected a WAV file, got 3 bytes")])
def test_invalid_audio_is_malformed(audio: str, words: str) -> None:
    endpoint = Endpoint()
    endpoint.say("It")
    malformed = problem(endpoint.say("It", audio))
    assert malformed.kind is FailureKind.MALFORMED_MESSAGE
    assert words in malformed.message


def test_an_object_of_another_form_is_unknown() -> None:
    endpoint = Endpoint()
    assert [type(each) for each in endpoint.dialect.received('{"status":"queued"}', 0)] == [UnknownEvent]


def test_a_connection_that_ends_before_the_last_piece_is_a_failure() -> None:
    endpoint = Endpoint()
    endpoint.say("It")
    (closed,) = endpoint.dialect.closed(None, "cut off", 0)
    assert isinstance(closed, EndpointProblem)
    assert "before the response was complete: cut off" in closed.message
