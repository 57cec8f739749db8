"""A campaign: points of controlled load, played one after the other, each as an ordinary run.

On disk, `recordings/<campaign>/` holds `campaign.json` (`CAMPAIGN_SCHEMA`), the recordings that the campaign
made for itself in `inputs/`, and the run of each point in a folder of the point's name.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from live_eval.dialect import TransportKind
from live_eval.errors import FailureKind, LiveEvalError, StoreError, UsageError
from live_eval.profile.inputs import write_inputs, write_sentinel
from live_eval.profile.points import (
    LONGEST_WARM,
    CampaignPlan,
    CampaignPoint,
    CampaignStep,
    PointRole,
    SessionKind,
    steps_of,
)
from live_eval.profile.watch import LoadWatch, WallClockWatch, queued
from live_eval.recording import RunWriter, part_of
from live_eval.recording.calibrations import nearest
from live_eval.recording.record import TurnRecord
from live_eval.redaction import SECRETS
from live_eval.registry import client
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.run_file import DataTable, JudgesTable, RunConfig
from live_eval.run.runner import Observer, play, running_endpoint, sessions_of
from live_eval.session.event_loop import innermost
from live_eval.text.files import atomic_write
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = ["CAMPAIGN_FILE", "CAMPAIGN_SCHEMA", "Campaign", "CampaignObserver", "CampaignOutcome"]

CAMPAIGN_FILE = "campaign.json"
CAMPAIGN_SCHEMA = 1

_INPUTS = "inputs"


class CampaignObserver(Observer, Protocol):
    """Follows a campaign; drives the progress bar."""

    def step(self, number: int, total: int, point: CampaignPoint) -> None:
        """Step `number` of `total` begins: it plays a point, or half of one."""
        ...


@dataclass(frozen=True, slots=True)
class CampaignOutcome:
    """How a campaign ended.

    Args:
        failed: Turns that were not captured.
        interrupted: Whether the user stopped it.
        stopped: Why it stopped before its end; empty if it did not.
        notes: What else is worth knowing, one sentence each.
    """

    failed: int
    interrupted: bool
    stopped: str
    notes: tuple[str, ...] = ()


class Campaign:
    """Plays a campaign into a folder.

    Everything is looked up, and the recordings are made, before anything is played: call it off the event
    loop.

    Args:
        plan: What to measure.
        folder: The campaign's folder; created if missing.

    Raises:
        UsageError: The plan names what does not exist, or the endpoint cannot do what it asks for.
        DataError: The data set cannot be used.
        StoreError: The folder holds a campaign already, or cannot be written.
    """

    def __init__(self, plan: CampaignPlan, folder: Path) -> None:
        self.folder = folder
        self._plan = plan
        self._steps = steps_of(plan)
        self._priority: str | None = None
        self._held: int | None = None
        self._ended: defaultdict[str, _Ended] = defaultdict(_Ended)  # by point
        self._writers: dict[str, RunWriter] = {}
        self._begun: list[CampaignPoint] = []
        self._created = datetime.now(UTC).isoformat(timespec="seconds")
        _check(plan)
        self._base = make_plan(_base_of(plan))  # refuses what is wrong before anything is written
        if (folder / CAMPAIGN_FILE).exists():
            raise StoreError(f"{folder}: holds a campaign already; choose another folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"{folder}: expected a folder to write a campaign to: {error.strerror}"
            ) from None
        points = {step.point.name: step.point for step in self._steps}
        self._plans = {name: self._plan_of(point) for name, point in points.items()}
        plans = (self._base, *self._plans.values())
        self._notes = list(dict.fromkeys(note for each in plans for note in each.notes))

    @property
    def notes(self) -> Sequence[str]:
        """What is worth knowing about the campaign, one sentence each."""
        return tuple(self._notes)

    async def hold(self, observer: CampaignObserver) -> CampaignOutcome:
        """Play the points, and keep `campaign.json` up to date.

        Stops where the machine or the sessions cannot hold the load, and where not one turn of a point was
        captured. What was recorded until then is kept.

        Args:
            observer: Follows the campaign.
        """
        stopped, interrupted, complete = "", False, False
        known = len(self._notes)
        try:
            async with running_endpoint(self._base, self.folder) as base_url:  # once for all points
                for number, step in enumerate(self._steps, 1):
                    observer.step(number, len(self._steps), step.point)
                    stopped, interrupted = await self._play(step, base_url, observer)
                    if stopped or interrupted:
                        break
                else:
                    complete = True
        finally:
            came_up = tuple(self._notes[known:])
            self._notes += [stopped] * bool(stopped)
            await asyncio.to_thread(self._leave, complete=complete)
        failed = sum(ended.failures.total() for ended in self._ended.values())
        return CampaignOutcome(failed, interrupted, stopped, came_up)

    # -- Before -----------------------------------------------------------------------------------------

    def _plan_of(self, point: CampaignPoint) -> Plan:
        """Return the plan of a point's run."""
        config = self._config_of(point)
        plan = make_plan(config)
        if plan.jobs and len(plan.jobs) < point.turns:
            repeat = -(-point.turns // len(plan.jobs))
            plan = make_plan(_with_turns(config, repeat=repeat))
        jobs = plan.jobs[: point.turns]
        if point.sessions is SessionKind.COLD:
            jobs = tuple(Job(replace(job.case, dialogue_id=None, turn_index=0), job.repeat) for job in jobs)
        else:
            jobs = tuple(_warm(jobs, point.concurrency))
        sessions = len(sessions_of(jobs))
        if sessions < point.concurrency and not point.arrivals.open_loop:
            raise UsageError(
                f"{point.name}: expected at least as many sessions as are held at a time; "
                f"{counted(len(jobs), 'turn')} of the data's dialogues make {sessions}"
            )
        return replace(plan, jobs=jobs)

    def _config_of(self, point: CampaignPoint) -> RunConfig:
        config = self._base.config
        data = config.data
        inputs = self.folder / _INPUTS
        if point.role is PointRole.SENTINEL:
            data = DataTable(path=str(write_sentinel(inputs / "sentinel")))
        elif point.input_s is not None:
            cases = [job.case for job in self._base.jobs]
            folder = inputs / f"{point.input_s:g}s"
            data = DataTable(path=str(write_inputs(cases, point.input_s, folder)))
        endpoint = config.endpoint.model_copy(update={"turn_detection": dict(point.turn_detection)})
        config = config.model_copy(update={"data": data, "endpoint": endpoint})
        return _with_turns(config, concurrency=point.concurrency, mode=point.turn_mode)

    # -- Meanwhile --------------------------------------------------------------------------------------

    async def _play(self, step: CampaignStep, base_url: str, observer: CampaignObserver) -> tuple[str, bool]:
        """Play a step; return why the campaign stops, if it does, and whether the user stopped it."""
        point = step.point
        plan = self._plans[point.name]
        if step.half:
            sessions = sessions_of(plan.jobs)
            plan = replace(plan, jobs=tuple(job for jobs in sessions[: len(sessions) // 2] for job in jobs))
        writer = await asyncio.to_thread(self._begin, point)
        load = LoadWatch(point.concurrency, point.arrivals.per_s, self._held)
        ended = self._ended[point.name]
        watch = _Watch(observer, load, ended, holds_sessions=not plan.config.turns.processes)
        starts = point.arrivals.starts(plan.config.turns.seed + step.half)
        folder = self.folder / point.name
        stopped, interrupted = "", False
        try:
            outcome = await play(plan, writer, folder, watch, starts=starts, base_url=base_url)
            interrupted = outcome.interrupted
        except* _OverloadError as overload:
            stopped = str(innermost(overload))
        self._notes += watch.steps_of_wall_clock
        self._priority = part_of(writer.manifest, "machine").get("priority", self._priority)
        if ended.failures and not (stopped or interrupted or ended.captured):
            stopped = f"no turn of {point.name} was captured ({ended.most_common()}): the campaign stops here"
        queue = (
            None
            if stopped or (step.half and not interrupted)
            else queued(ended.start_delays_ns, point.concurrency)
        )
        if queue is not None:
            self._notes.append(f"{point.name}: {queue}")
        if not (stopped or interrupted or step.half):
            await asyncio.to_thread(self._writers.pop(point.name).end)
            if point.role is not PointRole.SENTINEL and not point.arrivals.open_loop:
                self._held = max(self._held or 0, point.concurrency)
        return stopped, interrupted

    def _begin(self, point: CampaignPoint) -> RunWriter:
        """Return the store of a point's run; create it if need be."""
        if point.name not in self._writers:
            manifest = self._plans[point.name].manifest()
            self._writers[point.name] = RunWriter.create(self.folder / point.name, manifest)
            self._begun.append(point)
            self._write(complete=False)
        return self._writers[point.name]

    # -- On disk ----------------------------------------------------------------------------------------

    def _leave(self, *, complete: bool) -> None:
        for writer in self._writers.values():
            writer.end(finished=False)
        self._write(complete=complete)

    def _write(self, *, complete: bool) -> None:
        most = max(point.concurrency for point in self._begun) if self._begun else 1
        calibration = nearest(self._base.spec.transport_kind.value, most, self._base.config.turns.processes)
        document = {
            "schema": CAMPAIGN_SCHEMA,
            "endpoint": self._base.spec.name,
            "created": self._created,
            "arrivals": str(self._plan.arrivals),
            "points": [self._as_json(point) for point in self._begun],
            "complete": complete,
            "notes": self._notes,
            "price": asdict(self._plan.price) if self._plan.price is not None else None,
            "machine": {
                "priority": self._priority,
                "calibration": calibration.model_dump() if calibration is not None else None,
            },
        }
        path = self.folder / CAMPAIGN_FILE
        try:
            with atomic_write(path) as part:
                part.write_text(json.dumps(SECRETS.values(document), indent=2) + "\n", "utf-8")
        except OSError as error:
            raise StoreError(f"{path}: cannot be written: {error.strerror}") from None

    def _as_json(self, point: CampaignPoint) -> dict[str, Any]:
        return {
            "name": point.name,
            "run": point.name,
            "role": point.role.value,
            "concurrency": point.concurrency,
            "arrivals": str(point.arrivals),
            "input_s": point.input_s,
            "turn_detection": dict(point.turn_detection),
            "turn_mode": self._plans[point.name].turn_mode.value,
            "sessions": point.sessions.value,
        }


class _OverloadError(LiveEvalError):
    """The load of a point cannot be held; the message says what could be."""


class _Ended:
    """The turns of a point that have ended, those of both halves together."""

    def __init__(self) -> None:
        self.captured = 0
        self.failures: Counter[FailureKind] = Counter()
        self.start_delays_ns: list[int] = []

    def take(self, record: TurnRecord) -> None:
        """Count a turn."""
        if record.trace.intended_ns is not None:
            self.start_delays_ns.append(record.trace.dial_ns - record.trace.intended_ns)
        if record.failure is None:
            self.captured += 1
        else:
            self.failures[record.failure.kind] += 1

    def most_common(self) -> str:
        """Return the kinds of failure with their numbers, in words."""
        return ", ".join(f"{count} × {kind}" for kind, count in self.failures.most_common())


class _Watch:
    """Follows one step of a campaign as an `Observer`, and ends it where the load cannot be held."""

    def __init__(
        self, observer: CampaignObserver, load: LoadWatch, ended: _Ended, *, holds_sessions: bool
    ) -> None:
        self._observer = observer
        self._ended = ended
        self._holds_sessions = holds_sessions  # this process itself
        self._load = load
        self._wall_clock = WallClockWatch()
        self._began_ns = self._cpu_ns = 0
        self.steps_of_wall_clock: list[str] = []

    def preparing(self, done: int, total: int) -> None:
        self._observer.preparing(done, total)

    def playing(self, total: int, already: int) -> None:
        self._began_ns, self._cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        self._observer.playing(total, already)

    def waiting(self, seconds: float, why: str) -> None:
        self._observer.waiting(seconds, why)

    def turn(self, record: TurnRecord) -> None:
        """Count a turn that has ended.

        Raises:
            _OverloadError: The turns so far show that the load cannot be held.
        """
        self._observer.turn(record)
        self._ended.take(record)
        step = self._wall_clock.take(record)
        if step is not None:
            self.steps_of_wall_clock.append(step)
        self._load.take(record)
        cpu_ns = time.thread_time_ns() - self._cpu_ns if self._holds_sessions else None
        why = self._load.overload(time.monotonic_ns() - self._began_ns, cpu_ns)
        if why is not None:
            raise _OverloadError(why)


def _base_of(plan: CampaignPlan) -> RunConfig:
    """Return what all points share: no judges, and no further attempts, which would hide failures."""
    config = plan.config.model_copy(update={"judges": JudgesTable(names=())})
    return _with_turns(config, concurrency=plan.concurrency[0], repeat=1, retries=0)


def _with_turns(config: RunConfig, **turns: Any) -> RunConfig:
    return config.model_copy(update={"turns": config.turns.model_copy(update=turns)})


def _check(plan: CampaignPlan) -> None:
    """Raise if the endpoint cannot do what a point asks for."""
    spec = client(plan.config.endpoint.name)
    if spec.transport_kind is TransportKind.HTTP and SessionKind.WARM in plan.sessions:
        raise UsageError(f"{spec.name} makes one request for each turn: it has no warm sessions")
    modes = (TurnMode.SERVER_VAD, TurnMode.MANUAL)
    if plan.endpointing and not set(modes) <= set(spec.turn_modes):
        raise UsageError(
            f"endpointing needs the turn modes {' and '.join(modes)}; {spec.name} offers "
            f"{', '.join(spec.turn_modes)}"
        )


def _warm(jobs: Sequence[Job], concurrency: int) -> Iterator[Job]:
    """Let turns that are not part of a dialogue share sessions, as dialogues of up to ten turns.

    As many sessions as are held at a time have turns, if there are enough.
    """
    longest = max(1, min(LONGEST_WARM, len(jobs) // concurrency))
    for repeat, played in itertools.groupby(jobs, key=lambda job: job.repeat):
        single = 0
        for job in played:
            case = job.case
            if case.dialogue_id is None:
                name, index = f"warm-{single // longest + 1}", single % longest
                case = replace(case, dialogue_id=name, turn_index=index)
                single += 1
            yield Job(case, repeat)
