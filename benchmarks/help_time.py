"""Time of ``live-eval --help`` and of each command's help, relative to an empty Python program."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

import _benchmark

from live_eval.cli import COMMANDS

RUNS = 7
PROGRAM = str(Path(sys.executable).with_name("live-eval"))
TIMED = {
    "pass": [sys.executable, "-c", "pass"],
    "live-eval --help": [PROGRAM, "--help"],
    **{f"live-eval {name} --help": [PROGRAM, name, "--help"] for name in COMMANDS},
}
AIM = 6.0  # click accounts for most of the time


def main() -> None:
    _benchmark.parser(__doc__).parse_args()
    times: dict[str, list[float]] = {name: [] for name in TIMED}
    for number in range(RUNS + 1):
        for name, command in TIMED.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if number > 0:  # the first run of each fills the file cache
                times[name].append(time.perf_counter() - start)
    empty = statistics.median(times.pop("pass"))
    ratios = {name: statistics.median(values) / empty for name, values in times.items()}
    print(f"python -c pass: {1000 * empty:.1f} ms, median of {RUNS}")
    for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
        print(f"{name}: {ratio:.2f} times python -c pass")
    print(f"help_time: {max(ratios.values()):.2f} times python -c pass (aim <= {AIM:g})")


if __name__ == "__main__":
    main()
