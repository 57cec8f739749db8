"""OpenAI Realtime, beta dialect: flat settings and older names, used by many compatible servers.

Event shapes follow the SDK's ``openai.types.beta.realtime``. OpenAI itself now rejects this dialect
(error ``beta_api_shape_disabled``, close code 4000).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from live_eval.audio import CodecName
from live_eval.clients.dialects.openai_realtime import OpenAIRealtime, SessionTerms
from live_eval.clients.toolkit import Fields, given
from live_eval.types import Modality

__all__ = ["BetaDialect", "OpenAIRealtimeBeta"]


class BetaDialect(OpenAIRealtime):
    """A `Dialect` that tracks the state of one session with a server that uses the beta dialect."""

    spellings: ClassVar[Mapping[str, str]] = {
        "response.output_audio.delta": "response.audio.delta",
        "response.output_audio.done": "response.audio.done",
        "response.output_audio_transcript.delta": "response.audio_transcript.delta",
        "response.output_audio_transcript.done": "response.audio_transcript.done",
        "response.output_text.delta": "response.text.delta",
        "response.output_text.done": "response.text.done",
    }
    reply_part: ClassVar[str] = "text"
    pcm: ClassVar[str] = "pcm16"
    """The name of PCM."""
    codecs: ClassVar[Mapping[str, CodecName]] = {
        "pcm16": CodecName.PCM16,
        "g711_ulaw": CodecName.PCMU,
        "g711_alaw": CodecName.PCMA,
    }

    def asked_session(self) -> dict[str, Any]:
        settings = self.settings
        speaks, model = settings.modality is Modality.AUDIO, settings.transcription_model
        return {
            "modalities": ["text", "audio"] if speaks else ["text"],
            "input_audio_format": self.pcm,
            "turn_detection": self.turn_detection(),
            **given(
                output_audio_format=self.pcm if speaks else None,
                voice=settings.voice if speaks else None,
                input_audio_transcription=model and self.transcription(model),
                instructions=settings.instructions,
                max_response_output_tokens=settings.max_output_tokens,
            ),
        }

    def terms_of(self, session: Fields) -> SessionTerms:
        return SessionTerms(
            self.codec(session, "input_audio_format", self.input_rate_hz),
            self.codec(session, "output_audio_format", self.output_rate_hz),
            self.stops_replies(session),
        )


class OpenAIRealtimeBeta(BetaDialect):
    """A `Dialect` for the beta dialect with the header that OpenAI required."""

    def headers(self) -> dict[str, str]:
        return super().headers() | {"OpenAI-Beta": "realtime=v1"}
