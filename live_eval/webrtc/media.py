"""Define the answering side's view of a WebRTC connection's media track."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["InputPacket", "MediaTrack"]


@dataclass(frozen=True, slots=True)
class InputPacket:
    """A packet of the user's audio with its arrival time.

    Args:
        pcm: int16 little-endian mono at 48 kHz, preceded by silence in place of lost packets.
        at_ns: Arrival time, taken before any parsing.
    """

    pcm: bytes = field(repr=False)
    at_ns: int


class MediaTrack(Protocol):
    """The media track of a connection."""

    async def hear(self) -> InputPacket | None:
        """Wait for the user's next packet; return None once the connection has ended."""
        ...

    async def say(self, packet: bytes, timestamp: int) -> int | None:
        """Send 20 ms of Opus at an RTP timestamp (48 kHz); return the send time, or None if not sent."""
        ...
