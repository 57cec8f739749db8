"""Cue sensitivity of a deaf and a hearing endpoint: the first must be 0, the second must not.

The built-in endpoint replies to the bundled sample twice, once by default (it selects its reply by the
recognised words) and once with ``--notices-voice`` (it also remarks on the pace, level and pitch of the
received audio). Each recording is run ``--repeat`` times. Needs the `local` extra; about two minutes per
endpoint.

Exits with 1 if the deaf endpoint's effect is not 0, or if the hearing endpoint's interval includes 0.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _benchmark

from live_eval.reference.server.process import ReferenceProcess

AIM_DEAF = 0.005
"""Maximum effect of the deaf endpoint: it is printed as 0.00."""

COMMAND = [sys.executable, "-m", "live_eval"]


def play(run: Path, base_url: str, repeat: int) -> None:
    """Run the sample's conversations with an endpoint, and score the prosody of its replies."""
    done = subprocess.run(
        [
            *(*COMMAND, "run", "--endpoint", "reference", "--base-url", base_url, "--data", "sample"),
            *("--out", str(run), "--repeat", str(repeat), "--judges", "prosody", "--no-report"),
        ],
        check=False,  # a failed turn is excluded from the values, and reported with them
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        print(
            f"{run.name}: the run ended with {done.returncode}:\n{done.stderr}", file=sys.stderr, flush=True
        )


async def play_with(flags: Sequence[str], run: Path, repeat: int) -> None:
    """Start an endpoint with these flags, and run the sample with it."""
    async with ReferenceProcess(log_folder=run.parent, arguments=flags) as endpoint:
        await asyncio.to_thread(play, run, endpoint.base_url, repeat)


def measure(name: str, flags: Sequence[str], repeat: int, folder: Path) -> dict[str, Any]:
    """Run the sample with an endpoint, print the sensitivity by measure, and return the overall value."""
    run = folder / name
    asyncio.run(play_with(flags, run, repeat))
    told = subprocess.run(
        [*COMMAND, "cue-sensitivity", str(run), "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(told.stdout)
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
    for reason, count in found["left_out"].items():
        print(f"{name}: {count} turns left out: {reason}")
    overall: dict[str, Any] = found["overall"]
    return overall


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument(
        "--repeat", type=int, default=2, help="how often each recording is played (default: 2)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        deaf = measure("deaf", (), arguments.repeat, Path(folder))
        hearing = measure("hearing", ("--notices-voice",), arguments.repeat, Path(folder))
    if deaf["effect"] is None or hearing["low"] is None:
        sys.exit("cue_sensitivity: not measured")
    print(f"cue_sensitivity_deaf: {deaf['effect']:.3f} effect (aim 0 +- {AIM_DEAF:g})")
    print(f"cue_sensitivity: {hearing['low']:.3f} low end of the hearing one's effect (aim > 0)")
    sys.exit(0 if abs(deaf["effect"]) <= AIM_DEAF and hearing["low"] > 0 else 1)


if __name__ == "__main__":
    main()
