"""Our own contribution to WebRTC latency: the round-trip time of a burst to an echo endpoint.

The user sends a burst of audio every half second, with silence between; the delay is the time from sending
the burst's frame to the arrival of the packet in which the echo becomes loud. The echo runs in a separate
process, in two variants:

* a typical aiortc echo (``addTrack`` of the received track): its jitter buffer delays four packets and it
  decodes and encodes, which adds 80 ms or more that are not ours;
* packets returned unchanged: the remaining delay is ours and the network's.

For comparison: echo bots of pipecat (255 ms) and fastrtc (263 ms), measured by a plain aiortc client.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from fractions import Fraction
from multiprocessing.connection import Connection

import _benchmark
import numpy as np
from aiohttp import web
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from av import Packet
from av.stream import Stream
from numpy.typing import NDArray

from live_eval.audio.codecs import Decoder
from live_eval.audio.rtp import RtpPacket
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clock import Pacer, SystemClock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.session.event_loop import run
from live_eval.webrtc.rtp_tap import RtcTap

GIVEN_MS = {"pipecat": 255, "fastrtc": 263}
BURSTS, EVERY = 60, 25
FRAME_NS = 20_000_000
LOUD = 2_000
ECHOES = ("by aiortc", "by packets")


class PacketEcho(MediaStreamTrack):
    """A track that returns each packet unchanged."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self.packets: asyncio.Queue[RtpPacket] = asyncio.Queue()
        self._first: int | None = None

    async def recv(self) -> Packet[Stream]:
        """Return the next packet."""
        came = await self.packets.get()
        self._first = came.timestamp if self._first is None else self._first
        packet: Packet[Stream] = Packet(came.payload)
        packet.pts, packet.time_base = came.timestamp - self._first, Fraction(1, came.codec.rate_hz)
        return packet


async def echo(told: Connection, kind: str) -> None:
    """Serve an echo endpoint until the other end of the pipe closes; send the port."""

    async def offer(request: web.Request) -> web.Response:
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        if kind == "by aiortc":
            connection.on("track", connection.addTrack)
        await connection.setRemoteDescription(RTCSessionDescription(await request.text(), "offer"))
        if kind == "by packets":
            track = PacketEcho()
            connection.addTrack(track)
            receiver = connection.getTransceivers()[0].receiver
            RtcTap(receiver.transport, SystemClock().now_ns).listen(receiver, track.packets.put_nowait)
        await connection.setLocalDescription()
        return web.Response(text=connection.localDescription.sdp)

    app = web.Application()
    app.router.add_post("/", offer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    told.send(runner.addresses[0][1])
    await asyncio.to_thread(told.poll, None)


def serve(told: Connection, kind: str) -> None:
    run(echo(told, kind))


async def listen(transport: WebRtcTransport, clock: SystemClock, came: list[tuple[RtpPacket, int]]) -> None:
    while True:
        arrival = await transport.receive()
        assert isinstance(arrival, RtpPacket)
        came.append((arrival, clock.now_ns()))


async def measure(port: int) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, float]]:
    """Return the delays of the echoes, of packets from their timestamp to us, and of the setup, in ms."""
    clock = SystemClock()
    transport = WebRtcTransport(clock)
    dial = Dial(f"http://127.0.0.1:{port}/", signalling=Signalling(SdpBody.SDP, SdpBody.SDP))
    await transport.connect(dial, 10)
    assert transport.track is not None
    came: list[tuple[RtpPacket, int]] = []
    listening = asyncio.create_task(listen(transport, clock, came))
    burst = (8_000 * np.sin(2 * np.pi * 440 * np.arange(960) / 48_000)).astype("<i2").tobytes()
    pacer = Pacer(clock, clock.now_ns(), FRAME_NS)
    handed: list[int] = []
    for number in range(BURSTS * EVERY):
        await clock.sleep_until(pacer.next(speech=True).deadline_ns)
        loud = number % EVERY == EVERY // 2
        if loud:
            handed.append(clock.now_ns())
        transport.track.send(burst if loud else bytes(len(burst)))
    listening.cancel()
    await transport.close()
    setup_ms = {name: took_ns / 1e6 for name, took_ns in transport.setup_ns.items()}
    decoder = Decoder(came[0][0].codec)
    peaks = [
        int(np.abs(decoder.decode(packet.payload).astype(np.int32)).max(initial=0)) for packet, _ in came
    ]
    loud_ns = [
        packet.at_ns
        for number, (packet, _) in enumerate(came)
        if peaks[number] > LOUD and not (number and peaks[number - 1] > LOUD)
    ]
    delays = [
        min((at_ns - from_ns for at_ns in loud_ns if at_ns > from_ns), default=None) for from_ns in handed
    ]
    found = np.array([delay / 1e6 for delay in delays if delay is not None and delay < EVERY * FRAME_NS])
    return found, np.array([(taken_ns - packet.at_ns) / 1e6 for packet, taken_ns in came]), setup_ms


def main() -> None:
    _benchmark.parser(__doc__).parse_args()
    context = multiprocessing.get_context("spawn")
    floor_ms = 0.0
    for kind in ECHOES:
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, kind), daemon=True)
        process.start()
        delays, handling, setup_ms = run(measure(ours.recv()))
        ours.send(None)
        process.join(5)
        p50, p99 = np.percentile(delays, [50, 99])
        late50, late99 = np.percentile(handling, [50, 99])
        steps = ", ".join(f"{name} {took:.1f}" for name, took in setup_ms.items())
        print(f"echo {kind}: {len(delays)} of {BURSTS} bursts came back, p50 {p50:.1f}, p99 {p99:.1f} ms")
        print(f"  from the packet's stamp until we take it: p50 {late50:.3f}, p99 {late99:.3f} ms")
        print(f"  setup: {steps} ms")
        if kind == "by aiortc":
            floor_ms = p50
    for name, given in GIVEN_MS.items():
        print(f"given: an echo bot of {name}, {given} ms")
    given = GIVEN_MS["pipecat"]
    ratio = floor_ms / given
    print(f"webrtc_floor: {floor_ms:.1f} ms p50 on aiortc's echo, {ratio:.2f} of pipecat's {given} ms")


if __name__ == "__main__":
    main()
