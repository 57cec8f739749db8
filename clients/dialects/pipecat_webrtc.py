"""Dialect for any pipecat bot over WebRTC (SmallWebRTCTransport).

Sources: pipecat-ai 1.14, ``pipecat.transports.smallwebrtc`` and the client
``pipecat-ai-small-webrtc-prebuilt``. The offer is sent to ``/api/offer`` as JSON, followed by the candidates
in a PATCH. If a client sends no text ``ping`` for three seconds, the bot treats it as disconnected.

Data channel messages vary between bots, so replies are detected by their energy. RTVI messages are used if
available (`live_eval.clients.dialects._rtvi`).

* **Interrupted.** ``bot-interrupted`` counts only while the bot reports that it speaks
  (``bot-started-speaking``, ``bot-stopped-speaking``): every user turn may trigger it, even if the bot is
  silent.

There are no manual turns, responses, usage, rate limits or session limits; the bot determines instructions
and voice. No golden session covers these features.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.clients.dialects._rtvi import CLIENT_READY, RtviBot, spaced
from live_eval.clients.toolkit import Fields, WebRtcBot, send_json
from live_eval.dialect import EndpointSettings, Output, Send, SetTimer, StreamInterrupted, StreamText

__all__ = ["PipecatWebRtc"]

_PING = "ping"
_PING_NS = 1_000_000_000


class PipecatWebRtc(RtviBot, WebRtcBot):
    """A `Dialect` that tracks the state of one session.

    Args:
        settings: See `WebRtcBot`; ``extra`` may contain pipecat's ``request_data``.
    """

    path = "api/offer"
    channel = "chat"
    patch_candidates = True

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._speaks = False
        self.handlers |= {
            "bot-started-speaking": lambda event, _: self._bot_speaks(True),
            "bot-stopped-speaking": lambda event, _: self._bot_speaks(False),
            "bot-interrupted": lambda event, _: [StreamInterrupted()] if self._speaks else [],
            "bot-tts-text": self._on_text,
        }

    def hello(self, at_ns: int) -> Sequence[Output]:
        return (*self._ping(at_ns), send_json(CLIENT_READY))

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return self._ping(at_ns) if name == _PING else super().timer(name, at_ns)

    def _bot_speaks(self, speaks: bool) -> list[Output]:
        self._speaks = speaks
        return []

    def _on_text(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.child("data").need_text("text")
        return [StreamText(spaced(text))] if text else []

    def _ping(self, at_ns: int) -> tuple[Output, ...]:
        return Send(_PING), SetTimer(_PING, at_ns + _PING_NS)
