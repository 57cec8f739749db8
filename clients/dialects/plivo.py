"""Simulate a Plivo audio stream to the agent's WebSocket server.

Sources: Plivo's SDK for agents (https://github.com/plivo/plivo-stream-sdk-python, ``plivo_stream.types``) and
pipecat-ai 1.14 (``pipecat.serializers.plivo``, ``pipecat.runner.utils``).

* ``start`` is the first message; there is no ``connected`` message and no final message. Numeric fields are
  JSON numbers.
* The agent sends ``playAudio``, ``checkpoint`` (answered by ``playedStream`` when the audio before it has
  been played) and ``clearAudio`` (answered by ``clearedAudio``; we then drop open checkpoints). ``playAudio``
  contains the stream ID in pipecat, but not in the SDK.
* ``start`` names neither party, and the form of ``extra_headers`` is not documented: ``extra`` accepts only
  ``dtmf``.
* Plivo's times are milliseconds since 1970; ours count from the start of the stream.

There are no transcripts, responses, errors, manual turns, usage or rate limits. The agent's webhook, which
returns Plivo XML, is not called.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.clients.toolkit import Fields, PhoneLine, send_json
from live_eval.dialect import EndpointSettings, Output, Send

__all__ = ["Plivo"]


class Plivo(PhoneLine):
    """A `Dialect` that tracks the state of one call."""

    options = ("dtmf",)
    stream_field = "streamId"
    number_field = "sequenceNumber"

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers = {
            "playAudio": lambda event, at_ns: self.play(event.child("media").need_bytes("payload"), at_ns),
            "checkpoint": self._on_checkpoint,
            "clearAudio": self.on_clear,
        }

    def begin(self, digest: str) -> None:
        self.stream_id, self.call_id = digest, f"call-{digest}"

    def hello(self) -> Sequence[Send]:
        start = {
            "callId": self.call_id,
            "streamId": self.stream_id,
            "accountId": "0",
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": self.codec.rate_hz},
        }
        return (self.numbered("start", start=start),)

    def media(self, payload: str, at_ms: int) -> Send:
        audio = {"chunk": self.frames, "timestamp": str(at_ms), "payload": payload}
        return self.numbered("media", media={"track": "inbound", **audio})

    def dtmf(self, digit: str, at_ms: int) -> Send:
        pressed = {"track": "inbound", "digit": digit, "timestamp": str(at_ms)}
        return self.numbered("dtmf", dtmf=pressed)

    def marked(self, name: str) -> Send:
        return self.numbered("playedStream", name=name)

    def cleared(self, pending: Sequence[str]) -> Sequence[Send]:
        return (self.numbered("clearedAudio"),)

    def numbered(self, name: str, /, **fields: object) -> Send:
        self.sent += 1
        event = {"event": name, self.number_field: self.sent, self.stream_field: self.stream_id}
        return send_json(event | fields)

    def _on_checkpoint(self, event: Fields, at_ns: int) -> list[Output]:
        self.check_stream(event)
        return self.mark(event.need_text("name"), at_ns)
