"""Simulate a Telnyx media stream to the agent's WebSocket server.

Sources: https://developers.telnyx.com/api-reference/websockets/stream-call-media-over-websocket and
pipecat-ai 1.14 (``pipecat.serializers.telnyx``, ``pipecat.runner.utils``). Messages resemble Twilio's, but
the agent's messages contain no stream ID. Marks are echoed when the media before them has been played, and on
``clear``. The audio is PCMU at 8 kHz in both directions (bidirectional mode ``rtp``).

There are no transcripts, responses, errors, manual turns, usage or rate limits. The agent's webhook, which
returns TeXML, is not called.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.clients.toolkit import PhoneLine, send_json
from live_eval.dialect import EndpointSettings, Send

__all__ = ["Telnyx"]


class Telnyx(PhoneLine):
    """A `Dialect` that tracks the state of one call."""

    stream_field = "stream_id"
    number_field = "sequence_number"

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers = {
            "media": lambda event, at_ns: self.play(event.child("media").need_bytes("payload"), at_ns),
            "mark": lambda event, at_ns: self.mark(event.child("mark").need_text("name"), at_ns),
            "clear": lambda event, at_ns: self.clear(at_ns),
        }

    def begin(self, digest: str) -> None:
        self.stream_id, self.call_id = digest, f"v2:{digest}"

    def hello(self) -> Sequence[Send]:
        start = {
            "call_control_id": self.call_id,
            "from": self.caller,
            "to": self.called,
            "custom_parameters": self.parameters,
            "media_format": {"encoding": "PCMU", "sample_rate": self.codec.rate_hz, "channels": 1},
        }
        return send_json({"event": "connected", "version": "1.0.0"}), self.numbered("start", start=start)

    def dtmf(self, digit: str, at_ms: int) -> Send:
        return self.numbered("dtmf", dtmf={"digit": digit})

    def goodbye(self) -> Sequence[Send]:
        return (self.numbered("stop", stop={"call_control_id": self.call_id}),)
