"""Kyutai's Unmute: what differs from its base class. Golden sessions cover the rest."""

import json
from dataclasses import replace

import pybase64
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OPUS_RATE_HZ, Decoder
from live_eval.clients.dialects.unmute import Unmute
from live_eval.dialect import (
    EndpointProblem,
    InputTranscript,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    Send,
)
from live_eval.timing import ResponseStatus
from tests.support.openai_relatives import BASE, ready, say, session_of


def test_frames_are_one_ogg_stream() -> None:
    dialect, ears = Unmute(BASE), Decoder(Codec(CodecName.OGG_OPUS, OPUS_RATE_HZ))
    heard = 0
    for _ in range(10):
        for send in dialect.frame(bytes(960), 0):
            assert isinstance(send, Send)
            heard += len(ears.decode(pybase64.b64decode(json.loads(send.message)["audio"])))
    assert heard == 9_600 - 312


def test_unmute_waits_for_our_first_message_which_forbids_recording() -> None:
    dialect = Unmute(replace(BASE, instructions="Be brief."))
    assert dialect.dial().subprotocols == ("realtime",)
    assert dialect.dial().url == "wss://h/v1/realtime"
    assert session_of(dialect) == {
        "allow_recording": False,
        "voice": "v",
        "instructions": {"type": "constant", "text": "Be brief."},
    }


def test_the_first_page_starts_the_stream() -> None:
    (send,) = Unmute(BASE).frame(bytes(960), 0)
    assert isinstance(send, Send)
    page = pybase64.b64decode(json.loads(send.message)["audio"])
    assert page[:4] == b"OggS"
    assert page[5] & 2  # the server drops everything before a page that begins a stream


def test_words_are_joined_and_complete_when_the_response_begins() -> None:
    dialect = ready(Unmute(BASE))
    kind = "conversation.item.input_audio_transcription.delta"
    told = [out for word in ("", "What", "time?") for out in say(dialect, kind, delta=word, start_time=0.1)]
    assert told == [InputTranscript("What", False), InputTranscript(" time?", False)]
    begun = say(dialect, "response.created", response={})
    assert begun == [InputTranscript("What time?", True), ResponseStarted("reply_1")]


def test_an_interruption_ends_the_response() -> None:
    dialect = ready(Unmute(BASE))
    say(dialect, "response.created", response={})
    assert say(dialect, "unmute.interrupted_by_vad") == [
        Interrupted("reply_1"),
        ResponseDone("reply_1", ResponseStatus.CANCELLED, "unmute.interrupted_by_vad"),
    ]
    assert say(dialect, "response.audio.done") == []


@pytest.mark.parametrize(
    ("kind", "message", "expected", "fatal"),
    [
        ("warning", "Looking for the resources, expect some latency.", "not_fatal_error", False),
        ("fatal", "Too many people are connected! Please try again later.", "busy", True),
        ("fatal", "Internal server error :( Complain to Kyutai", "endpoint_error", True),
    ],
)
def test_errors_are_distinguished_by_type(kind: str, message: str, expected: str, fatal: bool) -> None:
    (problem,) = say(Unmute(BASE), "error", error={"type": kind, "message": message})
    assert isinstance(problem, EndpointProblem)
    assert (problem.kind, problem.fatal, problem.message) == (expected, fatal, message)


def test_responses_are_numbered_and_ended() -> None:
    dialect = ready(Unmute(BASE))
    for number in (1, 2):
        say(dialect, "response.created", response={})
        done = say(dialect, "response.audio.done")[-1]
        assert done == ResponseDone(f"reply_{number}", ResponseStatus.COMPLETED)
