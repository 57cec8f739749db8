"""Impaired connections against real peers on loopback: what was set is what arrives."""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import ServerConnection, serve

from live_eval.audio.codecs import samples_in
from live_eval.audio.rtp import RtpPacket, RtpTrack
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import Pacer, SystemClock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.impair import parse
from live_eval.transport import Arrival
from live_eval.types import StampKind
from tests.support.rtc_peer import Peer, endpoint

FRAME_NS = 20_000_000
CHANNEL = Signalling(SdpBody.JSON, SdpBody.JSON, fields={"webrtc_id": "w-1"}, channel="events")


async def speak(transport: WebRtcTransport, frames: int) -> None:
    clock = SystemClock()
    pacer = Pacer(clock, clock.now_ns(), FRAME_NS)
    assert transport.track is not None
    for _ in range(frames):
        await clock.run_at(pacer.next(speech=True).deadline_ns, transport.track.prepare_frame(bytes(1_920)))


async def exchanged(peer: Peer, spec: str, frames: int, seed: int) -> list[RtpPacket]:
    """Speak to a peer, and return what comes back."""
    transport = WebRtcTransport(SystemClock(), impairment=parse(spec, seed))
    found: list[RtpPacket] = []

    async def listen() -> None:
        while True:
            arrival = await transport.receive()
            if isinstance(arrival, RtpPacket):
                found.append(arrival)

    async with endpoint(peer) as url:
        await transport.connect(Dial(url, signalling=CHANNEL), 5)
        listening = asyncio.create_task(listen())
        await speak(transport, frames)
        await asyncio.sleep(0.2)
        listening.cancel()
        await asyncio.wait([listening])
        await transport.close()
    return found


async def test_packets_are_lost_in_the_direction_that_was_set_and_counted() -> None:
    found = await exchanged(Peer(), "down.loss=20%", 80, seed=4)
    track = RtpTrack()
    for packet in found:
        track.push(packet, samples_in(packet.payload, packet.codec))
    assert 0.5 * 80 < len(found) < 80
    assert track.stats.lost > 0
    assert len({packet.sequence for packet in found}) == len(found)


async def test_the_same_seed_loses_the_same_packets_of_ours() -> None:
    heard: list[list[int]] = []
    for _ in range(2):
        peer = Peer(echo=False)
        assert await exchanged(peer, "up.loss=30%", 40, seed=4) == []
        arrived = [peer.heard[0].get_nowait().timestamp for _ in range(peer.heard[0].qsize())]
        heard.append([(at - arrived[0]) // 960 for at in arrived])
    assert heard[0] == heard[1]
    assert 15 < len(heard[0]) < 40


async def test_messages_of_a_websocket_are_late_by_what_was_set() -> None:
    clock = SystemClock()
    sent_ns: list[int] = []

    async def answer(connection: ServerConnection) -> None:
        async for _ in connection:
            sent_ns.append(clock.now_ns())
            await connection.send("back")

    transport = WebSocketTransport(clock, impairment=parse("up.delay=30ms,down.delay=60ms"))
    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await transport.connect(Dial(f"ws://127.0.0.1:{port}/"), 5)
        asked_ns = clock.now_ns()
        await transport.send("there")
        arrival: Arrival = await transport.receive()
        came_ns = clock.now_ns()
        await transport.close()
    assert sent_ns[0] - asked_ns >= 30_000_000
    assert arrival.at_ns - sent_ns[0] >= 60_000_000
    assert came_ns >= arrival.at_ns
    assert transport.stamps in (StampKind.KERNEL, StampKind.USER)
