"""pipecat's dialect over WebSocket: what it sends and reports. Whole sessions are in tests/conformance."""

from __future__ import annotations

import json
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects._pipecat_frames import (
    audio_frame,
    audio_of,
    message_frame,
    message_of,
    read_frame,
)
from live_eval.clients.dialects.pipecat_websocket import PipecatWebSocket
from live_eval.clients.toolkit import wav_header
from live_eval.dialect import (
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
)
from live_eval.errors import FailureKind, UsageError
from live_eval.timing import ResponseStatus
from live_eval.types import Secret

KEY = "pk-41c9d2"
SECOND = 1_000_000_000
PCM = bytes(480)  # 10 ms at 24 kHz


def dialect(base_url: str = "ws://127.0.0.1:7860/ws-client", **settings: Any) -> PipecatWebSocket:
    return PipecatWebSocket(EndpointSettings(base_url=base_url, **settings))


def say(bot: PipecatWebSocket, kind: str, data: object = None, at_ns: int = 0) -> list[Output]:
    return list(
        bot.received(message_frame(json.dumps({"label": "rtvi-ai", "type": kind, "data": data})), at_ns)
    )


def ready() -> PipecatWebSocket:
    bot = dialect()
    bot.opened(0)
    assert SessionReady() in say(bot, "bot-ready")
    return bot


@pytest.mark.parametrize(
    ("base_url", "dialled"),
    [
        ("ws://127.0.0.1:7860/ws-client", "ws://127.0.0.1:7860/ws-client"),
        ("ws://127.0.0.1:8765", "ws://127.0.0.1:8765"),
        ("https://bots.example.org/a/ws/", "wss://bots.example.org/a/ws/"),
    ],
)
def test_the_base_url_is_the_whole_address(base_url: str, dialled: str) -> None:
    assert dialect(base_url).dial().url == dialled


def test_extra_contains_query_parameters_and_the_key_is_a_header() -> None:
    dial = dialect(key=Secret(KEY), extra={"token": "t-1"}).dial()
    assert dial.url == "ws://127.0.0.1:7860/ws-client?token=t-1"
    assert dial.headers == {"Authorization": f"Bearer {KEY}"}
    with pytest.raises(UsageError, match=r"endpoint\.extra\.body: expected text"):
        dialect(extra={"body": {"room": 1}})


def test_it_asks_whether_the_bot_is_ready() -> None:
    [hello, timer] = dialect().opened(0)
    assert isinstance(hello, Send)
    assert isinstance(hello.message, bytes)
    asked = json.loads(message_of(read_frame(hello.message).body))
    assert (asked["label"], asked["type"]) == ("rtvi-ai", "client-ready")
    assert timer == SetTimer("ready", 2 * SECOND)


def test_a_frame_of_the_user_is_audio_at_16_khz() -> None:
    [sent] = ready().frame(b"\x01\x02" * 320, 0)
    assert isinstance(sent, Send)
    assert isinstance(sent.message, bytes)
    kind, body = read_frame(sent.message)
    assert (kind, audio_of(body)) == ("audio", (b"\x01\x02" * 320, 16_000, 1))


def test_a_reply_ends_when_its_queue_has_been_empty_for_a_while() -> None:
    bot = ready()
    first = list(bot.received(audio_frame(PCM, 24_000), 0))
    audio = ReplyAudio("reply_1", PCM, Codec(CodecName.PCM16, 24_000))
    assert first == [ResponseStarted("reply_1"), audio, SetTimer("reply over", 1_510_000_000)]
    # Sent in one burst, but heard for 20 ms.
    assert list(bot.received(audio_frame(PCM, 24_000), 0)) == [audio, SetTimer("reply over", 1_520_000_000)]
    assert list(bot.timer("reply over", 1_520_000_000)) == [
        SetTimer("reply over", None),
        ReplyAudioDone("reply_1"),
        ResponseDone("reply_1", ResponseStatus.COMPLETED),
    ]
    assert list(bot.timer("reply over", 1_520_000_000)) == []


def test_audio_may_have_the_header_of_a_wav_file() -> None:
    data = wav_header(len(PCM), 16_000) + PCM
    outputs = list(ready().received(audio_frame(data, 24_000), 0))
    assert outputs[1:] == [
        ReplyAudio("reply_1", data, Codec(CodecName.WAV, 16_000)),
        SetTimer("reply over", 1_515_000_000),
    ]


def test_text_before_an_interruption_does_not_belong_to_the_next_reply() -> None:
    bot = ready()
    say(bot, "bot-tts-text", {"text": "It is"})
    assert say(bot, "bot-interrupted") == []
    assert say(bot, "bot-tts-text", {"text": ""}) == []
    say(bot, "bot-tts-text", {"text": "Pardon?"})
    outputs = list(bot.received(audio_frame(PCM, 24_000), 0))
    assert [each for each in outputs if isinstance(each, ReplyText)] == [ReplyText("reply_1", "Pardon? ")]


@pytest.mark.parametrize("code", [1013, 4003])
def test_a_code_of_refusal_has_no_such_meaning_in_a_session(code: int) -> None:
    [problem] = ready().closed(code, "", 0)
    assert getattr(problem, "kind", None) is FailureKind.CLOSED


def test_the_log_has_neither_audio_nor_secrets() -> None:
    bot = dialect(key=Secret(KEY))
    assert bot.redact(audio_frame(PCM, 24_000)) == {"frame": "audio", "bytes": 489}
    assert bot.redact(b"\x00\x01") == {"raw": {"bytes": 2}}
    shown = bot.redact(message_frame(json.dumps({"type": "hello", "token": "t", "text": f"key {KEY}"})))
    assert shown["message"]["type"] == "hello"
    for message in (message_frame(json.dumps({"text": KEY})), message_frame(f"key {KEY}"), f"key {KEY}"):
        assert KEY not in json.dumps(bot.redact(message))
