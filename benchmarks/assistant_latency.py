"""Time from the built-in assistant's end of turn to its first audible sample.

Recordings are streamed to ``live-eval endpoint``, one session at a time, over WebSocket and WebRTC. The value
is the time from the endpoint's response event, sent when its detector ends the user's turn, to the first
audible sample of the reply; both times are the endpoint's own timestamps (`live_eval.reference.truth`). The
target applies to an otherwise idle two-core machine: the endpoint's CPU time, which depends little on other
load, and the machine's load are also printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import _benchmark
import numpy as np
from _processors import read_stat

from live_eval.recording import RunWriter
from live_eval.reference.truth import TrueReply, read_truth
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.session.event_loop import run

AIM_MS = 700
CLIENTS = ("openai", "openai-webrtc")
STOP_S = 20.0


class Served(NamedTuple):
    """A reference endpoint.

    Args:
        process_id: Process ID.
        addresses: Base URL for each client.
    """

    process_id: int
    addresses: dict[str, str]


@contextmanager
def endpoint(truth: Path, data: str) -> Iterator[Served]:
    """Start the endpoint like a user; its log in `truth` is complete when the context ends."""
    command = [sys.executable, "-P", "-m", "live_eval", "endpoint", "--port", "0", "--truth", str(truth)]
    if data != "sample":
        command += ["--data", data]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield Served(process.pid, json.loads(process.stdout.readline())["addresses"])
        finally:
            process.terminate()
            process.wait(STOP_S)


class Measured(NamedTuple):
    """The measurements of one client.

    Args:
        turns: The true times of the turns.
        cpu_s: CPU time of the endpoint.
        load: Load average of the machine.
    """

    turns: list[TrueReply]
    cpu_s: float
    load: float


def measure(client: str, data: str, turns: int) -> Measured:
    """Stream `turns` recordings to a new endpoint."""
    with TemporaryDirectory() as place:
        folder = Path(place)
        truth = folder / "truth.jsonl"
        with endpoint(truth, data) as served:
            _, began_s = read_stat(served.process_id)
            plan = make_plan(
                validate(
                    {
                        "endpoint": {"name": client, "base_url": served.addresses[client]},
                        # One recording per script: a repeated reply is not synthesised again.
                        "data": {"path": data, "limit": turns, "variants": ["neutral"]},
                        "turns": {"concurrency": 1, "retries": 0},
                    }
                )
            )
            writer = RunWriter.create(folder / "run", plan.manifest())
            run(run_plan(plan, writer, folder, Observer()))
            writer.end(finished=True)
            spent_s = read_stat(served.process_id)[1] - began_s
        return Measured(read_truth(truth).replies, spent_s, os.getloadavg()[0])


def show(client: str, measured: Measured) -> bool:
    """Print the values of a client; return whether they meet the target."""
    answered = [turn for turn in measured.turns if turn.reason == ""]
    times_ns = [
        turn.heard_from_ns - turn.created_ns
        for turn in answered
        if turn.heard_from_ns is not None and turn.created_ns is not None
    ]
    first_ns = [
        turn.chunk_sent_ns[0] - turn.created_ns
        for turn in answered
        if turn.chunk_sent_ns and turn.created_ns is not None
    ]
    if not times_ns:
        print(f"{client}: nothing was answered")
        return False
    p50_ms, p90_ms = np.percentile(times_ns, [50, 90]) / 1e6
    print(
        f"{client}: first byte p50 {np.percentile(first_ns, 50) / 1e6:.0f} ms; endpoint's processor time "
        f"{measured.cpu_s / len(measured.turns):.2f} s per turn; load {measured.load:.1f} "
        f"on {os.cpu_count()} cores; {len(times_ns)} of {len(measured.turns)} responses heard"
    )
    print(
        f"assistant_latency, {client}: first audible p50 {p50_ms:.0f}, p90 {p90_ms:.0f} ms (aim <= {AIM_MS})"
    )
    return bool(p90_ms <= AIM_MS)


def main() -> int:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("clients", nargs="*", default=list(CLIENTS), help="clients to measure")
    parser.add_argument("--data", default="sample", help="recordings to play")
    parser.add_argument("--turns", type=int, default=12, help="how many of them")
    asked = parser.parse_args()
    met = [show(client, measure(client, asked.data, asked.turns)) for client in asked.clients]
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
