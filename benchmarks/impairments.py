"""Impairments: configured and measured values, over real sockets and on real recordings.

* Packets: 20 pairs of UDP sockets on loopback, 172 bytes every 20 ms in each direction, one side impaired;
  the kernel stamps arrivals. Expected values follow from the definitions; for jitter, which preserves the
  packet order, from a numpy simulation of the definition.
* Streams: our WebSocket transport with a server of the library `websockets`.
* Calls: turns over WebRTC to the reference endpoint; the receivers on both sides count packets.
* Audio: the bundled recordings, impaired and measured.
* Echo: the bundled recordings as replies, mixed into silent frames.

The output contains expected and measured values, with n.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import _benchmark
import numpy as np
from _recordings import write_speech
from numpy.typing import NDArray
from scipy.signal import correlate
from websockets.asyncio.server import ServerConnection, serve

import live_eval
from live_eval.audio import Audio, Codec, CodecName, read_audio, resample
from live_eval.audio.speech_level import speech_level
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import Pacer, SystemClock
from live_eval.dialect import Dial
from live_eval.impair import parse
from live_eval.impair.paths import HEADER_BYTES
from live_eval.impair.recording import impair_recording, room_response
from live_eval.recording import RunReader, RunWriter
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.session.echo import EchoMixer
from live_eval.session.event_loop import run
from live_eval.session.responses import OpenResponse
from live_eval.sockets.datagrams import StampedDatagram, stamped_datagrams
from live_eval.sockets.impaired import ImpairedDatagrams
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.types import SpeechBoundaries

PAIRS, PACKETS, SIZE = 20, 500, 172
FRAME_NS, MS = 20_000_000, 1_000_000
RATE_HZ = 24_000
SAMPLE = Path(live_eval.__file__).parent / "data" / "sample"
CLOCK = SystemClock()

Floats = NDArray[np.float64]


def row(spec: str, what: str, expected: float, measured: float, n: int, unit: str) -> None:
    print(f"{spec:34} {what:30} {expected:9.2f} {measured:9.2f} {unit:5} {n:7,}")


# -- Packets ---------------------------------------------------------------------------------------------


class Side(asyncio.DatagramProtocol):
    """One end of a socket pair: the send and arrival time of each packet."""

    def __init__(self) -> None:
        self.sent_ns = np.zeros(PACKETS, np.int64)
        self.came: list[tuple[int, int]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.DatagramTransport)
        self.transport = transport

    def datagram_received(self, data: bytes, address: object) -> None:
        """Record the arrival of a packet."""
        assert isinstance(data, StampedDatagram)
        self.came.append((int.from_bytes(data[2:6]), data.stamp.at_ns))

    def send(self, number: int, address: tuple[str, int]) -> None:
        """Send a packet."""
        self.sent_ns[number] = CLOCK.now_ns()
        packet = b"\x80\x6f" + number.to_bytes(4) + bytes(SIZE - 6)
        self.transport.sendto(packet, address)


async def pair(spec: str, seed: int) -> tuple[Side, Side]:
    """Exchange packets between an impaired and an unimpaired side."""
    loop = asyncio.get_running_loop()
    damage = ImpairedDatagrams(parse(spec, seed), CLOCK)
    damage.begin()
    sides, addresses = [], []
    for each in (damage, None):
        with stamped_datagrams(ArrivalStamps(CLOCK), each):
            transport, side = await loop.create_datagram_endpoint(Side, ("127.0.0.1", 0))
        sides.append(side)
        addresses.append(transport.get_extra_info("sockname"))
    user, peer = sides
    pacer = Pacer(CLOCK, CLOCK.now_ns() + seed * FRAME_NS // PAIRS, FRAME_NS)
    for number in range(PACKETS):

        def leave(number: int = number) -> None:
            user.send(number, addresses[1])
            peer.send(number, addresses[0])

        await CLOCK.run_at(pacer.next(speech=True).deadline_ns, leave)
    await asyncio.sleep(0.6)
    damage.close()
    for side in sides:
        side.transport.close()
    return user, peer


class Way:
    """The packets of one direction, over all pairs."""

    def __init__(self, pairs: list[tuple[Side, Side]]) -> None:
        self.n = len(pairs) * PACKETS
        arrived, runs, self.delays_ms, self.jitters_ms, reordered = 0, [], [], [], 0
        copies = 0
        for sender, receiver in pairs:
            numbers = [number for number, _ in receiver.came]
            there = np.isin(np.arange(PACKETS), numbers)
            arrived += int(there.sum())
            copies += len(numbers)
            runs += [len(list(run)) for came, run in itertools.groupby(there) if not came]
            first = dict(reversed(receiver.came))
            delays = [(at_ns - int(sender.sent_ns[number])) / MS for number, at_ns in first.items()]
            self.delays_ms += delays
            transit = np.array([first[number] - number * FRAME_NS for number in sorted(first)]) / MS
            self.jitters_ms.append(rfc_jitter(transit))
            highest = np.maximum.accumulate(numbers) if numbers else np.zeros(0)
            reordered += int((np.array(numbers) < highest).sum())
        self.lost = 100 * (1 - arrived / self.n)
        self.bursts = np.array(runs)
        self.doubled = 100 * (copies - arrived) / arrived
        self.reordered = 100 * reordered / arrived


def rfc_jitter(transit_ms: Floats) -> float:
    """The interarrival jitter of RFC 3550, averaged over the packets."""
    jitter, found = 0.0, []
    for change in np.abs(np.diff(transit_ms)):
        jitter += (change - jitter) / 16
        found.append(jitter)
    return float(np.mean(found[32:]))


def ordered_delays(delay_ms: float, jitter_ms: float) -> Floats:
    """The delays of packets 20 ms apart that keep their order, according to the definition."""
    sent = np.arange(200_000) * FRAME_NS / MS
    draws = np.maximum(0.0, np.random.default_rng(0).normal(delay_ms, jitter_ms, len(sent)))
    return np.maximum.accumulate(sent + draws) - sent


def report_packets(spec: str, way: Way, direction: str) -> None:
    impairment = parse(spec)
    values = {name: impairment.number(name, direction) for name in ("loss", "burst", "delay", "jitter")}
    loss, jitter = values["loss"], values["jitter"]
    name = f"{spec} ({direction})"
    if loss is not None:
        row(name, "lost", loss, way.lost, way.n, "%")
        bursts = way.bursts
        row(name, "mean burst", values["burst"] or 1 / (1 - loss / 100), bursts.mean(), len(bursts), "")
    if jitter is not None:
        delays = ordered_delays(values["delay"] or 0.0, jitter)
        row(name, "delay, mean", float(delays.mean()), float(np.mean(way.delays_ms)), way.n, "ms")
        row(name, "delay, standard deviation", float(delays.std()), float(np.std(way.delays_ms)), way.n, "ms")
        expected = rfc_jitter(delays)
        row(name, "jitter (RFC 3550)", expected, float(np.mean(way.jitters_ms)), way.n, "ms")
    elif values["delay"] is not None:
        for share in (50, 99):
            measured = float(np.percentile(way.delays_ms, share))
            row(name, f"delay, p{share}", values["delay"], measured, way.n, "ms")
    if (reorder := impairment.number("reorder", direction)) is not None:
        row(name, "reordered (RFC 4737)", reorder * (1 - reorder / 100), way.reordered, way.n, "%")
    if (double := impairment.number("duplicate", direction)) is not None:
        row(name, "doubled", double, way.doubled, way.n, "%")
    if (kbps := impairment.number("bandwidth", direction)) is not None:
        offered = (SIZE + HEADER_BYTES) * 8 / (FRAME_NS / MS)
        passed = (100 - way.lost) / 100 * offered
        row(name, "rate that passes", min(kbps, offered), passed, way.n, "kbps")
        longest = 200 + (SIZE + HEADER_BYTES) * 8 / kbps
        row(name, "delay, p99", longest, float(np.percentile(way.delays_ms, 99)), way.n, "ms")


async def packets() -> None:
    for spec in (
        "loss=2%",
        "loss=5%",
        "loss=20%",
        "loss=5%,burst=3",
        "loss=10%,burst=8",
        "delay=80ms",
        "delay=80ms,jitter=5ms",
        "delay=80ms,jitter=20ms",
        "reorder=5%",
        "duplicate=2%",
        "bandwidth=40kbps",
    ):
        pairs = await asyncio.gather(*(pair(spec, seed) for seed in range(PAIRS)))
        report_packets(spec, Way([(user, peer) for user, peer in pairs]), "up")
        report_packets(spec, Way([(peer, user) for user, peer in pairs]), "down")


# -- Streams ---------------------------------------------------------------------------------------------


async def exchange(spec: str, messages: int, size: int, every_ms: float) -> tuple[Floats, Floats]:
    """Return the delay of each message to a server and from it, in milliseconds."""
    there: list[int] = []
    pushed: list[int] = []

    async def answer(connection: ServerConnection) -> None:
        async for _ in connection:
            there.append(CLOCK.now_ns())
            if len(there) == messages:
                for _ in range(messages):
                    pushed.append(CLOCK.now_ns())
                    await connection.send(bytes(size))
                    await asyncio.sleep(every_ms / 1000)

    transport = WebSocketTransport(CLOCK, impairment=parse(spec, 1))
    async with serve(answer, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        await transport.connect(Dial(f"ws://127.0.0.1:{port}/"), 5)
        sent: list[int] = []
        began_ns = CLOCK.now_ns()
        for number in range(messages):
            await CLOCK.sleep_until(began_ns + round(number * every_ms * MS))
            sent.append(CLOCK.now_ns())
            await transport.send(bytes(size))
        came = [(await transport.receive()).at_ns for _ in range(messages)]
        await transport.close()
    return (np.array(there) - sent) / MS, (np.array(came) - pushed) / MS


async def streams() -> None:
    for direction, delays in zip(("up", "down"), await exchange("delay=80ms", 200, 1_000, 20), strict=True):
        for share in (50, 99):
            measured = float(np.percentile(delays, share))
            row(f"delay=80ms ({direction})", f"delay, p{share}", 80, measured, len(delays), "ms")
    # 1,000 bytes and headers every 20 ms are 400 kbit/s: half of the messages are still queued at the end.
    ways = await exchange("bandwidth=200kbps", 100, 1_000, 20)
    for direction, delays, header in zip(("up", "down"), ways, (8, 4), strict=True):
        last_ms = len(delays) * (1_000 + header) * 8 / 200
        measured = (len(delays) - 1) * 20 + delays[-1]
        name = f"bandwidth=200kbps ({direction})"
        row(name, "last of 100 messages after", last_ms, float(measured), len(delays), "ms")
    for direction, delays in zip(
        ("up", "down"), await exchange("stall=300ms,every=1s", 500, 100, 10), strict=True
    ):
        name = f"stall=300ms,every=1s ({direction})"
        row(name, "messages that wait", 30, float((delays > 5).mean() * 100), len(delays), "%")
        row(name, "longest wait", 300, float(delays.max()), len(delays), "ms")
    ways = await exchange("chunk=500B,gap=10ms", 50, 2_000, 100)
    for direction, delays in zip(("up", "down"), ways, strict=True):
        row(
            f"chunk=500B,gap=10ms ({direction})",
            "delay of 2,000 bytes, p50",
            40,
            float(np.median(delays)),
            50,
            "ms",
        )


# -- Audio -----------------------------------------------------------------------------------------------


def recordings() -> Iterator[Audio]:
    for path in sorted(SAMPLE.rglob("*_target.flac")):
        yield resample(read_audio(path).audio, RATE_HZ)


def db(samples: NDArray[np.floating[Any]]) -> float:
    return float(10 * np.log10(np.mean(np.square(samples))))


def sound() -> None:
    clean = list(recordings())
    edges = SpeechBoundaries(onset_ns=0, voice_end_ns=1)

    def damaged(spec: str) -> list[Audio]:
        return [impair_recording(each, edges, parse(spec, seed)).audio for seed, each in enumerate(clean)]

    for kind, snr_db in itertools.product(("pink", "white", "babble"), (20, 10, 0)):
        spec = f"noise={snr_db}dB,noise_type={kind},gain=-20dB"  # attenuated to avoid clipping
        found = []
        for before, after in zip(clean, damaged(spec), strict=True):
            # Noise with the same seed reveals the overall attenuation.
            x, y = before.samples.astype(np.float64), after.samples.astype(np.float64)
            down = float(x @ y / (x @ x))
            found.append(speech_level(before).dbfs + 20 * math.log10(down) - db(y - down * x))
        row(
            f"noise={snr_db}dB,noise_type={kind}",
            "speech level to noise",
            snr_db,
            float(np.mean(found)),
            len(found),
            "dB",
        )
    levels = [speech_level(each).dbfs for each in clean]
    for gain_db in (-12, -6):
        found = [
            speech_level(each).dbfs - level
            for each, level in zip(damaged(f"gain={gain_db}dB"), levels, strict=True)
        ]
        row(f"gain={gain_db}dB", "change of level", gain_db, float(np.mean(found)), len(found), "dB")
    shares = []
    for before, after in zip(clean, damaged("clip=5%"), strict=True):
        peak = np.abs(after.samples).max()
        shares.append(float((np.abs(after.samples) > 0.9999 * peak).mean()) / speech_level(before).activity)
    row("clip=5%", "active samples at the limit", 5, 100 * float(np.mean(shares)), len(shares), "%")
    for rt60_ms in (300, 800):
        found = [decay_ms(room_response(RATE_HZ, rt60_ms, 0, seed)) for seed in range(50)]
        row(f"reverb={rt60_ms}ms", "RT60 (Schroeder, T20)", rt60_ms, float(np.mean(found)), len(found), "ms")
    for law in ("mulaw", "alaw"):
        pairs = zip(damaged("band=8khz"), damaged(f"g711={law}"), strict=True)
        found = [db(narrow.samples) - db(narrow.samples - coded.samples) for narrow, coded in pairs]
        # ITU-T G.711's logarithmic segments give about 38 dB over most of their range.
        row(f"g711={law}", "speech to quantisation noise", 38, float(np.mean(found)), len(found), "dB")
    for speed in (80, 125):
        found = [
            100 * len(before.samples) / len(after.samples)
            for before, after in zip(clean, damaged(f"speed={speed}%"), strict=True)
        ]
        row(f"speed={speed}%", "speed", speed, float(np.mean(found)), len(found), "%")


def decay_ms(response: Floats) -> float:
    """RT60 by Schroeder's backward integral, from −5 to −25 dB."""
    energy = np.cumsum(np.square(response[:0:-1]))[::-1]
    decay_db = 10 * np.log10(energy / energy[0])
    begin, end = (int(np.argmax(decay_db < level)) for level in (-5, -25))
    return (end - begin) * 3 / RATE_HZ * 1_000


# -- Echo ------------------------------------------------------------------------------------------------


def echo() -> None:
    """Mix bundled recordings, received at once in 100 ms chunks, into silent frames."""
    frame = RATE_HZ // 50
    codec = Codec(CodecName.PCM16, RATE_HZ)
    for level_db, delay_ms in ((-10, 60), (-30, 200)):
        levels, lags_ms, costs_ms = [], [], []
        for audio in recordings():
            reply, pcm = OpenResponse("reply", 0), audio.int16()
            for chunk in np.split(pcm, range(RATE_HZ // 10, len(pcm), RATE_HZ // 10)):
                reply.hear(7 * MS, chunk.astype("<i2").tobytes(), codec, len(chunk))
            mixer, mixed = EchoMixer(level_db, delay_ms * MS, RATE_HZ), []
            for number in range(len(pcm) // frame + 20):
                began_ns = CLOCK.now_ns()
                mixer.listen([reply])
                mixed.append(mixer.mix(bytes(2 * frame), number * FRAME_NS))
                costs_ms.append((CLOCK.now_ns() - began_ns) / MS)
            heard = np.frombuffer(b"".join(mixed), "<i2").astype(np.float64)
            match = correlate(heard, pcm.astype(np.float64), "valid")
            lags_ms.append(np.argmax(match) * 1_000 / RATE_HZ - 7)
            levels.append(db(heard) + 10 * math.log10(len(heard) / len(pcm)) - db(pcm.astype(np.float64)))
        name = f"echo={level_db}dB,echo_delay={delay_ms}ms"
        row(name, "level", level_db, float(np.mean(levels)), len(levels), "dB")
        row(name, "delay after it is heard", delay_ms, float(np.mean(lags_ms)), len(lags_ms), "ms")
        row(name, "cost of a frame, p50 (at most)", 0.1, float(np.median(costs_ms)), len(costs_ms), "ms")


# -- Calls -----------------------------------------------------------------------------------------------


async def calls(folder: Path) -> None:
    """Run turns over WebRTC against the reference endpoint; both sides count missing packets."""
    spec = "loss=10%,burst=2"
    async with ReferenceProcess(
        log_folder=folder, calibrate=True, arguments=("--reply-ms", "3000")
    ) as process:
        address = process.base_url.replace("ws://", "http://", 1)
        values = {
            "endpoint": {"name": "openai-webrtc", "base_url": address},
            "data": {"path": str(write_speech(folder, [3_000] * 10))},
            "turns": {"repeat": 2, "concurrency": 4, "retries": 0, "word_times": "off"},
            "impair": {"specs": [spec]},
        }
        plan = make_plan(validate(values))
        with RunWriter.create(folder / "run", plan.manifest()) as writer:
            await run_plan(plan, writer, folder / "run", Observer())
    with RunReader.open(folder / "run") as stored:
        media = [turn.media for turn in stored.turns() if turn.media is not None]
    came, lost = sum(each.packets for each in media), sum(each.lost for each in media)
    row(spec, "lost of the endpoint's", 10, 100 * lost / (came + lost), came + lost, "%")
    sent, missing = (
        sum(getattr(each, name) or 0 for each in media) for name in ("sent_packets", "sent_lost")
    )
    row(spec, "lost of ours, by its reports", 10, 100 * missing / sent, sent, "%")


def main() -> None:
    _benchmark.parser(__doc__).parse_args()
    print(f"{'impairment':34} {'what':30} {'expected':>9} {'measured':>9} {'':5} {'n':>7}")
    run(packets())
    run(streams())
    with TemporaryDirectory() as folder:
        run(calls(Path(folder)))
    sound()
    echo()


if __name__ == "__main__":
    main()
