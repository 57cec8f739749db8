"""Simulate a Vonage Voice API call to the agent's WebSocket server.

Source: https://developer.vonage.com/en/voice/voice-api/guides/websockets, and pipecat-ai 1.14
(``pipecat.serializers.vonage``). Audio is 16-bit PCM at 16 kHz in binary messages of 20 ms; commands and
events are JSON. ``notify`` is echoed when the audio before it has been played. ``clear`` is confirmed and
drops pending notifications: the documentation does not specify whether they are sent.

There are no transcripts, responses, errors, manual turns, usage or rate limits. The agent's webhook, which
returns an NCCO, is not called.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import Fields, PhoneLine, send_json
from live_eval.dialect import EndpointSettings, Output, Send

__all__ = ["Vonage"]


class Vonage(PhoneLine):
    """A `Dialect` that tracks the state of one call.

    Args:
        settings: See `PhoneLine`; ``parameters`` are the NCCO's headers, and no message names the parties.
    """

    options = ("dtmf", "parameters")
    type_field = "action"
    binary_audio = True
    codec = Codec(CodecName.PCM16, 16_000)

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers = {"notify": self._on_notify, "clear": lambda event, at_ns: self.clear(at_ns)}

    def begin(self, digest: str) -> None:
        self.call_id = digest

    def hello(self) -> Sequence[Send]:
        content_type = f"audio/l16;rate={self.codec.rate_hz}"
        return (send_json({**self.parameters, "event": "websocket:connected", "content-type": content_type}),)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return (Send(pcm),)

    def audio(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return self.play(pcm, at_ns)

    def dtmf(self, digit: str, at_ms: int) -> Send:
        return send_json({"event": "websocket:dtmf", "digit": digit, "duration": 260})

    def marked(self, name: str) -> Send:
        return send_json({"event": "websocket:notify", "payload": orjson.loads(name)})

    def cleared(self, pending: Sequence[str]) -> Sequence[Send]:
        return (send_json({"event": "websocket:cleared"}),)

    def _on_notify(self, event: Fields, at_ns: int) -> list[Output]:
        return self.mark(event.json("payload"), at_ns)
