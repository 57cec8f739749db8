"""The session of OpenAI Realtime: its settings, formats and codec."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.realtime import SessionUpdateEvent

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.dialect import (
    EndpointSettings,
    ReplyAudio,
    SessionReady,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, TurnMode
from tests.support.dialects import sent
from tests.unit.clients.dialects.openai_endpoint import Endpoint, problem

BASE = "wss://api.openai.com/v1"


KEY = "sk-proj-1a2b3c"


PCM = Codec(CodecName.PCM16, 24_000)


MS = 1_000_000


def session_of(**settings: Any) -> dict[str, Any]:
    """Return the requested session, validated by the vendor's own type."""
    (update,) = sent(Endpoint(ready=False, **settings).say("session.created", session={}))
    SessionUpdateEvent.model_validate(update, strict=True)
    return dict(update["session"])


def test_the_session_with_everything() -> None:
    assert session_of(
        voice="marin",
        instructions="Be kind.",
        transcription_model="gpt-4o-transcribe",
        language="pt-BR",
        max_output_tokens=900,
        turn_detection={"type": "semantic_vad", "eagerness": "high"},
        extra={"audio": {"input": {"noise_reduction": {"type": "far_field"}}, "output": {"speed": 1.1}}},
    ) == {
        "type": "realtime",
        "output_modalities": ["audio"],
        "instructions": "Be kind.",
        "max_output_tokens": 900,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "turn_detection": {"type": "semantic_vad", "eagerness": "high"},
                "transcription": {"model": "gpt-4o-transcribe", "language": "pt"},
                "noise_reduction": {"type": "far_field"},
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "marin", "speed": 1.1},
        },
    }


def test_the_session_without_settings() -> None:
    assert session_of() == {
        "type": "realtime",
        "output_modalities": ["audio"],
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24_000},
                "turn_detection": {"type": "server_vad"},
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24_000}},
        },
    }


def test_detector_settings_are_merged_over_the_default() -> None:
    detection = session_of(turn_detection={"silence_duration_ms": 200})["audio"]["input"]["turn_detection"]
    assert detection == {"type": "server_vad", "silence_duration_ms": 200}


def test_manual_turns_and_text() -> None:
    session = session_of(turn_mode=TurnMode.MANUAL, modality=Modality.TEXT, voice="marin")
    assert session["output_modalities"] == ["text"]
    assert session["audio"]["input"]["turn_detection"] is None
    assert "output" not in session["audio"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (
            {"audio": {"input": {"format": {"type": "audio/pcmu"}}}},
            "pcm16 at 24000 Hz as input, got pcmu",
        ),
        ({"audio": {"input": {"format": {"rate": 16_000}}}}, "got pcm16 at 16000 Hz"),
        ({"audio": {"output": {"format": {"type": "audio/opus"}}}}, "'audio/opus' is unknown"),
        ({"audio": {"output": {"format": {"rate": 7}}}}, "8000 to 192000 Hz, got 7"),
        ({"audio": "loud"}, "expected an object in 'audio', got a string"),
    ],
)
def test_impossible_formats_are_refused(extra: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        OpenAIRealtime(EndpointSettings(base_url=BASE, extra=extra))


def test_ready_when_the_settings_are_accepted() -> None:
    endpoint = Endpoint(ready=False)
    assert not endpoint.dialect.opened(0)
    assert not endpoint.say("session.updated", session={"id": "sess_0"})  # not an answer
    assert len(sent(endpoint.say("session.created", session={"id": "sess_1", "model": "m"}))) == 1
    assert not endpoint.say("session.created", session={})
    assert endpoint.say("session.updated", session={"model": "m-2026"}) == [SessionReady("sess_1", "m-2026")]
    assert not endpoint.say("session.updated", session={})


@pytest.mark.parametrize(
    ("told", "codec"),
    [
        ({}, PCM),
        ({"audio": {"output": {"format": {"type": "audio/pcm"}}}}, PCM),
        (
            {"audio": {"output": {"format": {"type": "audio/pcm", "rate": 16_000}}}},
            Codec(CodecName.PCM16, 16_000),
        ),
        ({"audio": {"output": {"format": {"type": "audio/pcma"}}}}, Codec(CodecName.PCMA, 8_000)),
        ({"audio": None}, PCM),
    ],
)
def test_the_codec_is_the_one_that_the_endpoint_reports(told: dict[str, Any], codec: Codec) -> None:
    endpoint = Endpoint(ready=False)
    endpoint.say("session.created", session={})
    assert endpoint.say("session.updated", session=told) == [SessionReady()]
    assert [output.codec for output in endpoint.audio() if isinstance(output, ReplyAudio)] == [codec]


def test_an_unknown_codec_ends_the_session() -> None:
    endpoint = Endpoint(ready=False)
    endpoint.say("session.created", session={})
    told = problem(
        endpoint.say("session.updated", session={"audio": {"output": {"format": {"type": "ogg"}}}})
    )
    assert (told.kind, told.fatal) == (FailureKind.SESSION_REFUSED, True)
    assert "'ogg' is unknown: expected one of audio/pcm, audio/pcmu, audio/pcma" in told.message
