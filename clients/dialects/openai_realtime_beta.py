"""OpenAI Realtime, beta dialect: flat settings and older names, spoken by many compatible servers.

Event shapes are those of the SDK's ``openai.types.beta.realtime``. OpenAI itself now refuses this dialect
(error ``beta_api_shape_disabled``, close code 4000).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from live_eval.audio import CodecName
from live_eval.clients.dialects._openai_session import SessionShape, SessionTerms
from live_eval.clients.dialects.openai_realtime import OpenAIRealtime
from live_eval.clients.toolkit import Fields, given
from live_eval.dialect import EndpointSettings
from live_eval.types import Modality

__all__ = ["FlatShape", "OpenAIRealtimeBeta"]


class FlatShape(SessionShape):
    """The beta shape of a session: one flat object."""

    pcm: ClassVar[str] = "pcm16"
    """The name of PCM."""
    codecs: ClassVar[Mapping[str, CodecName]] = {
        "pcm16": CodecName.PCM16,
        "g711_ulaw": CodecName.PCMU,
        "g711_alaw": CodecName.PCMA,
    }

    def write(self, settings: EndpointSettings) -> dict[str, Any]:
        speaks, model = settings.modality is Modality.AUDIO, settings.transcription_model
        return {
            "modalities": ["text", "audio"] if speaks else ["text"],
            "input_audio_format": self.pcm,
            "turn_detection": self.turn_detection(settings),
            **given(
                output_audio_format=self.pcm if speaks else None,
                voice=settings.voice if speaks else None,
                input_audio_transcription=model and self.transcription(model, settings.language),
                instructions=settings.instructions,
                max_response_output_tokens=settings.max_output_tokens,
            ),
        }

    def read(self, session: Fields) -> SessionTerms:
        return SessionTerms(
            self.codec(session, "input_audio_format", self.input_rate_hz),
            self.codec(session, "output_audio_format", self.output_rate_hz),
            self.interrupts(session),
        )


class _Shape(FlatShape):
    """The beta shape with OpenAI's header for it."""

    def headers(self, settings: EndpointSettings) -> dict[str, str]:
        return super().headers(settings) | {"OpenAI-Beta": "realtime=v1"}


class OpenAIRealtimeBeta(OpenAIRealtime):
    """The protocol state of one session, beta dialect; a `Dialect`."""

    shape: ClassVar[SessionShape] = _Shape()
    spellings: ClassVar[Mapping[str, str]] = {
        "response.output_audio.delta": "response.audio.delta",
        "response.output_audio.done": "response.audio.done",
        "response.output_audio_transcript.delta": "response.audio_transcript.delta",
        "response.output_audio_transcript.done": "response.audio_transcript.done",
        "response.output_text.delta": "response.text.delta",
        "response.output_text.done": "response.text.done",
    }
