"""The user's audio as a media track, encoded and sent when each frame is due."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from aiortc import RTCPeerConnection, RTCRtpSender
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from aiortc.rtp import is_rtcp
from aiortc.stats import RTCOutboundRtpStreamStats, RTCRemoteInboundRtpStreamStats
from aiortc.utils import uint16_gt
from av import AudioCodecContext, AudioFrame, Packet
from av.stream import Stream
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OpusEncoder
from live_eval.audio.rtp import MediaStats

INPUT_RATE_HZ = 48_000
"""Sample rate of the user's frames."""

_G711_RATE_HZ = 8_000
_G711 = {CodecName.PCMU: "pcm_mulaw", CodecName.PCMA: "pcm_alaw"}
_DOWN = INPUT_RATE_HZ // _G711_RATE_HZ
_TAPS = 193
_COMPONENT = 1  # RFC 8839: RTP, and RTCP with it


class _Encoder(Protocol):
    def encode(self, pcm: bytes) -> list[bytes]: ...


class UserTrack(MediaStreamTrack):
    """Encodes frames in advance and sends them when due; an `AudioTrack` and `EncodesFramesAhead`.

    aiortc's sender passes packets from `recv` to its transport as RTP, where they are encrypted and kept
    until due.

    Args:
        connection: The connection to which the track will be added.
    """

    kind = "audio"

    def __init__(self, connection: RTCPeerConnection) -> None:
        super().__init__()
        self._connection = connection
        self._ice: Any = None  # from `begin` on
        self._datagrams: deque[bytes] = deque()
        self._owed = 0
        self._packets: asyncio.Queue[Packet[Stream]] = asyncio.Queue()
        self._encoder: _Encoder | None = None
        self._rate_hz = INPUT_RATE_HZ
        self._at = 0

    def begin(self, codec: Codec, sender: RTCRtpSender) -> None:
        """Start to send, through the track's sender, with the codec that the endpoint chose."""
        self._rate_hz = codec.rate_hz
        self._encoder = OpusEncoder(INPUT_RATE_HZ) if codec.name is CodecName.OPUS else _G711Encoder(codec)
        secured: Any = sender.transport
        self._ice = secured.transport
        send_at_once = secured._send_rtp
        newest: int | None = None

        async def keep(data: bytes) -> None:
            nonlocal newest
            number = int.from_bytes(data[2:4])  # RFC 3550, 5.1
            is_again = newest is not None and not uint16_gt(number, newest)
            if is_rtcp(data) or is_again or secured.state != "connected":
                await send_at_once(data)  # a report, or a packet that is sent again
                return
            newest = number
            self._datagrams.append(secured._tx_srtp.protect(data))
            if self._owed > 0:
                self._owed -= 1
                self._let_go()

        vars(secured)["_send_rtp"] = keep

    def prepare_frame(self, pcm: bytes, skipped: int = 0) -> Callable[[], None]:
        """Encode a frame; return what sends it.

        Args:
            pcm: int16 little-endian mono, 20 ms at 48 kHz.
            skipped: Frames of silence that were dropped before this one. The timestamps advance by them, as
                those of a sender that sends nothing while it is silent (RFC 3550, 5.1).
        """
        if self._encoder is None or self.readyState != "live":
            return lambda: None
        samples = len(pcm) // 2
        self._at += skipped * samples
        if self._packets.empty():  # aiortc's sender dropped the rest of the frames before
            self._owed = 0
        packets = self._encoder.encode(pcm)
        for data in packets:
            packet: Packet[Stream] = Packet(data)
            packet.pts = self._at * self._rate_hz // INPUT_RATE_HZ
            packet.time_base = Fraction(1, self._rate_hz)
            self._packets.put_nowait(packet)
        self._at += samples

        def leave() -> None:
            self._owed = max(0, self._owed + len(packets) - len(self._datagrams))  # not yet encrypted
            while self._datagrams:
                self._let_go()

        return leave

    def send(self, pcm: bytes, skipped: int = 0) -> None:
        """Encode a frame and send it as soon as it is encrypted; see `prepare_frame`."""
        self.prepare_frame(pcm, skipped)()

    def _let_go(self) -> None:
        """Send the next datagram."""
        data = self._datagrams.popleft()
        path = self._ice._connection._nominated.get(_COMPONENT)
        if path is not None:
            path.protocol.transport.sendto(data, path.remote_addr)

    async def recv(self) -> Packet[Stream]:
        """Wait for the next packet; called by aiortc's sender."""
        if self.readyState != "live":
            raise MediaStreamError
        return await self._packets.get()

    async def stats(self) -> MediaStats:
        """Return what RTCP reports about the packets sent."""
        sent = lost = round_trip_ns = None
        for report in (await self._connection.getStats()).values():
            if isinstance(report, RTCOutboundRtpStreamStats):
                sent = report.packetsSent
            elif isinstance(report, RTCRemoteInboundRtpStreamStats):
                lost = report.packetsLost
                if report.roundTripTime is not None:
                    round_trip_ns = round(report.roundTripTime * 1e9)
        return MediaStats(sent_packets=sent, sent_lost=lost, round_trip_ns=round_trip_ns)


class _G711Encoder:
    """Encodes frames at 48 kHz as G.711 at 8 kHz, each frame on its own packet.

    The filter (a windowed sinc, 3.4 kHz) delays the audio by half its length, 2 ms.
    """

    def __init__(self, codec: Codec) -> None:
        self._context = cast(AudioCodecContext, AudioCodecContext.create(_G711[codec.name], "w"))
        self._context.format, self._context.layout = "s16", "mono"
        self._context.sample_rate = codec.rate_hz
        self._context.time_base = Fraction(1, codec.rate_hz)
        at = np.arange(_TAPS) - _TAPS // 2
        cutoff = 2 * 3_400 / INPUT_RATE_HZ
        taps = cutoff * np.sinc(cutoff * at) * np.hamming(_TAPS)
        self._taps: NDArray[np.float64] = taps / taps.sum()
        self._before: NDArray[np.float64] = np.zeros(_TAPS - 1)
        self._at = 0

    def encode(self, pcm: bytes) -> list[bytes]:
        heard = np.concatenate((self._before, np.frombuffer(pcm, "<i2").astype(np.float64)))
        self._before = heard[len(heard) - _TAPS + 1 :]
        samples = np.convolve(heard, self._taps, "valid")[::_DOWN]
        frame = AudioFrame.from_ndarray(
            np.clip(np.rint(samples), -32_768, 32_767).astype(np.int16).reshape(1, -1), "s16", "mono"
        )
        frame.sample_rate, frame.pts = _G711_RATE_HZ, self._at
        frame.time_base = Fraction(1, _G711_RATE_HZ)
        self._at += len(samples)
        return [bytes(packet) for packet in self._context.encode(frame)]
