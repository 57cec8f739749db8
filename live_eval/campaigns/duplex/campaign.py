"""A campaign: trials of probes, all in one ordinary run, and the same again with an impairment.

On disk, ``recordings/<campaign>/`` holds `duplex.json` (`DUPLEX_CAMPAIGN`), the stimuli with their manifest
in ``stimuli/``, and the runs in ``clean/`` and ``impaired/``. A void trial is played again as a repetition of
its turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from live_eval.campaigns.duplex.outcomes import Outcome
from live_eval.campaigns.duplex.probes import (
    SENTINEL,
    Probe,
    Trial,
    note_on_pauses,
    probes_for,
    sentinel,
    sessions_of,
    trials_of,
)
from live_eval.campaigns.duplex.stimuli import STIMULI_VERSION, Recorded, StimulusTrial, write_stimuli
from live_eval.campaigns.duplex.trials import MOST_PLAYINGS, PlayedTrial, TrialFacts, read_trials
from live_eval.data import DataOptions, DataSet, load, locate, select
from live_eval.dialect import TransportKind
from live_eval.errors import StoreError, UsageError
from live_eval.files import private_folder
from live_eval.recording import RunWriter
from live_eval.recording.campaign_documents import DUPLEX_CAMPAIGN
from live_eval.recording.contents import check_new
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.run_file import DataTable, ImpairTable, JudgesTable, RunConfig
from live_eval.run.runner import Observer, play, running_endpoint
from live_eval.run.stop_signals import StopSignals
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = [
    "CLEAN",
    "IMPAIRED",
    "DuplexCampaign",
    "DuplexObserver",
    "DuplexOutcome",
    "DuplexPlan",
]

CLEAN = "clean"
"""Folder of the run without impairment."""
IMPAIRED = "impaired"
"""Folder of the run with it."""

_STIMULI = "stimuli"
_SENTINEL_PARTS = ("start", "middle", "end")
_OPENING = f"{SENTINEL}-{_SENTINEL_PARTS[0]}-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexPlan:
    """What a campaign asks of an endpoint.

    Args:
        config: The endpoint and how turns are played. Data that it names are the user's own recordings.
        probes: Names of probes; empty for all.
        repeat: Trials of each condition.
        sentinel_turns: Turns of the sentinel at the start, in the middle and at the end; 0 for none.
    """

    config: RunConfig = field(default_factory=RunConfig)
    probes: Sequence[str] = ()
    repeat: int = 8
    sentinel_turns: int = 3


class DuplexObserver(Observer, Protocol):
    """Follows a campaign; drives the progress bar."""

    def run(self, name: str, void: int) -> None:
        """A run begins, or plays so many void trials again."""
        ...


@dataclass(frozen=True, slots=True)
class DuplexOutcome:
    """How a campaign ended.

    Args:
        failed: Trials whose session failed.
        interrupted: Whether the user stopped it.
        stopped: Why it stopped before its end; empty if it did not.
    """

    failed: int
    interrupted: bool
    stopped: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether nothing stopped it."""
        return not (self.interrupted or self.stopped)


class DuplexCampaign:
    """Plays a campaign into a folder.

    Everything is looked up, and the stimuli are made, before anything is played: call it off the event loop.

    Args:
        plan: What to ask.
        folder: The campaign's folder, new or empty; created if missing.

    Raises:
        UsageError: The plan names what does not exist, or the endpoint cannot do what it asks for.
        DataError: The user's recordings cannot be used.
        StoreError: The folder holds a campaign or something else already, or cannot be written.
    """

    def __init__(self, plan: DuplexPlan, folder: Path) -> None:
        self.folder = folder
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        seed = plan.config.turns.seed
        data = _data_of(plan)
        probes = probes_for(plan.probes, data)
        self._data_notes = (_unused(data, probes), note_on_pauses(probes)) if data is not None else ()
        trials = _in_order(trials_of(probes, plan.repeat, seed), plan.sentinel_turns, seed)
        self._facts = [
            TrialFacts(trial_id=each.trial_id, probe=each.probe, condition=each.condition, meant=each.meant)
            for each in trials
        ]
        _check(
            make_plan(plan.config.model_copy(update={"data": DataTable()}))
        )  # refuses what is wrong before anything is written
        if (folder / DUPLEX_CAMPAIGN.file_name).exists():
            raise StoreError(f"{folder}: holds a campaign already; choose another folder")
        check_new(folder, "a campaign", (f"{DUPLEX_CAMPAIGN.file_name}.part",), (_STIMULI,))
        stimuli = [
            StimulusTrial(trial_id=each.trial_id, topic=each.probe, lines=each.lines) for each in trials
        ]
        try:
            manifest = write_stimuli(stimuli, private_folder(folder) / _STIMULI)
        except OSError as error:
            raise StoreError(
                f"{folder}: expected a folder to write a campaign to: {error.strerror}"
            ) from None
        config = _config_of(plan, manifest)
        self._plans = {CLEAN: make_plan(config.model_copy(update={"impair": ImpairTable()}))}
        if config.impair.specs:
            self._plans[IMPAIRED] = make_plan(config)
        self._greetings = Greetings.of(self._plans[CLEAN])

    @property
    def notes(self) -> Sequence[str]:
        """What is worth knowing about the campaign, one sentence each."""
        plans = self._plans.values()
        notes = [note for plan in plans for note in plan.notes if note not in plan.data.notes]
        return tuple(dict.fromkeys(filter(None, (*self._data_notes, *notes))))

    @property
    def key_recipient(self) -> str | None:
        """Which host receives the endpoint's key, as `Plan.key_recipient` says it."""
        return self._plans[CLEAN].key_recipient

    async def hold(self, observer: DuplexObserver, stop: StopSignals | None = None) -> DuplexOutcome:
        """Play the trials; void ones are played again, at most twice.

        Stops where no session of the first sentinel could be held. What was recorded until then is kept.

        Args:
            observer: Follows the campaign.
            stop: The signals of the command; None to handle them while playing only.
        """
        await asyncio.to_thread(self._write, complete=False)
        failed = 0
        with contextlib.nullcontext() if stop is None else stop.gently():
            async with running_endpoint(self._plans[CLEAN], self.folder) as base_url:
                for name, plan in self._plans.items():
                    ended = await self._play(name, plan, base_url, observer, stop)
                    failed += ended.failed
                    if not ended.goes_on:
                        return replace(ended, failed=failed)
        await asyncio.to_thread(self._write, complete=True)
        return DuplexOutcome(failed, interrupted=False)

    async def _play(
        self, name: str, plan: Plan, base_url: str, observer: DuplexObserver, stop: StopSignals | None
    ) -> DuplexOutcome:
        """Play one run."""
        folder = self.folder / name
        writer = await asyncio.to_thread(lambda: RunWriter.create(folder, plan.manifest()))
        reached = name == IMPAIRED  # the clean run is over, and it ends where nothing could be reached
        run = _Run(
            plan, writer, folder, self._facts, base_url, observer, stop, self._greetings, reached=reached
        )
        ended: DuplexOutcome | None = None
        try:
            ended = await run.play(name)
        finally:
            finished = ended is not None and ended.goes_on
            await asyncio.to_thread(writer.end, finished=finished)
        return ended

    def _write(self, *, complete: bool) -> None:
        plan = self._plans[CLEAN]
        facts: dict[str, Any] = {
            "endpoint": plan.spec.name,
            "created": self._created,
            "complete": complete,
            "seed": plan.config.turns.seed,
            "stimuli": STIMULI_VERSION,
            "notes": list(self.notes),
            "runs": {CLEAN: CLEAN, IMPAIRED: IMPAIRED if IMPAIRED in self._plans else None},
            "impairment": str(self._plans[IMPAIRED].impairment) if IMPAIRED in self._plans else None,
            "trials": [
                {
                    "trial": each.trial_id,
                    "probe": each.probe,
                    "condition": each.condition,
                    "meant": list(each.meant),
                }
                for each in self._facts
            ],
        }
        DUPLEX_CAMPAIGN.write(self.folder, facts)


class _Run:
    """One run of a campaign while it is played."""

    def __init__(
        self,
        plan: Plan,
        writer: RunWriter,
        folder: Path,
        facts: Sequence[TrialFacts],
        base_url: str,
        observer: DuplexObserver,
        stop: StopSignals | None,
        greetings: Greetings,
        *,
        reached: bool,
    ) -> None:
        self._plan = plan
        self._writer = writer
        self._folder = folder
        self._facts = facts
        self._base_url = base_url
        self._observer = observer
        self._stop = stop
        self._greetings = greetings
        self._last: dict[str, PlayedTrial] = {}
        self._reached = reached

    async def play(self, name: str) -> DuplexOutcome:
        """Play the first sentinel, then every trial, then those again that were void."""
        self._observer.run(name, 0)
        jobs = list(self._plan.jobs)
        opening = [job for job in jobs if str(job.case.dialogue_id).startswith(_OPENING)]
        if opening:
            ended = await self._play_jobs(opening)
            if not ended.goes_on:
                return ended
        for playing in range(1, MOST_PLAYINGS + 1):
            ended = await self._play_jobs(jobs)
            void = {trial_id for trial_id, trial in self._last.items() if trial.outcome.repeats}
            if not (ended.goes_on and void):
                break
            if playing < MOST_PLAYINGS:
                self._observer.run(name, len(void))
                jobs += [Job(job.case, playing) for job in self._plan.jobs if job.case.dialogue_id in void]
        return ended

    async def _play_jobs(self, jobs: Sequence[Job]) -> DuplexOutcome:
        """Play what of these turns has not been played yet, and read the trials so far."""
        plan = replace(self._plan, jobs=tuple(jobs))
        outcome = await play(
            plan,
            self._writer,
            self._folder,
            self._observer,
            base_url=self._base_url,
            stop=self._stop,
            reached=self._reached,
            greetings=self._greetings,
        )
        self._reached = outcome.reached
        trials = await asyncio.to_thread(read_trials, self._folder, self._facts)
        self._last = {trial.facts.trial_id: trial for trial in trials}  # the last playing of each
        failed = [trial.judgement.reason for trial in trials if trial.outcome is Outcome.FAILED]
        all_failed = bool(failed) and len(failed) == len(trials)
        stopped = f"no session could be held ({failed[0]})" if all_failed else outcome.unreachable
        if outcome.missing and not (stopped or outcome.interrupted):
            stopped = f"{counted(outcome.missing, 'turn')} not recorded"
        return DuplexOutcome(len(failed), outcome.interrupted, stopped)


def _in_order(trials: Sequence[Trial], sentinel_turns: int, seed: int) -> list[Trial]:
    """Return trials in random order, with the sentinel before, amid and after them."""
    shuffled = random.Random(seed).sample(trials, len(trials))
    start, middle, end = (sentinel(when, sentinel_turns) for when in _SENTINEL_PARTS)
    half = len(shuffled) // 2
    return [*start, *shuffled[:half], *middle, *shuffled[half:], *end]


def _data_of(plan: DuplexPlan) -> DataSet | None:
    """Return the user's recordings, if the plan names any."""
    table = plan.config.data
    if "path" not in table.model_fields_set:
        return None
    options = DataOptions(neutral_rule=table.neutral_rule, fields=table.fields, audio_root=table.audio_root)
    data = load(locate(table.path), options)
    cases = select(
        data.cases,
        cues=table.cues,
        topics=table.topics,
        variants=table.variants,
        case_ids=table.cases,
        limit=table.limit,
    )
    return replace(data, cases=tuple(cases))


def _unused(data: DataSet, probes: Sequence[Probe]) -> str:
    """Return a note on the user's recordings that no probe plays; empty if each is played."""
    pieces = (piece for lines in sessions_of(probes) for line in lines for piece in line.pieces)
    played = {piece.path for piece in pieces if isinstance(piece, Recorded)}
    unused = sum(case.audio_path not in played for case in data.cases)
    return (
        f"{data.root}: {unused} of {counted(len(data.cases), 'recording')} not played: not annotated, or no "
        "speaker who pauses"
        if unused
        else ""
    )


def _config_of(plan: DuplexPlan, manifest: Path) -> RunConfig:
    """Return the settings of the campaign's run: its stimuli, in their order, and no judges."""
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
    """Raise if the endpoint cannot be talked over."""
    spec = plan.spec
    if spec.transport_kind is TransportKind.HTTP:
        raise UsageError(f"{spec.name} makes one request for each turn: it has no session to speak over")
    if plan.turn_mode is TurnMode.MANUAL:
        raise UsageError(
            f"{spec.name} with manual turns hears the user only when a turn is committed, so it cannot be "
            "spoken over: expected the turn mode server_vad or full_duplex"
        )
