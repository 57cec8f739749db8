"""Zhipu GLM-Realtime: the beta dialect with each append a WAV file, and turns that the client ends.

* An append is a whole WAV file with its header, 16 kHz mono, in base64; replies are PCM at 24 kHz.
* ``turn_detection.type`` is ``client_vad`` (the default: we commit and create) or ``server_vad``, never null.
* ``beta_fields.chat_mode`` is required; ``audio`` here.
* ``heartbeat`` arrives every 30 s. Errors have Zhipu's numeric codes.
* ``response.done`` and transcripts of replies may not name their response; then it is the one under way.
* There is no ``conversation.item.truncate``.

Sources: https://docs.bigmodel.cn/cn/asyncapi/realtime (AsyncAPI document), the vendor's
https://github.com/MetaGLM/glm-realtime-sdk, and the codes of https://docs.bigmodel.cn/cn/faq/api-code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from live_eval.audio import CodecName
from live_eval.clients.dialects._openai_session import SessionShape
from live_eval.clients.dialects.openai_realtime_beta import FlatShape, OpenAIRealtimeBeta
from live_eval.clients.toolkit import Fields, TrackedResponse, merged, wav_header
from live_eval.dialect import EndpointSettings, Output
from live_eval.errors import FailureKind
from live_eval.types import TurnMode

__all__ = ["Glm"]

_RATE_HZ = 16_000
_KINDS = {
    "1000": FailureKind.AUTHENTICATION,
    "1001": FailureKind.AUTHENTICATION,
    "1002": FailureKind.AUTHENTICATION,
    "1003": FailureKind.AUTHENTICATION,
    "1004": FailureKind.AUTHENTICATION,
    "1113": FailureKind.RATE_LIMITED,
    "1211": FailureKind.UNKNOWN_MODEL,
    "1302": FailureKind.RATE_LIMITED,
    "1303": FailureKind.RATE_LIMITED,
    "1304": FailureKind.RATE_LIMITED,
    "1305": FailureKind.RATE_LIMITED,
}


class _Shape(FlatShape):
    """The beta session with WAV in and PCM out."""

    input_rate_hz: ClassVar[int] = _RATE_HZ
    pcm: ClassVar[str] = "pcm"
    codecs: ClassVar[Mapping[str, CodecName]] = {
        "pcm": CodecName.PCM16,
        "pcm16": CodecName.PCM16,
        "wav": CodecName.PCM16,
        "wav16": CodecName.PCM16,
    }

    def write(self, settings: EndpointSettings) -> dict[str, Any]:
        session = super().write(settings)
        fields = {"chat_mode": "audio", "auto_search": False}
        return session | {"input_audio_format": "wav", "beta_fields": fields}

    def turn_detection(self, settings: EndpointSettings) -> dict[str, Any]:
        """Return the settings that say who ends the user's turns."""
        if settings.turn_mode is TurnMode.MANUAL:
            return {"type": "client_vad"}
        return merged({"type": "server_vad"}, settings.turn_detection)


class Glm(OpenAIRealtimeBeta):
    """The protocol state of one session; a `Dialect`."""

    shape: ClassVar[SessionShape] = _Shape()
    truncates: ClassVar[bool] = False
    ignored = OpenAIRealtimeBeta.ignored | {
        "heartbeat",
        "response.function_call.simple_browser",
        "response.function_call.simple_browser.result",
    }

    def encoded(self, pcm: bytes) -> bytes:
        """Return a frame as a WAV file."""
        return wav_header(len(pcm), _RATE_HZ) + pcm

    def _reply(self, holder: Fields, field: str, outputs: list[Output]) -> TrackedResponse:
        active = self._replies.active
        return super()._reply(holder, field, outputs) if active is None or field in holder else active

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        error = event.child("error")
        kind = _KINDS.get(error.text("code") or "")
        if kind is None:
            return super()._on_error(event, at_ns)
        message = f"{error.text('code')}: {error.text('message') or 'no reason given'}"
        return [self.fatal(kind, self.clean(message), error.text("code"))]
