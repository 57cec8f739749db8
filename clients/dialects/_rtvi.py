"""Handle RTVI, the JSON protocol of pipecat bots over any transport.

Source: pipecat-ai 1.14, ``pipecat.processors.frameworks.rtvi``. Nearly every bot supports RTVI; we use the
response to ``client-ready``, the user's turn, both transcripts, and errors. We announce version 1, which
bots of both versions support.

* **Ready.** The bot is ready once it sends ``bot-ready``: until then, it may be loading its models.
* **Reply text** is ``bot-tts-text``, the input of the speech synthesiser. ``bot-transcription``,
  ``bot-llm-text`` and ``bot-output`` repeat the same text.
* **User text** is each final ``user-transcription``, which includes the earlier pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from live_eval.clients.toolkit import Bot, Fields, Handler
from live_eval.dialect import EndpointSettings, InputTranscript, Output, SpeechStarted, SpeechStopped
from live_eval.errors import FailureKind

__all__ = ["CLIENT_READY", "RtviBot", "spaced"]

_RTVI = "rtvi-ai"
CLIENT_READY = {
    "label": _RTVI,
    "type": "client-ready",
    "id": "live-eval",
    "data": {"version": "1.0.0", "about": {"library": "live-eval"}},
}
"""The message that asks if the bot is ready."""


class RtviBot(Bot):
    """Base class of bots that speak RTVI; a subclass adds the handlers for replies.

    A bot without a detector reports only final transcripts, which then end the user's speech.
    """

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
        self._detects = False  # whether the bot reports when the user speaks
        self.handlers = {
            "bot-ready": lambda event, _: self.become_ready(),
            "user-started-speaking": self._on_speech,
            "user-stopped-speaking": lambda event, _: [SpeechStopped()],
            "user-transcription": self._on_transcription,
            "error": self._on_error,
            "error-response": lambda event, _: [self.warning(event.child("data").need_text("error"))],
        }

    def handler_of(self, name: str, event: Mapping[str, Any]) -> Handler | None:
        return super().handler_of(name, event) if event.get("label") == _RTVI else None

    def _on_transcription(self, event: Fields, at_ns: int) -> list[Output]:
        data = event.child("data")
        text = data.need_text("text")
        if data.flag("final") is not True:
            return []
        self._items += 1
        heard = InputTranscript(text, True, f"user_{self._items}")
        return [heard] if self._detects else [SpeechStopped(), heard]

    def _on_speech(self, event: Fields, at_ns: int) -> list[Output]:
        self._detects = True
        return [SpeechStarted()]

    def _on_error(self, event: Fields, at_ns: int) -> list[Output]:
        data = event.child("data")
        text = data.need_text("error")
        fatal = data.flag("fatal") is True
        return [self.fatal(FailureKind.ENDPOINT_ERROR, text) if fatal else self.warning(text)]


def spaced(text: str) -> str:
    """Return a piece of reply text, with a space after its last word.

    >>> spaced("ten."), spaced("It is ")
    ('ten. ', 'It is ')
    """
    return text if text[-1:].isspace() else f"{text} "
