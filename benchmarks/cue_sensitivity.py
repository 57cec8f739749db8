"""Cue sensitivity of a deaf and of a hearing endpoint: what is 0 must be 0, and what is not must be found.

The built-in endpoint answers the bundled sample twice over, once as it is (it finds its reply by the words it
heard) and once with ``--notices-voice`` (it also remarks on the pace, level and pitch of the audio that it
received). Each recording is played as often as ``--repeat`` says. Needs the extra `local`; about two minutes
for each endpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = [sys.executable, "-m", "live_eval"]


def play(run: Path, base_url: str, repeat: int) -> None:
    """Hold the sample's conversations with an endpoint, and score how its replies are spoken."""
    subprocess.run(
        [
            *COMMAND,
            *(
                "run",
                "--endpoint",
                "reference",
                "--base-url",
                base_url,
                "--data",
                "sample",
                "--out",
                str(run),
            ),
            *("--repeat", str(repeat), "--judges", "prosody", "--no-report"),
        ],
        check=False,  # a failed turn is left out below, and counted
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def measure(name: str, flags: list[str], repeat: int, folder: Path) -> None:
    """Start an endpoint, play, and print its sensitivity."""
    endpoint = subprocess.Popen(
        [*COMMAND, "endpoint", "--port", "0", "--until-stdin-ends", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert endpoint.stdout is not None
        base_url = json.loads(endpoint.stdout.readline())["base_url"]
        run = folder / name
        play(run, base_url, repeat)
    finally:
        assert endpoint.stdin is not None
        endpoint.stdin.close()
        endpoint.wait(timeout=30)
    told = subprocess.run(
        [*COMMAND, "cue-sensitivity", str(run), "--json"], check=True, capture_output=True, text=True
    )
    found = json.loads(told.stdout)
    for what, effect in {"overall": found["overall"], **found["measures"]}.items():
        if effect["effect"] is None:
            print(f"{name}, {what}: {effect['reason']}")
            continue
        between = (
            f"{effect['low']:.3f} to {effect['high']:.3f}" if effect["low"] is not None else "no interval"
        )
        print(
            f"{name}, {what}: effect {effect['effect']:.3f} ({between}), p {effect['p']:.4f}, "
            f"{effect['scripts']} scripts, {found['replies']} replies"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeat", type=int, default=2, help="how often each recording is played (default: 2)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure("deaf", [], arguments.repeat, Path(folder))
        measure("hearing", ["--notices-voice"], arguments.repeat, Path(folder))


if __name__ == "__main__":
    main()
