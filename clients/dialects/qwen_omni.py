"""Qwen-Omni Realtime (DashScope): the beta dialect with 16 kHz PCM in, 24 kHz PCM out and a session end.

* The server responds to ``session.finish`` with ``session.finished``, after which the session may be closed.
  Models since 3.8 may not respond, so we wait at most one second.
* The detector is ``server_vad`` (800 ms of silence) or ``semantic_vad``.
* Formats: models since 3.8 accept ``audio.{input,output}.format {type: "pcm", sample_rate}``; older models
  accept a top-level ``pcm16`` or, according to their documentation, ``pcm`` or ``pcm24``: set these in
  ``endpoint.extra``.
* The reply length limit is ``max_tokens``. There is no ``conversation.item.truncate``.

Sources: ``dashscope.audio.qwen_omni`` and ``dashscope.v2.resources.audio.realtime`` 2.0.2 (whose authors did
not test 3.8 in the cloud), https://www.alibabacloud.com/help/en/model-studio/realtime and its client-events.
Error codes for rate limits and the session limit (120 minutes) are undocumented; both are matched by text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from live_eval.audio import Codec, CodecName
from live_eval.clients.dialects.openai_realtime import SessionTerms
from live_eval.clients.dialects.openai_realtime_beta import BetaDialect
from live_eval.clients.toolkit import Fields, Handler
from live_eval.dialect import Close, Output, SetTimer

__all__ = ["QwenOmni"]

_FAREWELL = "farewell"
_FAREWELL_NS = 1_000_000_000
_NESTED = "qwen3.8-omni-"
_FLAT_FORMATS = {"input": "input_audio_format", "output": "output_audio_format"}


class QwenOmni(BetaDialect):
    """A `Dialect` that tracks the state of one session."""

    input_rate_hz: ClassVar[int] = 16_000
    truncates: ClassVar[bool] = False
    codecs: ClassVar[Mapping[str, CodecName]] = dict.fromkeys(("pcm", "pcm16", "pcm24"), CodecName.PCM16)

    def asked_session(self) -> dict[str, Any]:
        session = super().asked_session()
        if "max_response_output_tokens" in session:
            session["max_tokens"] = session.pop("max_response_output_tokens")
        if not (self.settings.model or "").startswith(_NESTED):
            return session
        rates_hz = {"input": self.input_rate_hz, "output": self.output_rate_hz}
        session["audio"] = {
            way: {"format": {"type": "pcm", "sample_rate": rates_hz[way]}}
            for way, flat in _FLAT_FORMATS.items()
            if session.pop(flat, None) is not None
        }
        return session

    def terms_of(self, session: Fields) -> SessionTerms:
        flat = super().terms_of(session)
        heard, said = (self._nested(session, way) for way in _FLAT_FORMATS)
        return SessionTerms(heard or flat.input, said or flat.output, flat.interrupts)

    def _nested(self, session: Fields, way: str) -> Codec | None:
        stated = session.child("audio").child(way).child("format")
        rate_hz = self.input_rate_hz if way == "input" else self.output_rate_hz
        return self.codec(stated, "type", stated.integer("sample_rate") or rate_hz)

    def finish(self, at_ns: int) -> Sequence[Output]:
        if not self.ready or self.over:
            return super().finish(at_ns)
        self.over = True
        return self._request("session.finish"), SetTimer(_FAREWELL, at_ns + _FAREWELL_NS)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return (Close(),) if name == _FAREWELL else ()

    def _table(self) -> dict[str, Handler]:
        return super()._table() | {"session.finished": self._on_finished}

    def _on_finished(self, event: Fields, at_ns: int) -> list[Output]:
        self.over = True
        return [SetTimer(_FAREWELL, None), Close()]
