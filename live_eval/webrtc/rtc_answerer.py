"""Answer a WebRTC connection whose other side adds tracks during the session."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.sdp import candidate_from_sdp

from live_eval.audio.rtp import RtpPacket
from live_eval.clock import Clock
from live_eval.sockets.datagrams import stamped_datagrams
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.webrtc.rtp_tap import RTC_CODECS, RtcTap, take_apart

__all__ = ["RtcAnswerer", "add_candidate", "delivered"]

_DELIVERY_NS = 500_000_000
_LOOK_NS = 5_000_000


async def add_candidate(peer: RTCPeerConnection, line: str, mid: str | None, index: int | None) -> None:
    """Add an ICE candidate of the other side.

    Args:
        line: Candidate in SDP syntax, with or without ``candidate:``.

    Raises:
        Exception: aiortc raises many kinds of errors for candidates that it cannot use.
    """
    candidate = candidate_from_sdp(line.removeprefix("candidate:"))
    candidate.sdpMid, candidate.sdpMLineIndex = mid, index
    await peer.addIceCandidate(candidate)


async def delivered(channel: RTCDataChannel, clock: Clock, is_over: Callable[[], bool]) -> None:
    """Wait until the other side has acknowledged every message, at most 0.5 s and not once `is_over`."""
    association: Any = channel.transport
    deadline_ns = clock.now_ns() + _DELIVERY_NS
    while not is_over() and (
        channel.bufferedAmount or association._outbound_queue or association._sent_queue
    ):
        if clock.now_ns() > deadline_ns:
            return
        await clock.sleep_until(clock.now_ns() + _LOOK_NS)


class RtcAnswerer:
    """Answer each offer for one connection, and report the packets of its audio tracks.

    Args:
        configuration: ICE servers and bundling.
        stamps: Source of the kernel's timestamps.
        heard: Called with each packet, in arrival order.
        codecs: Accepted audio codecs, as lower-case MIME types.
    """

    def __init__(
        self,
        configuration: RTCConfiguration,
        clock: Clock,
        stamps: ArrivalStamps,
        heard: Callable[[RtpPacket], None],
        *,
        codecs: Collection[str] = tuple(RTC_CODECS),
    ) -> None:
        self.connection = RTCPeerConnection(configuration)
        self.connection.on("connectionstatechange", self._look)
        self._starting: asyncio.Task[None] | None = None
        self.tap: RtcTap | None = None
        """The tap, once the first offer has arrived."""
        self._clock = clock
        self._stamps = stamps
        self._heard = heard
        self._codecs = codecs
        self._receivers: set[int] = set()

    async def answer(self, offer: str) -> str:
        """Return the answer to an offer.

        Raises:
            Exception: aiortc raises many kinds of errors for invalid descriptions.
        """
        peer = self.connection
        await peer.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        audio = [each for each in peer.getTransceivers() if each.kind == "audio"]
        if self.tap is None:
            transport = peer.sctp.transport if peer.sctp is not None else audio[0].receiver.transport
            self.tap = RtcTap(transport, self._clock.now_ns)
        for transceiver in audio:
            accepted = [each for each in transceiver._codecs if each.mimeType.lower() in self._codecs]
            transceiver._codecs = accepted or transceiver._codecs
            if id(transceiver) not in self._receivers:
                self._receivers.add(id(transceiver))
                self.tap.listen(transceiver.receiver, self._heard)
        with stamped_datagrams(self._stamps):
            await peer.setLocalDescription()
        sdp: str = peer.localDescription.sdp
        return sdp

    def _look(self) -> None:
        if self.connection.connectionState == "connected" and self._starting is None:
            # aiortc starts no receiver that was added while it connected; doing so again has no effect.
            peer: Any = self.connection
            self._starting = asyncio.create_task(peer._RTCPeerConnection__connect())

    async def close(self) -> None:
        """Close the connection."""
        was_up = self.connection.connectionState == "connected"
        await self.connection.close()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if self.tap is not None:
            await self.tap.settled()
        if was_up:  # otherwise, setup tasks are still running
            take_apart(self.connection)
