"""ElevenLabs Agents in a LiveKit room: ElevenLabs' events as data packets, audio on tracks. Sans-I/O.

Source: ``packages/client/src/utils/WebRTCConnection.ts`` of elevenlabs/packages. The room and its agent are
those of `live_eval.reference.protocols.livekit`; the events are those of
`live_eval.reference.protocols.elevenlabs`, without audio.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

import orjson

from live_eval.reference.engine import events
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import Fault
from live_eval.reference.protocols.elevenlabs import ElevenLabsProtocol
from live_eval.reference.protocols.livekit import AGENT, agent_left
from live_eval.reference.protocols.protocol import MessageError, parse_object
from live_eval.reference.protocols.webrtc import DECODER_DELAY_SAMPLES, truncated

__all__ = ["ElevenLabsRoomProtocol"]


class ElevenLabsRoomProtocol(ElevenLabsProtocol):
    """Run one conversation in a room."""

    audio_in_base64 = False
    decoder_delay_samples = DECODER_DELAY_SAMPLES
    reports_stops = False  # the packets of the track stop first

    def received(self, message: str | bytes, at_ns: int) -> Sequence[events.Output]:
        """Handle a data packet of the client; ignore any other packet."""
        try:
            packet = parse_object(message)
            payload = base64.b64decode(packet.get("payload", ""), validate=True)
        except (MessageError, TypeError, ValueError):
            return ()
        if packet.get("type") != "user":
            return ()
        return [
            events.SendMessage(_packet(output.message)) if isinstance(output, events.SendMessage) else output
            for output in super().received(payload, at_ns)
        ]

    def render(self, event: events.Event) -> Sequence[bytes | events.CloseConnection]:
        """Encode an event as packets; audio is sent on the track."""
        match event:
            case events.AudioPiece():
                return ()
            case Fault(name=FaultName.AGENT_LEAVES):
                return (agent_left(),)
            case _:
                return tuple(_packets(super().render(event)))

    def playback(self, playback: events.TrackPlayback) -> Sequence[events.Output]:
        """Truncate a cleared response."""
        truncated(self.engine, playback)
        return ()


def _packets(messages: Iterable[bytes | events.CloseConnection]) -> Iterable[bytes | events.CloseConnection]:
    for message in messages:
        yield _packet(message) if isinstance(message, bytes) else message


def _packet(message: bytes) -> bytes:
    payload = base64.b64encode(message).decode()
    return orjson.dumps({"type": "user", "participant_identity": AGENT, "payload": payload})
