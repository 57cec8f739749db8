"""Impaired connections against real peers on loopback: the measured damage matches the settings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from live_eval.audio.codecs import samples_in
from live_eval.audio.rtp import RtpPacket, RtpTrack
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import Pacer, SystemClock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.errors import ConnectError, TransportClosedError
from live_eval.impair import parse
from live_eval.impair.proxy import ImpairingProxy
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
    """Send audio to a peer, and return the echo."""
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


async def test_packets_are_lost_in_the_configured_direction_and_counted() -> None:
    found = await exchanged(Peer(), "down.loss=20%", 80, seed=4)
    track = RtpTrack()
    for packet in found:
        track.push(packet, samples_in(packet.payload, packet.codec))
    assert 0.5 * 80 < len(found) < 80
    assert track.stats.lost > 0
    assert len({packet.sequence for packet in found}) == len(found)


async def test_the_same_seed_drops_the_same_sent_packets() -> None:
    heard: list[list[int]] = []
    for _ in range(2):
        peer = Peer(echo=False)
        assert await exchanged(peer, "up.loss=30%", 40, seed=4) == []
        arrived = [peer.heard[0].get_nowait().timestamp for _ in range(peer.heard[0].qsize())]
        heard.append([(at - arrived[0]) // 960 for at in arrived])
    assert heard[0] == heard[1]
    assert 15 < len(heard[0]) < 40


async def test_websocket_messages_are_delayed_as_configured() -> None:
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


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[str, list[int | None]]]:
    """A server that sends 100 bytes every 20 ms and records how each connection ended."""
    ended: list[int | None] = []

    async def count(connection: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for _ in range(100):
                await connection.send("x" * 98)  # two more are the frame's header
                await asyncio.sleep(0.02)
        await connection.wait_closed()
        ended.append(connection.close_code)

    async with serve(count, "127.0.0.1", 0, compression=None) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/", ended


async def heard_until_it_ended(spec: str) -> tuple[int, float, str, int | None]:
    """Return the number of messages, the duration in seconds, and how the connection ended for both sides."""
    clock = SystemClock()
    transport = WebSocketTransport(clock, impairment=parse(spec), close_timeout_s=0.2)
    heard = 0
    async with counting() as (url, ended):
        began_ns = clock.now_ns()
        await transport.connect(Dial(url), 5)
        reason = ""
        async with asyncio.timeout(5):
            while not reason:
                try:
                    await transport.receive()
                    heard += 1
                except TransportClosedError as closed:
                    reason = closed.reason
        lasted_s = (clock.now_ns() - began_ns) / 1e9
        await transport.close()
    return heard, lasted_s, reason, ended[0]


async def test_a_connection_can_be_cut_by_bytes_or_by_time() -> None:
    limited, reset = await asyncio.gather(
        heard_until_it_ended("down.limit=1kB"), heard_until_it_ended("reset=300ms")
    )
    assert 7 <= limited[0] <= 9  # the handshake response counts too
    assert 0 < reset[0] <= 16
    for heard, lasted_s, reason, at_server in (limited, reset):
        assert 0.1 < lasted_s < 3, heard
        assert "lost" in reason
        assert at_server in (None, 1005, 1006)
    with pytest.raises(ConnectError, match="response to the WebSocket handshake, but the connection closed"):
        await heard_until_it_ended("down.timeout=300ms")


async def test_our_delay_and_the_proxys_make_connect_equally_long() -> None:
    clock = SystemClock()

    async def dialled_ns(url: str, spec: str) -> int:
        transport = WebSocketTransport(clock, impairment=parse(spec) if spec else None)
        began_ns = clock.now_ns()
        await transport.connect(Dial(url), 5)
        took_ns = clock.now_ns() - began_ns
        await transport.close()
        return took_ns

    async with counting() as (url, _):
        ours_ns = await dialled_ns(url, "up.delay=50ms,down.delay=150ms")
        async with ImpairingProxy(url.rstrip("/"), parse("up.delay=50ms,down.delay=150ms"), clock) as proxy:
            theirs_ns = await dialled_ns(proxy.origin.replace("http", "ws", 1), "")
    for took_ns in (ours_ns, theirs_ns):
        assert 200_000_000 <= took_ns < 350_000_000


async def test_the_offer_of_a_webrtc_session_is_delayed_as_its_packets_are() -> None:
    transport = WebRtcTransport(SystemClock(), impairment=parse("up.delay=50ms,down.delay=150ms"))
    async with endpoint(Peer()) as url:
        await transport.connect(Dial(url, signalling=CHANNEL), 5)
        await transport.close()
    assert 200_000_000 <= transport.setup_ns["answer"] < 500_000_000
    assert transport.setup_ns["dtls"] + transport.setup_ns["channel"] < 400_000_000


async def test_the_end_of_a_stream_can_be_delayed() -> None:
    clock = SystemClock()
    ended_ns: list[int] = []

    async def leave(connection: ServerConnection) -> None:
        await connection.send("bye")
        ended_ns.append(clock.now_ns())
        connection.transport.close()

    transport = WebSocketTransport(clock, impairment=parse("down.slow_close=250ms"))
    async with serve(leave, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await transport.connect(Dial(f"ws://127.0.0.1:{port}/"), 5)
        arrival: Arrival = await transport.receive()
        with pytest.raises(TransportClosedError) as closed:
            await asyncio.wait_for(transport.receive(), 5)
        await transport.close()
    assert arrival.message == "bye"
    assert closed.value.at_ns - ended_ns[0] >= 250_000_000
