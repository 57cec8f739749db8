"""Sessions and settings of the GA dialect."""

import json
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.endpointer import WINDOW_MS
from live_eval.reference.protocols.openai_schema import EAGERNESS_SILENCE_MS
from live_eval.reference.protocols.openai_session import MODEL
from tests.support.openai_client import SILENT, VOICED, Json, OpenAiClient, error_of, types


def test_the_server_speaks_first() -> None:
    client = OpenAiClient()
    (created,) = client.greeting
    session = created["session"]
    assert created["type"] == "session.created"
    assert session["id"] == "sess_0123456789abcdef"
    assert session["model"] == "some-model"
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert session["expires_at"] == 2_000_000_000


def test_the_first_update_can_name_the_model() -> None:
    client = OpenAiClient(model=MODEL)
    (updated,) = client.update(model="gpt-realtime")
    assert updated["session"]["model"] == "gpt-realtime"
    (refused,) = client.update(model="another")
    assert refused["error"]["param"] == "session.model"


def test_an_update_changes_only_the_given_settings() -> None:
    client = OpenAiClient()
    client.update(instructions="Be brief.", audio={"output": {"voice": "cedar"}})
    (updated,) = client.update(
        audio={
            "input": {
                "transcription": {"model": "whisper-1"},
                "turn_detection": {"type": "server_vad", "threshold": 0.7},
            },
            "output": {"format": {"type": "audio/pcmu"}},
        }
    )
    session = updated["session"]
    assert session["instructions"] == "Be brief."
    assert session["audio"]["output"] == {"format": {"type": "audio/pcmu"}, "voice": "cedar", "speed": 1.0}
    assert session["audio"]["input"]["transcription"]["model"] == "whisper-1"
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.7,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 500,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    config = client.engine.config
    assert config.output_codec == Codec(CodecName.PCMU, 8_000)
    assert config.input_codec == Codec(CodecName.PCM16, 24_000)
    assert config.detection is not None
    assert config.detection.threshold == 0.7
    (updated,) = client.update(audio={"input": {"turn_detection": None, "transcription": None}})
    assert updated["session"]["audio"]["input"]["turn_detection"] is None
    assert client.engine.config.detection is None
    assert not client.engine.config.transcribe


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({}, "missing_required_parameter", "session.type"),
        ({"type": "transcription"}, "invalid_value", "session.type"),
        ({"type": "realtime", "modalities": ["audio"]}, "unknown_parameter", "session.modalities"),
        (
            {"type": "realtime", "output_modalities": ["smell"]},
            "invalid_value",
            "session.output_modalities[0]",
        ),
        (
            {"type": "realtime", "output_modalities": ["text", "audio"]},
            "invalid_value",
            "session.output_modalities",
        ),
        ({"type": "realtime", "model": "another"}, "invalid_value", "session.model"),
        ({"type": "realtime", "instructions": 5}, "invalid_type", "session.instructions"),
        (
            {"type": "realtime", "audio": {"input": {"format": {"type": "audio/opus"}}}},
            "invalid_value",
            "session.audio.input.format.type",
        ),
        (
            {"type": "realtime", "audio": {"input": {"format": None}}},
            "invalid_value",
            "session.audio.input.format",
        ),
        (
            {"type": "realtime", "audio": {"output": {"format": {"type": "audio/pcm", "rate": 16000}}}},
            "invalid_value",
            "session.audio.output.format.rate",
        ),
        (
            {
                "type": "realtime",
                "audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 2}}},
            },
            "invalid_value",
            "session.audio.input.turn_detection.threshold",
        ),
        ("everything", "invalid_type", "session"),
    ],
)
def test_an_invalid_update_is_refused_and_changes_nothing(session: Any, code: str, param: str) -> None:
    client = OpenAiClient()
    before = json.dumps(client.greeting[0]["session"])
    error = error_of(client.send("session.update", session=session, event_id="mine"))
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine")
    assert error["type"] == "invalid_request_error"
    (updated,) = client.update()
    assert json.dumps(updated["session"]) == before


@pytest.mark.parametrize("eagerness", ["low", "medium", "high", "auto"])
def test_the_silence_of_semantic_detection_depends_on_eagerness(eagerness: str) -> None:
    client = OpenAiClient()
    client.update(audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}})
    assert client.engine.config.detection is not None
    assert client.engine.config.detection.silence_ms == EAGERNESS_SILENCE_MS[eagerness]
    events = client.speak([VOICED] * 20 + [SILENT] * 60)
    assert types(events)[:2] == ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]


def test_an_expired_session_reports_an_error_and_closes() -> None:
    client = OpenAiClient()
    assert error_of(client.take(client.protocol.expired()))["code"] == "session_expired"
    assert client.closed is not None
    assert client.closed.code == 1001


@pytest.mark.parametrize("name", ["audio/pcmu", "audio/pcma"])
def test_telephone_formats(name: str) -> None:
    client = OpenAiClient()
    client.update(audio={"input": {"format": {"type": name}}, "output": {"format": {"type": name}}})
    events: list[Json] = []
    for probability in [VOICED] * 20 + [SILENT] * 16:
        events += client.append(bytes(8 * WINDOW_MS))
        events += client.take(client.engine.heard(client.epoch, [probability], 0))
    assert events[1]["audio_end_ms"] == 36 * WINDOW_MS
    assert client.listens[-1].codec.rate_hz == 8_000
    client.recognise()
    assert client.answers[-1].codec.rate_hz == 8_000


def test_calibration_refuses_formats_that_lose_the_mark() -> None:
    client = OpenAiClient(calibrate=True)
    error = error_of(client.update(audio={"input": {"format": {"type": "audio/pcmu"}}}))
    assert error["param"] == "session.audio.input.format"
