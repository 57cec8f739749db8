"""Send a dialect's messages as data packets in a LiveKit room, with audio on tracks. Sans-I/O.

The room and its agent are those of `live_eval.reference.protocols.livekit`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

import orjson

from live_eval.reference.engine import events
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.livekit import AGENT, agent_left
from live_eval.reference.protocols.protocol import MessageError, ServerProtocol, parse_object
from live_eval.reference.protocols.webrtc import DECODER_DELAY_SAMPLES, truncated

__all__ = ["DataPackets"]


class DataPackets(ServerProtocol):
    """Mixin before the protocol of the messages."""

    audio_in_base64 = False
    decoder_delay_samples = DECODER_DELAY_SAMPLES
    reports_stops = False  # the packets of the track stop first

    def opened(self) -> Sequence[events.Output]:
        """Start the session."""
        return _sent(super().opened())

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a data packet of the client; ignore any other packet."""
        try:
            packet = parse_object(message)
            payload = base64.b64decode(packet.get("payload", ""), validate=True).decode()
        except (MessageError, TypeError, ValueError):
            return ()
        if packet.get("type") != "user":
            return ()
        return _sent(super().received(payload, at_ns))  # type: ignore[safe-super]  # the next class implements it

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as packets; audio is sent on the track."""
        match event:
            case events.AudioPiece():
                return ()
            case Fault(name=FaultName.AGENT_LEAVES):
                return (agent_left(),)
            case _:
                return tuple(_packets(super().render(event)))  # type: ignore[safe-super]

    def playback(self, playback: events.TrackPlayback) -> Sequence[events.Output]:
        """Truncate a cleared response."""
        truncated(self.engine, playback)
        return ()


def _sent(outputs: Iterable[events.Output]) -> Sequence[events.Output]:
    return [
        events.SendMessage(_packet(output.message)) if isinstance(output, events.SendMessage) else output
        for output in outputs
    ]


def _packets(messages: Iterable[bytes | events.CloseConnection]) -> Iterable[bytes | events.CloseConnection]:
    for message in messages:
        yield _packet(message) if isinstance(message, bytes) else message


def _packet(message: bytes) -> bytes:
    payload = base64.b64encode(message).decode()
    return orjson.dumps({"type": "user", "participant_identity": AGENT, "payload": payload})
