"""Send and receive audio on a WebRTC track and messages on a data channel, using aiortc.

The endpoint's packets bypass the jitter buffer: they are returned undecoded, with kernel timestamps
(`live_eval.webrtc.rtp_tap`). The user's frames are encoded in advance and sent when they are due
(`live_eval.clients.transports._webrtc_track`).
"""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
from aiortc import RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from live_eval.audio.rtp import RtpPacket
from live_eval.clients.transports._http_client import failure_of, http_session
from live_eval.clients.transports._http_errors import Address
from live_eval.clients.transports._stamping import StampingTransport
from live_eval.clients.transports._webrtc_signalling import Answer, Signaller, configuration
from live_eval.clients.transports._webrtc_track import UserTrack
from live_eval.clock import Clock
from live_eval.dialect import Dial, Message, Signalling
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.impair import ImpairedLayer, Impairment
from live_eval.sockets.datagrams import stamped_datagrams
from live_eval.sockets.impaired import ImpairedDatagrams
from live_eval.transport import Arrival
from live_eval.types import StampKind
from live_eval.webrtc.rtp_tap import RTC_CODECS, RtcTap, check_aiortc, take_apart

__all__ = ["WebRtcTransport"]

check_aiortc()

_CLOSE_TIMEOUT_S = 2.0


class WebRtcTransport(StampingTransport):
    """A `Transport` over a WebRTC connection to an endpoint.

    The steps in `setup_ns` are ``offer`` (our description, candidates gathered), ``answer`` (the HTTP round
    trip), ``ice`` (from the answer to a working candidate pair), ``dtls``, ``channel`` (from the end of DTLS
    to the open data channel) and, later, ``first_rtp`` (from the end of DTLS to the first packet).

    Args:
        clock: Clock for arrival timestamps.
        impairment: Impairment of the setup requests, and of datagrams after ICE, DTLS and the data channel
            handshake have completed; or None.
    """

    schemes = ("https", "http")
    """The schemes of the signalling."""

    def __init__(self, clock: Clock, *, impairment: Impairment | None = None) -> None:
        super().__init__(clock)
        self._damage = ImpairedDatagrams(impairment, clock) if impairment is not None else None
        on_signalling = impairment.on(ImpairedLayer.SIGNALLING) if impairment is not None else None
        self._on_signalling = on_signalling or None
        self._step = "offer"
        self._encrypted_ns = 0
        self._arrivals: asyncio.Queue[Arrival | RtpPacket | None] = asyncio.Queue()
        self._end: TransportClosedError | None = None
        self._changed = asyncio.Event()
        self._connection: RTCPeerConnection | None = None
        self._track: UserTrack | None = None
        self._closing: asyncio.Task[None] | None = None
        self._tap: RtcTap | None = None
        self._channel: RTCDataChannel | None = None

    @property
    def track(self) -> UserTrack | None:
        """The track for the user's audio, or None before the connection is open."""
        return self._track

    @property
    def stamps(self) -> StampKind:
        """Whether arrival timestamps come from the kernel or from this process."""
        return self._tap.stamps if self._tap is not None else StampKind.USER

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection: offer and answer, ICE, DTLS, and the data channel, if any.

        Args:
            dial: URL, headers and body of the offer request.
            timeout_s: Timeout of the whole setup, in seconds.

        Raises:
            ConnectError: The connection could not be opened. The message contains the host and path, but no
                query, header or secret.
        """
        address = Address(dial, self.schemes)
        try:
            async with asyncio.timeout(timeout_s):
                await self._open(dial, address)
        except (ConnectError, TransportClosedError):
            await self.close()
            raise
        except Exception as error:
            failed = self._end  # a request may fail because the connection did
            await self.close()
            if failed is not None:
                raise address.failure(failed.kind, failed.reason) from None
            if isinstance(error, TimeoutError):
                raise self._took_too_long(address, timeout_s) from None
            if isinstance(error, aiohttp.ClientError | OSError):
                raise failure_of(error, address, timeout_s) from None
            raise
        except BaseException:
            await self.close()
            raise

    async def send(self, message: Message) -> None:
        """Send a message on the data channel.

        Raises:
            TransportClosedError: The connection is closed, or sending failed, which closes the connection.
        """
        channel = self._channel
        if self._end is None and channel is not None and channel.readyState == "open":
            try:
                channel.send(message)
            except ValueError as error:  # the message exceeds the endpoint's size limit
                self._ended(FailureKind.MESSAGE_TOO_BIG, str(error))
        if self._end is None and channel is None:
            raise RuntimeError("cannot send a message: the dialect opens no data channel")
        if self._end is not None:
            raise self._end

    async def receive(self) -> Arrival | RtpPacket:
        """Wait for the next message or packet, in arrival order.

        Raises:
            TransportClosedError: The connection has ended and everything that arrived has been returned.
        """
        arrival = await self._arrivals.get()
        if arrival is None:
            self._arrivals.put_nowait(None)
            assert self._end is not None
            raise self._end
        return arrival

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; do nothing if it has already ended. Never raises, never hangs."""
        self._ended(FailureKind.CLOSED, f"closed by the client: {reason}", code)
        # The session may cancel the caller, but aiortc must still finish closing.
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut())
        await asyncio.shield(self._closing)

    async def _shut(self) -> None:
        if self._connection is not None:
            was_up = self._step == "up"
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._connection.close()
                    if self._tap is not None:
                        await self._tap.settled()
                    if was_up and self._track is not None:  # before that, setup tasks still use the track
                        await self._track.keep_stats()
                        take_apart(self._connection)
        if self._damage is not None:
            self._damage.close()

    async def _open(self, dial: Dial, address: Address) -> None:
        if dial.signalling is None:
            raise RuntimeError("WebRTC requires a dialect with Dial.signalling")
        self._step_ns = self._clock.now_ns()
        offer = await self._describe(dial.signalling, "sendrecv")
        self._moved_on("answer")
        async with await http_session(address, self._clock, self._on_signalling) as http:
            signaller = Signaller(http, address, dial, self._clock)
            answer = await signaller.offer(offer)
            self._moved_on("ice")
            await self._accept(answer, address)
            if dial.signalling.patch_candidates:
                await signaller.candidates(offer, answer.pc_id)
        await self._until_up(address)
        if self._damage is not None:
            self._damage.begin()

    async def _describe(self, signalling: Signalling, direction: str) -> str:
        """Create the connection, and return the offer with its candidates."""
        connection = self._connection = RTCPeerConnection(configuration(signalling.ice_servers))
        track = self._track = UserTrack()
        transceiver = connection.addTransceiver(track, direction=direction)
        capable = transceiver.receiver.getCapabilities("audio")
        assert capable is not None
        ours = [codec for codec in capable.codecs if codec.mimeType.lower() in RTC_CODECS]
        transceiver.setCodecPreferences(ours)
        self._tap = RtcTap(transceiver.receiver.transport, self._clock.now_ns)
        self._tap.listen(transceiver.receiver, self._on_packet)
        connection.on("iceconnectionstatechange", self._on_state)
        connection.on("connectionstatechange", self._on_state)
        if signalling.channel is not None:
            self._channel = connection.createDataChannel(signalling.channel)
            self._channel.on("message", self._on_message)
            self._channel.on("open", self._on_state)
            self._channel.on("close", self._on_channel_closed)
        with stamped_datagrams(self._stamps, self._damage):
            await connection.setLocalDescription()
        sdp: str = connection.localDescription.sdp
        return sdp

    async def _accept(self, answer: Answer, address: Address) -> None:
        """Apply the answer; aiortc then connects by itself."""
        assert self._connection is not None
        assert self._track is not None
        try:
            await self._connection.setRemoteDescription(RTCSessionDescription(answer.sdp, "answer"))
        except Exception as error:  # aiortc raises many exception types for invalid descriptions
            why = f"expected a valid session description: {type(error).__name__}: {error}"
            raise address.failure(FailureKind.SDP_REFUSED, why) from None
        (sender,) = self._connection.getSenders()
        self._track.begin(answer.codec, sender)

    async def _until_up(self, address: Address) -> None:
        """Wait until audio and messages can be sent."""
        while self._step != "up":
            if self._end is not None:
                raise address.failure(self._end.kind, self._end.reason)
            self._changed.clear()
            await self._changed.wait()

    def _took_too_long(self, address: Address, timeout_s: float) -> ConnectError:
        within = f"within {timeout_s:g} s"
        match self._step:
            case "ice":
                why = f"ICE found no network path to the endpoint {within}"
                return address.failure(FailureKind.ICE_FAILED, why)
            case "dtls":
                why = f"ICE found a network path, but the DTLS handshake did not complete {within}"
                return address.failure(FailureKind.DTLS_FAILED, why)
            case "channel":
                why = f"the connection was established, but the data channel did not open {within}"
                return address.failure(FailureKind.CHANNEL_CLOSED, why)
        return address.unreachable(TimeoutError(), timeout_s)

    def _moved_on(self, begun: str) -> None:
        """Record the end of the current setup step and the start of the next."""
        self._stepped(self._step)
        self._step = begun

    # -- aiortc callbacks --------------------------------------------------------------------------------

    def _on_state(self) -> None:
        """Handle a new ICE, connection or data channel state."""
        connection, channel = self._connection, self._channel
        assert connection is not None
        if self._step == "ice" and connection.iceConnectionState == "completed":
            self._moved_on("dtls")
        if self._step == "dtls" and connection.connectionState == "connected":
            self._moved_on("channel" if channel is not None else "up")
            self._encrypted_ns = self._step_ns
        if self._step == "channel" and channel is not None and channel.readyState == "open":
            self._moved_on("up")
        if connection.connectionState == "failed":
            if connection.iceConnectionState == "failed":
                why = "ICE found no network path to the endpoint"
                self._ended(FailureKind.ICE_FAILED, why)
            else:
                why = (
                    "the DTLS handshake failed: the endpoint's certificate does not match its SDP answer, or "
                )
                self._ended(FailureKind.DTLS_FAILED, why + "the two sides have no cipher in common")
        elif connection.connectionState == "closed":
            self._gone()
        self._changed.set()

    def _on_message(self, message: Message) -> None:
        assert self._tap is not None
        if self._end is None:
            self._arrivals.put_nowait(Arrival(message, self._tap.at_ns))

    def _on_packet(self, packet: RtpPacket) -> None:
        if self._end is not None:
            return
        if "first_rtp" not in self._setup_ns:
            # The message may have arrived together with the end of the handshake.
            self._setup_ns["first_rtp"] = max(0, packet.at_ns - self._encrypted_ns)
        self._arrivals.put_nowait(packet)

    def _on_channel_closed(self) -> None:
        """Handle the end of the data channel, with or without the connection."""
        connection = self._connection
        assert connection is not None
        if connection.sctp is not None and connection.sctp.state == "connected":
            self._ended(FailureKind.CHANNEL_CLOSED, "the endpoint closed the data channel")
        else:
            self._gone()

    def _gone(self) -> None:
        """Handle the end of the connection."""
        if self._tap is not None and self._tap.path_lost:
            self._ended(FailureKind.ICE_FAILED, "the network path to the endpoint was lost")
        else:
            self._ended(FailureKind.CLOSED, "the endpoint ended the WebRTC connection")

    def _ended(self, kind: FailureKind, why: str, code: int | None = None) -> None:
        """Record how the connection ended; only the first reason is kept."""
        if self._end is None:
            self._end = TransportClosedError(code, why, self._clock.now_ns(), kind=kind)
            self._arrivals.put_nowait(None)
            self._changed.set()
