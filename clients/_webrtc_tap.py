"""The one place that reaches into aiortc: what arrives is stamped and seen before anything looks at it.

A datagram passes aioice's socket callback, a queue, the task that undoes SRTP, aiortc's receiver and its
jitter buffer. The stamp is taken in the socket's callback; the packet is seen where the receiver gets it,
before the jitter buffer, which would hold it back by 80 ms. The receiver goes on counting for RTCP, but its
decoder is stopped: nobody would take what it decodes.

This fits one version of aiortc (`VERSION`), to which the package is pinned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import aiortc
from aiortc import RTCRtpReceiver
from aiortc.rtcicetransport import RTCIceParameters
from aiortc.rtcrtpparameters import RTCRtpReceiveParameters
from aiortc.rtp import RtpPacket as ReceivedPacket

from live_eval.audio import Codec, CodecName
from live_eval.clock import Clock
from live_eval.errors import PluginError
from live_eval.rtp import RtpPacket

__all__ = ["CODECS", "VERSION", "PacketTap", "check_version"]

VERSION = "1.16.0"

CODECS: Mapping[str, Codec] = {
    "audio/opus": Codec(CodecName.OPUS, 48_000),
    "audio/pcmu": Codec(CodecName.PCMU, 8_000),
    "audio/pcma": Codec(CodecName.PCMA, 8_000),
}
"""The codecs that we offer, by their type in lower case, the best one first."""


def check_version() -> None:
    """Hold the installed aiortc against the one that the tap fits.

    Raises:
        PluginError: It is another.
    """
    if aiortc.__version__ != VERSION:
        raise PluginError(
            f"expected aiortc {VERSION}, whose packet handling the WebRTC transport taps, but "
            f"{aiortc.__version__} is installed (pip install aiortc=={VERSION})"
        )


class PacketTap:
    """Sees what arrives at a receiver and at the connection that it shares with the data channel.

    Args:
        receiver: The receiver, before it has begun to receive.
        clock: Stamps arrivals.
        deliver: Takes each packet of audio, in the order of arrival.
    """

    def __init__(self, receiver: RTCRtpReceiver, clock: Clock, deliver: Callable[[RtpPacket], None]) -> None:
        self.at_ns = clock.now_ns()
        """When the datagram arrived that is being handled: handling one is not interrupted by another."""
        self.path_lost = False
        """Whether the connection ended because no network path was left, and not by the other side's word."""
        self._clock = clock
        self._deliver = deliver
        self._codecs: dict[int, Codec] = {}
        self._connecting: set[asyncio.Task[None]] = set()
        ice = receiver.transport.transport
        self._connect = ice.start
        self._receive_next = ice._recv
        self._queue_datagram = ice._connection.data_received
        self._start = receiver.receive
        self._handle = receiver._handle_rtp_packet
        self._stop_decoder = receiver._handle_disconnect
        vars(ice._connection).update(data_received=self._on_datagram)
        vars(ice).update(_recv=self._on_next, start=self._on_connect)
        vars(receiver).update(receive=self._on_start, _handle_rtp_packet=self._on_packet)

    async def settled(self) -> None:
        """Wait until what aiortc does by itself to set the connection up has come to its end."""
        if self._connecting:
            await asyncio.wait(self._connecting)

    async def _on_connect(self, parameters: RTCIceParameters) -> None:
        """A task that sets the connection up begins; aiortc itself keeps no hold of it."""
        task = asyncio.current_task()
        assert task is not None
        self._connecting.add(task)
        await self._connect(parameters)

    def _on_datagram(self, data: bytes, component: int) -> None:
        """The socket has read a datagram that is none of ICE's own."""
        stamped = _Datagram(data)
        stamped.at_ns = self._clock.now_ns()
        self._queue_datagram(stamped, component)

    async def _on_next(self) -> bytes:
        """The task that undoes DTLS and SRTP takes the next datagram."""
        try:
            data = await self._receive_next()
        except ConnectionError:
            self.path_lost = True
            raise
        assert isinstance(data, _Datagram)
        self.at_ns = data.at_ns
        return data

    async def _on_start(self, parameters: RTCRtpReceiveParameters) -> None:
        """The connection stands: what is negotiated is known."""
        for codec in parameters.codecs:
            known = CODECS.get(codec.mimeType.lower())
            if known is not None and codec.payloadType is not None:
                self._codecs[codec.payloadType] = known
        await self._start(parameters)
        await asyncio.to_thread(self._stop_decoder)  # it waits for its thread, if not for long

    async def _on_packet(self, packet: ReceivedPacket, arrival_time_ms: int) -> None:
        """A packet is to be handled."""
        at_ns = self.at_ns
        codec = self._codecs.get(packet.payload_type)
        if codec is not None and packet.payload:
            self._deliver(
                RtpPacket(
                    at_ns=at_ns,
                    sequence=packet.sequence_number,
                    timestamp=packet.timestamp,
                    payload=packet.payload,
                    codec=codec,
                    ssrc=packet.ssrc,
                )
            )
        counted: Awaitable[None] = self._handle(packet, arrival_time_ms=arrival_time_ms)
        await counted


class _Datagram(bytes):
    """A datagram that knows when it arrived."""

    at_ns: int
