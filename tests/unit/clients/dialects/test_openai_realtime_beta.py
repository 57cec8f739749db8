"""The beta dialect, where it differs from GA."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.beta.realtime import SessionUpdateEvent

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.openai_realtime_beta import OpenAIRealtimeBeta
from live_eval.dialect import (
    EndpointProblem,
    EndpointSettings,
    Output,
    ReplyAudio,
    SessionReady,
    UnknownEvent,
)
from live_eval.errors import FailureKind, UsageError
from live_eval.types import Modality, Secret, TurnMode


def beta(**settings: Any) -> OpenAIRealtimeBeta:
    return OpenAIRealtimeBeta(EndpointSettings(base_url="https://host/v1", key=Secret("sk-1"), **settings))


def say(dialect: OpenAIRealtimeBeta, name: str, **fields: Any) -> list[Output]:
    return list(dialect.received(json.dumps({"type": name, **fields}), 0))


def session_of(**settings: Any) -> dict[str, Any]:
    """Return the requested session, validated by the vendor's own type."""
    (send,) = say(beta(**settings), "session.created", session={})
    update = json.loads(send.message)  # type: ignore[union-attr]
    SessionUpdateEvent.model_validate(update, strict=True)
    return dict(update["session"])


def ready(session: dict[str, Any], **settings: Any) -> tuple[OpenAIRealtimeBeta, list[Output]]:
    dialect = beta(**settings)
    say(dialect, "session.created", session={})
    return dialect, say(dialect, "session.updated", session=session)


def test_the_handshake_asks_for_the_beta() -> None:
    dial = beta(model="m").dial()
    assert dial.url == "wss://host/v1/realtime?model=m"
    assert dict(dial.headers) == {"Authorization": "Bearer sk-1", "OpenAI-Beta": "realtime=v1"}


def test_the_session_with_everything() -> None:
    assert session_of(
        voice="alloy",
        instructions="Be kind.",
        transcription_model="whisper-1",
        language="en-GB",
        max_output_tokens=900,
        turn_detection={"threshold": 0.6},
        extra={"temperature": 0.7, "turn_detection": {"silence_duration_ms": 300}},
    ) == {
        "modalities": ["text", "audio"],
        "instructions": "Be kind.",
        "voice": "alloy",
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "whisper-1", "language": "en"},
        "turn_detection": {"type": "server_vad", "threshold": 0.6, "silence_duration_ms": 300},
        "max_response_output_tokens": 900,
        "temperature": 0.7,
    }


def test_manual_turns_and_text() -> None:
    assert session_of(turn_mode=TurnMode.MANUAL, modality=Modality.TEXT, voice="alloy") == {
        "modalities": ["text"],
        "input_audio_format": "pcm16",
        "turn_detection": None,
    }


@pytest.mark.parametrize(
    ("told", "codec"),
    [
        ({}, Codec(CodecName.PCM16, 24_000)),
        ({"output_audio_format": "pcm16"}, Codec(CodecName.PCM16, 24_000)),
        ({"output_audio_format": "g711_alaw"}, Codec(CodecName.PCMA, 8_000)),
    ],
)
def test_the_codec_is_the_one_that_the_endpoint_reports(told: dict[str, Any], codec: Codec) -> None:
    dialect, outputs = ready(told)
    assert outputs == [SessionReady()]
    _, audio = say(dialect, "response.audio.delta", response_id="r1", item_id="a1", delta="AAAA")
    assert isinstance(audio, ReplyAudio)
    assert audio.codec == codec


def test_ga_event_names_are_unknown() -> None:
    dialect, _ = ready({})
    assert say(dialect, "response.output_audio.delta", response_id="r1", delta="AAAA") == [
        UnknownEvent("response.output_audio.delta")
    ]
    assert dialect.redact('{"type":"response.audio.delta","delta":"AAAA"}')["delta"] == {"bytes": 3}


def test_impossible_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="'opus' is unknown: expected one of pcm16, g711_ulaw, g711_alaw"):
        beta(extra={"output_audio_format": "opus"})
    with pytest.raises(UsageError, match="expected pcm16 at 24000 Hz as input"):
        beta(extra={"input_audio_format": "g711_ulaw"})


def test_the_refusal_says_what_to_do() -> None:
    for outputs in (
        say(beta(), "error", error={"code": "beta_api_shape_disabled", "message": "No longer supported."}),
        list(beta().closed(4000, "invalid_request_error.beta_api_shape_disabled", 0)),
    ):
        (told,) = outputs
        assert isinstance(told, EndpointProblem)
        assert (told.kind, told.fatal, told.code) == (
            FailureKind.SESSION_REFUSED,
            True,
            "beta_api_shape_disabled",
        )
        assert "use the GA dialect, --endpoint openai" in told.message
