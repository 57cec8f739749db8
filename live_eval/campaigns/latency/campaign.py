"""A campaign: points of controlled load, played one after the other, each as an ordinary run.

On disk, `recordings/<campaign>/` holds `campaign.json` (see `campaign_file`), the recordings that the
campaign made for itself in `inputs/`, and the run of each point in a folder of the point's name.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from live_eval.campaigns.latency.campaign_file import (
    CAMPAIGN_FILE,
    check_same_plan,
    plan_as_json,
    read_campaign_file,
    write_campaign_file,
)
from live_eval.campaigns.latency.inputs import write_inputs, write_sentinel
from live_eval.campaigns.latency.points import (
    LONGEST_WARM,
    CampaignPlan,
    CampaignPoint,
    CampaignStep,
    PointRole,
    SessionKind,
    steps_of,
)
from live_eval.campaigns.latency.step_watch import EndedTurns, OverloadError, StepWatch
from live_eval.campaigns.latency.watch import LoadWatch
from live_eval.dialect import TransportKind
from live_eval.errors import StoreError, UsageError
from live_eval.files import private_folder
from live_eval.recording import RUN_FILE, RunReader, RunWriter, own_folder, part_of
from live_eval.recording.calibrations import nearest
from live_eval.recording.contents import check_new
from live_eval.redaction import public_settings
from live_eval.registry import client
from live_eval.run.greetings import Greetings
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.run_file import DataTable, JudgesTable, RunConfig
from live_eval.run.runner import Observer, play, running_endpoint, sessions_of
from live_eval.run.spread import default_processes
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import innermost
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = ["Campaign", "CampaignObserver", "CampaignOutcome"]

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
    """

    failed: int
    interrupted: bool
    stopped: str


class Campaign:
    """Plays a campaign into a folder.

    Everything is looked up, and the recordings are made, before anything is played: call it off the event
    loop.

    Args:
        plan: What to measure.
        folder: The campaign's folder, new or empty; created if missing.
        resume: Whether to continue the campaign in the folder: ended points stay, and the others go on.

    Raises:
        UsageError: The plan names what does not exist, or the endpoint cannot do what it asks for.
        DataError: The data set cannot be used.
        StoreError: The folder holds a campaign or something else already, or none to continue, or one with
            another plan; or it cannot be written.
    """

    def __init__(self, plan: CampaignPlan, folder: Path, *, resume: bool = False) -> None:
        self.folder = folder
        self._plan = plan
        self._steps = steps_of(plan)
        self._points = {step.point.name: step.point for step in self._steps}
        self._held: int | None = None
        self._reached = False
        self._ended_turns: defaultdict[str, EndedTurns] = defaultdict(EndedTurns)  # by point
        self._writers: dict[str, RunWriter] = {}
        _check(plan)
        self._base = make_plan(_base_of(plan))  # refuses what is wrong before anything is written
        self._greetings = Greetings.of(self._base)
        self._plan_facts = plan_as_json(plan, self._base)
        facts = self._earlier() if resume else {}
        if not resume and (folder / CAMPAIGN_FILE).exists():
            raise StoreError(
                f"{folder}: holds a campaign already; choose another folder, or continue it with --resume"
            )
        if not resume:
            check_new(folder, "a campaign", (f"{CAMPAIGN_FILE}.part",), (_INPUTS,))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._created = facts.get("created", now)
        self._priority: str | None = part_of(facts, "machine").get("priority")
        self._ended_points = set(self._recall()) if resume else set[str]()
        try:
            private_folder(folder)
        except OSError as error:
            raise StoreError(
                f"{folder}: expected a folder to write a campaign to: {error.strerror}"
            ) from None
        self._plans = {name: self._plan_of(point) for name, point in self._points.items()}
        notes = [note for each in (self._base, *self._plans.values()) for note in each.notes]
        if resume:
            done = f"{len(self._ended_points)} of {counted(len(self._points), 'point')}"
            notes = [*facts.get("notes", ()), *notes, f"resumed at {now}, after {done}"]
        self._notes = list(dict.fromkeys(notes))
        most = max(point.concurrency for point in self._points.values())
        self._calibration = nearest(self._base.spec.transport_kind.value, most, self._base.processes)

    @property
    def notes(self) -> Sequence[str]:
        """What is worth knowing about the campaign, one sentence each."""
        return tuple(self._notes)

    @property
    def key_recipient(self) -> str | None:
        """Which host receives the endpoint's key, as `Plan.key_recipient` says it."""
        return self._base.key_recipient

    async def hold(self, observer: CampaignObserver, stop: StopSignals) -> CampaignOutcome:
        """Play the points, and keep `campaign.json` up to date.

        Stops where the machine or the sessions cannot hold the load, where not one turn of a point was
        captured, and at Ctrl-C or SIGTERM. What was recorded until then is kept, and can be resumed.

        Args:
            observer: Follows the campaign.
            stop: The signals of the command.
        """
        stopped = ""
        with stop.gently():
            await asyncio.to_thread(self._write)  # first, so that whatever is left can be resumed or deleted
            try:
                stopped = await self._play_all(observer, stop)
            finally:
                self._notes += [stopped] * bool(stopped)
                await asyncio.to_thread(self._leave)
        failed = sum(ended.failed for ended in self._ended_turns.values())
        return CampaignOutcome(failed, stop.requested and not self._complete, stopped)

    # -- Before -----------------------------------------------------------------------------------------

    def _earlier(self) -> dict[str, Any]:
        """Return campaign.json of the campaign that is to be continued."""
        facts = read_campaign_file(self.folder)
        check_same_plan(self.folder, facts.get("plan"), self._plan_facts)
        return facts

    def _recall(self) -> Iterator[str]:
        """Count the turns that are recorded already; yield the points that have ended."""
        for name, point in self._points.items():
            if not self._has_begun(name):
                continue
            with RunReader.open(self.folder / name) as run:
                for turn in run.turns():
                    self._ended_turns[name].take(turn.failure)
                if run.ended:
                    self._note_held(point)
                    yield name

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
        if point.role is PointRole.SENTINEL:
            data = DataTable(path=str(write_sentinel(self._inputs("sentinel"))))
        elif point.input_s is not None:
            cases = [job.case for job in self._base.jobs]
            folder = self._inputs(f"{point.input_s:g}s")
            data = DataTable(path=str(write_inputs(cases, point.input_s, folder)))
        endpoint = config.endpoint.model_copy(update={"turn_detection": dict(point.turn_detection)})
        config = config.model_copy(update={"data": data, "endpoint": endpoint})
        return _with_turns(config, concurrency=point.concurrency, mode=point.turn_mode)

    def _inputs(self, name: str) -> Path:
        """Return the folder for recordings of a point; a link in its place could lead anywhere."""
        path = self.folder / _INPUTS / name
        for each in (path.parent, path):
            if os.path.lexists(each):
                own_folder(self.folder, each)
        return path

    # -- Meanwhile --------------------------------------------------------------------------------------

    async def _play_all(self, observer: CampaignObserver, stop: StopSignals) -> str:
        """Play every step; return why the campaign stops before its end, or nothing."""
        async with contextlib.AsyncExitStack() as stack:
            with stop.cancelling():
                base_url = await stack.enter_async_context(running_endpoint(self._base, self.folder))
            for number, step in enumerate(self._steps, 1):
                if stop.requested:
                    break
                if step.point.name not in self._ended_points:
                    observer.step(number, len(self._steps), step.point)
                    stopped = await self._play(step, base_url, observer, stop)
                    if stopped:
                        return stopped
        return ""

    async def _play(
        self, step: CampaignStep, base_url: str, observer: CampaignObserver, stop: StopSignals
    ) -> str:
        """Play a step; return why the campaign stops, or nothing."""
        point = step.point
        plan = self._plans[point.name]
        if step.half:
            sessions = sessions_of(plan.jobs)
            plan = replace(plan, jobs=tuple(job for jobs in sessions[: len(sessions) // 2] for job in jobs))
        writer = await asyncio.to_thread(self._begin, point)
        load = LoadWatch(point.concurrency, point.arrivals.per_s, self._held)
        ended = self._ended_turns[point.name]
        watch = StepWatch(observer, load, ended, holds_sessions=not plan.processes)
        starts = point.arrivals.starts(plan.config.turns.seed + step.half)
        folder = self.folder / point.name
        stopped, missing = "", 0
        self._reached |= any(each.captured for each in self._ended_turns.values())
        try:
            outcome = await play(
                plan,
                writer,
                folder,
                watch,
                starts=starts,
                base_url=base_url,
                stop=stop,
                reached=self._reached,
                greetings=self._greetings,
                counts_refusals=True,
            )
            self._reached = outcome.reached
            stopped, missing = outcome.unreachable, outcome.missing
        except* OverloadError as overload:
            stopped = str(innermost(overload))
        self._notes += watch.steps_of_wall_clock
        self._priority = part_of(writer.manifest, "machine").get("priority", self._priority)
        if stopped or stop.requested:
            return stopped
        if ended.failed and not ended.captured:
            return f"no turn of {point.name} was captured ({ended.in_words()}): the campaign stops here"
        if missing:
            return f"{counted(missing, 'turn')} of {point.name} not recorded: the campaign stops here"
        if not step.half:
            await asyncio.to_thread(self._writers.pop(point.name).end)
            self._ended_points.add(point.name)
            self._note_held(point)
        return ""

    def _note_held(self, point: CampaignPoint) -> None:
        """Note the load of a point that was held to its end."""
        if point.role is not PointRole.SENTINEL and not point.arrivals.open_loop:
            self._held = max(self._held or 0, point.concurrency)

    # -- On disk ----------------------------------------------------------------------------------------

    @property
    def _complete(self) -> bool:
        return self._ended_points >= self._points.keys()

    def _has_begun(self, name: str) -> bool:
        return (self.folder / name / RUN_FILE).exists()

    def _begin(self, point: CampaignPoint) -> RunWriter:
        """Return the store of a point's run; create it if need be."""
        if point.name not in self._writers:
            path = self.folder / point.name
            self._writers[point.name] = (
                RunWriter.resume(path)
                if self._has_begun(point.name)
                else RunWriter.create(path, self._plans[point.name].manifest())
            )
            self._write()
        return self._writers[point.name]

    def _leave(self) -> None:
        for writer in self._writers.values():
            writer.end(finished=False)
        self._write()

    def _write(self) -> None:
        calibration = self._calibration
        facts = {
            "endpoint": self._base.spec.name,
            "created": self._created,
            "arrivals": str(self._plan.arrivals),
            "points": [self._as_json(point) for name, point in self._points.items() if self._has_begun(name)],
            "complete": self._complete,
            "notes": self._notes,
            "price": asdict(self._plan.price) if self._plan.price is not None else None,
            "machine": {
                "priority": self._priority,
                "calibration": calibration.model_dump() if calibration is not None else None,
            },
            "plan": self._plan_facts,
        }
        write_campaign_file(self.folder, facts)

    def _as_json(self, point: CampaignPoint) -> dict[str, Any]:
        return {
            "name": point.name,
            "run": point.name,
            "role": point.role.value,
            "concurrency": point.concurrency,
            "arrivals": str(point.arrivals),
            "input_s": point.input_s,
            "turn_detection": public_settings(point.turn_detection),
            "turn_mode": self._plans[point.name].turn_mode.value,
            "sessions": point.sessions.value,
        }


def _base_of(plan: CampaignPlan) -> RunConfig:
    """Return what all points share: no judges, and no further attempts, which would hide failures."""
    config = plan.config.model_copy(update={"judges": JudgesTable(names=())})
    processes = config.turns.processes
    if processes is None:  # the same for all points
        kind = client(config.endpoint.name).transport_kind
        processes = default_processes(kind, max(plan.concurrency))
    return _with_turns(config, concurrency=plan.concurrency[0], processes=processes, repeat=1, retries=0)


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
