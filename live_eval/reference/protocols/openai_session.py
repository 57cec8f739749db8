"""Apply a client's session settings in OpenAI's GA dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.endpointer import Detection
from live_eval.reference.engine.engine import PCM_24K, EngineConfig
from live_eval.reference.protocols.openai_schema import (
    EAGERNESS_SILENCE_MS,
    PcmFormat,
    ServerVad,
    SessionParams,
)
from live_eval.reference.protocols.protocol import MessageError

__all__ = ["G711", "MODEL", "SessionSettings", "codec_of", "format_of"]

MODEL = "live-eval-reference"
"""Default model name, since OpenAI's agents SDKs specify the model only in ``session.update``."""

DEFAULT_VOICE = "alloy"

G711 = {"audio/pcmu": CodecName.PCMU, "audio/pcma": CodecName.PCMA}
"""Codecs of G.711, by format."""


class SessionSettings:
    """The settings of a session, changed by ``session.update``. Calibration accepts only 16-bit PCM."""

    def __init__(self, session_id: str, model: str, expires_at: int, *, calibrate: bool) -> None:
        self._calibrate = calibrate
        self.shown: dict[str, Any] = {
            "type": "realtime",
            "object": "realtime.session",
            "id": session_id,
            "model": model,
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "tracing": None,
            "truncation": "auto",
            "prompt": None,
            "expires_at": expires_at,
            "audio": {
                "input": {
                    "format": format_of(PCM_24K),
                    "transcription": None,
                    "noise_reduction": None,
                    "turn_detection": ServerVad(type="server_vad").model_dump(mode="json"),
                },
                "output": {"format": format_of(PCM_24K), "voice": DEFAULT_VOICE, "speed": 1.0},
            },
            "include": None,
        }

    def update(self, params: SessionParams) -> None:
        """Apply a client's changes, or raise `MessageError` and change nothing."""
        self._check(params)
        self.shown |= params.model_dump(mode="json", exclude_unset=True, exclude={"audio", "type"})
        audio = params.audio
        # A new setting replaces the old one completely: omitted fields are reset to their defaults.
        if audio is not None and audio.input is not None:
            given = audio.input.model_dump(mode="json", include=audio.input.model_fields_set)
            self.shown["audio"]["input"] |= given
        if audio is not None and audio.output is not None:
            fields = audio.output.model_fields_set
            given = audio.output.model_dump(mode="json", include=fields, exclude_none=True)
            self.shown["audio"]["output"] |= given

    def _check(self, params: SessionParams) -> None:
        if params.model is not None and self.shown["model"] not in (MODEL, params.model):
            message = "The model of a session cannot be changed."
            raise MessageError("invalid_value", message, "session.model")
        audio = params.audio
        if audio is None:
            return
        for side, given in (("input", audio.input), ("output", audio.output)):
            if given is not None and "format" in given.model_fields_set and given.format is None:
                where = f"session.audio.{side}.format"
                raise MessageError("invalid_value", f"Invalid value: '{where}' must not be null.", where)
        heard = audio.input.format if audio.input is not None else None
        if self._calibrate and not isinstance(heard, PcmFormat | None):
            message = "This endpoint is calibrating: the mark in the speech survives only 16-bit PCM."
            raise MessageError("invalid_value", message, "session.audio.input.format")

    def engine_config(self) -> EngineConfig:
        """Return the settings for the engine."""
        limit = self.shown["max_output_tokens"]
        heard, spoken = self.shown["audio"]["input"], self.shown["audio"]["output"]
        turns = heard["turn_detection"]
        return EngineConfig(
            input_codec=codec_of(heard["format"]["type"]),
            output_codec=codec_of(spoken["format"]["type"]),
            detection=_detection(turns) if turns is not None else None,
            create_response=turns is not None and turns["create_response"],
            interrupt_response=turns is not None and turns["interrupt_response"],
            transcribe=heard["transcription"] is not None,
            instructions=self.shown["instructions"] or "",
            wants_audio=self.shown["output_modalities"] != ["text"],
            max_output_tokens=limit if isinstance(limit, int) else None,
            speed=spoken["speed"],
        )


def codec_of(kind: str) -> Codec:
    """Return the codec for a format type."""
    return Codec(G711[kind], 8_000) if kind in G711 else PCM_24K


def format_of(codec: Codec) -> Mapping[str, Any]:
    """Return a codec's format; a media track's codec, which the dialect cannot name, is reported as PCM."""
    kinds = {name: kind for kind, name in G711.items()}
    return {"type": kinds[codec.name]} if codec.name in kinds else {"type": "audio/pcm", "rate": 24_000}


def _detection(turns: Mapping[str, Any]) -> Detection:
    if turns["type"] == "semantic_vad":
        return Detection(silence_ms=EAGERNESS_SILENCE_MS[turns["eagerness"]])
    return Detection(
        threshold=turns["threshold"],
        prefix_padding_ms=turns["prefix_padding_ms"],
        silence_ms=turns["silence_duration_ms"],
    )
