"""Costs that grow with the number of turns: the writer's time and the folder size.

The bundled sample is run once against the reference endpoint. The benchmark measures the CPU time to decode
the turns, then stores the same turns repeatedly under other names, in a run of `TURNS` turns. The first and
last tenth show whether storing slows down as a run grows. `benchmarks/pages.py` measures reading large runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import _benchmark
import numpy as np

from live_eval.recording import RunWriter
from live_eval.recording.record import TurnRecord, turn_id
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.session.event_loop import run

TURNS = 2_000
SESSIONS = 8
AIM_MS = 20.0  # 50 turns per second: a million in less than six hours


class TimedWriter(RunWriter):
    """A writer that records the time of each turn and the total time of the writer thread."""

    def commit(self, record: TurnRecord) -> None:
        """See `RunWriter.commit`."""
        began_s, cpu_s = time.monotonic(), time.thread_time()
        super().commit(record)
        self.took_ms.append(1000 * (time.monotonic() - began_s))
        self.thread_ms = 1000 * time.thread_time()
        self.commit_cpu_ms.append(self.thread_ms - 1000 * cpu_s)
        self.records.append(record)

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> TimedWriter:
        """See `RunWriter.create`."""
        writer = super().create(path, manifest)
        assert isinstance(writer, cls)
        writer.took_ms, writer.commit_cpu_ms, writer.records = [], [], []
        return writer

    took_ms: list[float]
    commit_cpu_ms: list[float]
    thread_ms: float
    records: list[TurnRecord]


async def played(folder: Path) -> tuple[Plan, Sequence[TurnRecord]]:
    """Run the sample; print the time of a turn; return the plan and the turns."""
    async with ReferenceProcess(log_folder=folder) as process:
        plan = make_plan(
            validate(
                {
                    "endpoint": {"name": "reference", "base_url": process.base_url},
                    "data": {"path": "sample"},
                    "turns": {"concurrency": SESSIONS, "processes": 2, "word_times": "off"},
                }
            )
        )
        writer = TimedWriter.create(folder / "played", plan.manifest())
        with writer:
            await run_plan(plan, writer, folder / "played", Observer())
    turns = writer.records
    seconds = np.mean([(int(turn.trace.frame_sent_ns[-1]) - turn.trace.dial_ns) / 1e9 for turn in turns])
    stored_ms = np.mean(writer.commit_cpu_ms)
    decoded_ms = writer.thread_ms / len(turns) - stored_ms
    print(
        f"{len(turns)} turns of {seconds:.1f} s; decoding, timing and log {decoded_ms:.1f} ms of the "
        "processor a turn"
    )
    return plan, turns


def stored(folder: Path, plan: Plan, turns: Sequence[TurnRecord], number: int) -> float:
    """Store this many turns; print the time; return milliseconds per turn."""
    writer = TimedWriter.create(folder, plan.manifest())
    with writer:
        for count in range(number):
            turn, repeat = turns[count % len(turns)], count // len(turns)
            writer.commit(replace(turn, repeat=repeat, turn_id=turn_id(turn.case, repeat)))
            writer.records.clear()
        writer.end(finished=True)
    tenth = max(1, number // 10)
    first, last = np.mean(writer.took_ms[:tenth]), np.mean(writer.took_ms[-tenth:])
    files = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    database = (folder / "run.sqlite").stat().st_size
    print(
        f"{number} turns stored: {np.mean(writer.took_ms):.1f} ms a turn (first tenth {first:.1f}, last "
        f"{last:.1f}), {np.mean(writer.commit_cpu_ms):.1f} ms of the processor; "
        f"{database / number / 1e3:.1f} kB of database and {(sum(files) - database) / number / 1e3:.0f} kB "
        f"of audio, {len(files) / number:.1f} files a turn"
    )
    return float(np.mean(writer.took_ms))


async def main(number: int) -> None:
    with TemporaryDirectory(prefix="live-eval-large-") as name:
        folder = Path(name)
        plan, turns = await played(folder)
        took_ms = stored(folder / "large", plan, turns, number)
    print(f"large_run: {took_ms:.1f} ms a turn in the one writer (aim <= {AIM_MS:g})")


if __name__ == "__main__":
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    run(main(parser.parse_args().turns))
