"""Memory and pauses of the garbage collector over a long run: 2,000 short turns, on WebSocket and on WebRTC.

The turns are held by `live_eval.run.runner` as in any run, against the reference endpoint in a process of its
own. The figure is how much the resident memory of our process grows for each turn over the last half, when
caches are full: the slope of a line through it. The collector's pauses follow, and the memory of the
endpoint. ``python benchmarks/soak.py openai-webrtc 500`` soaks one of them, with fewer turns.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import numpy as np
import soundfile

from live_eval.recording import RunWriter
from live_eval.recording.record import TurnRecord
from live_eval.reference.emulation import address, emulation_of
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from live_eval.registry import client
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import SilentObserver, play
from live_eval.session.event_loop import run

TURNS = 2_000
SESSIONS = {"reference": 40, "openai-webrtc": 10}
SPEECH_MS, REPLY_MS = 300, 200
EVERY = 100
AIM_KB = 2.0  # what allocators keep: the number of objects does not grow
PAGE_KB = 4


class Watch(SilentObserver):
    """An observer that notes how much memory there is as the turns come in."""

    def __init__(self, endpoint_id: int) -> None:
        self._processes = ("self", str(endpoint_id))
        self.failed = self.lagging = 0
        self.memory_kb: list[tuple[int, ...]] = []

    def turn(self, record: TurnRecord) -> None:
        """A turn is in the store."""
        self.failed += record.failure is not None
        self.lagging += record.timing.flagged
        self.memory_kb.append(tuple(map(_resident_kb, self._processes)))
        if len(self.memory_kb) % EVERY == 0:
            ours, its = self.memory_kb[-1]
            print(
                f"  {len(self.memory_kb):5} turns: {ours / 1024:6.1f} MB, endpoint {its / 1024:6.1f} MB",
                flush=True,
            )

    @property
    def growth_kb(self) -> float:
        """Kilobytes for each turn, over the last half."""
        ours = np.asarray([kb for kb, _ in self.memory_kb])[len(self.memory_kb) // 2 :]
        return float(np.polyfit(np.arange(len(ours)), ours, 1)[0])


def _resident_kb(process: str) -> int:
    return int(Path("/proc", process, "statm").read_text().split()[1]) * PAGE_KB


@contextmanager
def pauses() -> Iterator[list[float]]:
    """Collect how long the full collections take, in milliseconds."""
    found: list[float] = []
    begun_ns = 0

    def told(phase: str, info: dict[str, int]) -> None:
        nonlocal begun_ns
        if phase == "start":
            begun_ns = time.monotonic_ns()
        elif info["generation"] == 2:
            found.append((time.monotonic_ns() - begun_ns) / 1e6)

    gc.callbacks.append(told)
    try:
        yield found
    finally:
        gc.callbacks.remove(told)


async def soak(endpoint: str, turns: int, folder: Path) -> Watch:
    spec = client(endpoint)
    lossy = emulation_of(endpoint).lossy_input
    speech = calibration_speech(SPEECH_MS, spec.input_rate_hz, spec.frame_ms, lossy=lossy)
    soundfile.write(folder / "speech.wav", speech.audio.int16(), spec.input_rate_hz)
    end_ms = speech.voice_end_sample * 1000 / spec.input_rate_hz
    row = {"id": "speech", "audio": "speech.wav", "text": "ahem", "onset_ms": 0, "voice_end_ms": end_ms}
    (folder / "data.jsonl").write_text(json.dumps(row), "utf-8")
    async with ReferenceProcess(calibrate=True, log_folder=folder) as process:
        port = urlsplit(process.origin).port or 0
        base_url = f"{address(endpoint, '127.0.0.1', port)}?delay_ms=50&reply_ms={REPLY_MS}&cadence=burst"
        plan = make_plan(
            validate(
                {
                    "endpoint": {"name": endpoint, "base_url": base_url},
                    "data": {"path": str(folder / "data.jsonl")},
                    "turns": {"concurrency": SESSIONS[endpoint], "repeat": turns, "word_times": "off"},
                }
            )
        )
        watch = Watch(process.process_id)
        with RunWriter.create(folder / "run", plan.manifest()) as writer:
            await play(plan, writer, folder / "run", watch)
    return watch


def main() -> None:
    endpoints = sys.argv[1].split(",") if len(sys.argv) > 1 else list(SESSIONS)
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else TURNS
    growth = {}
    for endpoint in endpoints:
        print(f"{endpoint}: {turns} turns, {SESSIONS[endpoint]} at a time")
        begun = time.monotonic()
        with TemporaryDirectory(prefix="live-eval-soak-") as folder, pauses() as found:
            watch = run(soak(endpoint, turns, Path(folder)))
        took = time.monotonic() - begun
        print(f"  {took:.0f} s; {watch.failed} failed, {watch.lagging} flagged for lag")
        if found:
            print(
                f"  {len(found)} full collections: p50 {np.median(found):.1f}, longest {max(found):.1f} ms, "
                f"{sum(found) / took / 10:.2f} % of the time"
            )
        growth[endpoint] = watch.growth_kb
    figures = ", ".join(f"{endpoint} {kb:+.2f}" for endpoint, kb in growth.items())
    print(f"soak: {figures} KB a turn over the last half (aim <= {AIM_KB:g})")


if __name__ == "__main__":
    main()
