"""The settings of a session in OpenAI's GA dialect, for the client and for the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_eval.audio import Codec, CodecName
from live_eval.reference.engine.engine import PCM_24K, EngineConfig
from live_eval.reference.engine.turn_detector import Detection
from live_eval.reference.protocols.openai_schema import (
    EAGERNESS_SILENCE_MS,
    Format,
    PcmFormat,
    PcmuFormat,
    SemanticVad,
    ServerVad,
    SessionParams,
    TurnDetection,
)
from live_eval.reference.protocols.payloads import MessageError

__all__ = ["MODEL", "SessionSettings", "codec_of", "format_of"]

MODEL = "live-eval-reference"
"""Default model name: agents SDKs name the model only in ``session.update``."""

DEFAULT_VOICE = "alloy"


class SessionSettings:
    """One session's settings, changed by ``session.update``.

    Args:
        session_id: Its id.
        model: The requested model.
        expires_at: When it expires, in seconds since the Unix epoch.
        calibrate: Whether to accept only 16-bit PCM.
    """

    def __init__(self, session_id: str, model: str, expires_at: int, *, calibrate: bool) -> None:
        self._calibrate = calibrate
        self._turn_detection: TurnDetection | None = ServerVad(type="server_vad")
        self._input_codec = self._output_codec = PCM_24K
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
                    "turn_detection": self._turn_detection.model_dump(mode="json"),
                },
                "output": {"format": format_of(PCM_24K), "voice": DEFAULT_VOICE, "speed": 1.0},
            },
            "include": None,
        }

    def update(self, params: SessionParams) -> None:
        """Apply a client's changes.

        Raises:
            MessageError: One is refused; then nothing changes.
        """
        self._check(params)
        given = params.model_dump(mode="json", exclude_unset=True, exclude={"audio", "type"})
        self.shown |= given
        if params.audio is not None and params.audio.input is not None:
            heard = params.audio.input
            # These are replaced as a whole, with defaults for omitted members.
            self.shown["audio"]["input"] |= heard.model_dump(mode="json", include=heard.model_fields_set)
            if "turn_detection" in heard.model_fields_set:
                self._turn_detection = heard.turn_detection
            if heard.format is not None:
                self._input_codec = codec_of(heard.format)
        if params.audio is not None and params.audio.output is not None:
            spoken = params.audio.output
            self.shown["audio"]["output"] |= spoken.model_dump(
                mode="json", include=spoken.model_fields_set, exclude_none=True
            )
            if spoken.format is not None:
                self._output_codec = codec_of(spoken.format)

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
                raise MessageError("invalid_value", f"Invalid value: null is no format for '{where}'.", where)
        heard = audio.input.format if audio.input is not None else None
        if self._calibrate and not isinstance(heard, PcmFormat | None):
            message = "This endpoint is calibrating: the mark in the speech survives only 16-bit PCM."
            raise MessageError("invalid_value", message, "session.audio.input.format")

    def engine_config(self) -> EngineConfig:
        """Return the settings for the engine."""
        limit = self.shown["max_output_tokens"]
        turns = self._turn_detection
        return EngineConfig(
            input_codec=self._input_codec,
            output_codec=self._output_codec,
            detection=_detection(turns),
            create_response=turns is not None and turns.create_response,
            interrupt_response=turns is not None and turns.interrupt_response,
            transcribe=self.shown["audio"]["input"]["transcription"] is not None,
            instructions=self.shown["instructions"] or "",
            wants_audio=self.shown["output_modalities"] != ["text"],
            max_output_tokens=limit if isinstance(limit, int) else None,
            speed=self.shown["audio"]["output"]["speed"],
        )


def codec_of(given: Format) -> Codec:
    """Return the codec of a format."""
    if isinstance(given, PcmFormat):
        return PCM_24K
    return Codec(CodecName.PCMU if isinstance(given, PcmuFormat) else CodecName.PCMA, 8_000)


def format_of(codec: Codec) -> Mapping[str, Any]:
    """Encode a codec as a format; the dialect has none for a media track."""
    if codec.name is CodecName.OPUS:
        codec = PCM_24K
    if codec.name is CodecName.PCM16:
        return {"type": "audio/pcm", "rate": codec.rate_hz}
    return {"type": "audio/pcmu" if codec.name is CodecName.PCMU else "audio/pcma"}


def _detection(turns: TurnDetection | None) -> Detection | None:
    if turns is None:
        return None
    if isinstance(turns, SemanticVad):
        return Detection(silence_ms=EAGERNESS_SILENCE_MS[turns.eagerness])
    return Detection(
        threshold=turns.threshold,
        prefix_padding_ms=turns.prefix_padding_ms,
        silence_ms=turns.silence_duration_ms,
    )
