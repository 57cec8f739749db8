"""CPU time per second of a session, in both directions with capture and storage, at 100 sessions.

The reference endpoint runs in a separate process and streams replies in real time in 20 ms chunks while the
harness continues to stream 20 ms frames. The main metric is the CPU time of the event loop's thread, which
connects, streams, receives, parses and captures; the CPU time of the whole process, which also decodes,
times, encodes FLAC and stores after each turn, is also printed.

A plain client then carries the same load: `websockets` on uvloop with orjson and pybase64, without garbage
collection. It neither timestamps, paces by absolute deadlines, logs nor captures.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import _benchmark
import orjson
import pybase64
from websockets.asyncio.client import connect

from live_eval.audio import frames_of
from live_eval.calibrate import CalibrationPlan, calibrate
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from live_eval.session.event_loop import run

SESSIONS = 100
REPLY_MS = 20_000
RATE_HZ = 24_000
FRAME_S = 0.02
SILENCE = bytes(int(RATE_HZ * FRAME_S) * 2)


async def plain_session(url: str, frames: Sequence[bytes]) -> float:
    """Stream a user's frames, then silence, until the response is done; return the duration in seconds."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    chunks: list[tuple[int, bytes]] = []

    async with connect(url, compression=None, max_size=None, ping_interval=None) as socket:

        async def listen() -> None:
            async for message in socket:
                event = orjson.loads(message)
                if event["type"] == "response.output_audio.delta":
                    chunks.append((time.monotonic_ns(), pybase64.b64decode(event["delta"])))
                elif event["type"] == "response.done":
                    done.set()

        listening = asyncio.create_task(listen())
        began_s, sent = loop.time(), 0
        while not done.is_set():
            pcm = frames[sent] if sent < len(frames) else SILENCE
            sent += 1
            await asyncio.sleep(max(0.0, began_s + sent * FRAME_S - loop.time()))
            audio = pybase64.b64encode_as_string(pcm)
            await socket.send(f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}')
        listening.cancel()
    return sent * FRAME_S


async def plain_client() -> float:
    """Return the plain client's CPU time in milliseconds per second of a session."""
    frames = frames_of(calibration_speech(500, RATE_HZ).audio.int16(), len(SILENCE) // 2)
    with TemporaryDirectory(prefix="live-eval-plain-") as name:
        folder = Path(name)
        async with ReferenceProcess(
            calibrate=True, truth=folder / "truth.jsonl", log_folder=folder
        ) as endpoint:
            url = f"{endpoint.origin}/v1/realtime?model=m&delay_ms=0&lead_silence_ms=0&chunk_ms=20"
            url = f"{url}&cadence=realtime&reply_ms={REPLY_MS}".replace("http", "ws", 1)
            gc.collect()
            gc.disable()
            before_s = time.thread_time()
            lengths = await asyncio.gather(
                *(plain_session(f"{url}&label=plain-{number}", frames) for number in range(SESSIONS))
            )
            cpu_s = time.thread_time() - before_s
            gc.enable()
    return 1000 * cpu_s / sum(lengths)


def main() -> None:
    _benchmark.parser(__doc__).parse_args()
    plan = CalibrationPlan(
        sessions=SESSIONS,
        turns=SESSIONS,
        speech_ms=(500, 500),
        delay_ms=(0, 0),
        lead_silence_ms=(0, 0),
        reply_ms=REPLY_MS,
        chunk_ms=20,
        cadences=("realtime",),
    )
    result = run(calibrate(plan))
    figures = result.as_json()
    print(f"{figures['n']} turns, {figures['failed']} failed, {result.session_s:.0f} s of sessions")
    print(f"lag p50 {figures['lag_ms']['p50']} ms, p99 {figures['lag_ms']['p99']} ms")
    for name, errors in figures["errors_ms"].items():
        print(f"error of {name}: bias {errors['bias']}, p50 {errors['p50']}, p99 {errors['p99']} ms")
    print(f"with decoding, timing and storing: {result.cpu_ms_per_session_s:.2f} ms/s")
    plain_ms = run(plain_client())
    print(f"a plain client of the same endpoint: {plain_ms:.2f} ms/s")
    ours_ms = result.loop_cpu_ms_per_session_s
    print(f"sessions_per_core: {ours_ms:.2f} ms/s, {ours_ms / plain_ms:.1f} times the plain client")


if __name__ == "__main__":
    main()
