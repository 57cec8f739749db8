"""Any pipecat bot over WebRTC (SmallWebRTCTransport).

Sources: pipecat-ai 1.14, ``pipecat.transports.smallwebrtc``, ``pipecat.processors.frameworks.rtvi`` and the
client that ships as ``pipecat-ai-small-webrtc-prebuilt``. The offer goes to ``/api/offer`` as JSON, the
candidates follow by PATCH. If a client sends no text ``ping`` for three seconds, the bot considers it gone.

Messages on the data channel differ from bot to bot, so replies are found by their energy. Nearly every bot
speaks RTVI, whose messages we use if they come: ``bot-ready`` (the answer to ``client-ready``), the user's
turn, both transcripts, errors. We announce version 1, which bots of both versions serve.

Decisions:

* **Ready** is the bot at its ``bot-ready``: until then it may still be loading its models. A bot that sends
  nothing for two seconds does not speak RTVI and counts as ready.
* **Text of the reply** is ``bot-tts-text``, the text given to the voice. ``bot-transcription``,
  ``bot-llm-text`` and ``bot-output`` repeat it.
* **Text of the user** is each final ``user-transcription``; the pieces before it are repeated in it.

There are no manual turns, responses, usage, rate limits or session limits, and the bot chooses instructions
and voice: no golden session shows them.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.clients.toolkit import Fields, WebRtcBot, send_json
from live_eval.dialect import (
    EndpointSettings,
    InputTranscript,
    Output,
    Send,
    SetTimer,
    SpeechStarted,
    SpeechStopped,
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
        settings: The settings of the session; see `WebRtcBot`. ``extra`` may hold pipecat's ``request_data``.
    """

    path = "api/offer"
    channel = "chat"
    patch_candidates = True
    ignored = frozenset(
        {
            "bot-audio-level",
            "bot-interrupted",
            "bot-llm-marker",
            "bot-llm-started",
            "bot-llm-stopped",
            "bot-llm-text",
            "bot-output",
            "bot-started-speaking",
            "bot-stopped-speaking",
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

    def hello(self, at_ns: int) -> Sequence[Output]:
        about = {"version": _RTVI_VERSION, "about": {"library": "live-eval"}}
        ask = {"label": _RTVI, "type": "client-ready", "id": "live-eval", "data": about}
        return (*self._ping(at_ns), send_json(ask))

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return self._ping(at_ns) if name == _PING else super().timer(name, at_ns)

    def handle(self, name: str, event: Fields) -> list[Output] | None:
        if event.text("label") != _RTVI:
            return None
        data = event.child("data")
        match name:
            case "bot-ready":
                return self.become_ready()
            case "user-started-speaking":
                return [SpeechStarted()]
            case "user-stopped-speaking":
                return [SpeechStopped()]
            case "user-transcription":
                return self._user_said(data)
            case "bot-tts-text":
                text = data.need_text("text")
                return [StreamText(text if text[-1:].isspace() else f"{text} ")] if text else []
            case "error":
                text = data.need_text("error")
                if data.flag("fatal") is not True:
                    return [self.warning(text)]
                return [self.fatal(FailureKind.ENDPOINT_ERROR, text)]
            case "error-response":
                return [self.warning(data.need_text("error"))]
        return None

    def _user_said(self, data: Fields) -> list[Output]:
        text = data.need_text("text")
        if data.flag("final") is not True:
            return []
        self._items += 1
        return [InputTranscript(text, True, f"user_{self._items}")]

    def _ping(self, at_ns: int) -> tuple[Output, ...]:
        return Send(_PING), SetTimer(_PING, at_ns + _PING_NS)
