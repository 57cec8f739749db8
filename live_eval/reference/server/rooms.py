"""Handle LiveKit's signalling: one room per client, with the built-in agent as the other participant.

Sources: livekit-protocol 1.1.29 (``livekit_rtc.proto``) and livekit-rust-sdks (``livekit-api``). The client
offers a connection for its own tracks; the endpoint offers a second one for the agent's track. Tokens are
those of LiveKit, signed with the endpoint's token; without one, any token is accepted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pybase64
from aiohttp import web
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.rtcconfiguration import RTCBundlePolicy

from live_eval.audio.rtp import RtpPacket
from live_eval.clock import Clock, wait_until
from live_eval.errors import PluginError
from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.fault_script import FaultScript
from live_eval.reference.faults.injection import DeltaFaults
from live_eval.reference.protocols.elevenlabs_room import ElevenLabsRoomProtocol
from live_eval.reference.protocols.livekit import (
    AGENT_SID,
    AGENT_TRACK,
    LIVEKIT_CONFIG,
    LiveKitProtocol,
    agent,
)
from live_eval.reference.protocols.protocol import ServerProtocol
from live_eval.reference.protocols.ultravox import CallStore
from live_eval.reference.protocols.ultravox_room import UltravoxRoomProtocol
from live_eval.reference.server.authentication import TOKEN_PARAMETER, RefusedError, refused
from live_eval.reference.server.host import SessionHost
from live_eval.reference.server.output_buffer import SessionAudio
from live_eval.reference.server.signalling import damage_packets, with_faults
from live_eval.reference.server.site import SocketChannel, accept_socket
from live_eval.session.event_loop import Collector
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.transport import Arrival
from live_eval.webrtc.livekit_messages import MessageModules, as_json, from_json, load_protocol, with_member
from live_eval.webrtc.media import InputPacket
from live_eval.webrtc.packets import ReplyTrack, SpeechPackets
from live_eval.webrtc.rtc_answerer import RtcAnswerer, add_candidate, delivered
from live_eval.webrtc.rtp_tap import keep_no_packets, take_apart

__all__ = ["CLIENT_SID", "ELEVENLABS_CLAIMS", "LiveKitRooms", "RoomParticipant", "call_claims", "claims_of"]

_PATH = "/rtc"
# Every parameter of LiveKit's clients; all others are settings of the endpoint.
_PARAMETERS = frozenset(
    {
        TOKEN_PARAMETER,
        "adaptive_stream",
        "address",
        "auto_subscribe",
        "auto_subscribe_data_track",
        "browser",
        "browser_version",
        "capabilities",
        "client_protocol",
        "device_model",
        "join_request",
        "network",
        "os",
        "os_version",
        "other_sdks",
        "protocol",
        "publish",
        "reconnect",
        "reconnect_reason",
        "sdk",
        "sid",
        "version",
    }
)
_CONNECT_NS = 30_000_000_000
_MOST_MESSAGE_BYTES = 256 * 1024
_CHANGES = frozenset({"add_track", "update_metadata"})  # visible to the other participants
_GOING_AWAY, _INVALID = 1001, 1007
_LEAVE = {_GOING_AWAY: "SERVER_SHUTDOWN", _INVALID: "JOIN_FAILURE"}
_CLOSE_TIMEOUT_S = 2.0
_PING_INTERVAL_S, _PING_TIMEOUT_S = 5, 15
_OPUS = "audio/opus"
_IDENTITY, _ROOM = "client", "room"
_CLIENT_TRACK = "TR_client"

CLIENT_SID = "PA_client"
"""The client's own participant ID, in messages to that client."""

ELEVENLABS_CLAIMS: Mapping[str, Any] = {
    "sub": "elevenlabs-client",
    "metadata": "ElevenLabs Agents",
    "video": {"roomJoin": True, "room": "conversation"},
}
"""Claims of the tokens for conversations with an ElevenLabs agent."""

_ULTRAVOX = "Ultravox call"


def call_claims(call_id: str) -> Mapping[str, Any]:
    """Return the claims of the token for an Ultravox call, whose room has the call's ID."""
    return {"sub": "ultravox-client", "metadata": _ULTRAVOX, "video": {"roomJoin": True, "room": call_id}}


class LiveKitRooms:
    """Admit clients to rooms, and run a session in each."""

    def __init__(self, host: SessionHost, calls: CallStore) -> None:
        self._host = host
        self._calls = calls
        self._open: set[RoomParticipant] = set()
        self._collector = Collector()

    def mount(self, app: web.Application) -> None:
        """Add the routes."""
        app.router.add_get(_PATH, self._enter)
        app.router.add_get(f"{_PATH}/validate", self._validate)

    async def close(self) -> None:
        """End every session."""
        for participant in tuple(self._open):
            await participant.close(_GOING_AWAY, "the endpoint stops")

    async def _validate(self, request: web.Request) -> web.Response:
        """Report why a token is refused."""
        try:
            self._host.admit(request, _PARAMETERS)
        except RefusedError as error:
            return refused(error)
        return web.Response(text="success")

    async def _enter(self, request: web.Request) -> web.StreamResponse:
        try:
            admitted = self._host.admit(request, _PARAMETERS)
            with self._host.handshake():
                settings, instead = await self._host.begin(request, admitted)
                if instead is not None:
                    return instead
                modules = await asyncio.to_thread(load_protocol)
                channel = await accept_socket(request, most_bytes=_MOST_MESSAGE_BYTES, binary=True)
        except PluginError as error:
            return refused(RefusedError(501, "not_installed", str(error)))
        except RefusedError as error:
            return refused(error)
        claims = claims_of(request)
        identity = str(claims.get("sub") or _IDENTITY)
        participant = RoomParticipant(channel, modules, self._host.clock, settings.faults, identity)
        name = _dispatched(claims)
        engine = self._host.engine(settings, LIVEKIT_CONFIG)
        video = claims.get("video")
        room = str(video.get("room", _ROOM)) if isinstance(video, dict) else _ROOM
        protocol: ServerProtocol = LiveKitProtocol(engine, identity, name)
        if ELEVENLABS_CLAIMS.items() <= claims.items():
            protocol = ElevenLabsRoomProtocol(engine)
        elif call_claims(room).items() <= claims.items():
            protocol = UltravoxRoomProtocol(engine, self._calls.get(room))
        self._open.add(participant)
        try:
            # A client may be measuring at any time, and garbage collection would disturb it.
            with self._host.session(), self._collector.session(lambda: True):
                async with asyncio.TaskGroup() as tasks:
                    reading = tasks.create_task(participant.read())
                    subscribes = request.query.get("auto_subscribe") != "0"
                    alone = settings.faults.has(FaultName.NO_AGENT)
                    others = [] if alone else [agent("initializing", name=name)]
                    await participant.join(room, others, subscribes=subscribes)
                    if await participant.connected(_CONNECT_NS):
                        audio = SessionAudio(participant, protocol.playback)
                        await self._host.run_session(participant, protocol, audio)
                    await participant.close(_GOING_AWAY, "the session is over")
                    reading.cancel()
        finally:
            self._open.discard(participant)
            await participant.close(_GOING_AWAY, "the session is over")
        return channel.socket


class RoomParticipant:
    """A `Channel` and `MediaTrack` for one client, with its session's faults.

    Its messages are the client's packets, and its signals that change what others see of it.

    Args:
        heard: Called with each of the user's packets instead of `hear`; by default, they are decoded.
    """

    def __init__(
        self,
        socket: SocketChannel,
        modules: MessageModules,
        clock: Clock,
        faults: FaultScript,
        identity: str,
        *,
        heard: Callable[[RtpPacket], None] | None = None,
    ) -> None:
        self._socket = socket
        self._modules = modules
        self._clock = clock
        self._faults = faults
        self._identity = identity
        self._messages: asyncio.Queue[Arrival | None] = asyncio.Queue()
        self._speech = SpeechPackets()
        self._track = ReplyTrack(clock)
        settings = RTCConfiguration(iceServers=[], bundlePolicy=RTCBundlePolicy.MAX_BUNDLE)
        self._publisher = RtcAnswerer(
            settings, clock, ArrivalStamps(clock), heard or self._speech.add, codecs=(_OPUS,)
        )
        self._subscriber = RTCPeerConnection(settings)
        self._channels = [
            self._subscriber.createDataChannel("_reliable"),
            self._subscriber.createDataChannel("_lossy", ordered=False, maxRetransmits=0),
        ]
        self._offers = 0
        self._answered = asyncio.Event()
        self._changed = asyncio.Event()
        self._channels[0].on("open", self._changed.set)
        self._subscribed = self._published = self._over = False
        self._closing: asyncio.Task[None] | None = None
        self._publisher.connection.on("datachannel", self._adopt)
        for peer in (self._publisher.connection, self._subscriber):
            peer.on("connectionstatechange", self._look)

    # -- Joining ----------------------------------------------------------------------------------------

    async def join(self, room: str, others: Sequence[Mapping[str, Any]], *, subscribes: bool) -> None:
        """Describe the room, and offer the connection that carries the agent's track.

        Args:
            others: Descriptions (``ParticipantInfo``) of the participants that are there already.
            subscribes: Whether the client subscribes to their tracks without a request.
        """
        await self.tell(
            "join",
            room={"sid": "RM_1", "name": room},
            participant={"sid": CLIENT_SID, "identity": self._identity, "state": "JOINED"},
            other_participants=others,
            subscriber_primary=True,
            fast_publish=True,  # livekit 1.1.21 may never offer a track added during an offer
            ping_interval=_PING_INTERVAL_S,
            ping_timeout=_PING_TIMEOUT_S,
            server_info={"edition": "Standard", "version": "1.9.0", "protocol": 16, "region": ""},
        )
        await self.offer()
        if subscribes and others:
            await self._subscribe()

    async def connected(self, timeout_ns: int) -> bool:
        """Wait until both connections are set up and the agent is heard; return whether this succeeded."""
        settled = await wait_until(lambda: self._over or self._is_up, self._changed, self._clock, timeout_ns)
        return settled and not self._over

    async def left(self) -> None:
        """Wait until the client has left."""
        while not self._over:
            self._changed.clear()
            await self._changed.wait()

    @property
    def _is_up(self) -> bool:
        states = {self._publisher.connection.connectionState, self._subscriber.connectionState}
        is_open = bool(self._channels) and self._channels[0].readyState == "open"  # later than DTLS
        return self._subscribed and self._answered.is_set() and states == {"connected"} and is_open

    async def offer(self) -> None:
        """Offer the connection that carries the agent's track."""
        await self._subscriber.setLocalDescription()
        self._offers += 1
        self._answered.clear()
        await self.tell("offer", type="offer", sdp=self._subscriber.localDescription.sdp, id=self._offers)

    async def _subscribe(self) -> None:
        """Offer the agent's track."""
        if self._subscribed:
            return
        self._subscribed = True
        # aiortc starts no sender that is added while it connects.
        peer = self._subscriber
        await wait_until(
            lambda: self._over or peer.connectionState == "connected", self._changed, self._clock, _CONNECT_NS
        )
        if self._over or peer.connectionState != "connected":
            return  # the client never answered, or has left
        transceiver = self._subscriber.addTransceiver(self._track, "sendonly")
        keep_no_packets(transceiver.sender)
        damage_packets(transceiver.sender.transport, DeltaFaults(self._faults))
        sender: Any = transceiver.sender
        sender._stream_id, sender._track_id = f"{AGENT_SID}|{AGENT_TRACK}", AGENT_TRACK
        await self.offer()

    # -- Signals ----------------------------------------------------------------------------------------

    async def read(self) -> None:
        """Handle the client's signals until it leaves."""
        async with asyncio.TaskGroup() as tasks:
            while not self._over and (arrival := await self._socket.receive()) is not None:
                try:
                    signal = self._modules.rtc.SignalRequest.FromString(arrival.message)
                    await self._handle(signal, arrival.at_ns, tasks)
                except Exception as error:  # protobuf and aiortc raise many kinds of errors
                    await self.close(_INVALID, f"invalid signal ({type(error).__name__})")
                    break
        self._end()

    async def _handle(self, signal: Any, at_ns: int, tasks: asyncio.TaskGroup) -> None:
        kind = signal.WhichOneof("message")
        if kind in _CHANGES and (text := as_json(signal)) is not None:
            self._messages.put_nowait(Arrival(text, at_ns))
        match kind:
            case "add_track":
                wanted = signal.add_track
                track = {"sid": _CLIENT_TRACK, "name": wanted.name, "type": "AUDIO", "source": "MICROPHONE"}
                self._published = True
                await self.tell("track_published", cid=wanted.cid, track=track)
            case "offer":
                answer = with_faults(await self._publisher.answer(signal.offer.sdp), self._faults)
                await self.tell("answer", type="answer", sdp=answer, id=signal.offer.id)
                if self._published:  # livekit-agents is silent until its track is subscribed to
                    await self.tell("track_subscribed", track_sid=_CLIENT_TRACK)
            case "answer":
                await self._subscriber.setRemoteDescription(
                    RTCSessionDescription(signal.answer.sdp, "answer")
                )
                self._answered.set()
                self._changed.set()
            case "trickle":
                await self._trickled(signal.trickle)
            case "subscription" if signal.subscription.subscribe:
                tasks.create_task(self._subscribe())
            case "ping":
                pong = self._modules.rtc.SignalResponse(pong=signal.ping)
                await self._socket.send(pong.SerializeToString())
            case "ping_req":
                pong = {"last_ping_timestamp": signal.ping_req.timestamp}
                await self.tell("pong_resp", **pong, timestamp=self._clock.wall_ns() // 1_000_000)
            case "leave":
                self._end()

    async def _trickled(self, trickle: Any) -> None:
        is_publisher = trickle.target == self._modules.rtc.SignalTarget.PUBLISHER
        peer = self._publisher.connection if is_publisher else self._subscriber
        with contextlib.suppress(Exception):  # a candidate that aiortc cannot use
            init = orjson.loads(trickle.candidateInit)
            await add_candidate(peer, init["candidate"], init.get("sdpMid"), init.get("sdpMLineIndex"))

    async def tell(self, kind: str, **content: object) -> int:
        """Send a signal; return the send time."""
        signal = with_member(self._modules.rtc.SignalResponse, kind, content)
        return await self._socket.send(signal.SerializeToString())

    # -- Messages ---------------------------------------------------------------------------------------

    async def receive(self) -> Arrival | None:
        """Wait for the next packet, as JSON; None once the client has left."""
        return await self._messages.get()

    async def send(self, message: bytes) -> int:
        """Send a signal or a packet; return the send time."""
        try:
            packed = from_json(message, self._modules.rtc.SignalResponse, self._modules.models.DataPacket)
        except ValueError:  # a fault
            return await self._socket.send(message)
        data = packed.SerializeToString()
        if isinstance(packed, self._modules.rtc.SignalResponse):
            return await self._socket.send(data)
        channel = self._channels[0]
        at_ns = self._clock.now_ns()
        if channel.readyState == "open":
            channel.send(data)
        return at_ns

    async def close(self, code: int, reason: str) -> None:
        """Tell the client to leave once sent packets have arrived, and close the connections."""
        if not self._over and self._channels:
            await delivered(self._channels[0], self._clock, lambda: self._over)
        if not self._over:
            self._end()
            await self.tell("leave", reason=_LEAVE.get(code, "ROOM_CLOSED"), action="DISCONNECT")
        # When the connection ends, the caller may be cancelled, but aiortc must still finish closing.
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut(code, reason))
        await asyncio.shield(self._closing)

    def drop(self, *, reset: bool) -> None:
        """End the WebSocket without a close frame, with RST if `reset`."""
        self._socket.drop(reset=reset)

    async def send_raw(self, data: bytes) -> None:
        """Write bytes into the stream of signals."""
        await self._socket.send_raw(data)

    async def _shut(self, code: int, reason: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._socket.close(code, reason)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                was_up = self._subscriber.connectionState == "connected"
                await self._publisher.close()
                await self._subscriber.close()
                if was_up:  # otherwise, setup tasks are still running
                    self._channels.clear()
                    take_apart(self._subscriber)

    def _end(self) -> None:
        """Record that the session is over."""
        if not self._over:
            self._over = True
            self._messages.put_nowait(None)
            self._speech.end()
        self._changed.set()

    def _look(self) -> None:
        """Handle a new state of a connection."""
        self._changed.set()
        if not self._over:
            peers = (self._publisher.connection, self._subscriber)
            if any(peer.connectionState in ("failed", "closed") for peer in peers):
                self._end()

    def _adopt(self, channel: RTCDataChannel) -> None:
        channel.on("message", self._arrived)

    def _arrived(self, message: str | bytes) -> None:
        assert self._publisher.tap is not None
        with contextlib.suppress(Exception):  # not a packet
            packet = self._modules.models.DataPacket.FromString(message)
            text = as_json(packet)
            if text is not None:
                self._messages.put_nowait(Arrival(text, self._publisher.tap.at_ns))

    # -- Media ------------------------------------------------------------------------------------------

    async def hear(self) -> InputPacket | None:
        """Wait for the user's next packet; return None after the connection has ended."""
        return await self._speech.get()

    async def say(self, packet: bytes, timestamp: int) -> int | None:
        """Send 20 ms of Opus through aiortc's sender immediately; return the send time."""
        if self._faults.has(FaultName.NO_RTP):
            return None
        return await self._track.say(packet, round(timestamp * self._faults.pace))


def claims_of(request: web.Request) -> Mapping[str, Any]:
    """Return the claims of a client's token, which need not be signed; empty if there is none."""
    _, _, bearer = request.headers.get("Authorization", "").partition(" ")
    token = bearer.strip() or request.query.get(TOKEN_PARAMETER, "")
    with contextlib.suppress(ValueError, IndexError):
        body = token.split(".")[1]
        claims = orjson.loads(pybase64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        if isinstance(claims, dict):
            return claims
    return {}


def _dispatched(claims: Mapping[str, Any]) -> str:
    """Return the name of the first agent that a token's room configuration dispatches; empty if none."""
    match claims:
        case {"roomConfig": {"agents": [{"agentName": str(name)}, *_]}}:
            return name
    return ""
