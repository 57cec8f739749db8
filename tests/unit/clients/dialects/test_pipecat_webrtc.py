"""pipecat's dialect: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.clients.dialects.pipecat_webrtc import PipecatWebRtc
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    InputTranscript,
    Output,
    SdpBody,
    Send,
    SessionReady,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
    StreamInterrupted,
    StreamText,
    UnknownEvent,
)
from live_eval.errors import FailureKind
from live_eval.types import Secret

KEY = "pk-41c9d2"
SECOND = 1_000_000_000


def dialect(**settings: Any) -> PipecatWebRtc:
    return PipecatWebRtc(EndpointSettings(base_url="http://127.0.0.1:7860", **settings))


def say(bot: PipecatWebRtc, kind: str, data: object = None, label: str = "rtvi-ai") -> list[Output]:
    return list(bot.received(json.dumps({"label": label, "type": kind, "data": data}), 0))


def ready() -> PipecatWebRtc:
    bot = dialect()
    bot.opened(0)
    say(bot, "bot-ready", {"version": "1.0.0"})
    return bot


def test_the_offer() -> None:
    dial = dialect(key=Secret(KEY), extra={"request_data": {"room": 1}}, ice_servers=["stun:h:1"]).dial()
    assert dial.url == "http://127.0.0.1:7860/api/offer"
    assert dial.headers == {"Authorization": f"Bearer {KEY}"}
    signalling = dial.signalling
    assert signalling is not None
    assert (signalling.offer, signalling.answer) == (SdpBody.JSON, SdpBody.JSON)
    assert signalling.fields == {"request_data": {"room": 1}}
    assert signalling.patch_candidates
    assert signalling.channel == "chat"
    assert list(signalling.ice_servers) == ["stun:h:1"]


def test_an_offer_without_a_key() -> None:
    assert dialect().dial().headers == {}


def test_it_pings_every_second() -> None:
    bot = dialect()
    outputs = list(bot.opened(5 * SECOND))
    assert outputs[:2] == [Send("ping"), SetTimer("ping", 6 * SECOND)]
    assert list(bot.timer("ping", 6 * SECOND)) == [Send("ping"), SetTimer("ping", 7 * SECOND)]


def test_it_asks_whether_the_bot_is_ready() -> None:
    bot = dialect()
    sent = [output.message for output in bot.opened(0) if isinstance(output, Send)]
    asked = json.loads(sent[1])
    assert (asked["label"], asked["type"]) == ("rtvi-ai", "client-ready")
    assert asked["data"]["version"] == "1.0.0"
    assert say(bot, "bot-ready") == [SetTimer("ready", None), SessionReady()]
    assert say(bot, "bot-ready") == []
    assert list(bot.timer("ready", 2 * SECOND)) == []


def test_a_silent_bot_is_ready_after_two_seconds() -> None:
    bot = dialect()
    assert SetTimer("ready", 2 * SECOND) in bot.opened(0)
    assert SessionReady() in bot.timer("ready", 2 * SECOND)


def test_a_bot_that_takes_part_is_ready() -> None:
    bot = dialect()
    bot.opened(0)
    assert say(bot, "bot-tts-text", {"text": "Hello!"}) == [
        SetTimer("ready", None),
        SessionReady(),
        StreamText("Hello! "),
    ]


def test_errors_before_the_bot_is_ready() -> None:
    bot = dialect()
    bot.opened(0)
    outputs = say(bot, "error", {"error": "no model", "fatal": True})
    assert outputs == [EndpointProblem(FailureKind.ENDPOINT_ERROR, "no model", fatal=True)]


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("user-started-speaking", None, SpeechStarted()),
        ("user-stopped-speaking", None, SpeechStopped()),
        ("bot-tts-text", {"text": "ten."}, StreamText("ten. ")),
        ("bot-tts-text", {"text": "It is ten. "}, StreamText("It is ten. ")),
        ("bot-danced", {}, UnknownEvent("bot-danced")),
        (
            "error",
            {"error": "TTS: 503", "fatal": False},
            EndpointProblem(FailureKind.NOT_FATAL_ERROR, "TTS: 503", fatal=False),
        ),
        (
            "error-response",
            {"error": "no such type"},
            EndpointProblem(FailureKind.NOT_FATAL_ERROR, "no such type", fatal=False),
        ),
    ],
)
def test_messages_of_rtvi(kind: str, data: object, expected: Output) -> None:
    assert say(ready(), kind, data) == [expected]


@pytest.mark.parametrize(
    "kind", ["bot-llm-text", "bot-output", "bot-transcription", "metrics", "bot-started-speaking"]
)
def test_repeated_messages_are_ignored(kind: str) -> None:
    assert say(ready(), kind, {"text": "It is ten."}) == []


def test_only_a_bot_that_speaks_is_interrupted() -> None:
    bot = ready()
    assert say(bot, "bot-interrupted") == []
    assert say(bot, "bot-started-speaking") == []
    assert say(bot, "bot-interrupted") == [StreamInterrupted()]
    assert say(bot, "bot-stopped-speaking") == []
    assert say(bot, "bot-interrupted") == []


def test_every_final_transcript_is_a_new_item() -> None:
    bot = ready()
    assert say(bot, "user-transcription", {"text": "What", "final": False}) == []
    say(bot, "user-started-speaking")
    for number, text in enumerate(("What time?", "Now."), 1):
        heard = say(bot, "user-transcription", {"text": text, "final": True})
        assert heard == [InputTranscript(text, True, f"user_{number}")]


def test_without_a_detector_the_transcript_ends_the_users_speech() -> None:
    heard = say(ready(), "user-transcription", {"text": "Hi.", "final": True})
    assert heard == [SpeechStopped(), InputTranscript("Hi.", True, "user_1")]


@pytest.mark.parametrize("message", ["hello", "7", '{"a":1}', b"\x00", '{"type":"error","message":"an app"}'])
def test_messages_of_the_application_are_harmless(message: str | bytes) -> None:
    assert all(isinstance(output, UnknownEvent) for output in ready().received(message, 0))


def test_an_error_does_not_reveal_the_key() -> None:
    bot = dialect(key=Secret(KEY))
    outputs = say(bot, "error", {"error": f"{KEY} is no key", "fatal": True})
    assert KEY not in str(outputs)
    assert KEY not in str(
        bot.redact(json.dumps({"label": "rtvi-ai", "type": "error", "data": {"error": KEY}}))
    )


def test_the_log_contains_no_audio() -> None:
    said = {"label": "rtvi-ai", "type": "bot-tts-audio", "data": {"audio": "AAAA", "sample_rate": 24000}}
    assert ready().redact(json.dumps(said))["data"]["audio"] == {"bytes": 3}
    assert ready().redact("ping") == {"raw": "ping", "characters": 4}


def test_replies_are_found_by_energy_and_silence_is_sent() -> None:
    bot = ready()
    assert bot.continuous_media
    assert bot.needs_continuous_input
    assert list(bot.frame(bytes(1920), 0)) == []
    assert list(bot.closed(None, "", 0)) == []
