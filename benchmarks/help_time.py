"""Time of ``live-eval --help``, relative to an empty Python program."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
COMMANDS = {
    "pass": [sys.executable, "-c", "pass"],
    "help": [str(Path(sys.executable).with_name("live-eval")), "--help"],
}
AIM = 6.0  # click accounts for most of the time


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(RUNS + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if number > 0:  # the first run of each fills the file cache
                times[name].append(time.perf_counter() - start)
    median = {name: statistics.median(values) for name, values in times.items()}
    for name, seconds in median.items():
        print(f"{' '.join(COMMANDS[name][1:])}: {1000 * seconds:.1f} ms, median of {RUNS}")
    print(f"help_time: {median['help'] / median['pass']:.2f} times python -c pass (aim <= {AIM:g})")


if __name__ == "__main__":
    main()
