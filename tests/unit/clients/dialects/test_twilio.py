"""Twilio's dialect: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName, decode
from live_eval.clients.dialects._twilio_webhook import signed
from live_eval.clients.dialects.twilio import Twilio
from live_eval.dialect import (
    Close,
    EndpointProblem,
    EndpointSettings,
    Output,
    QueuedAudio,
    Send,
    SetTimer,
    StreamInterrupted,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, Secret

MS = 1_000_000
URL = "wss://agent.example/media-stream?x=1"


def dialect(**settings: Any) -> Twilio:
    return Twilio(EndpointSettings(base_url=URL, **settings))


def sent(outputs: list[Output]) -> list[dict[str, Any]]:
    return [json.loads(output.message) for output in outputs if isinstance(output, Send)]


class Call:
    """A call in progress, from the agent's side."""

    def __init__(self, **settings: Any) -> None:
        self.line = dialect(**settings)
        self.opening = list(self.line.opened(7))
        self.sid = sent(self.opening)[1]["streamSid"]

    def says(self, event: str, at_ms: int, **fields: object) -> list[Output]:
        message = json.dumps({"event": event, "streamSid": self.sid, **fields})
        return list(self.line.received(message, at_ms * MS))

    def plays(self, ms: int, at_ms: int) -> list[Output]:
        payload = base64.b64encode(bytes(ms * 8)).decode()
        return self.says("media", at_ms, media={"payload": payload})

    def marks(self, name: str, at_ms: int) -> list[Output]:
        return self.says("mark", at_ms, mark={"name": name})


def echoed(outputs: list[Output]) -> list[str]:
    return [message["mark"]["name"] for message in sent(outputs)]


def test_it_dials_the_address_as_it_is() -> None:
    assert dialect().dial().url == URL
    assert dialect().dial().headers == {}


def test_the_signature_is_twilios() -> None:
    """The first value is from the tests of Twilio's library, ``twilio.request_validator``."""
    form = {
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
        "To": "+18005551212",
    }
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    settings = EndpointSettings(base_url=url, key=Secret("12345"))
    assert signed(settings, url, form) == {"X-Twilio-Signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8="}
    assert dialect(key=Secret("12345")).dial().headers == {
        "X-Twilio-Signature": "Fvg9W6D5owgMPR1dvUm+tCYFZPA="
    }


TWIML = """<?xml version="1.0" encoding="UTF-8"?>
<Response><Say>Hello</Say><Connect><Stream url="wss://agent.example/ws">
<Parameter name="room" value="7"/></Stream></Connect></Response>"""


@pytest.mark.parametrize("twiml", [TWIML, TWIML.replace("<Say>", "<!-- greeting: <Say> --><Say>")])
def test_a_webhook_names_the_stream(twiml: str) -> None:
    line = Twilio(EndpointSettings(base_url="https://agent.example/voice", key=Secret("k")))
    dial = line.dial()
    assert dial.url == "https://agent.example/voice"
    assert dial.lookup is not None
    assert dial.lookup.form is not None
    assert dial.lookup.form["CallSid"].startswith("CA")
    stream = dial.lookup.read(twiml)
    assert stream.url == "wss://agent.example/ws"
    assert set(stream.headers) == {"X-Twilio-Signature"}
    start = sent(list(line.opened(0)))[1]["start"]
    assert start["customParameters"] == {"room": "7"}
    assert start["callSid"] == dial.lookup.form["CallSid"]


@pytest.mark.parametrize(
    ("twiml", "words"),
    [
        ("", "invalid XML"),
        ("Not found", "invalid XML"),
        ("<Response><Say>Bye</Say><Hangup/></Response>", "verbs <Say>, <Hangup>"),
        ('<Response><Start><Stream url="wss://a/"/></Start></Response>', "one-way"),
        ("<Response><Connect><Stream/></Connect></Response>", "<Connect>"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><Response/>', "declaration"),
        ('<?a <!-- ?><!DOCTYPE r [<!ENTITY a "b">]><?a --> ?><Response>&a;</Response>', "undefined entity"),
        ('<<!-- -->!DOCTYPE r [<!ENTITY a "b">]><Response/>', "declaration"),
        ("<html/>", "<html>"),
    ],
)
def test_an_answer_without_a_stream(twiml: str, words: str) -> None:
    lookup = Twilio(EndpointSettings(base_url="http://127.0.0.1:1/voice")).dial().lookup
    assert lookup is not None
    with pytest.raises(ValueError, match=words):
        lookup.read(twiml)


def test_each_call_has_its_own_ids() -> None:
    first, second = dialect(), dialect()
    ids = {sent(list(line.opened(at)))[1]["streamSid"] for line, at in ((first, 1), (second, 2))}
    assert len(ids) == 2
    assert all(len(name) == 34 and name.startswith("MZ") for name in ids)


def test_a_frame_is_mu_law() -> None:
    call = Call()
    pcm = np.arange(-16_000, 16_000, 200, dtype=np.int16)
    (message,) = sent(list(call.line.frame(pcm.tobytes(), 60 * MS + 7)))
    media = message["media"]
    assert (message["sequenceNumber"], media["chunk"], media["timestamp"]) == ("2", "1", "60")
    heard = decode(base64.b64decode(media["payload"]), Codec(CodecName.PCMU, 8_000))
    assert np.abs(heard.astype(int) - pcm).max() < 1_000


def test_a_mark_is_echoed_when_the_audio_before_it_has_been_played() -> None:
    call = Call()
    assert isinstance(call.plays(100, 500)[0], QueuedAudio)
    assert call.marks("one", 510) == [SetTimer("mark", 600 * MS)]
    call.plays(100, 520)
    call.marks("two", 530)
    outputs = list(call.line.timer("mark", 605 * MS))
    assert echoed(outputs) == ["one"]
    assert outputs[-1] == SetTimer("mark", 700 * MS)
    assert echoed(list(call.line.timer("mark", 700 * MS))) == ["two"]
    assert echoed(call.marks("three", 701)) == ["three"]


def test_clear_echoes_the_pending_marks_and_empties_the_queue() -> None:
    call = Call()
    call.plays(5_000, 0)
    call.marks("one", 1)
    call.marks("two", 1)
    outputs = call.says("clear", 1_000)
    assert StreamInterrupted() in outputs
    assert echoed(outputs) == ["one", "two"]
    assert echoed(call.marks("three", 1_010)) == ["three"], "the queue is empty"


def test_clear_on_a_silent_line_is_not_an_interruption() -> None:
    call = Call()
    call.plays(100, 0)
    assert StreamInterrupted() not in call.says("clear", 300)


@pytest.mark.parametrize("sid", ["MZ0", None])
def test_messages_of_another_stream_are_not_played(sid: str | None) -> None:
    call = Call()
    message = json.dumps({"event": "media", "streamSid": sid, "media": {"payload": "//8="}})
    (problem,) = call.line.received(message, 0)
    assert isinstance(problem, EndpointProblem)
    assert problem.kind is FailureKind.MALFORMED_MESSAGE
    assert "streamSid" in problem.message


def test_the_last_message_is_stop() -> None:
    call = Call()
    outputs = list(call.line.finish(0))
    assert [message["event"] for message in sent(outputs)] == ["stop"]
    assert isinstance(outputs[-1], Close)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modality": Modality.TEXT}, "audio only"),
        ({"voice": "Kore"}, "own voice"),
        ({"extra": {"dtmf": "12a"}}, "expected keys"),
        ({"extra": {"parameters": {"a": True}}}, "text values"),
        ({"extra": {"callSid": "CA1"}}, "expected one of account_sid"),
        ({"extra": {"call_sid": True}}, "expected text"),
    ],
)
def test_settings_that_a_phone_line_does_not_have(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dialect(**settings)


def test_only_a_webhook_receives_the_numbers() -> None:
    extra = {"from": "+15550100009"}
    with pytest.raises(UsageError, match=r"endpoint\.extra\.from: needs a webhook"):
        Twilio(EndpointSettings(base_url="ws://h/media-stream", extra=extra))
    lookup = Twilio(EndpointSettings(base_url="http://h/voice", extra=extra)).dial().lookup
    assert lookup is not None
    assert lookup.form is not None
    assert lookup.form["From"] == "+15550100009"
