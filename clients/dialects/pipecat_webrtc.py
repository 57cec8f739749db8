"""Dialect for any pipecat bot over WebRTC (SmallWebRTCTransport).

Sources: pipecat-ai 1.14, ``pipecat.transports.smallwebrtc``, ``pipecat.processors.frameworks.rtvi`` and the
client ``pipecat-ai-small-webrtc-prebuilt``. The offer is sent to ``/api/offer`` as JSON, followed by the
candidates in a PATCH. If a client sends no text ``ping`` for three seconds, the bot considers it gone.

Data channel messages vary between bots, so replies are detected by their energy. Nearly every bot supports
RTVI, whose messages we use if available: ``bot-ready`` (the response to ``client-ready``), the user's turn,
both transcripts, errors. We announce version 1, which bots of both versions support.

Decisions:

* **Ready.** The bot is ready at ``bot-ready``: until then it may be loading its models. A bot that sends
  nothing for two seconds does not support RTVI and counts as ready.
* **Reply text** is ``bot-tts-text``, the input of the speech synthesiser. ``bot-transcription``,
  ``bot-llm-text`` and ``bot-output`` repeat it.
* **User text** is each final ``user-transcription``, which includes the earlier pieces.
* **Interrupted.** ``bot-interrupted`` counts only while the bot reports that it speaks
  (``bot-started-speaking``, ``bot-stopped-speaking``): every user turn may trigger it, even if the bot is
  silent.

There are no manual turns, responses, usage, rate limits or session limits, and the bot determines
instructions and voice: no golden session covers these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from live_eval.clients.toolkit import Fields, Handler, WebRtcBot, send_json
from live_eval.dialect import (
    EndpointSettings,
    InputTranscript,
    Output,
    Send,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
    StreamInterrupted,
    StreamText,
)
from live_eval.errors import FailureKind

__all__ = ["PipecatWebRtc"]

_RTVI = "rtvi-ai"
_RTVI_VERSION = "1.0.0"
_PING = "ping"
_PING_NS = 1_000_000_000


class PipecatWebRtc(WebRtcBot):
    """The protocol state of one session; a `Dialect`.

    Args:
        settings: See `WebRtcBot`; ``extra`` may contain pipecat's ``request_data``.
    """

    path = "api/offer"
    channel = "chat"
    patch_candidates = True
    ignored = frozenset(
        {
            "bot-audio-level",
            "bot-llm-marker",
            "bot-llm-started",
            "bot-llm-stopped",
            "bot-llm-text",
            "bot-output",
            "bot-transcription",
            "bot-tts-audio",
            "bot-tts-started",
            "bot-tts-stopped",
            "llm-function-call",
            "llm-function-call-in-progress",
            "llm-function-call-started",
            "llm-function-call-stopped",
            "llm-raw-text",
            "metrics",
            "server-message",
            "server-response",
            "signalling",
            "stt-raw-text",
            "system-log",
            "tts-raw-text",
            "user-audio-level",
            "user-input",
            "user-llm-text",
            "user-mute-started",
            "user-mute-stopped",
            "vad-user-started-speaking",
            "vad-user-stopped-speaking",
        }
    )

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._items = 0
        self._speaks = False
        self.handlers = {
            "bot-ready": lambda event, _: self.become_ready(),
            "bot-started-speaking": lambda event, _: self._bot_speaks(True),
            "bot-stopped-speaking": lambda event, _: self._bot_speaks(False),
            "bot-interrupted": lambda event, _: [StreamInterrupted()] if self._speaks else [],
            "user-started-speaking": lambda event, _: [SpeechStarted()],
            "user-stopped-speaking": lambda event, _: [SpeechStopped()],
            "user-transcription": self._on_transcription,
            "bot-tts-text": self._on_text,
            "error": self._on_error,
            "error-response": lambda event, _: [self.warning(event.child("data").need_text("error"))],
        }

    def hello(self, at_ns: int) -> Sequence[Output]:
        about = {"version": _RTVI_VERSION, "about": {"library": "live-eval"}}
        ask = {"label": _RTVI, "type": "client-ready", "id": "live-eval", "data": about}
        return (*self._ping(at_ns), send_json(ask))

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return self._ping(at_ns) if name == _PING else super().timer(name, at_ns)

    def handler_of(self, name: str, event: Mapping[str, Any]) -> Handler | None:
        return super().handler_of(name, event) if event.get("label") == _RTVI else None

    def _bot_speaks(self, speaks: bool) -> list[Output]:
        self._speaks = speaks
        return []

    def _on_transcription(self, event: Fields, at_ns: int) -> list[Output]:
        data = event.child("data")
        text = data.need_text("text")
        if data.flag("final") is not True:
            return []
        self._items += 1
        return [InputTranscript(text, True, f"user_{self._items}")]

    def _on_text(self, event: Fields, at_ns: int) -> list[Output]:
        text = event.child("data").need_text("text")
        return [StreamText(text if text[-1:].isspace() else f"{text} ")] if text else []

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        data = event.child("data")
        text = data.need_text("error")
        fatal = data.flag("fatal") is True
        return [self.fatal(FailureKind.ENDPOINT_ERROR, text) if fatal else self.warning(text)]

    def _ping(self, at_ns: int) -> tuple[Output, ...]:
        return Send(_PING), SetTimer(_PING, at_ns + _PING_NS)
