"""Moshi: what it sends and reports. Whole sessions are in tests/conformance and tests/loopback."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import Decoder
from live_eval.audio.ogg import OggWriter
from live_eval.clients.dialects.moshi import Moshi
from live_eval.dialect import (
    Close,
    EndpointSettings,
    Output,
    Send,
    SessionReady,
    SetTimer,
    StreamAudio,
    StreamText,
    UnknownEvent,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, Secret
from tests.support.dialects import problem

KEY = "token-41c9d2"
SECOND = 1_000_000_000
FRAME_SAMPLES = 1_920
OGG_OPUS = Codec(CodecName.OGG_OPUS, 48_000)


def dialect(base_url: str = "http://127.0.0.1:8998", **settings: Any) -> Moshi:
    return Moshi(EndpointSettings(base_url=base_url, **settings))


def ready(**settings: Any) -> Moshi:
    server = dialect(**settings)
    server.opened(0)
    server.received(b"\x00", 0)
    return server


def say(server: Moshi, message: bytes | str, at_ns: int = 0) -> list[Output]:
    return list(server.received(message, at_ns))


# -- What is asked for ---------------------------------------------------------------------------------


def test_the_url_contains_the_servers_settings() -> None:
    extra = {"text_temperature": 0.7, "text_topk": 25, "voice_prompt": "NATF2.pt"}
    dial = dialect("wss://moshi.example/", extra=extra, key=Secret(KEY)).dial()
    assert dial.url == (
        "wss://moshi.example/api/chat?text_temperature=0.7&text_topk=25&voice_prompt=NATF2.pt"
    )
    assert dial.headers == {"Authorization": f"Bearer {KEY}"}
    assert dialect().dial().url == "ws://127.0.0.1:8998/api/chat"
    assert dialect().dial().headers == {}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"modality": Modality.TEXT}, "endpoint.modality: Moshi replies in audio only"),
        ({"instructions": "Be brief."}, "endpoint.instructions: Moshi takes no instructions"),
        ({"voice": "marin"}, "endpoint.voice: Moshi has only the model's own voice"),
        ({"turn_detection": {"threshold": 0.5}}, "endpoint.turn_detection: Moshi has no detector"),
        ({"transcription_model": "whisper"}, "endpoint.transcription_model: Moshi does not transcribe"),
        ({"max_output_tokens": 100}, "endpoint.max_output_tokens: Moshi has no reply length limit"),
        ({"extra": {"text_seed": None}}, "endpoint.extra.text_seed: expected text"),
        ({"extra": {"text_seed": True}}, "endpoint.extra.text_seed: expected text"),
        ({"base_url": "moshi"}, ": expected an address"),
    ],
)
def test_unsupported_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        dialect(**settings)


def test_the_users_audio_is_one_ogg_stream_whose_headers_come_first() -> None:
    server, decoder, heard = ready(), Decoder(OGG_OPUS), []
    time_s = np.arange(4 * FRAME_SAMPLES) / 24_000
    tone = (8_000 * np.sin(2 * np.pi * 440 * time_s)).astype("<i2")
    for number, frame in enumerate(tone.reshape(4, FRAME_SAMPLES)):
        (sent,) = server.frame(frame.tobytes(), 0)
        assert isinstance(sent, Send)
        assert isinstance(sent.message, bytes)
        assert sent.message[:1] == b"\x01"
        assert (b"OpusHead" in sent.message) == (number == 0)
        heard.append(decoder.decode(sent.message[1:]))
    pcm = np.concatenate(heard).astype(np.float64)
    assert len(pcm) == 4 * FRAME_SAMPLES * 2 - 312
    spectrum = np.abs(np.fft.rfft(pcm))
    assert np.fft.rfftfreq(len(pcm), 1 / 48_000)[spectrum.argmax()] == pytest.approx(440, abs=5)


def test_input_always_flows_and_nothing_stops_the_model() -> None:
    server = ready()
    assert server.needs_continuous_input
    assert server.continuous_media
    assert server.end_turn(0) == ()
    assert server.interrupt("reply_1", 20, 0) == ()
    assert server.timer("another", 0) == ()


# -- The session ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("handshake", [b"\x00", b"\x00" + bytes(8)], ids=["python", "rust"])
def test_the_handshake_makes_the_session_ready_once(handshake: bytes) -> None:
    server = dialect()
    assert list(server.opened(5 * SECOND)) == [SetTimer("no handshake", 15 * SECOND)]
    assert say(server, handshake) == [SetTimer("no handshake", None), SessionReady()]
    assert say(server, handshake) == []
    assert server.timer("no handshake", 15 * SECOND) == ()


def test_the_metadata_name_the_session_and_its_model() -> None:
    server = dialect()
    metadata = {"lm_model_file": "/models/moshiko@120.safetensors", "session_id": "s1", "text_topk": 250}
    assert say(server, b"\x04" + json.dumps(metadata).encode()) == []
    assert SessionReady("s1", "moshiko@120.safetensors") in say(server, b"\x00" + bytes(8))


def test_waiting_for_another_session_is_reported() -> None:
    """The Python server accepts a second connection, but sends nothing to it until the first one ends."""
    server = dialect()
    server.opened(0)
    failed = problem(list(server.timer("no handshake", 10 * SECOND)))
    assert (failed.kind, failed.fatal) == (FailureKind.NO_SESSION, True)
    assert "one session at a time, and another is probably in progress" in failed.message
    assert server.closed(1000, "", 11 * SECOND) == ()


def test_audio_text_and_ignored_messages() -> None:
    server = ready()
    page = OggWriter(serial=7).page(b"opus", 960)
    assert say(server, b"\x01" + page) == [StreamAudio(page, OGG_OPUS)]
    assert say(server, b"\x01" + page[:9]) == []
    assert say(server, b"\x01" + page[9:]) == [StreamAudio(page, OGG_OPUS)]
    assert say(server, "\x02 café".encode()) == [StreamText(" café")]
    assert say(server, b"\x03\x01") == []
    assert say(server, b"\x06") == []
    assert say(server, b"\x2ahello") == [UnknownEvent("kind 42")]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"", "expected a message whose first byte is its type, got an empty message"),
        ("text", "expected a binary message, got 4 characters of text"),
        (b"\x02\xff", "text: expected UTF-8, got invalid start byte at byte 0"),
        (b"\x04[1]", "expected a JSON object, got a list"),
        (b'\x04{"session_id": 1}', "metadata: expected a string in 'session_id', got a number"),
        (b"\x05\xff", "error: expected UTF-8"),
        (b"\x00abc", "handshake: expected no payload or two 4-byte versions, got 3 bytes"),
    ],
)
def test_unreadable_messages_are_reported(message: bytes | str, words: str) -> None:
    told = problem(say(ready(), message))
    assert (told.kind, told.fatal) == (FailureKind.MALFORMED_MESSAGE, False)
    assert words in told.message


def test_an_error_before_the_session_is_fatal() -> None:
    early = problem(say(dialect(key=Secret(KEY)), f"\x05bad {KEY}".encode()))
    assert (early.kind, early.fatal) == (FailureKind.SESSION_REFUSED, True)
    said = "the server reported an error: bad ***; check endpoint.extra, and the server's log"
    assert early.message == said
    assert problem(say(dialect(), b"\x05no worker is free")).kind is FailureKind.BUSY
    late = problem(say(ready(), b"\x05"))
    assert (late.kind, late.fatal) == (FailureKind.NOT_FATAL_ERROR, False)
    assert late.message == "the server reported an error: no details"


@pytest.mark.parametrize(
    ("after_s", "reason", "kind", "fatal"),
    [
        (20, "", FailureKind.CLOSED, False),
        (360, "", FailureKind.SESSION_EXPIRED, True),
        (20, "session expired", FailureKind.SESSION_EXPIRED, True),
    ],
)
def test_a_session_that_ends_after_six_minutes_has_expired(
    after_s: int, reason: str, kind: FailureKind, fatal: bool
) -> None:
    server = ready()
    end = problem(list(server.closed(None, reason, after_s * SECOND)))
    assert (end.kind, end.fatal) == (kind, fatal)
    assert server.closed(None, reason, after_s * SECOND) == ()


def test_the_end_is_not_reported_after_finishing() -> None:
    server = ready()
    assert list(server.finish(0)) == [Close()]
    assert server.closed(1000, "", 0) == ()


# -- The log -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "logged"),
    [
        (b"\x01OggS", {"kind": 1, "type": "audio", "bytes": 4}),
        (b"\x02 hi", {"kind": 2, "type": "text", "bytes": 3, "text": " hi"}),
        (b"\x05" + KEY.encode(), {"kind": 5, "type": "error", "bytes": len(KEY), "text": "***"}),
        (b'\x04{"a": 1}', {"kind": 4, "type": "metadata", "bytes": 8, "metadata": {"a": 1}}),
        (b"\x04{", {"kind": 4, "type": "metadata", "bytes": 1, "metadata": {"raw": "{", "characters": 1}}),
        (b"\x2a??", {"kind": 42, "bytes": 2}),
        (b"", {"raw": {"bytes": 0}}),
        ("text", {"raw": "text", "characters": 4}),
    ],
)
def test_the_log_contains_no_audio_and_no_key(message: bytes | str, logged: dict[str, Any]) -> None:
    assert dialect(key=Secret(KEY)).redact(message) == logged
