"""A WebRTC endpoint behind an HTTP server that echoes audio; tests can change its answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import orjson
from aiohttp import BodyPartReader, web
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCDataChannel,
    RTCPeerConnection,
    RTCRtpReceiver,
    RTCSessionDescription,
)
from av import Packet
from av.stream import Stream

from live_eval.audio.rtp import RtpPacket
from live_eval.clock import SystemClock
from live_eval.webrtc.rtp_tap import RtcTap
from tests.support.serving import listening

__all__ = ["Handler", "Peer", "endpoint", "served"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Peer:
    """An endpoint that answers offers; `bend` changes each SDP answer before it is sent."""

    bend: Callable[[str], str] = lambda sdp: sdp
    codecs: Sequence[str] = ()
    echo: bool = True
    delay_ns: int = 0
    answers: Callable[[str | bytes], Sequence[str | bytes]] = lambda message: [message]
    before_answer: Callable[[RTCPeerConnection], None] = lambda connection: None
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    forms: list[dict[str, tuple[str, str]]] = field(default_factory=list)
    offers: list[str] = field(default_factory=list)
    channels: list[RTCDataChannel] = field(default_factory=list)
    connections: list[RTCPeerConnection] = field(default_factory=list)
    heard: list[asyncio.Queue[RtpPacket]] = field(default_factory=list)
    taps: list[RtcTap] = field(default_factory=list)
    messages: list[str | bytes] = field(default_factory=list)

    async def offer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        if request.content_type == "application/sdp":
            return web.Response(text=await self.answer(await request.text()), status=201)
        if request.content_type == "multipart/form-data":
            parts: dict[str, tuple[str, str]] = {}
            async for part in await request.multipart():
                assert isinstance(part, BodyPartReader)
                parts[str(part.name)] = part.headers["Content-Type"].partition(";")[0], await part.text()
            self.forms.append(parts)
            return web.Response(text=await self.answer(parts["sdp"][1]), status=201)
        self.bodies.append(await request.read())
        offered = orjson.loads(self.bodies[-1])
        answered = {"sdp": await self.answer(offered["sdp"]), "type": "answer", "pc_id": "pc-7"}
        return web.json_response(answered)

    async def patch(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        self.bodies.append(await request.read())
        return web.json_response({"detail": "no such route"}, status=405)

    async def answer(self, sdp: str) -> str:
        self.offers.append(sdp)
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connections.append(connection)
        self.heard.append(asyncio.Queue())
        connection.on("datachannel", self.on_channel)
        connection.on("track", lambda track: self.on_track(connection, track))
        await connection.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        transceiver = connection.getTransceivers()[0]
        self.taps.append(RtcTap(transceiver.receiver.transport, SystemClock().now_ns))
        self.taps[-1].listen(transceiver.receiver, self.heard[-1].put_nowait)
        if self.codecs:
            capable = RTCRtpReceiver.getCapabilities("audio")
            assert capable is not None
            chosen = [codec for codec in capable.codecs if codec.mimeType in self.codecs]
            transceiver.setCodecPreferences(chosen)
            transceiver._codecs = [codec for codec in transceiver._codecs if codec.mimeType in self.codecs]
        self.before_answer(connection)
        await connection.setLocalDescription()
        return self.bend(connection.localDescription.sdp)

    def on_track(self, connection: RTCPeerConnection, track: MediaStreamTrack) -> None:
        if self.echo:
            connection.addTrack(Echo(self.heard[-1], self.delay_ns))

    def on_channel(self, channel: RTCDataChannel) -> None:
        self.channels.append(channel)

        @channel.on("message")
        def answer(message: str | bytes) -> None:
            self.messages.append(message)
            for said in self.answers(message):
                channel.send(said)


class Echo(MediaStreamTrack):
    """Sends each packet back unchanged, after a delay."""

    kind = "audio"

    def __init__(self, heard: asyncio.Queue[RtpPacket], delay_ns: int) -> None:
        super().__init__()
        self._heard = heard
        self._delay_ns = delay_ns
        self._first: int | None = None

    async def recv(self) -> Packet[Stream]:
        packet = await self._heard.get()
        if self._delay_ns:
            await SystemClock().sleep_until(packet.at_ns + self._delay_ns)
        self._first = packet.timestamp if self._first is None else self._first
        echoed: Packet[Stream] = Packet(packet.payload)
        echoed.pts = packet.timestamp - self._first
        echoed.time_base = Fraction(1, packet.codec.rate_hz)
        return echoed


@contextlib.asynccontextmanager
async def served(post: Handler, patch: Handler | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/{path:.*}", post)
    if patch is not None:
        app.router.add_patch("/{path:.*}", patch)
    async with listening(app) as address:
        yield f"http://{address}/offer"


@contextlib.asynccontextmanager
async def endpoint(peer: Peer) -> AsyncIterator[str]:
    async with served(peer.offer, peer.patch) as url:
        try:
            yield url
        finally:
            for connection, tap in zip(peer.connections, peer.taps, strict=True):
                await connection.close()
                await tap.settled()
