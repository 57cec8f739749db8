"""Any fastrtc stream over WebRTC.

Source: fastrtc 0.0.34 (``webrtc_connection_mixin``, ``tracks``, ``reply_on_pause``, ``utils``) and the client
in its component. The offer goes to ``/webrtc/offer`` as JSON with a name for the connection
(``webrtc_id``); a full stream answers ``concurrency_limit_reached``. Messages on the data
channel ``text`` are ``{"type", "data"}``, or ``{"type", "message"}`` of errors and warnings.

A stream answers every message of its client with a ``log``, so the answer to our ``handshake`` shows that it
is ready. `ReplyOnPause` reports in a ``log`` when it hears speech (``started_talking``) and when it considers
the turn over (``pause_detected``). Replies are found by their energy.

There are no transcripts (other output of a stream is up to the application), manual turns, responses, usage
or rate limits, and the stream decides what it is: no golden session shows them. A stream with a time limit
just closes the connection.
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
    """The protocol state of one session; a `Dialect`."""

    path = "webrtc/offer"
    channel = "text"
    ignored = frozenset({"fetch_output", "stopword", "update_connection"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._id = uuid.uuid4().hex
        inputs = "the stream waits for further inputs besides audio, which this client does not have"
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
        return (Send("handshake"),)  # what fastrtc's own client sends first

    def _on_log(self, event: Fields, at_ns: int) -> list[Output]:
        heard: dict[str | None, Output] = {
            "started_talking": SpeechStarted(),
            "pause_detected": SpeechStopped(),
        }
        data = event.text("data")
        return [*self.become_ready(), *([heard[data]] if data in heard else [])]


def _text(event: Fields) -> str | None:
    return event.text("message") or event.text("data")
