"""Receive and send the audio packets of a WebRTC connection on the answering or serving side."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from aiortc import MediaStreamTrack
from av import Packet

from live_eval.audio.codecs import OPUS_RATE_HZ, Decoder, samples_in
from live_eval.audio.rtp import RtpPacket, RtpTrack
from live_eval.clock import Clock
from live_eval.errors import AudioError
from live_eval.webrtc.media import InputPacket

__all__ = ["ReplyTrack", "SpeechPackets"]

_TIME_BASE = Fraction(1, OPUS_RATE_HZ)


class SpeechPackets:
    """The user's packets, decoded; lost packets become silence."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[InputPacket | None] = asyncio.Queue()
        self._placing = RtpTrack()
        self._decoder: Decoder | None = None

    def add(self, packet: RtpPacket) -> None:
        """Decode a packet in arrival order."""
        samples = samples_in(packet.payload, packet.codec)
        placed = self._placing.push(packet, samples)
        if placed is None:
            return
        if self._decoder is None:
            self._decoder = Decoder(packet.codec)
        try:
            pcm = self._decoder.decode(packet.payload)
        except AudioError:
            pcm = np.zeros(samples, np.int16)
        lost = bytes(2 * placed.concealed_samples)
        self._queue.put_nowait(InputPacket(lost + pcm.astype("<i2", copy=False).tobytes(), packet.at_ns))

    def end(self) -> None:
        """Add the end of the connection."""
        self._queue.put_nowait(None)

    async def get(self) -> InputPacket | None:
        """Wait for the next packet; return None after the connection has ended."""
        return await self._queue.get()


@dataclass(frozen=True, slots=True)
class _Leaving:
    packet: bytes
    timestamp: int
    left_ns: asyncio.Future[int]


class ReplyTrack(MediaStreamTrack):
    """A track whose encoded packets aiortc's sender sends immediately, without re-encoding."""

    kind = "audio"

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._packets: asyncio.Queue[_Leaving] = asyncio.Queue()

    async def say(self, packet: bytes, timestamp: int) -> int:
        """Send a packet, timestamped in 48 kHz samples; return the send time."""
        leaving = _Leaving(packet, timestamp, asyncio.get_running_loop().create_future())
        self._packets.put_nowait(leaving)
        return await leaving.left_ns

    async def recv(self) -> Packet[Any]:
        """Wait for the next packet; called by aiortc's sender."""
        leaving = await self._packets.get()
        packet: Packet[Any] = Packet(leaving.packet)
        packet.pts, packet.time_base = leaving.timestamp, _TIME_BASE
        if not leaving.left_ns.cancelled():
            leaving.left_ns.set_result(self._clock.now_ns())
        return packet
