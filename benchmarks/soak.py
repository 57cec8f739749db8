"""Memory, file handles, lag and pauses of the garbage collector over a long run, on WebSocket and on WebRTC.

The turns are held by `live_eval.run.runner` as in any run, against the reference endpoint in a process of its
own. The figure is how much the resident memory of our process grows for each turn over the last half, when
caches are full: the slope of a line through it. The first and the last tenth of the turns are compared: open
files, how late frames left, and how long the endpoint, which answers after `DELAY_MS`, seemed to take. The
collector's pauses follow, and the memory of the endpoint.

Without options, 2,000 short turns on each transport. ``python benchmarks/soak.py openai-webrtc --turns 500``
soaks one of them with fewer turns. ``python benchmarks/soak.py reference --sessions 50 --minutes 30`` holds
50 sessions for about half an hour, with turns of ordinary length.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
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
DELAY_MS = 50
SHORT_MS, ORDINARY_MS = 250, 2_500  # of speech, and of the reply
SETUP_S = 0.6  # of a session and the rest of its turn beyond the speech, about
EVERY = 100
AIM_KB = 2.0  # what allocators keep: the number of objects does not grow
PAGE_KB = 4


class Reading(NamedTuple):
    """What is noted after a turn."""

    ours_kb: int
    its_kb: int
    files: int
    late_ms: float
    first_byte_ms: float


class Watch(SilentObserver):
    """An observer that notes memory, open files and lag as the turns come in."""

    def __init__(self, endpoint_id: int, every: int) -> None:
        self._endpoint_id = str(endpoint_id)
        self._every = every
        self.failed = self.lagging = 0
        self.readings: list[Reading] = []

    def turn(self, record: TurnRecord) -> None:
        """A turn is in the store."""
        self.failed += record.failure is not None
        self.lagging += record.timing.flagged
        trace, first_byte_ns = record.trace, record.timing.first_byte.ns
        late_ns = trace.frame_sent_ns - trace.frame_deadline_ns
        self.readings.append(
            Reading(
                _resident_kb("self"),
                _resident_kb(self._endpoint_id),
                len(os.listdir("/proc/self/fd")),
                float(late_ns.max(initial=0)) / 1e6,
                np.nan if first_byte_ns is None else first_byte_ns / 1e6,
            )
        )
        if len(self.readings) % self._every == 0:
            last = self.readings[-1]
            print(
                f"  {len(self.readings):6} turns: {last.ours_kb / 1024:6.1f} MB, "
                f"endpoint {last.its_kb / 1024:6.1f} MB, {last.files} open files",
                flush=True,
            )

    @property
    def growth_kb(self) -> float:
        """Kilobytes for each turn, over the last half."""
        ours = np.asarray([reading.ours_kb for reading in self.readings])[len(self.readings) // 2 :]
        return float(np.polyfit(np.arange(len(ours)), ours, 1)[0])

    def tenths(self) -> Iterator[str]:
        """Yield a line for the first tenth of the turns, and one for the last."""
        tenth = max(1, len(self.readings) // 10)
        for name, some in (("first", self.readings[:tenth]), ("last", self.readings[-tenth:])):
            late, first_byte = (
                _percentiles([each.late_ms for each in some]),
                _percentiles([each.first_byte_ms - DELAY_MS for each in some]),
            )
            files = max(each.files for each in some)
            yield (
                f"  {name} tenth: at most {files} open files; latest frame of a turn {late} ms; "
                f"first_byte - {DELAY_MS} {first_byte} ms (p50 / p99)"
            )


def _percentiles(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in np.nanpercentile(values, (50, 99)))


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


async def soak(endpoint: str, turns: int, sessions: int, speech_ms: int, folder: Path) -> Watch:
    spec = client(endpoint)
    lossy = emulation_of(endpoint).lossy_input
    speech = calibration_speech(speech_ms, spec.input_rate_hz, spec.frame_ms, lossy=lossy)
    soundfile.write(folder / "speech.wav", speech.audio.int16(), spec.input_rate_hz)
    end_ms = speech.voice_end_sample * 1000 / spec.input_rate_hz
    row = {"id": "speech", "audio": "speech.wav", "text": "ahem", "onset_ms": 0, "voice_end_ms": end_ms}
    (folder / "data.jsonl").write_text(json.dumps(row), "utf-8")
    async with ReferenceProcess(calibrate=True, log_folder=folder) as process:
        port = urlsplit(process.origin).port or 0
        behaviour = f"delay_ms={DELAY_MS}&reply_ms={speech_ms}&cadence=burst"
        plan = make_plan(
            validate(
                {
                    "endpoint": {
                        "name": endpoint,
                        "base_url": f"{address(endpoint, '127.0.0.1', port)}?{behaviour}",
                    },
                    "data": {"path": str(folder / "data.jsonl")},
                    "turns": {"concurrency": sessions, "repeat": turns, "word_times": "off"},
                }
            )
        )
        watch = Watch(process.process_id, max(EVERY, turns // 30))
        with RunWriter.create(folder / "run", plan.manifest()) as writer:
            await play(plan, writer, folder / "run", watch)
    return watch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("endpoints", nargs="*", default=list(SESSIONS), metavar="ENDPOINT")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--minutes", type=float, help="instead of --turns, about so long")
    parser.add_argument("--sessions", type=int, help="at a time; default: 40, on WebRTC 10")
    arguments = parser.parse_args()
    growth = {}
    for endpoint in arguments.endpoints:
        sessions = arguments.sessions or SESSIONS.get(endpoint, 10)
        turns, speech_ms = arguments.turns, SHORT_MS
        if arguments.minutes:
            speech_ms = ORDINARY_MS
            turns = round(arguments.minutes * 60 * sessions / (SETUP_S + speech_ms / 1000))
        print(f"{endpoint}: {turns} turns, {sessions} at a time")
        begun = time.monotonic()
        with TemporaryDirectory(prefix="live-eval-soak-") as folder, pauses() as found:
            watch = run(soak(endpoint, turns, sessions, speech_ms, Path(folder)))
        took = time.monotonic() - begun
        print(f"  {took:.0f} s; {watch.failed} failed, {watch.lagging} flagged for lag")
        for line in watch.tenths():
            print(line)
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
