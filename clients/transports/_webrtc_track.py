"""Send the user's audio on a media track: each frame is encoded in advance and sent when due."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol, cast

import numpy as np
from aiortc import RTCRtpSender
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack
from aiortc.rtp import is_rtcp
from aiortc.stats import RTCOutboundRtpStreamStats, RTCRemoteInboundRtpStreamStats
from av import AudioCodecContext, AudioFrame, Packet
from av.stream import Stream
from numpy.typing import NDArray

from live_eval.audio import Codec, CodecName
from live_eval.audio.codecs import OpusEncoder
from live_eval.audio.rtp import MediaStats
from live_eval.webrtc.rtp_tap import keep_no_packets

INPUT_RATE_HZ = 48_000
"""Sample rate of the user's frames."""

_G711_RATE_HZ = 8_000
_G711 = {CodecName.PCMU: "pcm_mulaw", CodecName.PCMA: "pcm_alaw"}
_DOWN = INPUT_RATE_HZ // _G711_RATE_HZ
_TAPS = 193
_COMPONENT = 1  # RFC 8839: RTP, with RTCP multiplexed


class _Encoder(Protocol):
    def encode(self, pcm: bytes) -> list[bytes]: ...


class UserTrack(MediaStreamTrack):
    """An `AudioTrack` that encodes frames in advance (`EncodesFramesAhead`) and sends them when due.

    aiortc's sender passes packets from `recv` to its transport, which encrypts them and keeps them until they
    are due.
    """

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._sender: RTCRtpSender | None = None  # set by `begin`, like `_codec`
        self._ice: Any = None
        self._datagrams: deque[bytes] = deque()
        self._owed = 0
        self._packets: asyncio.Queue[Packet[Stream]] = asyncio.Queue()
        self._encoder: _Encoder | None = None
        self._rate_hz = INPUT_RATE_HZ
        self._at = 0
        self._stats: MediaStats | None = None

    def begin(self, codec: Codec, sender: RTCRtpSender) -> None:
        """Start sending through the track's sender, with the codec that the endpoint selected."""
        self._rate_hz = codec.rate_hz
        self._encoder = OpusEncoder(INPUT_RATE_HZ) if codec.name is CodecName.OPUS else _G711Encoder(codec)
        self._sender = sender
        secured: Any = sender.transport
        self._ice = secured.transport
        send_at_once = secured._send_rtp
        keep_no_packets(sender)

        async def keep(data: bytes) -> None:
            if is_rtcp(data) or secured.state != "connected":
                await send_at_once(data)
                return
            self._datagrams.append(secured._tx_srtp.protect(data))
            if self._owed > 0:
                self._owed -= 1
                self._let_go()

        vars(secured)["_send_rtp"] = keep

    def prepare_frame(self, pcm: bytes, skipped: int = 0) -> Callable[[], None]:
        """Encode a frame; return a function that sends it.

        Args:
            pcm: int16 little-endian mono, 20 ms at 48 kHz.
            skipped: Number of silent frames dropped before this frame. The timestamps skip them, as with
                silence suppression (RFC 3550, 5.1).
        """
        if self._encoder is None or self.readyState != "live":
            return lambda: None
        samples = len(pcm) // 2
        self._at += skipped * samples
        if self._packets.empty():  # aiortc's sender has dropped the rest of the earlier frames
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

    def stop(self) -> None:
        """End the track; frames that are not yet sent are lost."""
        super().stop()
        self._datagrams.clear()

    async def keep_stats(self) -> None:
        """Store the last report before the connection closes."""
        self._stats = await self.stats()

    async def stats(self) -> MediaStats:
        """Return the RTCP report on the sent packets."""
        if self._stats is not None:
            return self._stats
        sent = lost = round_trip_ns = None
        # Unlike the connection's report, the sender's own report is created immediately, so the connection
        # cannot close in the meantime.
        for report in (await self._sender.getStats()).values() if self._sender is not None else ():
            if isinstance(report, RTCOutboundRtpStreamStats):
                sent = report.packetsSent
            elif isinstance(report, RTCRemoteInboundRtpStreamStats):
                lost = report.packetsLost
                if report.roundTripTime is not None:
                    round_trip_ns = round(report.roundTripTime * 1e9)
        return MediaStats(sent_packets=sent, sent_lost=lost, round_trip_ns=round_trip_ns)


class _G711Encoder:
    """Encode 48 kHz frames as 8 kHz G.711, one packet per frame.

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
