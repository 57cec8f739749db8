"""Memory, open files, lag and garbage collection pauses in a long run, over WebSocket and WebRTC.

`live_eval.run.runner` runs the turns as in any run, against the reference endpoint in a separate process. The
main metric is the growth of our process's resident memory per turn over the last half, when caches are full:
the slope of a fitted line. The table also shows, over time, our memory and the endpoint's, open files, the
lateness of sent frames, and the measured latency of the endpoint, which replies after `DELAY_MS`.

Without options, 2,000 short turns run on each transport. ``python benchmarks/soak.py openai-webrtc --turns
500`` tests one transport with fewer turns. ``python benchmarks/soak.py reference --sessions 50 --minutes 30``
runs 50 sessions for about half an hour, with turns of ordinary length. Ctrl-C ends a soak early and shows the
rows so far. The exit status is 1 if a turn failed, a file stayed open, or memory grew by more than
``--growth-kb`` per turn.

A turn uses 23 kB of the temporary folder (11 GB in eight hours with 50 sessions): the run's database is kept
until the end, audio is removed continuously.
"""

from __future__ import annotations

import contextlib
import csv
import gc
import itertools
import json
import os
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TextIO
from urllib.parse import urlsplit

import _benchmark
import numpy as np
import soundfile

from live_eval.clock import SystemClock
from live_eval.recording import AUDIO_FOLDER, RunWriter
from live_eval.recording.record import TurnRecord
from live_eval.reference.emulation import address, emulation_of
from live_eval.reference.engine.signals import calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from live_eval.registry import client
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.session.event_loop import run

TURNS = 2_000
SESSIONS = {"reference": 40, "openai-webrtc": 10}
DELAY_MS = 50
SHORT_MS, ORDINARY_MS = 250, 2_500  # duration of the speech, and of the reply
SETUP_S = 0.6  # approximate overhead of a session and its turn beyond the speech
LONGEST_INTERVAL_S = 60.0  # maximum interval between lines
LINES = 20  # number of lines if the soak is too short for such intervals
PARTS = 10  # of the table at the end
KEPT_AUDIO_S = 60.0
AIM_KB = 2.0  # memory retained by allocators: the number of objects does not grow
PAGE_KB = 4


class Span(NamedTuple):
    """Measurements of a time interval; the field names are the table columns."""

    seconds: float
    turns: int
    failed: int
    lagging: int
    ours_mb: float
    endpoint_mb: float
    files: int
    late_p50_ms: float
    late_p99_ms: float
    first_byte_p50_ms: float
    first_byte_p99_ms: float


TABLE_HEAD = (
    "     time   turns failed flagged    memory  endpoint files       latest frame first_byte - delay"
)


def row(span: Span) -> str:
    """Return a row of the table; percentiles are the 50th and the 99th."""
    minutes, seconds = divmod(round(span.seconds), 60)
    time_taken = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return (
        f"{time_taken:>9} {span.turns:7} {span.failed:6} {span.lagging:7} {span.ours_mb:6.1f} MB "
        f"{span.endpoint_mb:6.1f} MB {span.files:5} {span.late_p50_ms:6.2f} {span.late_p99_ms:8.2f} ms "
        f"{span.first_byte_p50_ms:6.2f} {span.first_byte_p99_ms:8.2f} ms"
    )


class Watch(Observer):
    """An observer that records memory, open files and lag with each turn, and prints a row at intervals.

    The observer stores 24 bytes per turn; `failed` contains a 1 for each failed turn.

    Args:
        endpoint: Name of the endpoint.
        interval_s: Seconds between two rows.
        table: CSV file for the rows, or None.
    """

    def __init__(self, endpoint: str, interval_s: float, table: TextIO | None) -> None:
        self._endpoint, self._process_id = endpoint, 0
        self._interval_s = interval_s
        self._table = csv.writer(table) if table is not None else None
        self._flush = table.flush if table is not None else lambda: None
        self._begun_s = time.monotonic()
        self._printed = 0  # turns
        self._due_s = interval_s
        self._at_s, self._late_ms, self._first_byte_ms = array("f"), array("f"), array("f")
        self._ours_kb, self._its_kb, self._files = array("i"), array("i"), array("H")
        self.failed, self._lagging = array("b"), array("b")

    def __len__(self) -> int:
        return len(self._at_s)

    def begin(self, process_id: int) -> None:
        """Start timing, with the endpoint in a separate process."""
        self._process_id = process_id
        self._begun_s = time.monotonic()
        print(TABLE_HEAD, flush=True)

    def turn(self, record: TurnRecord) -> None:
        """Record a stored turn."""
        trace, first_byte_ns = record.trace, record.timing.first_byte.ns
        late_ns = trace.frame_sent_ns - trace.frame_deadline_ns
        at_s = time.monotonic() - self._begun_s
        self._at_s.append(at_s)
        self._late_ms.append(float(late_ns.max(initial=0)) / 1e6)
        self._first_byte_ms.append(np.nan if first_byte_ns is None else first_byte_ns / 1e6 - DELAY_MS)
        self._ours_kb.append(_resident_kb("self"))
        self._its_kb.append(_resident_kb(str(self._process_id)))
        self._files.append(open_files())
        self.failed.append(record.failure is not None)
        self._lagging.append(record.timing.flagged)
        if at_s >= self._due_s:
            self.print_rest()
            self._due_s = at_s + self._interval_s

    def print_rest(self) -> None:
        """Print a row for the turns since the last row, if any."""
        if self._printed == len(self):
            return
        span = self.span(self._printed, len(self))
        self._printed = len(self)
        print(row(span), flush=True)
        if self._table is not None:
            figures = [value if isinstance(value, int) else round(value, 3) for value in span]
            self._table.writerow([self._endpoint, *figures])
            self._flush()

    @property
    def growth_kb(self) -> float:
        """Memory growth over the last half, in kilobytes per turn."""
        ours = np.array(self._ours_kb[len(self) // 2 :])
        return float(np.polyfit(np.arange(len(ours)), ours, 1)[0])

    def span(self, begin: int, end: int) -> Span:
        """Return the measurements of some turns: memory after the last turn, maximum of open files."""
        late = np.percentile(np.array(self._late_ms[begin:end]), (50, 99))
        first_byte = np.array(self._first_byte_ms[begin:end])
        heard = first_byte[~np.isnan(first_byte)]
        first = np.percentile(heard, (50, 99)) if len(heard) else (np.nan, np.nan)
        return Span(
            self._at_s[end - 1],
            end,
            sum(self.failed[begin:end]),
            sum(self._lagging[begin:end]),
            self._ours_kb[end - 1] / 1024,
            self._its_kb[end - 1] / 1024,
            max(self._files[begin:end]),
            float(late[0]), float(late[1]), float(first[0]), float(first[1]),
        )  # fmt: skip

    def parts(self) -> Iterator[Span]:
        """Yield the measurements of `PARTS` equal parts of the soak."""
        edges = np.unique(np.linspace(0, len(self), PARTS + 1).astype(int)).tolist()
        for begin, end in itertools.pairwise(edges):
            yield self.span(begin, end)


def open_files() -> int:
    """Return the number of open files and sockets of this process."""
    return len(os.listdir("/proc/self/fd"))


def settle() -> None:
    """Run an event loop: the first loop opens a process-wide pipe, the next closes the last loop's timer."""
    clock = SystemClock()
    run(clock.sleep_until(clock.now_ns() + 1_000_000))
    gc.collect()


def _resident_kb(process: str) -> int:
    return int(Path("/proc", process, "statm").read_text().split()[1]) * PAGE_KB


@contextlib.contextmanager
def removing_audio(folder: Path) -> Iterator[None]:
    """Remove audio older than a minute, in a thread, so that a long soak does not fill the disk."""
    ended = threading.Event()

    def remove() -> None:
        while not ended.wait(KEPT_AUDIO_S / 4):
            before = time.time() - KEPT_AUDIO_S
            for path in folder.glob("*.flac"):
                if path.stat().st_mtime < before:
                    path.unlink()

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextlib.contextmanager
def pauses() -> Iterator[list[float]]:
    """Record the durations of full garbage collections, in milliseconds."""
    found: list[float] = []
    begun_ns = 0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal begun_ns
        if phase == "start":
            begun_ns = time.monotonic_ns()
        elif info["generation"] == 2:
            found.append((time.monotonic_ns() - begun_ns) / 1e6)

    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)


async def soak(endpoint: str, turns: int, sessions: int, speech_ms: int, folder: Path, watch: Watch) -> bool:
    """Run the turns; return whether the soak was interrupted."""
    spec = client(endpoint)
    lossy = emulation_of(endpoint).lossy_input
    speech = calibration_speech(speech_ms, spec.input_rate_hz, spec.frame_ms, lossy=lossy)
    soundfile.write(folder / "speech.wav", speech.audio.int16(), spec.input_rate_hz)
    end_ms = speech.voice_end_sample * 1000 / spec.input_rate_hz
    entry = {"id": "speech", "audio": "speech.wav", "text": "ahem", "onset_ms": 0, "voice_end_ms": end_ms}
    (folder / "data.jsonl").write_text(json.dumps(entry), "utf-8")
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
        with RunWriter.create(folder / "run", plan.manifest()) as writer:
            watch.begin(process.process_id)
            with removing_audio(folder / "run" / AUDIO_FOLDER):
                outcome = await run_plan(plan, writer, folder / "run", watch)
    watch.print_rest()
    return outcome.interrupted


def report(endpoint: str, watch: Watch, left: int, took_s: float, full_ms: Sequence[float]) -> None:
    """Print the results of a soak.

    Args:
        endpoint: Name of the endpoint.
        watch: Observer of the soak.
        left: Number of files left open.
        took_s: Duration of the soak.
        full_ms: Durations of the full garbage collections.
    """
    total = watch.span(0, len(watch))
    print(f"\n{endpoint}, by tenths of its turns:\n{TABLE_HEAD}")
    print("\n".join(map(row, watch.parts())))
    print(
        f"{took_s:.0f} s; {total.turns} turns: {total.failed} failed, {total.lagging} flagged for lag; "
        f"{left} files left open"
    )
    if full_ms:
        print(
            f"{len(full_ms)} full collections: p50 {np.median(full_ms):.1f}, longest {max(full_ms):.1f} ms, "
            f"{sum(full_ms) / took_s / 10:.2f} % of the time"
        )


def main() -> int:
    """Return the exit status: 0 unless a turn failed, memory grew or a file stayed open."""
    parser = _benchmark.parser(__doc__)
    parser.add_argument("endpoints", nargs="*", default=list(SESSIONS), metavar="ENDPOINT")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--minutes", type=float, help="instead of --turns, about so long")
    parser.add_argument("--hours", type=float, help="the same in hours")
    parser.add_argument("--sessions", type=int, help="at a time; default: 40, on WebRTC 10")
    parser.add_argument("--growth-kb", type=float, default=AIM_KB, help="allowed a turn; default: the aim")
    parser.add_argument("--out", type=Path, help="write the rows to this file too, as CSV, as they come")
    arguments = parser.parse_args()
    minutes = arguments.minutes or (arguments.hours or 0) * 60
    settle()
    growth, sound = {}, True
    with contextlib.ExitStack() as stack:
        table = None
        if arguments.out is not None:
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            table = stack.enter_context(arguments.out.open("w", newline="", encoding="utf-8"))
            csv.writer(table).writerow(["endpoint", *Span._fields])
            print(f"every row goes to {arguments.out} too")
        for endpoint in arguments.endpoints:
            sessions = arguments.sessions or SESSIONS.get(endpoint, 10)
            speech_ms = ORDINARY_MS if minutes else SHORT_MS
            turn_s = SETUP_S + speech_ms / 1000
            turns = round(minutes * 60 * sessions / turn_s) if minutes else arguments.turns
            expected_s = turns * turn_s / sessions
            print(f"{endpoint}: {turns} turns, {sessions} at a time, about {expected_s / 60:.1f} min")
            watch = Watch(endpoint, min(LONGEST_INTERVAL_S, expected_s / LINES), table)
            files, begun_s = open_files(), time.monotonic()
            with TemporaryDirectory(prefix="live-eval-soak-") as folder, pauses() as full_ms:
                interrupted = run(soak(endpoint, turns, sessions, speech_ms, Path(folder), watch))
            if len(watch) < PARTS:
                print(f"interrupted after {len(watch)} turns: nothing to show")
                return 1
            settle()
            left = open_files() - files
            report(endpoint, watch, left, time.monotonic() - begun_s, full_ms)
            growth[endpoint] = watch.growth_kb
            sound &= not sum(watch.failed) and left <= 0 and watch.growth_kb <= arguments.growth_kb
            if interrupted:
                print("interrupted")
                break
    figures = ", ".join(f"{endpoint} {kb:+.2f}" for endpoint, kb in growth.items())
    print(f"soak: {figures} KB a turn over the last half (aim <= {AIM_KB:g})")
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
