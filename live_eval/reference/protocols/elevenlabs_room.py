"""Implement ElevenLabs Agents in a LiveKit room: events as data packets, audio on tracks. Sans-I/O.

Source: ``packages/client/src/utils/WebRTCConnection.ts`` of elevenlabs/packages. The events are those of
`live_eval.reference.protocols.elevenlabs`, without audio.
"""

from __future__ import annotations

from live_eval.reference.protocols.data_packets import DataPackets
from live_eval.reference.protocols.elevenlabs import ElevenLabsProtocol

__all__ = ["ElevenLabsRoomProtocol"]


class ElevenLabsRoomProtocol(DataPackets, ElevenLabsProtocol):
    """Run one conversation in a room."""
