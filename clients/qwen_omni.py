"""Qwen-Omni Realtime (DashScope): the beta dialect with PCM at 16 kHz in and 24 kHz out, and a farewell.

``session.finish`` is answered by ``session.finished``, after which the session may be closed. The detector is
``server_vad`` (800 ms of silence) or ``semantic_vad``. Responses end by their events as in the beta dialect.
Models that know only ``pcm`` as a format take ``{"input_audio_format": "pcm", "output_audio_format": "pcm"}``
in ``endpoint.extra``.

Source: ``dashscope.audio.qwen_omni`` 2.0 and
https://www.alibabacloud.com/help/en/model-studio/realtime. What it does not document: codes of rate limits
and of the session's cap; both are known by their words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from clients._fields import Fields
from clients._openai_session import SessionShape
from clients.openai_realtime import Handler
from clients.openai_realtime_beta import FlatShape, OpenAIRealtimeBeta
from live_eval.audio import CodecName
from live_eval.dialect import Close, Output, SetTimer

__all__ = ["QwenOmni"]

_FAREWELL = "farewell"
_FAREWELL_NS = 1_000_000_000


class _Shape(FlatShape):
    """The beta session at other rates."""

    input_rate_hz: ClassVar[int] = 16_000
    asks_for_beta: ClassVar[bool] = False
    codecs: ClassVar[Mapping[str, CodecName]] = dict.fromkeys(("pcm", "pcm16", "pcm24"), CodecName.PCM16)


class QwenOmni(OpenAIRealtimeBeta):
    """One session's protocol state; a `Dialect`."""

    shape: ClassVar[SessionShape] = _Shape()

    def finish(self, at_ns: int) -> Sequence[Output]:
        """Say that the session is over, and close when the endpoint says so too, or after a second."""
        if not self._ready or self._over:
            return super().finish(at_ns)
        self._over = True
        return self._request("session.finish"), SetTimer(_FAREWELL, at_ns + _FAREWELL_NS)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        """Close without an answer to our farewell."""
        return (Close(),) if name == _FAREWELL else ()

    def _table(self) -> dict[str, Handler]:
        return super()._table() | {"session.finished": self._on_finished}

    def _on_finished(self, event: Fields, at_ns: int) -> list[Output]:
        self._over = True
        return [SetTimer(_FAREWELL, None), Close()]
