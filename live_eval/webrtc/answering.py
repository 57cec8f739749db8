"""Answer one WebRTC connection with aiortc: a data channel and a media track.

The user's packets get kernel timestamps (`live_eval.webrtc.rtp_tap`) and are decoded; lost packets become
silence. Sent packets are timestamped just before they are passed to aiortc's sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque

from aiortc import (
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpCodecCapability,
    RTCSessionDescription,
)
from aiortc.rtcdtlstransport import X509_DIGEST_ALGORITHMS
from aiortc.sdp import SessionDescription

from live_eval.audio.codecs import OPUS_RATE_HZ
from live_eval.clock import Clock, wait_until
from live_eval.errors import LiveEvalError
from live_eval.sockets.datagrams import stamped_datagrams
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.transport import Arrival
from live_eval.webrtc.media import InputPacket
from live_eval.webrtc.packets import ReplyTrack, SpeechPackets
from live_eval.webrtc.rtc_answerer import add_candidate, delivered
from live_eval.webrtc.rtp_tap import RtcTap, keep_no_packets, take_apart

__all__ = ["OfferError", "RtcConnection"]

_OPUS = RTCRtpCodecCapability(mimeType="audio/opus", clockRate=OPUS_RATE_HZ, channels=2)
_UNSENT_MESSAGES = 1_000
_CLOSE_TIMEOUT_S = 2.0


class OfferError(LiveEvalError):
    """Raised when an offer cannot be answered."""


class RtcConnection:
    """A connection to one client, with messages on a data channel and a `MediaTrack`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._track = ReplyTrack(clock)
        self._tap: RtcTap | None = None
        self._channel: RTCDataChannel | None = None
        self._unsent: deque[str] = deque(maxlen=_UNSENT_MESSAGES)
        self._messages: asyncio.Queue[Arrival | None] = asyncio.Queue()
        self._speech = SpeechPackets()
        self._changed = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._was_up = self._taken_apart = False

    # -- Setting up -------------------------------------------------------------------------------------

    async def answer(self, offer: str) -> str:
        """Return the SDP answer to an SDP offer; the connection is set up in the background.

        Raises:
            OfferError: The offer cannot be answered.
        """
        transceiver = self._peer.addTransceiver(self._track, "sendrecv")
        transceiver.setCodecPreferences([_OPUS])
        keep_no_packets(transceiver.sender)
        self._peer.on("datachannel", self._adopt)
        self._peer.on("connectionstatechange", self._look)
        if not re.search(r"^m=audio ", offer, re.MULTILINE):
            await self._peer.close()
            raise OfferError("expected a session description with an 'm=audio' section")
        try:
            _check_encrypted(offer)
            await self._peer.setRemoteDescription(RTCSessionDescription(offer, "offer"))
            for other in self._peer.getTransceivers():
                if other is not transceiver:
                    other.direction = "inactive"
            self._tap = RtcTap(transceiver.receiver.transport, self._clock.now_ns)
            self._tap.listen(transceiver.receiver, self._speech.add)
            with stamped_datagrams(ArrivalStamps(self._clock)):
                await self._peer.setLocalDescription()
        except OfferError:
            await self._peer.close()
            raise
        except Exception as error:  # aiortc's parser may raise any exception on untrusted input
            await self._peer.close()
            raise OfferError(
                f"expected a session description that offers Opus; {type(error).__name__}: {error}"
            ) from None
        return self._peer.localDescription.sdp

    async def add_candidate(self, line: str, mid: str | None, index: int | None) -> None:
        """Add one of the client's ICE candidates.

        Args:
            line: Candidate in SDP syntax, with or without ``candidate:``; empty after the last candidate.

        Raises:
            OfferError: The line is not a candidate.
        """
        if self.ended or not line:
            return
        try:
            await add_candidate(self._peer, line, mid, index)
        except Exception as error:  # aiortc may raise any exception; see `answer`
            raise OfferError(f"expected an ICE candidate, got {line[:100]!r}: {error}") from None

    async def connected(self, timeout_ns: int) -> bool:
        """Wait until the connection is set up; return whether this succeeded in time."""
        settled = await wait_until(
            lambda: self.ended or self._peer.connectionState == "connected",
            self._changed,
            self._clock,
            timeout_ns,
        )
        return settled and not self.ended

    @property
    def ended(self) -> bool:
        """Whether the connection has ended or was never established."""
        return self._taken_apart or self._peer.connectionState in ("failed", "closed")

    # -- Messages ---------------------------------------------------------------------------------------

    async def receive(self) -> Arrival | None:
        """Wait for the next message; return None once the connection has ended."""
        return await self._messages.get()

    async def send(self, message: bytes) -> int:
        """Send a message once the channel is open; return the send time."""
        at_ns = self._clock.now_ns()
        self._unsent.append(message.decode())
        self._flush()
        return at_ns

    async def close(self, code: int, reason: str) -> None:
        """Close the connection once sent messages have arrived; `receive` then returns None."""
        if self._channel is not None and not self.ended:
            await delivered(self._channel, self._clock, lambda: self.ended)
        # The caller may be cancelled when the connection ends, but aiortc must finish closing.
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut())
        await asyncio.shield(self._closing)

    def drop(self, *, reset: bool) -> None:
        """End the connection; `reset` has no effect, because WebRTC always notifies the peer."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut())

    async def send_raw(self, data: bytes) -> None:
        """Do nothing, because WebRTC has no byte stream."""

    async def _shut(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._peer.close()
                if self._tap is not None:
                    await self._tap.settled()
                if self._was_up:  # before that, setup tasks are still running
                    self._taken_apart, self._channel = True, None
                    take_apart(self._peer)
        self._look()

    def _adopt(self, channel: RTCDataChannel) -> None:
        if self._channel is not None:
            return
        self._channel = channel
        channel.on("message", self._arrived)
        channel.on("open", self._flush)
        self._flush()

    def _arrived(self, message: str | bytes) -> None:
        assert self._tap is not None
        self._messages.put_nowait(Arrival(message, self._tap.at_ns))

    def _flush(self) -> None:
        while self._unsent and self._channel is not None and self._channel.readyState == "open":
            self._channel.send(self._unsent.popleft())

    def _look(self) -> None:
        """Handle a connection state change."""
        self._changed.set()
        if self.ended:
            self._messages.put_nowait(None)
            self._speech.end()
        elif self._peer.connectionState == "connected":
            self._was_up = True

    # -- Media ------------------------------------------------------------------------------------------

    async def hear(self) -> InputPacket | None:
        """Wait for the user's next packet; return None once the connection has ended."""
        return await self._speech.get()

    async def say(self, packet: bytes, timestamp: int) -> int | None:
        """Send 20 ms of Opus immediately, through aiortc's sender; return the send time."""
        return await self._track.say(packet, timestamp)


def _check_encrypted(offer: str) -> None:
    """Reject an offer whose certificate cannot be verified; aiortc would detect this only after connecting.

    Raises:
        OfferError: A section has no supported fingerprint (RFC 8122, 5).
    """
    for section in SessionDescription.parse(offer).media:
        given = [fingerprint.algorithm for fingerprint in section.dtls.fingerprints] if section.dtls else []
        if not any(algorithm.lower() in X509_DIGEST_ALGORITHMS for algorithm in given):
            known = " or ".join(X509_DIGEST_ALGORITHMS)
            raise OfferError(
                f"section {section.kind!r}: expected the lines 'a=setup:' and 'a=fingerprint:' with {known}, "
                f"got fingerprints: {', '.join(given)[:100] or 'none'}"
            )
