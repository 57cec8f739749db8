"""The tap on aiortc's receive path: packets as they arrive, not as its jitter buffer lets them out.

aiortc hands out decoded frames after a jitter buffer that waits for four packets, hides what was late and
does not say when anything came. The tap takes each datagram's stamp, before decryption and parsing, and each
packet of a receiver before that buffer; neither aiortc's buffer nor its decoder sees it. The stamp is the
kernel's where candidates were gathered within `stamped_datagrams` and no relay lies between. Receiver reports
(RTCP) go on. It reaches into names that aiortc does not promise, so aiortc is pinned to one version, and a
test says which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiortc
from aiortc import RTCRtpReceiver
from aiortc.rtcicetransport import RTCIceParameters
from aiortc.rtcrtpparameters import RTCRtpReceiveParameters
from aiortc.rtcrtpreceiver import StreamStatistics
from aiortc.rtp import RtpPacket as WirePacket

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import RtpPacket
from live_eval.errors import PluginError
from live_eval.sockets.datagrams import StampedDatagram
from live_eval.sockets.stamps import Stamp
from live_eval.types import StampKind

__all__ = ["RTC_CODECS", "TAPPED_VERSION", "RtcTap", "check_aiortc"]

TAPPED_VERSION = "1.16.0"
"""The version of aiortc whose internals this module uses."""

RTC_CODECS: Mapping[str, Codec] = {
    "audio/opus": Codec(CodecName.OPUS, 48_000),
    "audio/pcmu": Codec(CodecName.PCMU, 8_000),
    "audio/pcma": Codec(CodecName.PCMA, 8_000),
}
"""The codecs whose packets are understood, by their type in lower case, the best one first."""


def check_aiortc() -> None:
    """Check that the installed aiortc is the one that the tap knows.

    Raises:
        PluginError: It is not.
    """
    if aiortc.__version__ != TAPPED_VERSION:
        raise PluginError(
            f"expected aiortc {TAPPED_VERSION}, whose packet handling the WebRTC transport taps, but "
            f"{aiortc.__version__} is installed (pip install aiortc=={TAPPED_VERSION})"
        )


class RtcTap:
    """Takes the packets of one receiver. Made once its transport is known, before anything has arrived.

    An offerer that bundles all media makes it with the receiver, another right after the answer was set, an
    answerer right after the offer was: what was bundled has found its transport then, and nothing has been
    received.

    Args:
        receiver: The receiver of the audio track.
        now_ns: The clock.
        heard: Called with each packet in the order of arrival; those of an unknown codec have no payload.
    """

    def __init__(
        self, receiver: RTCRtpReceiver, now_ns: Callable[[], int], heard: Callable[[RtpPacket], None]
    ) -> None:
        self._now_ns = now_ns
        self.stamps = StampKind.KERNEL
        """Who stamped all datagrams so far."""
        self._heard = heard
        self._last_codec: Codec | None = None
        self._connecting: set[asyncio.Task[Any]] = set()
        self.at_ns = now_ns()
        """Arrival of the datagram that is being handled: of messages on data channels too."""
        self.path_lost = False
        """Whether the connection ended because no network path was left, and not by the other side's word."""
        # Mangled names of the receiver's payload types and of the statistics that its reports are made of.
        self._codecs: dict[int, Any] = vars(receiver)["_RTCRtpReceiver__codecs"]
        self._streams: dict[int, StreamStatistics] = vars(receiver)["_RTCRtpReceiver__remote_streams"]
        ice = receiver.transport.transport
        self._queue = ice._connection.data_received
        self._next = ice._recv
        self._connect = ice.start
        self._receive = receiver.receive
        self._stop_decoder = receiver._handle_disconnect
        vars(ice._connection).update(data_received=self._datagram)
        vars(ice).update(_recv=self._datagram_handled, start=self._connected)
        vars(receiver).update(receive=self._received, _handle_rtp_packet=self._packet)

    async def settled(self) -> None:
        """Wait until the tasks have ended in which aiortc sets the connection up; it does not await them."""
        if self._connecting:
            await asyncio.wait(self._connecting)

    async def _connected(self, parameters: RTCIceParameters) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connecting.add(task)
        await self._connect(parameters)

    async def _received(self, parameters: RTCRtpReceiveParameters) -> None:
        await self._receive(parameters)
        await asyncio.to_thread(self._stop_decoder)  # nothing is decoded, and the thread would wait for ever

    def _datagram(self, data: bytes, component: int) -> None:
        if not isinstance(data, StampedDatagram):  # a relay unpacked it
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

    async def _packet(self, packet: WirePacket, arrival_time_ms: int) -> None:
        codec = self._codecs.get(packet.payload_type)
        if codec is None:
            self._without_sound(packet)
            return
        stream = self._streams.get(packet.ssrc)
        if stream is None:
            stream = self._streams[packet.ssrc] = StreamStatistics(codec.clockRate)
        stream.add(packet)
        known = RTC_CODECS.get(codec.mimeType.lower())
        if known is None:
            self._without_sound(packet)
            return
        self._last_codec = known
        self._hear(packet, packet.payload, known)

    def _without_sound(self, packet: WirePacket) -> None:
        """Report a packet of another format (comfort noise, a tone by name): it was not lost."""
        if self._last_codec is not None:
            self._hear(packet, b"", self._last_codec)

    def _hear(self, packet: WirePacket, payload: bytes, codec: Codec) -> None:
        self._heard(
            RtpPacket(
                at_ns=self.at_ns,
                sequence=packet.sequence_number,
                timestamp=packet.timestamp,
                payload=payload,
                codec=codec,
                ssrc=packet.ssrc,
            )
        )
