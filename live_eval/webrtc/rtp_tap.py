"""Intercept packets in aiortc's receive path as they arrive, before the jitter buffer.

aiortc returns decoded frames without arrival times, after a jitter buffer that waits for four packets and
conceals late ones. The tap stamps each datagram before decryption and parsing, and intercepts each packet
before that buffer, so that aiortc decodes nothing. The timestamp is the kernel's if candidates were gathered
within `stamped_datagrams` and no relay is used. Receiver reports (RTCP) are still sent. The tap uses aiortc's
private names, so aiortc is pinned to one version.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import aiortc
from aioice.ice import Connection
from aiortc import (
    RTCDtlsTransport,
    RTCIceGatherer,
    RTCIceTransport,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCRtpSender,
    RTCRtpTransceiver,
    RTCSctpTransport,
)
from aiortc.rtcicetransport import RTCIceParameters
from aiortc.rtcrtpparameters import RTCRtpReceiveParameters
from aiortc.rtcrtpreceiver import RemoteStreamTrack, StreamStatistics
from aiortc.rtp import RtpPacket as WirePacket

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import RtpPacket
from live_eval.errors import PluginError
from live_eval.sockets.datagrams import StampedDatagram
from live_eval.sockets.stamps import Stamp
from live_eval.types import StampKind

__all__ = ["RTC_CODECS", "RtcTap", "check_aiortc", "keep_no_packets", "take_apart"]

_TAPPED_VERSION = "1.16.0"
"""The only aiortc version whose internals are known to match this module."""

RTC_CODECS: Mapping[str, Codec] = {
    "audio/opus": Codec(CodecName.OPUS, 48_000),
    "audio/pcmu": Codec(CodecName.PCMU, 8_000),
    "audio/pcma": Codec(CodecName.PCMA, 8_000),
}
"""The supported codecs by lower-case MIME type, in order of preference."""


_PARTS = (
    Connection,
    RTCDtlsTransport,
    RTCIceGatherer,
    RTCIceTransport,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCRtpSender,
    RTCRtpTransceiver,
    RTCSctpTransport,
    RemoteStreamTrack,
)
"""The classes of a connection whose instances refer to each other."""


def check_aiortc() -> None:
    """Raise a `PluginError` unless the installed aiortc version is `_TAPPED_VERSION`."""
    if aiortc.__version__ != _TAPPED_VERSION:
        raise PluginError(
            f"expected aiortc {_TAPPED_VERSION}, since the WebRTC transport depends on its internals, but "
            f"{aiortc.__version__} is installed (pip install aiortc=={_TAPPED_VERSION})"
        )


def keep_no_packets(sender: RTCRtpSender) -> None:
    """Disable the retransmission history of a sender, which audio never uses.

    The history keeps 128 packets, which are half of a session's objects, and every garbage collection visits
    all of them.
    """
    vars(sender)["_RTCRtpSender__rtp_history"] = _NoHistory()


def take_apart(connection: RTCPeerConnection) -> None:
    """Break the reference cycles of a closed connection, so that it is freed without garbage collection.

    Collecting the cycles of 16 connections would block the event loop for 20 ms and delay the frames of all
    other sessions.
    """
    parts: list[Any] = [connection]
    while parts:
        values = vars(parts.pop())
        for value in values.values():
            several = value.values() if isinstance(value, dict) else value
            among = several if isinstance(value, dict | list | set | tuple | deque) else (value,)
            parts += [each for each in among if isinstance(each, _PARTS) and vars(each)]
        values.clear()


class _NoHistory(dict[int, Any]):
    """A packet history that stores nothing."""

    def __setitem__(self, number: int, packet: Any) -> None:
        """Drop the packet."""


def _ignore(packet: RtpPacket) -> None:
    pass


class RtcTap:
    """Intercepts the packets of one connection.

    Create the tap, and call `listen`, when the transport is known, but before the first packet arrives: with
    the receiver for an offerer that bundles all media, right after setting the answer for any other offerer,
    and right after setting the offer for an answerer.

    Args:
        transport: Transport of the media and the data channel.
        now_ns: Monotonic clock.
    """

    def __init__(self, transport: RTCDtlsTransport, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.stamps = StampKind.KERNEL
        """The source of the timestamps: `KERNEL` if the kernel has stamped every datagram so far."""
        self._listeners: list[_Listener] = []
        self._connecting: set[asyncio.Task[Any]] = set()
        self.at_ns = now_ns()
        """The arrival time of the current datagram, which may belong to a data channel."""
        self.path_lost = False
        """Whether the connection ended because the network path was lost, not because the peer closed it."""
        ice = transport.transport
        self._queue = ice._connection.data_received
        self._next = ice._recv
        self._connect = ice.start
        vars(ice._connection).update(data_received=self._datagram)
        vars(ice).update(_recv=self._datagram_handled, start=self._connected)

    def listen(self, receiver: RTCRtpReceiver, heard: Callable[[RtpPacket], None]) -> None:
        """Intercept the packets of a receiver on this transport.

        Args:
            receiver: Receiver of an audio track.
            heard: Called with each packet in arrival order; packets of an unknown codec have no payload.
        """
        self._listeners.append(_Listener(self, receiver, heard))

    async def settled(self) -> None:
        """Wait for aiortc's setup tasks, which aiortc itself does not await, and stop reporting packets."""
        if self._connecting:
            await asyncio.wait(self._connecting)
        for listener in self._listeners:
            listener.heard = _ignore

    async def _connected(self, parameters: RTCIceParameters) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connecting.add(task)
        await self._connect(parameters)

    def _datagram(self, data: bytes, component: int) -> None:
        if not isinstance(data, StampedDatagram):  # the datagram arrived through a relay
            data = StampedDatagram(data)
            data.stamp = Stamp(self._now_ns(), StampKind.USER)
        self._queue(data, component)

    async def _datagram_handled(self) -> bytes:
        try:
            data = await self._next()
        except ConnectionError:
            self.path_lost = True
            raise
        assert isinstance(data, StampedDatagram)
        self.at_ns = data.stamp.at_ns
        if data.stamp.kind is StampKind.USER:
            self.stamps = StampKind.USER
        return data


class _Listener:
    """Report the packets of one receiver with the arrival times of the tap."""

    def __init__(self, tap: RtcTap, receiver: RTCRtpReceiver, heard: Callable[[RtpPacket], None]) -> None:
        self._tap = tap
        self.heard = heard
        self._last_codec: Codec | None = None
        # Mangled names of the receiver's payload types and statistics for reports.
        self._codecs: dict[int, Any] = vars(receiver)["_RTCRtpReceiver__codecs"]
        self._streams: dict[int, StreamStatistics] = vars(receiver)["_RTCRtpReceiver__remote_streams"]
        self._receive = receiver.receive
        self._stop_decoder = receiver._handle_disconnect
        vars(receiver).update(receive=self._received, _handle_rtp_packet=self._packet)

    async def _received(self, parameters: RTCRtpReceiveParameters) -> None:
        await self._receive(parameters)
        await asyncio.to_thread(self._stop_decoder)  # otherwise, the thread would wait forever

    async def _packet(self, packet: WirePacket, arrival_time_ms: int) -> None:
        codec = self._codecs.get(packet.payload_type)
        if codec is None:
            self._without_audio(packet)
            return
        stream = self._streams.get(packet.ssrc)
        if stream is None:
            stream = self._streams[packet.ssrc] = StreamStatistics(codec.clockRate)
        stream.add(packet)
        known = RTC_CODECS.get(codec.mimeType.lower())
        if known is None:
            self._without_audio(packet)
            return
        self._last_codec = known
        self._hear(packet, packet.payload, known)

    def _without_audio(self, packet: WirePacket) -> None:
        """Report a packet without audio (comfort noise, DTMF event), so that it does not count as lost."""
        if self._last_codec is not None:
            self._hear(packet, b"", self._last_codec)

    def _hear(self, packet: WirePacket, payload: bytes, codec: Codec) -> None:
        self.heard(
            RtpPacket(
                at_ns=self._tap.at_ns,
                sequence=packet.sequence_number,
                timestamp=packet.timestamp,
                payload=payload,
                codec=codec,
                ssrc=packet.ssrc,
            )
        )
