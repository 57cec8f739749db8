"""Zhipu GLM-Realtime: the beta dialect with a WAV file per append and client-side turn ends.

* Each append is a complete WAV file, 16 kHz mono, in base64; replies are PCM at 24 kHz.
* ``turn_detection.type`` is ``client_vad`` (the default: we send commit and create) or ``server_vad``, but
  never null.
* ``beta_fields.chat_mode`` is required; ``audio`` here.
* ``heartbeat`` arrives every 30 s. Errors have Zhipu's numeric codes.
* ``response.done`` and reply transcripts may have no response ID; they then belong to the current response.
* There is no ``conversation.item.truncate``.

Sources: https://docs.bigmodel.cn/cn/asyncapi/realtime (AsyncAPI document), the vendor's
https://github.com/MetaGLM/glm-realtime-sdk, and the error codes at https://docs.bigmodel.cn/cn/faq/api-code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from live_eval.audio import CodecName
from live_eval.clients.dialects.openai_realtime_beta import BetaDialect
from live_eval.clients.toolkit import Fields, TrackedResponse, wav_header
from live_eval.dialect import Output
from live_eval.errors import FailureKind

__all__ = ["Glm"]

_RATE_HZ = 16_000
_KINDS = {
    **dict.fromkeys(("1000", "1001", "1002", "1003", "1004"), FailureKind.AUTHENTICATION),
    **dict.fromkeys(("1113", "1302", "1303", "1304", "1305"), FailureKind.RATE_LIMITED),
    "1211": FailureKind.UNKNOWN_MODEL,
}


class Glm(BetaDialect):
    """A `Dialect` that tracks the state of one session."""

    truncates: ClassVar[bool] = False
    ignored = BetaDialect.ignored | {
        "heartbeat",
        "response.function_call.simple_browser",
        "response.function_call.simple_browser.result",
    }
    input_rate_hz: ClassVar[int] = _RATE_HZ
    pcm: ClassVar[str] = "pcm"
    codecs: ClassVar[Mapping[str, CodecName]] = dict.fromkeys(
        ("pcm", "pcm16", "wav", "wav16"), CodecName.PCM16
    )

    def asked_session(self) -> dict[str, Any]:
        fields = {"chat_mode": "audio", "auto_search": False}
        return super().asked_session() | {"input_audio_format": "wav", "beta_fields": fields}

    def turn_detection(self) -> dict[str, Any]:
        return super().turn_detection() or {"type": "client_vad"}

    def encoded(self, pcm: bytes) -> bytes:
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
