"""Measure the gain in precision from simultaneous runs, and their cost in accuracy.

Two scripted endpoints differ by 50 ms; the delay of both, or only of the second, drifts by several hundred
milliseconds. They run separately and simultaneously, and the benchmark prints the width of the interval of
the paired difference in `first_byte`. Shared drift represents the load of a provider or a network; drift of
one endpoint alone cannot cancel.

With ``--accuracy``, it prints the error of `first_byte` against the true times with one and with three
simultaneous endpoints instead, next to the lateness of a bare timer. With ``--live``, it prints the same for
a person's conversation, and the lateness of the person's frames, with and without judges that score it, in
rounds of balanced order; then for all rounds together. Run these on a quiet machine.
"""

from __future__ import annotations

import asyncio
import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import _benchmark
import numpy as np
from _recordings import write_speech
from numpy.typing import NDArray
from rich.console import Console

from live_eval.analysis.comparison.run_comparison import compare_runs
from live_eval.analysis.comparison.series import read_runs
from live_eval.audio import read_audio, resample
from live_eval.calibrate import timer_lateness
from live_eval.clock import SystemClock
from live_eval.dialect import EndpointSettings
from live_eval.live import AudioSide, LiveConversation
from live_eval.live.parties import Parties, Party
from live_eval.live.quick_scores import live_options
from live_eval.live.screen import LiveScreen
from live_eval.live.shared_conversation import SharedConversation
from live_eval.live.standings import Standing
from live_eval.recording import RunReader, RunWriter, ScoreReader, TurnRecord
from live_eval.reference.engine.signals import MARK
from live_eval.reference.server.process import ReferenceProcess
from live_eval.reference.truth import TrueReply, read_truth
from live_eval.run.observers import Observer
from live_eval.run.plan import Plan, make_live_plan, make_plan
from live_eval.run.run_file import validate
from live_eval.run.simultaneous import SimultaneousRun, onset_spreads_ms, run_simultaneously
from live_eval.session.event_loop import run, undisturbed
from live_eval.types import Case

SPEECH = _benchmark.ROOT / "live_eval/data/sample/data_human/audio/fast/le_101_fast_work_target.flac"
RATE_HZ = 24_000
SPEECH_MS = 500
DIFFERENCE_MS = 50
DRIFT_MS = 300
PERIOD_S = 45.0
ROUNDS = 2
STORED_S = 3.0
SPEECH_S, PAUSE_S = 0.6, 0.9  # of a person's turn
AIM_MS = 1.0
JUDGES = "prosody,dnsmos,distillmos,wer_spoken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted(Plan):
    """A plan in which the endpoint's delay depends on the time of dialling."""

    delay_ms: Callable[[], float]
    label: str

    def settings(self, base_url: str, case: Case | None = None) -> EndpointSettings:
        """See `Plan.settings`."""
        settings = Plan.settings(self, base_url, case)
        name = f"{self.label}-{case.case_id if case is not None else ''}"
        query = f"delay_ms={round(self.delay_ms())}&reply_ms=200&label={name}"
        return replace(settings, base_url=f"{settings.base_url}?{query}")


def scripted(base_url: str, manifest: Path, label: str, delay_ms: Callable[[], float]) -> Scripted:
    """Return a plan for an endpoint with these delays."""
    plan = make_plan(
        validate(
            {
                "endpoint": {"name": "reference", "base_url": base_url},
                "data": {"path": str(manifest)},
                "turns": {"concurrency": 1, "word_times": "off"},
            }
        )
    )
    given = {field.name: getattr(plan, field.name) for field in fields(Plan)}
    return Scripted(**given, delay_ms=delay_ms, label=label)


def drifting(base_ms: float, *, drifts: bool) -> Callable[[], float]:
    """Return a delay that swings with the time of day if it drifts."""
    if not drifts:
        return lambda: base_ms + DRIFT_MS
    return lambda: base_ms + DRIFT_MS * (1 + math.sin(2 * math.pi * time.monotonic() / PERIOD_S))


async def play(folder: Path, plans: Sequence[Scripted]) -> list[Path]:
    """Run plans simultaneously, and return their folders."""
    folders = [folder / plan.label for plan in plans]
    manifests = [plan.manifest() for plan in plans]
    writers = [RunWriter.create(out, made) for out, made in zip(folders, manifests, strict=True)]
    runs = [
        SimultaneousRun(plan=plan, writer=writer, folder=out, observer=Observer())
        for plan, writer, out in zip(plans, writers, folders, strict=True)
    ]
    await run_simultaneously(runs)
    for writer in writers:
        writer.end()
        writer.close()
    return folders


async def gain(cases: int) -> None:
    """Print the widths of the intervals."""
    print(f"{cases} cases, true difference {DIFFERENCE_MS} ms, drift ±{DRIFT_MS} ms over {PERIOD_S:g} s")
    with TemporaryDirectory() as name:
        folder = Path(name)
        manifest = write_speech(folder, [SPEECH_MS] * cases)
        async with ReferenceProcess(calibrate=True, log_folder=folder) as process:
            for drift, of_first in (("shared", True), ("of the second endpoint", False)):
                for together in (False, True):
                    out = folder / f"{of_first}-{together}"
                    plans = [
                        scripted(process.base_url, manifest, "a", drifting(100, drifts=of_first)),
                        scripted(process.base_url, manifest, "b", drifting(100 + DIFFERENCE_MS, drifts=True)),
                    ]
                    if together:
                        folders = await play(out, plans)
                    else:
                        folders = [each for plan in plans for each in await play(out, [plan])]
                    compared = compare_runs(read_runs(folders), ["first_byte"]).as_json()
                    found = compared["comparisons"][0]["metrics"]["first_byte"]
                    low, high = found["interval"]
                    spreads = onset_spreads_ms(folders) if together else []
                    apart = f"; speech began within {max(spreads):.0f} ms" if spreads else ""
                    print(
                        f"drift {drift}, {'simultaneous' if together else 'one after the other'}: "
                        f"{found['difference']:+.0f} ms, interval {low:.0f} to {high:.0f}, "
                        f"width {high - low:.0f} ms{apart}"
                    )


async def accuracy(cases: int) -> None:
    """Print the errors of `first_byte` against the true times."""
    clock = SystemClock()
    for endpoints in (1, 3):
        with TemporaryDirectory() as name:
            folder = Path(name)
            manifest = write_speech(folder, [SPEECH_MS] * cases)
            truth = folder / "truth.jsonl"
            with undisturbed():
                floor = await timer_lateness(clock)
            async with ReferenceProcess(calibrate=True, truth=truth, log_folder=folder) as process:
                pick = np.random.default_rng(0).uniform
                plans = [
                    scripted(process.base_url, manifest, f"run{place}", functools.partial(pick, 100, 600))
                    for place in range(endpoints)
                ]
                folders = await play(folder, plans)
            known = {reply.label: reply for reply in read_truth(truth).replies}
            errors = []
            for out in folders:
                with RunReader.open(out) as stored:
                    for turn in stored.turns():
                        true = known.get(f"{out.name}-{turn.case.case_id}")
                        ours_ns = turn.timing.first_byte.ns
                        if true is not None and ours_ns is not None and true.first_byte_ns is not None:
                            errors.append((ours_ns - true.first_byte_ns) / 1e6)
            found = np.asarray(errors)
            print(
                f"{endpoints} at once, {len(found)} turns: first_byte bias {found.mean():.2f}, "
                f"p50 {np.percentile(abs(found), 50):.2f}, p99 {np.percentile(abs(found), 99):.2f} ms "
                f"(bare timer p99 {np.percentile(floor, 99) / 1e6:.2f})"
            )


async def live(utterances: int, judges: Sequence[str]) -> None:
    """Print the error of `first_byte` and the lateness of a person's frames, with and without judges."""
    conditions: Sequence[tuple[int, Sequence[str]]] = ((1, ()), (1, judges), (3, judges), (3, ()))
    rounds: list[list[Lateness]] = [[] for _ in conditions]
    for turn in range(ROUNDS):
        for number in range(len(conditions))[:: 1 - turn % 2 * 2]:
            with TemporaryDirectory() as name:
                rounds[number].append(await lateness(Path(name), *conditions[number], utterances))
            print(rounds[number][-1].in_words(*conditions[number]), flush=True)
    print("all rounds:")
    pooled = [Lateness.of(each) for each in rounds]
    for condition, each in zip(conditions, pooled, strict=True):
        print(each.in_words(*condition))
    worst = max(each.p99_ms for each in pooled)
    print(f"simultaneous: first_byte p99 {worst:.2f} ms in the worst condition (aim {AIM_MS:g})")


@dataclass(frozen=True, slots=True)
class Lateness:
    """The errors of a conversation, in ms.

    Args:
        expected: Number of replies due.
        errors: Errors of `first_byte`.
        frames: Lateness of the person's frames.
        floor: Lateness of a bare timer before the conversation.
    """

    expected: int
    scores: int
    errors: NDArray[np.float64]
    frames: NDArray[np.float64]
    floor: NDArray[np.float64]

    @classmethod
    def of(cls, rounds: Sequence[Lateness]) -> Lateness:
        """Return the errors of several conversations."""
        arrays = [
            np.concatenate([getattr(each, name) for each in rounds]) for name in ("errors", "frames", "floor")
        ]
        return cls(sum(each.expected for each in rounds), sum(each.scores for each in rounds), *arrays)

    @property
    def p99_ms(self) -> float:
        """The p99 of the absolute errors."""
        return float(np.percentile(abs(self.errors), 99))

    def in_words(self, endpoints: int, judges: Sequence[str]) -> str:
        """Describe the errors."""
        p50, frame_p50, frame_p99 = (
            np.percentile(values, share)
            for values, share in ((abs(self.errors), 50), (self.frames, 50), (self.frames, 99))
        )
        return (
            f"{endpoints} endpoints, {len(judges)} judges, {self.scores} scores: "
            f"{len(self.errors)} of {self.expected} replies; first_byte bias {self.errors.mean():.2f}, "
            f"p50 {p50:.2f}, p99 {self.p99_ms:.2f}, max {abs(self.errors).max():.2f} ms; "
            f"frames late by p50 {frame_p50:.2f}, p99 {frame_p99:.2f} ms "
            f"(bare timer p99 {np.percentile(self.floor, 99):.2f})"
        )


async def lateness(folder: Path, endpoints: int, judges: Sequence[str], utterances: int) -> Lateness:
    """Talk to endpoints simultaneously, and return the errors."""
    speech = resample(read_audio(SPEECH).audio, RATE_HZ).int16()[: round(SPEECH_S * RATE_HZ)]
    speech[-1] = MARK
    said = [speech, np.zeros(round(PAUSE_S * RATE_HZ), np.int16)] * utterances
    options = live_options()
    truth = folder / "truth.jsonl"
    with undisturbed():
        floor = await timer_lateness(SystemClock())
    async with ReferenceProcess(calibrate=True, truth=truth, log_folder=folder) as process:
        parties = Parties(
            [
                Party(
                    name,
                    live_plan(f"{process.base_url}?delay_ms={delay_ms}&reply_ms=200&label={name}"),
                    folder / name,
                    judges,
                    options,
                )
                for name, delay_ms in (("a", 100), ("b", 200), ("c", 300))[:endpoints]
            ]
        )
        with parties.conversation(Silent(), {}, device_hz=RATE_HZ) as conversation:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(conversation.run())
                tasks.create_task(show(conversation, parties.standings))
                await speak(conversation, np.concatenate([np.zeros(RATE_HZ, np.int16), *said]))
                conversation.stop()
                tasks.create_task(without_scores(conversation))
    known = read_truth(truth).replies
    errors: list[float] = []
    late = [np.empty(0, np.int64)]
    scores = 0
    for party in parties.all:
        with RunReader.open(party.folder) as stored:
            for record in stored.turns():
                late.append(record.trace.frame_sent_ns - record.trace.frame_deadline_ns)
                errors += first_byte_errors_ms(record, [each for each in known if each.label == party.name])
        if judges:
            with ScoreReader.open(party.folder) as scored:
                scores += len(list(scored.read()))
    return Lateness(
        endpoints * utterances,
        scores,
        np.asarray(errors),
        np.concatenate(late) / 1e6,
        np.asarray(floor) / 1e6,
    )


def first_byte_errors_ms(record: TurnRecord, known: Sequence[TrueReply]) -> list[float]:
    """Return the error of each reply's first byte; speech ends with the frame that contains the mark."""
    errors = []
    for response in record.responses:
        for true in known:
            if (
                true.response_id == response.response_id
                and true.voice_end_ns is not None
                and true.first_byte_ns is not None
            ):
                sent = int(np.abs(record.trace.frame_sent_ns - true.voice_end_ns).argmin())
                measured_ns = int(response.chunk_arrival_ns[0]) - int(record.trace.frame_deadline_ns[sent])
                errors.append((measured_ns - true.first_byte_ns) / 1e6)
    return errors


def live_plan(base_url: str) -> Plan:
    """Return the plan of a conversation with an endpoint."""
    return make_live_plan(validate({"endpoint": {"name": "reference", "base_url": base_url}}))


async def without_scores(conversation: LiveConversation | SharedConversation) -> None:
    """Skip missing scores once the turns are stored."""
    await asyncio.sleep(STORED_S)
    conversation.stop()


async def show(conversation: LiveConversation | SharedConversation, standings: Sequence[Standing]) -> None:
    """Draw the screen to a discarded file."""
    with LiveScreen(standings, "", Console(file=StringIO(), force_terminal=True, width=120)) as screen:
        async for update in conversation.updates():
            screen.show(update)


async def speak(conversation: LiveConversation | SharedConversation, pcm: NDArray[np.int16]) -> None:
    """Push a device's blocks at the pace of speech."""
    clock = SystemClock()
    block = RATE_HZ // 100
    due_ns = clock.now_ns()
    for begin in range(0, len(pcm) - block, block):
        due_ns += 10_000_000
        await clock.sleep_until(due_ns)
        conversation.push(pcm[begin : begin + block], clock.now_ns())


class Silent:
    """An output device that plays nothing."""

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """See `AudioSink.play`."""

    def drop(self) -> None:
        """See `AudioSink.drop`."""


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--judges", default=JUDGES)
    given = parser.parse_args()
    if given.live:
        run(live(given.cases, given.judges.split(",")))
    else:
        run((accuracy if given.accuracy else gain)(given.cases))


if __name__ == "__main__":
    main()
