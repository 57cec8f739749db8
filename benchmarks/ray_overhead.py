"""What holding sessions through Ray costs a turn, against processes of this machine: paired runs, in turns.

Each pair plays the same turns to one reference endpoint with fixed delays: once with two processes, once with
two workers of a Ray cluster (the one that this machine belongs to, or one that is started). The span of a run
reaches from the first dialling to the last turn's end, without the calibration of nodes.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from live_eval.recording import RunReader
from live_eval.reference.server.process import ReferenceProcess
from live_eval.session.event_loop import run

PAIRS = 3
AIM_PERCENT = 5.0
PLAY = ("--data", "sample", "--concurrency", "8", "--processes", "2", "--word-times", "off")
RAY = ("--ray", "--timing-bound", "1000")


def span_s(path: Path) -> tuple[float, list[float], list[float]]:
    """Return the seconds of a run, and its turns' first byte and lag in ms."""
    with RunReader.open(path) as reader:
        turns = list(reader.turns())
    ends = [turn.wall_ns + int(turn.trace.frame_sent_ns[-1]) - turn.trace.dial_ns for turn in turns]
    first_byte = [turn.timing.first_byte.ns / 1e6 for turn in turns if turn.timing.first_byte.ns is not None]
    return (
        (max(ends) - min(turn.wall_ns for turn in turns)) / 1e9,
        first_byte,
        [turn.timing.lag_ns / 1e6 for turn in turns],
    )


def played(base_url: str, out: Path, flags: tuple[str, ...]) -> tuple[float, list[float], list[float]]:
    command = (sys.executable, "-m", "live_eval", "run", "--base-url", base_url, *PLAY, *flags)
    quiet = ("--judges", "", "--no-report", "--out", str(out))
    subprocess.run([*command, *quiet], check=True, capture_output=True)
    return span_s(out)


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with ReferenceProcess(log_folder=folder) as endpoint:
            more: list[float] = []
            for pair in range(PAIRS):
                here = played(f"{endpoint.origin}/v1", folder / f"here-{pair}", ())
                there = played(f"{endpoint.origin}/v1", folder / f"ray-{pair}", RAY)
                more.append(100 * (there[0] / here[0] - 1))
                for label, (seconds, first_byte, lag) in (("processes", here), ("Ray", there)):
                    print(
                        f"{label}: {len(lag)} turns in {seconds:.1f} s, "
                        f"first byte {statistics.median(first_byte):.1f} ms, "
                        f"lag p50 {statistics.median(lag):.2f}, most {max(lag):.2f} ms"
                    )
            print(f"ray_overhead: {statistics.median(more):+.1f} % a turn (aim <= {AIM_PERCENT:g} %)")


if __name__ == "__main__":
    run(main())
