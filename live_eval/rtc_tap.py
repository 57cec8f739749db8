"""The tap on aiortc's receive path: packets as they arrive, not as its jitter buffer lets them out.

aiortc hands out decoded frames after a jitter buffer that waits for four packets, hides what was late and
does not say when anything came. The tap takes each datagram's stamp where the socket delivers it, before
decryption and parsing, and each packet of a receiver before that buffer; neither aiortc's buffer nor its
decoder sees it. Receiver reports (RTCP) go on. It reaches into names that aiortc does not promise, so aiortc
is pinned to one version, and a test says which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from aiortc import RTCRtpReceiver
from aiortc.rtcrtpreceiver import StreamStatistics
from aiortc.rtp import RtpPacket as WirePacket

from live_eval.audio import Codec, CodecName
from live_eval.rtp import RtpPacket

__all__ = ["TAPPED_VERSION", "RtcTap"]

TAPPED_VERSION = "1.16.0"
"""The version of aiortc whose inside this module knows."""

_CODECS = {"audio/opus": CodecName.OPUS, "audio/pcmu": CodecName.PCMU, "audio/pcma": CodecName.PCMA}


class RtcTap:
    """Takes the packets of one receiver. Made once its transport is known, before anything has arrived.

    An offerer makes it right after the answer was set, an answerer right after the offer was: what was
    bundled has found its transport then, and nothing has been received.

    Args:
        receiver: The receiver of the audio track.
        now_ns: The clock.
        heard: Called with each packet whose codec is known.
    """

    def __init__(
        self, receiver: RTCRtpReceiver, now_ns: Callable[[], int], heard: Callable[[RtpPacket], None]
    ) -> None:
        self._now_ns = now_ns
        self._heard = heard
        self._stamps: deque[int] = deque()
        self.at_ns = now_ns()
        """Arrival of the datagram that is being handled: of messages on data channels too."""
        # Mangled names of the receiver's payload types and of the statistics that its reports are made of.
        self._codecs: dict[int, Any] = vars(receiver)["_RTCRtpReceiver__codecs"]
        self._streams: dict[int, StreamStatistics] = vars(receiver)["_RTCRtpReceiver__remote_streams"]
        ice: Any = receiver.transport.transport
        self._queue = ice._connection.data_received
        self._next = ice._recv
        ice._connection.data_received = self._datagram
        ice._recv = self._datagram_handled
        vars(receiver)["_handle_rtp_packet"] = self._packet

    def _datagram(self, data: bytes, component: int) -> None:
        self._stamps.append(self._now_ns())
        self._queue(data, component)

    async def _datagram_handled(self) -> bytes:
        data: bytes = await self._next()
        self.at_ns = self._stamps.popleft()
        return data

    async def _packet(self, packet: WirePacket, arrival_time_ms: int) -> None:
        codec = self._codecs.get(packet.payload_type)
        if codec is None:
            return
        stream = self._streams.get(packet.ssrc)
        if stream is None:
            stream = self._streams[packet.ssrc] = StreamStatistics(codec.clockRate)
        stream.add(packet)
        name = _CODECS.get(codec.mimeType.lower())
        if name is not None and packet.payload:
            self._heard(
                RtpPacket(
                    at_ns=self.at_ns,
                    sequence=packet.sequence_number,
                    timestamp=packet.timestamp,
                    payload=packet.payload,
                    codec=Codec(name, codec.clockRate),
                    ssrc=packet.ssrc,
                )
            )
