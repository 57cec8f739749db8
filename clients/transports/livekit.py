"""LiveKit transport: a WebSocket for signals, and two WebRTC connections, over aiortc.

The client offers a connection for its own tracks, and answers the server's offers of a second one for
subscribed tracks; each new track renegotiates it. Packets and messages have kernel timestamps, as in
`live_eval.clients.transports.webrtc`. Source: livekit-protocol 1.1.29 (``livekit_rtc.proto``).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
from aiortc import RTCDataChannel, RTCPeerConnection

from live_eval.clients.transports._http_errors import Address
from live_eval.clients.transports._lookup import found_in, look_up
from live_eval.clients.transports._webrtc_signalling import Answer, AnswerCheck, configuration
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import Clock
from live_eval.dialect import Dial, Lookup, Message
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.transport import Arrival
from live_eval.types import StampKind
from live_eval.webrtc.livekit_messages import as_json, from_json, load_protocol, with_member
from live_eval.webrtc.rtc_answerer import RtcAnswerer, add_candidate
from live_eval.webrtc.rtp_tap import RtcTap

__all__ = ["LiveKitTransport"]

_PROTOCOL = load_protocol()  # raises before a run starts if the package is missing

_PUBLISHER, _SUBSCRIBER = _PROTOCOL.rtc.SignalTarget.PUBLISHER, _PROTOCOL.rtc.SignalTarget.SUBSCRIBER
_MOST_CANDIDATES = 100  # of one connection, before its description arrives
_MS_NS = 1_000_000
_SECOND_NS = 1_000_000_000
_PING_S = 5
_CLOSE_TIMEOUT_S = 2.0
_SILENT = ("pong", "pong_resp", "refresh_token")


class LiveKitTransport(WebRtcTransport):
    """A `Transport` over a participant's connection to a LiveKit server.

    The steps in `setup_ns` are ``webhook`` (the requests of a `Lookup`), those of `WebSocketTransport`, then
    ``join`` (until the server has described the room), and those of `WebRtcTransport` for the connection that
    publishes.

    Args:
        clock: Clock for arrival timestamps.
    """

    schemes = ("wss", "ws")

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._signals = WebSocketTransport(clock)
        self._desk: WebSocketTransport | None = None  # the WebSocket whose first message named the room
        self._timeout_s = 0.0
        self._address: Address  # set by `connect`, like the next attribute
        self._dial: Dial
        self._subscriber: RtcAnswerer | None = None
        self._early: defaultdict[int, list[str]] = defaultdict(list)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def stamps(self) -> StampKind:
        """Whether the kernel or this process stamped the arrivals."""
        heard = self._subscriber.tap if self._subscriber is not None else None
        kinds = {each.stamps for each in (self._tap, heard, self._signals) if each is not None}
        return StampKind.KERNEL if kinds == {StampKind.KERNEL} else StampKind.USER

    @property
    def stamp_error_ns(self) -> int:
        """The maximum error of the kernel's timestamps after mapping to the monotonic clock."""
        return max(super().stamp_error_ns, self._signals.stamp_error_ns)

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection: the WebSocket, the room, and the connection that publishes.

        Raises:
            ConnectError: The connection could not be opened.
        """
        if dial.lookup is not None:
            dial = replace(await self._found(dial, timeout_s), signalling=dial.signalling)
        self._timeout_s = timeout_s
        signed = dial.signed(self._clock.wall_ns()) if dial.signed is not None else {}
        try:
            await super().connect(replace(dial, headers={**dial.headers, **signed}, signed=None), timeout_s)
        except TransportClosedError as error:
            why = f"the server closed the connection before the room was joined: {error.reason}"
            raise Address(dial, self.schemes).failure(FailureKind.CLOSED, why) from None

    async def _found(self, dial: Dial, timeout_s: float) -> Dial:
        """Return the address of the room and the token for it."""
        self._step_ns = self._clock.now_ns()
        try:
            async with asyncio.timeout(timeout_s):
                found = await look_up(dial, self._clock, timeout_s)
                if found.lookup is not None:
                    found = await self._announced(found, found.lookup, timeout_s)
        except TimeoutError as error:
            await self.close()
            raise Address(dial, ("https", "http")).unreachable(error, timeout_s) from None
        except BaseException:
            await self.close()
            raise
        self._stepped("webhook")
        return found

    async def _announced(self, dial: Dial, lookup: Lookup, timeout_s: float) -> Dial:
        """Return the connection in a WebSocket's first message; the WebSocket stays open with the room."""
        address = Address(dial, self.schemes)
        desk = self._desk = WebSocketTransport(self._clock)
        await desk.connect(replace(dial, lookup=None), timeout_s)
        try:
            message = (await desk.receive()).message
        except TransportClosedError as error:
            why = f"the server closed the connection before {lookup.expected}: {error.reason}"
            raise address.failure(FailureKind.CLOSED, why) from None
        return found_in(message if isinstance(message, str) else "", lookup, address)

    async def send(self, message: Message) -> None:
        """Send a signal over the WebSocket, or a packet on the data channel.

        Raises:
            TransportClosedError: The connection is closed, or sending failed (and closed it).
        """
        packed = from_json(message, _PROTOCOL.rtc.SignalRequest, _PROTOCOL.models.DataPacket)
        if isinstance(packed, _PROTOCOL.models.DataPacket):
            await super().send(packed.SerializeToString())
        elif self._end is not None:
            raise self._end
        else:
            await self._signals.send(packed.SerializeToString())

    # -- Opening -----------------------------------------------------------------------------------------

    async def _open(self, dial: Dial, address: Address) -> None:
        assert dial.signalling is not None
        self._dial, self._address = dial, address
        await self._signals.connect(dial, self._timeout_s)
        self._setup_ns |= self._signals.setup_ns
        self._step, self._step_ns = "join", self._clock.now_ns()
        arrival = await self._signals.receive()
        joined = self._read(arrival.message)
        if joined is None or joined.WhichOneof("message") != "join":
            why = "expected the message 'join' from a LiveKit server: check the base URL"
            raise address.failure(FailureKind.HANDSHAKE, why)
        self._deliver(joined, arrival.at_ns)
        self._moved_on("offer")
        offer = await self._describe(dial.signalling, "sendonly")
        self._moved_on("answer")
        assert self._track is not None
        wanted = {"cid": self._track.id, "name": "microphone", "source": "MICROPHONE"}
        await self._ask("add_track", **wanted, disable_dtx=True, disable_red=True)
        await self._ask("offer", type="offer", sdp=offer, id=1)
        every_s = joined.join.ping_interval or _PING_S
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._ping(every_s))]
        if self._desk is not None:
            self._tasks.append(asyncio.create_task(self._attend(self._desk)))
        await self._until_up(address)

    async def _ask(self, kind: str, **content: object) -> None:
        request = with_member(_PROTOCOL.rtc.SignalRequest, kind, content)
        await self._signals.send(request.SerializeToString())

    # -- Signals -----------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Handle signals until the WebSocket closes."""
        try:
            while True:
                arrival = await self._signals.receive()
                await self._signalled(arrival)
        except TransportClosedError as error:
            self._ended(error.kind or FailureKind.CLOSED, error.reason, error.code)
        except ConnectError as error:
            self._ended(error.kind, error.message.removeprefix(f"{self._address.where}: "))
        except Exception as error:  # otherwise the session would wait for signals that nobody reads
            self._ended(FailureKind.INTERNAL, f"a signal was not handled: {type(error).__name__}: {error}")

    async def _signalled(self, arrival: Arrival) -> None:
        signal = self._read(arrival.message)
        if signal is None:
            self._arrivals.put_nowait(arrival)  # malformed: the dialect reports it
            return
        match signal.WhichOneof("message"):
            case "answer":
                await self._answered(signal.answer.sdp)
            case "offer":
                await self._offered(signal.offer)
            case "trickle":
                await self._trickled(signal.trickle)
            case kind if kind not in _SILENT:
                self._deliver(signal, arrival.at_ns)

    def _read(self, message: Message) -> Any:
        """Return a signal; None if the message is not one."""
        if isinstance(message, str):
            return None
        with contextlib.suppress(Exception):  # protobuf's implementations raise different errors
            return _PROTOCOL.rtc.SignalResponse.FromString(message)
        return None

    def _deliver(self, message: Any, at_ns: int) -> None:
        text = as_json(message)
        if text is not None and self._end is None:
            self._arrivals.put_nowait(Arrival(text, at_ns))

    async def _answered(self, sdp: str) -> None:
        """Apply the answer to our offer; aiortc then connects by itself."""
        assert self._dial.signalling is not None
        codec = AnswerCheck(self._address, self._dial.signalling.channel).codec_of(sdp)
        self._moved_on("ice")
        await self._accept(Answer(sdp, codec), self._address)
        await self._add_candidates(_PUBLISHER, self._connection)

    async def _offered(self, offer: Any) -> None:
        """Answer the server's offer of the tracks to which this client has subscribed."""
        assert self._dial.signalling is not None
        subscriber = self._subscriber
        if subscriber is None:
            servers = configuration(self._dial.signalling.ice_servers)
            subscriber = self._subscriber = RtcAnswerer(servers, self._clock, self._stamps, self._on_packet)
            subscriber.connection.on("datachannel", self._on_their_channel)
            subscriber.connection.on("connectionstatechange", self._on_their_state)
        try:
            answer = await subscriber.answer(offer.sdp)
        except Exception as error:  # aiortc raises many kinds of errors for invalid descriptions
            why = f"expected a valid offer of the agent's track: {type(error).__name__}: {error}"
            raise self._address.failure(FailureKind.SDP_REFUSED, why) from None
        await self._ask("answer", type="answer", sdp=answer, id=offer.id)
        await self._add_candidates(_SUBSCRIBER, subscriber.connection)

    async def _trickled(self, trickle: Any) -> None:
        """Add a candidate of the server, or keep it until its description has arrived."""
        subscriber = self._subscriber.connection if self._subscriber is not None else None
        peers, target = {_PUBLISHER: self._connection, _SUBSCRIBER: subscriber}, trickle.target
        if target not in peers:
            return
        peer = peers[target]
        if len(self._early[target]) < _MOST_CANDIDATES:
            self._early[target].append(trickle.candidateInit)
        if peer is not None and peer.remoteDescription is not None:
            await self._add_candidates(target, peer)

    async def _add_candidates(self, target: int, peer: RTCPeerConnection | None) -> None:
        given, self._early[target] = self._early[target], []
        for text in given:
            with contextlib.suppress(Exception):  # a candidate that aiortc cannot use (TCP, mDNS)
                init = orjson.loads(text)
                assert peer is not None
                await add_candidate(peer, init["candidate"], init.get("sdpMid"), init.get("sdpMLineIndex"))

    async def _attend(self, desk: WebSocketTransport) -> None:
        """End the session when the WebSocket that named the room closes; its messages are ignored."""
        try:
            while True:
                await desk.receive()
        except TransportClosedError as error:
            self._ended(error.kind or FailureKind.CLOSED, error.reason, error.code)

    async def _ping(self, every_s: int) -> None:
        """Send the server a ping at this interval."""
        with contextlib.suppress(TransportClosedError):
            while True:
                await self._clock.sleep_until(self._clock.now_ns() + every_s * _SECOND_NS)
                await self._ask("ping_req", timestamp=self._clock.wall_ns() // _MS_NS)

    # -- The connection that subscribes ------------------------------------------------------------------

    def _on_their_channel(self, channel: RTCDataChannel) -> None:
        assert self._subscriber is not None
        channel.on("message", partial(self._on_data, self._subscriber.tap))

    def _on_their_state(self) -> None:
        if self._subscriber is not None and self._subscriber.connection.connectionState == "failed":
            why = "the connection that carries the agent's audio failed: check that UDP reaches the server"
            self._ended(FailureKind.ICE_FAILED, why)

    def _on_message(self, message: Message) -> None:
        self._on_data(self._tap, message)

    def _on_data(self, tap: RtcTap | None, message: Message) -> None:
        assert tap is not None
        packet = None
        if isinstance(message, bytes):
            with contextlib.suppress(Exception):  # see `_read`
                packet = _PROTOCOL.models.DataPacket.FromString(message)
        if packet is not None:
            self._deliver(packet, tap.at_ns)
        elif self._end is None:
            self._arrivals.put_nowait(Arrival(message, tap.at_ns))

    async def _shut(self) -> None:
        for task in self._tasks:
            task.cancel()
        for socket in filter(None, (self._signals, self._desk)):
            await socket.close()
        if self._subscriber is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._subscriber.close()
        await super()._shut()
