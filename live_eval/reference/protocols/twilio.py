"""Implement a phone agent that Twilio calls over a Media Stream, on a message channel. Sans-I/O.

Message shapes follow https://www.twilio.com/docs/voice/media-streams/websocket-messages. The agent sends its
reply as ``media``, followed by a ``mark`` with the response's ID. When the user begins to speak, it sends
``clear``, as pipecat does. Known differences: pressed keys, stream parameters and the stream ID in messages
are ignored; errors only close the connection, because the protocol has no message for them. A client that
sends audio before ``start``, or no ``start`` in time, is an error too.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from live_eval.audio import Codec, CodecName
from live_eval.audio.pcm import decode
from live_eval.reference.engine import events
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.protocol import (
    START_S,
    MessageError,
    ServerProtocol,
    decode_audio,
    parse_object,
)
from live_eval.timing import ResponseStatus

__all__ = ["MOST_MEDIA_BYTES", "TWILIO_CONFIG", "TwilioProtocol"]

_PHONE = Codec(CodecName.PCMU, 8_000)
TWILIO_CONFIG = EngineConfig(
    input_codec=Codec(CodecName.PCM16, _PHONE.rate_hz), output_codec=_PHONE, lossy_input=True
)
"""Fixed settings of sessions."""

MOST_MEDIA_BYTES = 64 * 1024
"""Maximum message size; 20 ms of µ-law take a few hundred bytes."""

_CLOSE_NORMAL, _CLOSE_GOING_AWAY, _CLOSE_PROTOCOL_ERROR = 1000, 1001, 1002
_FAULTS = {
    FaultName.MALFORMED: b'{"event":"media","streamSid":',
    FaultName.UNKNOWN_EVENT: b'{"event":"pirouette"}',
}


class TwilioProtocol(ServerProtocol):
    """Run one call."""

    reports_stops = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._stream_sid = ""
        self._started = False

    def not_started(self) -> Sequence[events.Output]:
        """Hang up on a client that has not sent ``start``."""
        if self._started:
            return ()
        why = f"expected 'connected' and 'start' within {START_S} s of connecting"
        return [events.CloseConnection(_CLOSE_PROTOCOL_ERROR, why)]

    def expired(self) -> Sequence[events.Output]:
        """Hang up because the session has expired."""
        return [events.CloseConnection(_CLOSE_GOING_AWAY, "the call has reached its maximum duration")]

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a message from the telephony network; ignore unknown events."""
        try:
            event = parse_object(message)
            name = event.get("event")
            body = event.get(name) if isinstance(name, str) else None
            part = body if isinstance(body, dict) else {}
            if name == "start":
                self._stream_sid, self._started = str(event.get("streamSid", ""))[:100], True
            elif name == "media":
                if not self._started:
                    raise MessageError("not_started", "expected 'start' before 'media'")
                data = decode_audio(str(part.get("payload", "")), _PHONE, "media.payload")
                pcm = decode(data, _PHONE).astype("<i2", copy=False).tobytes()
                return self.engine.audio(pcm, at_ns) if pcm else ()
            elif name == "stop":
                return [events.CloseConnection(_CLOSE_NORMAL, "")]
        except MessageError as error:
            return [events.CloseConnection(_CLOSE_PROTOCOL_ERROR, error.problem.message[:100])]
        return ()

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as messages."""
        match event:
            case events.AudioPiece(payload=payload):
                return (self._message(b'"media"', b'"media":{"payload":"%b"}' % payload),)
            case events.UserSpeechStarted() if self.engine.settings.stop_ms is None:
                return (self._clear(),)
            case events.ResponseEnded(response=response):
                if response.status is ResponseStatus.CANCELLED:
                    return (self._clear(),)
                mark = orjson.dumps({"name": response.response_id})
                return (self._message(b'"mark"', b'"mark":%b' % mark),)
            case Fault(name=name):
                return (_FAULTS[name],) if name in _FAULTS else ()
            case _:
                return ()

    def _clear(self) -> bytes:
        return self._message(b'"clear"')

    def _message(self, name: bytes, *fields: bytes) -> bytes:
        sid = orjson.dumps(self._stream_sid)
        return b"{%b}" % b",".join((b'"event":%b' % name, b'"streamSid":%b' % sid, *fields))
