"""Measure live-eval's own error against known times, for a transport and a load.

The reference endpoint runs in a separate process, with different settings for each turn, and logs the true
times on the machine's monotonic clock: the arrival of the end of the user's speech (a marked sample or, over
a lossy codec, the last audible packet), the sending of each chunk, and the onset of the reply. Turns are
captured and stored as in a run, and then compared with the true times.

Opus delays a reply by 6.5 ms, both in the true times and at the client. The remaining error is the codec's
smearing before the reply's onset: 0.3 ms on average, 1.3 ms at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import frames_of
from live_eval.clock import Clock, SystemClock
from live_eval.dialect import EndpointSettings, TransportKind
from live_eval.errors import LiveEvalError, UsageError
from live_eval.recording import RunWriter
from live_eval.recording.calibrations import FEWEST_TURNS, KeptCalibration
from live_eval.recording.record import TurnRecord, finish
from live_eval.reference import REFERENCE
from live_eval.reference.emulation import calibration_client, emulation_of
from live_eval.reference.engine.signals import MarkedSpeech, calibration_speech
from live_eval.reference.server.process import ReferenceProcess
from live_eval.reference.truth import TrueReply, read_truth
from live_eval.registry import client
from live_eval.run.processes import session_runner
from live_eval.run.sessions import Cpu, SessionOrder, SessionRunner
from live_eval.session import Utterance
from live_eval.session.event_loop import (
    Priority,
    raise_priority,
    stagger_ns,
    undisturbed,
)
from live_eval.session.limits import SessionLimits
from live_eval.transport import Transport
from live_eval.types import Case, SpeechBoundaries, StampKind, Variant

__all__ = ["Calibration", "CalibrationPlan", "calibrate", "client_for"]

_FLOOR_WAKES = 500
_FLOOR_EVERY_NS = 5_000_000
_SHORT = {TransportKind.WEBSOCKET: "ws", TransportKind.WEBRTC: "webrtc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPlan:
    """The plan of a calibration.

    Args:
        endpoint: Client to calibrate; the reference endpoint emulates its service.
        speech_ms: Shortest and longest user speech.
        delay_ms: Shortest and longest endpoint delay after the end of speech.
        lead_silence_ms: Shortest and longest silence before the reply.
        cadences: Chunk pacing, chosen for each turn: ``burst`` or ``realtime``.
        noise: Whether to keep all cores busy with other processes.
        processes: Number of processes that run the sessions; 0 for the main process.
        floor_wakes: Number of wakes that measure the machine's floor.
    """

    endpoint: str = REFERENCE
    sessions: int = 1
    turns: int = 200
    speech_ms: tuple[int, int] = (600, 1_400)
    delay_ms: tuple[int, int] = (100, 600)
    lead_silence_ms: tuple[int, int] = (0, 300)
    reply_ms: int = 600
    chunk_ms: int = 100
    cadences: tuple[str, ...] = ("burst", "realtime")
    seed: int = 0
    noise: bool = False
    processes: int = 0
    floor_wakes: int = _FLOOR_WAKES


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The result of a calibration.

    Args:
        errors_ns: Measured minus true values, by latency, int64, shape (turns,); without ``first_byte`` on
            continuous media.
        arrival_ns: Delay from sending a reply's chunk to the arrival timestamp, int64, shape (chunks,). The
            network is loopback, so the delay is the timestamp error.
        send_ns: Lateness of user frames when passed to the kernel, int64, shape (frames,).
        floor_ns: Lateness of a bare timer loop before and after the turns, int64, shape (wakes,).
        stamped_turns: Number of turns by timestamp source.
        failed: Turns that were not captured or have no true times, with the reasons.
        session_s: Seconds of streamed audio, summed over the sessions.
        cpu_s: CPU seconds of this process, including storage, and of the processes that run its sessions.
        loop_cpu_s: CPU seconds of the threads that run the sessions' event loops.
    """

    plan: CalibrationPlan
    errors_ns: Mapping[str, NDArray[np.int64]]
    lag_ns: NDArray[np.int64]
    arrival_ns: NDArray[np.int64]
    send_ns: NDArray[np.int64]
    floor_ns: NDArray[np.int64]
    stamped_turns: Mapping[StampKind, int]
    priority: Priority
    failed: Sequence[str]
    session_s: float
    cpu_s: float
    loop_cpu_s: float

    @property
    def cpu_ms_per_session_s(self) -> float:
        """CPU milliseconds per second of a session, in both directions, including storage."""
        return 1000 * self.cpu_s / self.session_s

    @property
    def loop_cpu_ms_per_session_s(self) -> float:
        """CPU milliseconds of the threads that run event loops, per second of a session."""
        return 1000 * self.loop_cpu_s / self.session_s

    def as_json(self) -> dict[str, Any]:
        """Return statistics in ms: bias is the mean error; p50 and p99 refer to absolute errors."""
        return {
            "transport": _SHORT[client(self.plan.endpoint).transport_kind],
            "endpoint": self.plan.endpoint,
            "sessions": self.plan.sessions,
            "turns": self.plan.turns,
            "n": len(self.lag_ns),
            "failed": len(self.failed),
            "errors_ms": {name: _error_spread(errors) for name, errors in self.errors_ns.items()},
            "lag_ms": _spread(self.lag_ns),
            "floor_ms": _spread(self.floor_ns),
            "send_lateness_ms": _spread(self.send_ns),
            "arrival_ms": _error_spread(self.arrival_ns),
            "stamps": self._stamps.value,
            "stamped_turns": {kind.value: turns for kind, turns in self.stamped_turns.items()},
            "noise": self.plan.noise,
            "priority": self.priority.value,
            "processes": self.plan.processes,
            "cpu_ms_per_session_s": round(self.cpu_ms_per_session_s, 3),
            "loop_cpu_ms_per_session_s": round(self.loop_cpu_ms_per_session_s, 3),
        }

    def kept(self, now: datetime) -> KeptCalibration:
        """Return the calibration record for later reports."""
        return KeptCalibration(
            date=now.isoformat(timespec="seconds"),
            transport=client(self.plan.endpoint).transport_kind.value,
            sessions=self.plan.sessions,
            noise=self.plan.noise,
            processes=self.plan.processes,
            stamps=self._stamps.value,
            errors_p99_ms={name: _percentile(np.abs(ns), 99) for name, ns in self.errors_ns.items()},
            floor_p99_ms=_percentile(self.floor_ns, 99),
            turns=len(self.lag_ns),
        )

    @property
    def _stamps(self) -> StampKind:
        return max(self.stamped_turns)  # `USER` if this process stamped any turn

    @property
    def why_not_kept(self) -> str:
        """The reason why the result is not stored as the error bar of later reports; empty if it is."""
        default = client_for(_SHORT[client(self.plan.endpoint).transport_kind])
        if self.failed:
            return f"{len(self.failed)} turns failed"
        if len(self.lag_ns) < FEWEST_TURNS:
            return f"fewer than {FEWEST_TURNS} turns were measured ({len(self.lag_ns)})"
        if self.plan.endpoint != default:
            return f"only calibrations of the transport's default client ({default}) are"
        return ""


def client_for(transport: str) -> str:
    """Return the default client of a transport, ``ws`` or ``webrtc``."""
    return calibration_client(next(kind for kind, short in _SHORT.items() if short == transport))


async def calibrate(
    plan: CalibrationPlan, *, transport: Callable[[Clock], Transport] | None = None
) -> Calibration:
    """Run turns against the reference endpoint and compare the measured latencies with the true times.

    Args:
        plan: Calibration plan.
        transport: Transport factory, for in-process tests; None for the client's transport.

    Raises:
        LiveEvalError: The endpoint could not be started, or no turn could be compared.
        UsageError: The plan cannot be carried out.
    """
    emulation = await asyncio.to_thread(emulation_of, plan.endpoint)  # blocking: reads entry points from disk
    if emulation.exclusive and plan.sessions > 1:
        raise UsageError(f"{plan.endpoint} runs one session at a time, but {plan.sessions} were requested")
    if plan.processes and transport is not None:
        raise UsageError("expected either a custom transport or session processes, got both")
    folder = await asyncio.to_thread(TemporaryDirectory, prefix="live-eval-calibrate-")
    try:
        return await _measure(plan, transport, Path(folder.name))
    finally:
        await asyncio.to_thread(folder.cleanup)


async def _measure(
    plan: CalibrationPlan, transport: Callable[[Clock], Transport] | None, folder: Path
) -> Calibration:
    truth = folder / "truth.jsonl"
    async with ReferenceProcess(calibrate=True, truth=truth, log_folder=folder) as endpoint:
        bench = await asyncio.to_thread(_Bench, plan, endpoint.origin, transport)
        writer = await asyncio.to_thread(RunWriter.create, folder / "run", {"calibration": True})
        try:
            with _noise() if plan.noise else contextlib.nullcontext():
                measured = await bench.run(writer)
        finally:
            await asyncio.to_thread(writer.close)
    known = await asyncio.to_thread(lambda: {turn.label: turn for turn in read_truth(truth).replies})
    return _compare(plan, measured, known)


class _Bench:
    """Run the turns of a calibration."""

    def __init__(
        self,
        plan: CalibrationPlan,
        origin: str,
        transport: Callable[[Clock], Transport] | None,
    ) -> None:
        self._plan = plan
        self._emulation = emulation_of(plan.endpoint)
        self._base_url = origin + self._emulation.base_path
        self._clock: Clock = SystemClock()
        self._random = random.Random(plan.seed)
        self._spec = client(plan.endpoint)
        self._transport = transport
        self._writing = ThreadPoolExecutor(1, "writer", None if plan.processes else raise_priority)
        self._sessions: SessionRunner
        self._records: list[TurnRecord] = []

    async def run(self, writer: RunWriter) -> _Measured:
        """Run all turns, and store them with their audio."""
        queue = iter(range(self._plan.turns))
        floor = await self._floor()
        async with session_runner(
            self._spec, self._clock, processes=self._plan.processes, transport=self._transport
        ) as self._sessions:
            priority = self._sessions.priority
            before = self._sessions.cpu()
            async with asyncio.TaskGroup() as workers:
                for worker in range(min(self._plan.sessions, self._plan.turns)):
                    workers.create_task(self._work(worker, queue, writer))
            await asyncio.to_thread(self._writing.shutdown)
            cpu = Cpu(*(after - then for after, then in zip(self._sessions.cpu(), before, strict=True)))
        floor = np.concatenate((floor, await self._floor()))
        return _Measured(self._records, floor, priority, cpu)

    async def _floor(self) -> NDArray[np.int64]:
        with undisturbed():
            return await timer_lateness(self._clock, self._plan.floor_wakes)

    async def _work(self, worker: int, queue: Iterator[int], writer: RunWriter) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + stagger_ns(worker, self._plan.sessions))
        spec = self._spec
        for number in queue:
            speech = calibration_speech(
                self._random.randint(*self._plan.speech_ms),
                spec.input_rate_hz,
                spec.frame_ms,
                lossy=self._emulation.lossy_input,
            )
            record = await self._turn(number, speech, writer)
            self._records.append(record)

    async def _turn(self, number: int, speech: MarkedSpeech, writer: RunWriter) -> TurnRecord:
        pick = self._random
        spec = self._spec
        query = (
            f"label={_turn_name(number)}&delay_ms={pick.randint(*self._plan.delay_ms)}"
            f"&lead_silence_ms={pick.randint(*self._plan.lead_silence_ms)}"
            f"&reply_ms={self._plan.reply_ms}&chunk_ms={self._plan.chunk_ms}"
            f"&cadence={pick.choice(self._plan.cadences)}"
        )
        boundaries = SpeechBoundaries(
            onset_ns=0,
            voice_end_ns=speech.voice_end_sample * 1_000_000_000 // spec.input_rate_hz,
            method="annotation",
        )
        frames = frames_of(speech.audio.int16(), spec.input_rate_hz * spec.frame_ms // 1000)
        order = SessionOrder(
            dialect=spec.dialect,
            transport=spec.transport,
            settings=EndpointSettings(base_url=f"{self._base_url}?{query}"),
            turn_mode=spec.turn_modes[0],
            limits=SessionLimits(reply_s=10, stall_s=5, silence_s=0.5),
            utterances=[Utterance(frames=frames, frame_ns=spec.frame_ms * 1_000_000, boundaries=boundaries)],
        )
        session = await self._sessions.run(order)
        case = Case(
            case_id=_turn_name(number),
            script_id=_turn_name(number),
            variant=Variant.NEUTRAL,
            audio_path=Path("calibration"),
        )

        def finish_and_store() -> TurnRecord:
            (capture,), (log,) = session.captures, session.logs(order)
            record = finish(replace(capture, log=log), case, speech.audio, repeat=0, attempt=1)
            writer.commit(record)
            return replace(record, audio=(), both_sides=None, log=())

        return await asyncio.get_running_loop().run_in_executor(self._writing, finish_and_store)


async def timer_lateness(clock: Clock, wakes: int = _FLOOR_WAKES) -> NDArray[np.int64]:
    """Return the lateness of an idle event loop, which is the machine's floor: int64, ns, shape (wakes,)."""
    late_ns: list[int] = []
    due_ns = clock.now_ns()
    for _ in range(wakes):
        due_ns = max(due_ns, clock.now_ns()) + _FLOOR_EVERY_NS
        await clock.sleep_until(due_ns)
        late_ns.append(clock.now_ns() - due_ns)
    return np.asarray(late_ns, np.int64)


@contextlib.contextmanager
def _noise() -> Iterator[None]:
    """Load every core with a separate process."""
    # Each process watches whether its parent has ended, since the parent may be killed.
    program = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
    busy = [subprocess.Popen((sys.executable, "-c", program)) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def _compare(plan: CalibrationPlan, measured: _Measured, truth: Mapping[str, TrueReply]) -> Calibration:
    records = measured.records
    frame_ns = client(plan.endpoint).frame_ms * 1_000_000
    errors: dict[str, list[int]] = {}
    lags: list[int] = []
    failed: list[str] = []
    session_s = 0.0
    arrivals: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    sends: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for record in records:
        true = truth.get(record.turn_id)
        timing, trace = record.timing, record.trace
        sends.append(trace.frame_sent_ns - trace.frame_deadline_ns)
        session_s += len(trace.frame_sent_ns) * frame_ns / 1e9
        if record.failure is not None:
            failed.append(f"{record.turn_id}: {record.failure.kind}: {record.failure.message}")
            continue
        pairs = {"voice_to_voice": (timing.voice_to_voice.ns, true.voice_to_voice_ns if true else None)}
        if not trace.continuous:
            pairs["first_byte"] = (timing.first_byte.ns, true.first_byte_ns if true else None)
        compared = {
            name: ours_ns - its_ns
            for name, (ours_ns, its_ns) in sorted(pairs.items())
            if ours_ns is not None and its_ns is not None
        }
        if len(compared) < len(pairs):
            missing = ", ".join(sorted(pairs.keys() - compared.keys()))
            failed.append(f"{record.turn_id}: no measured or true value of {missing}")
            continue
        for name, error_ns in compared.items():
            errors.setdefault(name, []).append(error_ns)
        lags.append(timing.lag_ns)
        assert true is not None
        # Pieces of a continuous medium are cut by this client; an equal number of chunks is a coincidence.
        for response in () if trace.continuous else trace.responses:
            if len(response.chunk_arrival_ns) == len(true.chunk_sent_ns):  # no chunk was lost or merged
                arrivals.append(response.chunk_arrival_ns - np.asarray(true.chunk_sent_ns, np.int64))
    if not lags:
        raise LiveEvalError(f"could not compare any of {len(records)} turns; first reason: {failed[0]}")
    arrays = {name: np.asarray(values, np.int64) for name, values in errors.items()}
    return Calibration(
        plan=plan,
        errors_ns=arrays,
        lag_ns=np.asarray(lags, np.int64),
        arrival_ns=np.concatenate(arrivals),
        send_ns=np.concatenate(sends),
        floor_ns=measured.floor_ns,
        stamped_turns=Counter(record.trace.stamps for record in records),
        priority=measured.priority,
        failed=failed,
        session_s=session_s,
        cpu_s=measured.cpu.total_s,
        loop_cpu_s=measured.cpu.loops_s,
    )


def _turn_name(number: int) -> str:
    return f"turn-{number}"


def _error_spread(errors_ns: NDArray[np.int64]) -> dict[str, float]:
    absolute = np.abs(errors_ns)
    if not len(errors_ns):
        return {}
    return {
        "bias": round(float(errors_ns.mean()) / 1e6, 3),
        "p50": _percentile(absolute, 50),
        "p99": _percentile(absolute, 99),
    }


def _spread(values_ns: NDArray[np.int64]) -> dict[str, float]:
    return {"p50": _percentile(values_ns, 50), "p99": _percentile(values_ns, 99)}


def _percentile(values_ns: NDArray[np.int64], percent: float) -> float:
    return round(float(np.percentile(values_ns, percent)) / 1e6, 3)


class _Measured(NamedTuple):
    """The turns, the lateness of a bare timer loop, and the CPU time of streaming."""

    records: list[TurnRecord]
    floor_ns: NDArray[np.int64]
    priority: Priority
    cpu: Cpu
