"""Run the same cases on several endpoints at the same moments (``live-eval run A B --simultaneous``)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from live_eval.clock import SystemClock
from live_eval.errors import LiveEvalError, UsageError
from live_eval.recording import RunReader, RunWriter
from live_eval.run.observers import Observer
from live_eval.run.pairing import PairedRun, Pairing
from live_eval.run.plan import Plan
from live_eval.run.runner import RunnerFactory, RunOutcome, run_plan
from live_eval.run.sessions import SessionRunner, local_runner
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import ungrouped

__all__ = ["SimultaneousRun", "check_same_turns", "onset_spreads_ms", "run_simultaneously"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimultaneousRun:
    """One of several simultaneous runs; the fields are arguments of `run_plan`."""

    plan: Plan
    writer: RunWriter
    folder: Path
    observer: Observer
    retry_failed: bool = False


def check_same_turns(plans: Mapping[str, Plan]) -> None:
    """Check that all plans (by name) have the same data and turns.

    Raises:
        UsageError: The data or the turns differ.
    """
    (first, expected), *others = plans.items()
    turns = {job.turn_id for job in expected.jobs}
    for name, plan in others:
        if plan.data.fingerprint != expected.data.fingerprint or {job.turn_id for job in plan.jobs} != turns:
            raise UsageError(
                f"simultaneous runs require the same turns, but the turns of {first} and {name} differ"
            )


async def run_simultaneously(
    runs: Sequence[SimultaneousRun], stop: StopSignals | None = None
) -> list[RunOutcome | LiveEvalError]:
    """Run plans with the same turns; each session starts in all runs at the same moment.

    A run that has ended, failed or given up on its endpoint does not delay the others. During an outage of an
    endpoint, the other runs wait for at most that run's patience.

    Returns:
        Each run's outcome, or the error that ended it.
    """
    pairing = Pairing(len(runs))
    own = StopSignals(for_command=False)
    async with contextlib.AsyncExitStack() as stack:
        signals = stop or stack.enter_context(own)
        shared: SessionRunner | None = None
        if not all(run.plan.processes for run in runs):
            # A single runner spreads the frames of all sessions in this process over the length of a frame.
            shared = await stack.enter_async_context(local_runner(SystemClock()))
        results = await asyncio.gather(
            *(
                _run(run, paired, signals, None if run.plan.processes else shared)
                for run, paired in zip(runs, pairing.runs, strict=True)
            ),
            return_exceptions=True,
        )
    outcomes: list[RunOutcome | LiveEvalError] = []
    for result in results:
        if not isinstance(result, RunOutcome | LiveEvalError):
            raise result
        outcomes.append(result)
    return outcomes


async def _run(
    run: SimultaneousRun, paired: PairedRun, stop: StopSignals, shared: SessionRunner | None
) -> RunOutcome:
    runner: RunnerFactory | None = None
    if shared is not None:
        runner = _given(shared)
    with ungrouped():
        return await run_plan(
            run.plan,
            run.writer,
            run.folder,
            run.observer,
            stop=stop,
            runner=runner,
            retry_failed=run.retry_failed,
            paired=paired,
        )


def _given(runner: SessionRunner) -> RunnerFactory:
    return lambda base_url: contextlib.nullcontext(runner)


def onset_spreads_ms(folders: Sequence[Path]) -> list[float]:
    """Return, for each shared session of simultaneous runs, how far apart the user's onsets were."""
    began: list[dict[str, int]] = []
    for folder in folders:
        with RunReader.open(folder) as run:
            began.append(
                {
                    turn.turn_id: started
                    for turn in run.turns()
                    if (started := turn.speech_start_wall_ns) is not None and turn.case.turn_index == 0
                }
            )
    common = set.intersection(*map(set, began))
    spans = ([times[turn_id] for times in began] for turn_id in common)
    return [(max(times) - min(times)) / 1e6 for times in spans]
