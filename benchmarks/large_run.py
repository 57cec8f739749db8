"""Costs that grow with the number of turns: the writer's time, the folder size, and reading time.

The bundled sample is run once against the reference endpoint. The benchmark measures the CPU time to decode
the turns and the data size of transfers to and from another machine. It then stores the same turns repeatedly
under other names, in a run of `TURNS` turns, which `show` and `report` read. The first and last tenth show
whether storing slows down as a run grows. docs/how-to/cluster.md uses these values.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import _benchmark
import numpy as np
from _peak_memory import measured

from live_eval.clock import SystemClock
from live_eval.recording import RunWriter
from live_eval.recording.record import TurnRecord, turn_id
from live_eval.reference.server.process import ReferenceProcess
from live_eval.run.plan import Plan, make_plan
from live_eval.run.processes import session_runner
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, run_plan
from live_eval.run.sessions import Cpu, SessionOrder, SessionResult, SessionRunner
from live_eval.session.event_loop import Priority, run

TURNS = 2_000
SESSIONS = 8
AIM_MS = 20.0  # 50 turns per second: a million in less than six hours
WITHIN_S = 3_600.0


class TimedWriter(RunWriter):
    """A writer that records the time of each turn, and of all work in the writer thread."""

    def commit(self, record: TurnRecord) -> None:
        """As `RunWriter.commit`."""
        began_s, cpu_s = time.monotonic(), time.thread_time()
        super().commit(record)
        self.took_ms.append(1000 * (time.monotonic() - began_s))
        self.thread_ms = 1000 * time.thread_time()
        self.commit_cpu_ms.append(self.thread_ms - 1000 * cpu_s)
        self.records.append(record)

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> TimedWriter:
        """As `RunWriter.create`."""
        writer = super().create(path, manifest)
        assert isinstance(writer, cls)
        writer.took_ms, writer.commit_cpu_ms, writer.records = [], [], []
        return writer

    took_ms: list[float]
    commit_cpu_ms: list[float]
    thread_ms: float
    records: list[TurnRecord]


class Scales:
    """A `SessionRunner` that records the sizes of requests and results."""

    def __init__(self, inner: SessionRunner, order_mb: list[float], answer_mb: list[float]) -> None:
        self._inner = inner
        self._order_mb, self._answer_mb = order_mb, answer_mb

    @property
    def priority(self) -> Priority:
        """As `SessionRunner.priority`."""
        return self._inner.priority

    @property
    def facts(self) -> Mapping[str, Any]:
        """As `SessionRunner.facts`."""
        return self._inner.facts

    async def run(self, order: SessionOrder, on_ready: Callable[[], None] | None = None) -> SessionResult:
        """As `SessionRunner.run`."""
        self._order_mb.append(len(pickle.dumps(order)) / 1e6)
        session = await self._inner.run(order, on_ready)
        self._answer_mb.append(len(pickle.dumps(session)) / 1e6)
        return session

    def cpu(self) -> Cpu:
        """As `SessionRunner.cpu`."""
        return self._inner.cpu()


async def played(folder: Path) -> tuple[Plan, Sequence[TurnRecord]]:
    """Run the sample; print the time and size of a turn; return the plan and the turns."""
    order_mb: list[float] = []
    answer_mb: list[float] = []
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

        @contextlib.asynccontextmanager
        async def runner(_base_url: str) -> AsyncIterator[SessionRunner]:
            async with session_runner(plan.spec, SystemClock(), processes=2) as inner:
                yield Scales(inner, order_mb, answer_mb)

        writer = TimedWriter.create(folder / "played", plan.manifest())
        with writer:
            await run_plan(plan, writer, folder / "played", Observer(), runner=runner)
    turns = writer.records
    seconds = np.mean([(int(turn.trace.frame_sent_ns[-1]) - turn.trace.dial_ns) / 1e9 for turn in turns])
    stored_ms = np.mean(writer.commit_cpu_ms)
    decoded_ms = writer.thread_ms / len(turns) - stored_ms
    print(f"{len(turns)} turns of {seconds:.1f} s; an order {np.mean(order_mb):.2f} MB, an answer ", end="")
    print(
        f"{np.mean(answer_mb):.2f} MB; decoding, timing and log {decoded_ms:.1f} ms of the processor a turn"
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
        for command in (["show"], ["report", "--out", str(folder / "report.html")]):
            read = await measured(
                [sys.executable, "-m", "live_eval", *command, str(folder / "large")], within_s=WITHIN_S
            )
            print(f"{command[0]}: {read.seconds:.1f} s, {read.peak_mb:.0f} MB, exit status {read.status}")
    print(f"large_run: {took_ms:.1f} ms a turn in the one writer (aim <= {AIM_MS:g})")


if __name__ == "__main__":
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    run(main(parser.parse_args().turns))
