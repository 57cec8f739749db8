"""Dialect for any fastrtc stream over WebRTC.

Source: fastrtc 0.0.34 (``webrtc_connection_mixin``, ``tracks``, ``reply_on_pause``, ``utils``) and the client
in its component. The offer is sent to ``/webrtc/offer`` as JSON with a connection ID (``webrtc_id``); a
stream at its concurrency limit responds with ``concurrency_limit_reached``. Messages on the data channel
``text`` are ``{"type", "data"}``; errors and warnings are ``{"type", "message"}``.

A stream responds to every client message with a ``log``, so the response to our ``handshake`` shows that the
stream is ready. `ReplyOnPause` reports in a ``log`` when it detects speech (``started_talking``) and the end
of the turn (``pause_detected``). Replies are detected by their energy.

There are no transcripts, manual turns, responses, usage or rate limits; other output depends on the
application. The stream determines the model, instructions and voice. No golden session covers these features.
A stream with a time limit closes the connection without notice.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from live_eval.clients.toolkit import Fields, WebRtcBot
from live_eval.dialect import EndpointSettings, Output, Send, SpeechStarted, SpeechStopped
from live_eval.errors import FailureKind

__all__ = ["FastRtcWebRtc"]


class FastRtcWebRtc(WebRtcBot):
    """A `Dialect` that tracks the state of one session."""

    path = "webrtc/offer"
    channel = "text"
    ignored = frozenset({"fetch_output", "stopword", "update_connection"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._id = uuid.uuid4().hex
        inputs = "the stream expects inputs besides audio, which this client cannot send"
        self.handlers = {
            "log": self._on_log,
            "error": lambda event, _: [
                self.fatal(FailureKind.ENDPOINT_ERROR, _text(event) or "the stream failed without a message")
            ],
            "warning": lambda event, _: [
                self.warning(_text(event) or "the stream sent a warning without text")
            ],
            "send_input": lambda event, _: [self.warning(inputs)],
            "end_stream": lambda event, _: [
                self.warning(f"the stream ended: {event.text('data') or 'no reason given'}")
            ],
        }

    def fields(self) -> dict[str, Any]:
        return {"webrtc_id": self._id, **super().fields()}

    def hello(self, at_ns: int) -> Sequence[Output]:
        return (Send("handshake"),)  # the first message that fastrtc's own client sends

    def _on_log(self, event: Fields, at_ns: int) -> list[Output]:
        heard: dict[str | None, Output] = {
            "started_talking": SpeechStarted(),
            "pause_detected": SpeechStopped(),
        }
        data = event.text("data")
        return [*self.become_ready(), *([heard[data]] if data in heard else [])]


def _text(event: Fields) -> str | None:
    return event.text("message") or event.text("data")
