"""Simulate an Exotel Voicebot call to the agent's WebSocket server.

Sources: https://developer.exotel.com/docs/agentstream/websocket-protocol and pipecat-ai 1.14
(``pipecat.serializers.exotel``, ``pipecat.runner.utils``). Messages resemble Twilio's, but with different
names. The audio is 16-bit PCM at 8 kHz, 100 ms in every ``media`` message. The documentation does not specify
whether ``clear`` echoes pending marks; this client echoes them, as Twilio does.

There are no transcripts, responses, errors, manual turns, usage or rate limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.audio import Codec, CodecName
from live_eval.clients.toolkit import PhoneLine, send_json
from live_eval.dialect import EndpointSettings, Send

__all__ = ["Exotel"]


class Exotel(PhoneLine):
    """A `Dialect` that tracks the state of one call."""

    codec = Codec(CodecName.PCM16, 8_000)
    stream_field = "stream_sid"
    number_field = "sequence_number"

    def __init__(self, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self.handlers = {"media": self.on_media, "mark": self.on_mark, "clear": self.on_clear}

    def begin(self, digest: str) -> None:
        self.stream_id, self.call_id = f"MZ{digest}", f"CA{digest}"

    def hello(self) -> Sequence[Send]:
        start = {
            "stream_sid": self.stream_id,
            "call_sid": self.call_id,
            "account_sid": f"AC{'0' * 32}",
            "from": self.caller,
            "to": self.called,
            "custom_parameters": self.parameters,
            "media_format": {"encoding": "audio/x-raw", "sample_rate": "8000", "bit_rate": "16"},
        }
        return send_json({"event": "connected"}), self.numbered("start", start=start)

    def media(self, payload: str, at_ms: int) -> Send:
        audio = {"chunk": str(self.frames), "timestamp": str(at_ms), "payload": payload}
        return self.numbered("media", media=audio)

    def dtmf(self, digit: str, at_ms: int) -> Send:
        return self.numbered("dtmf", dtmf={"digit": digit, "duration": "100"})

    def goodbye(self) -> Sequence[Send]:
        return (self.numbered("stop", stop={"call_sid": self.call_id}),)
