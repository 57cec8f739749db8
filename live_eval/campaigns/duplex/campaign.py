"""Run a duplex campaign: probe trials in one run and, optionally, in a second run with an impairment.

On disk, ``recordings/<campaign>/`` contains `duplex.json` (`DUPLEX_CAMPAIGN`), the stimuli and their manifest
in ``stimuli/``, and the runs ``clean/`` and ``impaired/``. A void trial is repeated by running its turns as
another repetition.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.trial import BEHAVIOUR, SENTINEL, TrialResult, last_attempts
from live_eval.campaigns.campaign import Campaign
from live_eval.campaigns.documents import DUPLEX_CAMPAIGN
from live_eval.campaigns.duplex.probes import (
    OWN,
    Probe,
    note_on_pauses,
    probes_for,
    sentinel,
    sessions_of,
    trials_of,
)
from live_eval.campaigns.duplex.stimuli import STIMULI_VERSION, Recorded, TrialScript, write_stimuli
from live_eval.campaigns.duplex.trial_results import CLEAN, IMPAIRED, MOST_ATTEMPTS, TrialReader, to_repeat
from live_eval.data import DataOptions, DataSet, load, locate, select
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.dialect import TransportKind
from live_eval.errors import UsageError
from live_eval.recording import TurnRecord
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.run_file import DataTable, ImpairTable, JudgesTable, RunConfig
from live_eval.run.runner import Observer
from live_eval.run.stop_signals import StopSignals
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = ["DuplexCampaign", "DuplexPlan"]

_SENTINEL_PARTS = ("start", "middle", "end")
_TRIAL_S = 12  # mean duration with the built-in endpoint
_OPENING = f"{SENTINEL}-{_SENTINEL_PARTS[0]}-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexPlan:
    """The plan of a duplex campaign.

    Args:
        config: Endpoint and turn settings; its data set, if any, contains the user's own recordings.
        probes: Probe names; empty for all.
        conditions: Names of the probes' conditions; empty for all.
        sentinel_turns: Number of turns in each drift check (start, middle and end); 0 for none.
        asserts: Assertions on the campaign, stored with it.
    """

    config: RunConfig = field(default_factory=RunConfig)
    probes: Sequence[str] = ()
    conditions: Sequence[str] = ()
    repeat: int = 8
    sentinel_turns: int = 3
    asserts: Sequence[str] = ()


class DuplexCampaign(Campaign):
    """A duplex campaign, which repeats void trials at most twice. See `Campaign` for the arguments.

    It stops if no session of the first drift check succeeds.

    Raises:
        UsageError: The plan contains an unknown name, or the endpoint does not support the plan.
        DataError: The user's recordings cannot be used.
        StoreError: See `Campaign`.
    """

    document = DUPLEX_CAMPAIGN

    def __init__(self, plan: DuplexPlan, folder: Path, *, resume: bool = False) -> None:
        self._plan = plan
        self._data = _data_of(plan)
        self._probes = probes_for(plan.probes, self._data, plan.conditions)
        seed = plan.config.turns.seed
        self._scripts = _in_order(trials_of(self._probes, plan.repeat, seed), plan.sentinel_turns, seed)
        self._recorded: set[tuple[str, str | None]] = set()  # trials recorded before the campaign was resumed
        order = [CLEAN, IMPAIRED] if plan.config.impair.specs else [CLEAN]
        trials = [script.trial for script in self._scripts]
        self._readers = {name: TrialReader(folder / name, trials) for name in order}
        self._results: dict[str, Sequence[TrialResult]] = {}
        base = make_plan(plan.config.model_copy(update={"data": DataTable()}))
        _check(base)  # rejects invalid settings before anything is written
        asked = {
            "probes": [probe.name for probe in self._probes],
            **({"conditions": list(plan.conditions)} if plan.conditions else {}),
            "repeat": plan.repeat,
            "sentinel_turns": plan.sentinel_turns,
            "stimuli": STIMULI_VERSION,
            "data": None if self._data is None else self._data.fingerprint,
            "recordings": None if self._data is None else plan.config.data.model_dump(mode="json"),
        }
        super().__init__(folder, base, order, {"trials": asked}, asserts=plan.asserts, resume=resume)

    @property
    def trials(self) -> Counter[str]:
        """The number of planned trials of each probe, in each run."""
        return Counter(script.trial.probe for script in self._scripts)

    # -- Preparation -------------------------------------------------------------------------------------

    def _recall(self, name: str, turns: Sequence[TurnRecord], *, ended: bool) -> None:
        self._recorded |= {(name, turn.case.dialogue_id) for turn in turns}

    def _progress(self) -> str:
        return f"{len(self._recorded)} of {counted(len(self._scripts) * len(self._order), 'trial')}"

    def _make_plans(self) -> Mapping[str, Plan]:
        config = _config_of(self._plan, write_stimuli(self._scripts, self._inputs()))
        self._launched = make_plan(config.model_copy(update={"impair": ImpairTable()}))
        plans = {CLEAN: self._launched}
        if IMPAIRED in self._order:
            plans[IMPAIRED] = make_plan(config)
        if self._data is not None:
            # the stimuli contain parts of the recordings
            licence = self._data.licence
            plans = {
                name: replace(each, data=replace(each.data, licence=licence)) for name, each in plans.items()
            }
        # Do not retry a trial without an answer, which would select trials by the endpoint's behaviour.
        return {name: replace(each, results=BEHAVIOUR) for name, each in plans.items()}

    def _notes_before(self) -> Sequence[str]:
        plans = self._plans.values()
        notes = [note for plan in plans for note in plan.notes if note not in plan.data.notes]
        if self._data is not None:
            notes = [
                *(self._data.notes if self._data.licence else self._data.omissions),
                _unused(self._data, self._probes),
                note_on_pauses(self._probes),
                *notes,
            ]
        return list(filter(None, notes))

    # -- Execution ---------------------------------------------------------------------------------------

    async def _run_step(self, step: int, observer: Observer, stop: StopSignals) -> str:
        name = self._order[step]
        minutes = math.ceil(len(self._scripts) * _TRIAL_S / self._plans[name].config.turns.concurrency / 60)
        observer.note(f"{name}: {counted(len(self._scripts), 'trial')}, about {minutes} min")
        for jobs in self._batches(name, observer):
            outcome = await self._run_jobs(name, jobs, observer, stop)
            last = last_attempts(await asyncio.to_thread(self._read, name))
            failed = [each.judgement.reason for each in last if each.outcome is Outcome.FAILED]
            if failed and len(failed) == len(last):
                return f"no session succeeded ({failed[0]})"
            if outcome.unreachable or stop.requested:
                return outcome.unreachable
            if outcome.missing:
                return f"{counted(outcome.missing, 'turn')} not recorded"
        await self._end(name)
        return ""

    def _batches(self, name: str, observer: Observer) -> Iterator[Sequence[Job]]:
        """Yield a run's jobs: the first drift check, then all trials, then repetitions of void trials."""
        planned = self._plans[name].jobs
        if opening := [job for job in planned if str(job.case.dialogue_id).startswith(_OPENING)]:
            yield opening
        jobs = list(planned)
        yield jobs
        for playing in range(1, MOST_ATTEMPTS):
            if not (void := to_repeat(self._results[name])):
                return
            observer.note(f"{name}: repeating {counted(len(void), 'void trial')}")
            jobs += [replace(job, repeat=playing) for job in planned if job.case.dialogue_id in void]
            yield jobs

    def _read(self, name: str) -> Sequence[TrialResult]:
        self._results[name] = self._readers[name].read()
        return self._results[name]

    # -- On disk ----------------------------------------------------------------------------------------

    def _count_failed(self) -> int:
        for name in self._order:
            if name not in self._results and self._has_begun(name):
                self._read(name)
        last = map(last_attempts, self._results.values())
        return sum(each.outcome is Outcome.FAILED for trials in last for each in trials)

    def _facts(self) -> dict[str, Any]:
        impairment = self._plans[IMPAIRED].impairment if IMPAIRED in self._plans else None
        return {
            "seed": self._plan.config.turns.seed,
            "stimuli": STIMULI_VERSION,
            "runs": {CLEAN: CLEAN, IMPAIRED: IMPAIRED if IMPAIRED in self._plans else None},
            "impairment": None if impairment is None else str(impairment),
            "trials": [
                {
                    "trial": each.trial_id,
                    "probe": each.probe,
                    "condition": each.condition,
                    "meant": list(each.meant),
                    **({"recorded": each.recorded} if each.recorded else {}),
                }
                for each in (script.trial for script in self._scripts)
            ],
        }


def _in_order(trials: Sequence[TrialScript], sentinel_turns: int, seed: int) -> list[TrialScript]:
    """Return the trials in random order, with drift checks before, between and after them."""
    shuffled = random.Random(seed).sample(trials, len(trials))
    start, middle, end = (sentinel(when, sentinel_turns) for when in _SENTINEL_PARTS)
    half = len(shuffled) // 2
    return [*start, *shuffled[:half], *middle, *shuffled[half:], *end]


def _data_of(plan: DuplexPlan) -> DataSet | None:
    table = plan.config.data
    if "path" not in table.model_fields_set:
        return None
    spec = BENCHMARKS.get(table.path.partition("/")[0])
    if OWN in plan.probes and spec is not None and not spec.takes_turns and not Path(table.path).exists():
        suitable = " and ".join(each.name for each in BENCHMARKS.values() if each.takes_turns)
        raise UsageError(
            f"--data {table.path}: {spec.title} has no annotations for the probe {OWN}, unlike {suitable}; "
            f"use live-eval {spec.command(table.path)}"
        )
    options = DataOptions(neutral_rule=table.neutral_rule, fields=table.fields, audio_root=table.audio_root)
    data = load(locate(table.path), options)
    cases = select(
        data.cases,
        part=table.part,
        cues=table.cues,
        topics=table.topics,
        variants=table.variants,
        case_ids=table.cases,
        limit=table.limit,
    )
    return replace(data, cases=tuple(cases))


def _unused(data: DataSet, probes: Sequence[Probe]) -> str:
    """Return a note on the user's recordings that no probe uses; an empty string if all are used."""
    pieces = (piece for lines in sessions_of(probes) for line in lines for piece in line.pieces)
    used = {piece.path for piece in pieces if isinstance(piece, Recorded)}
    unused = [case for case in data.cases if case.audio_path not in used]
    problems = [case.problem for case in unused if case.problem is not None]
    reasons = []
    if problems:
        reasons.append(f"{len(problems)} have a problem ({problems[0]})")
    if len(unused) > len(problems):
        reasons.append(f"{len(unused) - len(problems)} are not annotated and have no suitable cue")
    if not unused:
        return ""
    total = counted(len(data.cases), "recording")
    return f"{data.root}: {len(unused)} of {total} not used: {' and '.join(reasons)}"


def _config_of(plan: DuplexPlan, manifest: Path) -> RunConfig:
    """Return the run settings: the campaign's stimuli in order, and no judges."""
    turns = plan.config.turns
    changes: dict[str, Any] = {"repeat": 1, "shuffle": False}
    if "concurrency" not in turns.model_fields_set:
        changes["concurrency"] = 1
    return plan.config.model_copy(
        update={
            "data": DataTable(path=str(manifest), max_recording=plan.config.data.max_recording),
            "judges": JudgesTable(names=()),
            "turns": turns.model_copy(update=changes),
        }
    )


def _check(plan: Plan) -> None:
    """Raise an error if the endpoint cannot be interrupted."""
    spec = plan.spec
    if spec.transport_kind is TransportKind.HTTP:
        raise UsageError(
            f"{spec.name} makes one request per turn and has no session in which to speak over a reply"
        )
    if plan.turn_mode is TurnMode.MANUAL:
        raise UsageError(
            f"{spec.name} with manual turns receives the user's speech only when a turn is committed, so the "
            "user cannot interrupt it: expected the turn mode server_vad or full_duplex"
        )
