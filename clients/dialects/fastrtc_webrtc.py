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
    """The protocol state of one session; a `Dialect`.

    Args:
        settings: The settings of the session; see `WebRtcBot`.
    """

    path = "webrtc/offer"
    channel = "text"
    ignored = frozenset({"fetch_output", "log", "stopword", "update_connection"})

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._id = uuid.uuid4().hex

    def fields(self) -> dict[str, Any]:
        return {"webrtc_id": self._id, **super().fields()}

    def hello(self, at_ns: int) -> Sequence[Output]:
        """Say what fastrtc's own client says first."""
        return (Send("handshake"),)

    def handle(self, name: str, event: Fields) -> list[Output] | None:
        """Handle a message of the stream; any that can be read shows that it is there."""
        match name:
            case "log":
                return [*self.become_ready(), *self._logged(event.text("data"))]
            case "error":
                said = _words(event) or "the stream failed without a word"
                return [self.fatal(FailureKind.ENDPOINT_ERROR, said)]
            case "warning":
                return [self.warning(_words(event) or "the stream gave a warning without words")]
            case "send_input":
                said = "the stream waits for further inputs besides audio, which this client does not have"
                return [self.warning(said)]
            case "end_stream":
                said = f"the stream ended itself: {event.text('data') or 'no reason given'}"
                return [self.warning(said)]
        return None

    def _logged(self, word: str | None) -> list[Output]:
        if word == "started_talking":
            return [SpeechStarted()]
        return [SpeechStopped()] if word == "pause_detected" else []


def _words(event: Fields) -> str | None:
    return event.text("message") or event.text("data")
