"""The cost per turn of sessions through Ray compared with local processes, in paired runs.

Each pair runs the same turns against one reference endpoint with fixed delays: once with two processes, once
with two workers of a Ray cluster (the existing cluster of this machine, or a new one). The order alternates.
The duration of a run is measured from the first dial to the end of the last turn, without node calibration.
The result is the mean additional duration with Ray over the pairs, with Student's 95 % interval.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import _benchmark
from scipy.stats import t as student

from live_eval.recording import RunReader
from live_eval.reference.server.process import ReferenceProcess
from live_eval.session.event_loop import run

PAIRS = 6
AIM_PERCENT = 5.0
PLAY = ("--data", "sample", "--concurrency", "8", "--processes", "2", "--word-times", "off", "--repeat", "2")
RAY = ("--ray", "--timing-bound", "1000")


@dataclass(frozen=True, slots=True)
class Span:
    """A run: duration in seconds from the first dial to the end of the last turn, and turn times in ms."""

    seconds: float
    first_byte_ms: Sequence[float]
    lag_ms: Sequence[float]


def span_of(path: Path) -> Span:
    with RunReader.open(path) as reader:
        turns = list(reader.turns())
    ends = [turn.wall_ns + int(turn.trace.frame_sent_ns[-1]) - turn.trace.dial_ns for turn in turns]
    return Span(
        (max(ends) - min(turn.wall_ns for turn in turns)) / 1e9,
        [turn.timing.first_byte.ns / 1e6 for turn in turns if turn.timing.first_byte.ns is not None],
        [turn.timing.lag_ns / 1e6 for turn in turns],
    )


def played(base_url: str, out: Path, flags: tuple[str, ...]) -> Span:
    command = (sys.executable, "-m", "live_eval", "run", "reference", "--base-url", base_url, *PLAY, *flags)
    quiet = ("--judges", "none", "--no-report", "--out", str(out))
    done = subprocess.run([*command, *quiet], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(done.args)} ended with status {done.returncode}:\n{done.stderr}")
    return span_of(out)


def in_words(span: Span) -> str:
    return (
        f"{len(span.lag_ms)} turns in {span.seconds:.2f} s, "
        f"first byte {statistics.median(span.first_byte_ms):.1f} ms, "
        f"lag p50 {statistics.median(span.lag_ms):.2f}, most {max(span.lag_ms):.2f} ms"
    )


async def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with ReferenceProcess(log_folder=folder) as endpoint:
            more: list[float] = []
            for pair in range(pairs):
                spans: dict[str, Span] = {}
                both = [("processes", ()), ("Ray", RAY)]
                for label, flags in both if pair % 2 == 0 else reversed(both):
                    spans[label] = played(f"{endpoint.origin}/v1", folder / f"{label}-{pair}", flags)
                    print(f"{label}: {in_words(spans[label])}", flush=True)
                more.append(100 * (spans["Ray"].seconds / spans["processes"].seconds - 1))
                print(f"pair {pair + 1}: {more[-1]:+.2f} %", flush=True)
    mean, half = statistics.mean(more), float("inf")
    if pairs > 1:
        half = float(student.ppf(0.975, pairs - 1)) * statistics.stdev(more) / pairs**0.5
    print(
        f"ray_overhead: {mean:+.2f} % a turn, 95 % interval {mean - half:+.2f} to {mean + half:+.2f} "
        f"({pairs} pairs, {min(more):+.2f} to {max(more):+.2f}; aim <= {AIM_PERCENT:g} %)"
    )


if __name__ == "__main__":
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    run(main(parser.parse_args().pairs))
