"""Run a latency campaign: consecutive conditions of controlled load, each an ordinary run.

On disk, `recordings/<campaign>/` contains `campaign.json` (see `campaign_file`), the generated recordings in
`inputs/`, and a run folder per condition.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from live_eval.campaigns.campaign import Campaign
from live_eval.campaigns.documents import LATENCY_CAMPAIGN
from live_eval.campaigns.latency.inputs import write_inputs, write_sentinel
from live_eval.campaigns.latency.measurable import MeasurableCases, choose_measurable
from live_eval.campaigns.latency.points import (
    LONGEST_WARM,
    CampaignPlan,
    CampaignPoint,
    PointRole,
    SessionKind,
    steps_of,
)
from live_eval.campaigns.latency.watch import LoadWatch, OverloadError, PointOutcomes, StepWatch
from live_eval.dialect import TransportKind
from live_eval.errors import UsageError
from live_eval.recording import TurnRecord, part_of
from live_eval.recording.calibrations import nearest
from live_eval.redaction import public_settings
from live_eval.registry import client
from live_eval.run.plan import Job, Plan, make_plan
from live_eval.run.recordings import Recordings
from live_eval.run.run_file import DataTable, JudgesTable, RunConfig
from live_eval.run.runner import Observer, sessions_of
from live_eval.run.spread import default_processes
from live_eval.run.stop_signals import StopSignals
from live_eval.session.event_loop import innermost
from live_eval.text.wording import counted
from live_eval.types import TurnMode

__all__ = ["LatencyCampaign"]


class LatencyCampaign(Campaign):
    """A latency campaign, run condition by condition. See `Campaign` for the arguments.

    The campaign stops if the machine or the sessions cannot sustain the load, or if no turn of a condition
    was captured.

    Raises:
        UsageError: The plan contains an unknown name, or the endpoint does not support the plan.
        DataError: See `Campaign`.
        StoreError: See `Campaign`.
    """

    document = LATENCY_CAMPAIGN

    def __init__(self, plan: CampaignPlan, folder: Path, *, resume: bool = False) -> None:
        self._plan = plan
        self._steps = steps_of(plan)
        self._points = {step.point.name: step.point for step in self._steps}
        self._sustained: int | None = None
        self._ended_turns: defaultdict[str, PointOutcomes] = defaultdict(PointOutcomes)  # by condition
        _check(plan)
        base = make_plan(_base_of(plan))  # rejects invalid settings before anything is written
        self._measurable = _measurable(plan, base)
        order = [step.point.name for step in self._steps]
        asked = {"points": _plan_json(plan)}
        super().__init__(folder, base, order, asked, asserts=plan.asserts, resume=resume)
        self._priority = part_of(self._earlier, "machine").get("priority")
        most = max(point.concurrency for point in self._points.values())
        self._calibration = nearest(base.spec.transport_kind.value, most, base.processes)

    # -- Preparation -------------------------------------------------------------------------------------

    def _recall(self, name: str, turns: Sequence[TurnRecord], *, ended: bool) -> None:
        for turn in turns:
            self._ended_turns[name].take(turn.failure)
        if ended:
            self._note_sustained(self._points[name])

    def _progress(self) -> str:
        return f"{len(self._ended)} of {counted(len(self._points), 'condition')}"

    def _notes_before(self) -> Sequence[str]:
        return (*super()._notes_before(), *(self._measurable.notes if self._measurable else ()))

    def _make_plans(self) -> Mapping[str, Plan]:
        return {name: self._plan_of(point) for name, point in self._points.items()}

    def _plan_of(self, point: CampaignPoint) -> Plan:
        config = self._config_of(point)
        plan = make_plan(config)
        jobs = self._jobs_of(point, plan)
        if jobs and len(jobs) < point.turns:
            plan = make_plan(_with_turns(config, repeat=-(-point.turns // len(jobs))))
            jobs = self._jobs_of(point, plan)
        jobs = jobs[: point.turns]
        if point.sessions is SessionKind.COLD:
            jobs = tuple(replace(job, case=replace(job.case, dialogue_id=None, turn_index=0)) for job in jobs)
        else:
            jobs = tuple(_warm(jobs, point.concurrency))
        sessions = len(sessions_of(jobs))
        if sessions < point.concurrency and not point.arrivals.open_loop:
            raise UsageError(
                f"{point.name}: expected at least {point.concurrency} sessions; "
                f"{counted(len(jobs), 'turn')} in the data's dialogues fill only {sessions}"
            )
        if point.input_s is not None:  # the inputs are cut from the data's recordings
            plan = replace(plan, data=replace(plan.data, licence=self._base.data.licence))
        return replace(plan, jobs=jobs)

    def _jobs_of(self, point: CampaignPoint, plan: Plan) -> tuple[Job, ...]:
        """Return the measurable jobs of a condition's plan; generated recordings are always measurable."""
        if self._measurable is None or point.input_s is not None or point.role is PointRole.SENTINEL:
            return plan.jobs
        return tuple(job for job in plan.jobs if job.case.case_id in self._measurable.case_ids)

    def _config_of(self, point: CampaignPoint) -> RunConfig:
        config = self._base.config
        data = config.data
        if point.role is PointRole.SENTINEL:
            data = DataTable(path=str(write_sentinel(self._inputs("sentinel"))))
        elif point.input_s is not None:
            cases = [job.case for job in self._jobs_of(replace(point, input_s=None), self._base)]
            folder = self._inputs(f"{point.input_s:g}s")
            data = DataTable(path=str(write_inputs(cases, point.input_s, folder)))
        endpoint = config.endpoint.model_copy(update={"turn_detection": dict(point.turn_detection)})
        config = config.model_copy(update={"data": data, "endpoint": endpoint})
        return _with_turns(config, concurrency=point.concurrency, mode=point.turn_mode)

    # -- Execution ---------------------------------------------------------------------------------------

    async def _run_step(self, step: int, observer: Observer, stop: StopSignals) -> str:
        point, half = self._steps[step].point, self._steps[step].half
        plan = self._plans[point.name]
        jobs: Sequence[Job] = plan.jobs
        if half:
            sessions = sessions_of(jobs)
            jobs = [job for jobs in sessions[: len(sessions) // 2] for job in jobs]
        how = f"{counted(point.turns, 'turn')}, {counted(point.concurrency, 'concurrent session')}"
        observer.note(f"{step + 1} of {len(self._steps)}: {point.name} ({how}, {point.arrivals})")
        load = LoadWatch(point.concurrency, point.arrivals.per_s, self._sustained)
        ended = self._ended_turns[point.name]
        watch = StepWatch(observer, load, ended, in_process=not plan.processes)
        starts = point.arrivals.starts(plan.config.turns.seed + half)
        stopped, missing = "", 0
        try:
            outcome = await self._run_jobs(point.name, jobs, watch, stop, starts=starts, counts_refusals=True)
            stopped, missing = outcome.unreachable, outcome.missing
        except* OverloadError as overload:
            stopped = str(innermost(overload))
        self._notes += watch.steps_of_wall_clock
        machine = part_of(self._writers[point.name].manifest, "machine")
        self._priority = machine.get("priority", self._priority)
        if stopped or stop.requested:
            return stopped
        if ended.failed and not ended.captured:
            return f"no turn of {point.name} was captured ({ended.in_words()}); the campaign stopped"
        if missing:
            return f"{counted(missing, 'turn')} of {point.name} not recorded; the campaign stopped"
        if not half:
            await self._end(point.name)
            self._note_sustained(point)
        return ""

    def _note_sustained(self, point: CampaignPoint) -> None:
        """Record the load of a condition if it was sustained throughout."""
        if point.role is not PointRole.SENTINEL and not point.arrivals.open_loop:
            self._sustained = max(self._sustained or 0, point.concurrency)

    def _count_failed(self) -> int:
        return sum(ended.failed for ended in self._ended_turns.values())

    def _facts(self) -> dict[str, Any]:
        calibration, price = self._calibration, self._plan.price
        begun = [point for name, point in self._points.items() if self._has_begun(name)]
        return {
            "arrivals": str(self._plan.arrivals),
            "points": [self._point_json(point) for point in begun],
            "price": asdict(price) if price is not None else None,
            "machine": {
                "priority": self._priority,
                "calibration": calibration.model_dump() if calibration is not None else None,
            },
        }

    def _point_json(self, point: CampaignPoint) -> dict[str, Any]:
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


def _plan_json(plan: CampaignPlan) -> dict[str, Any]:
    """Return the settings that determine the conditions, without secrets."""
    return {
        "turns": plan.turns,
        "concurrency": list(plan.concurrency),
        "arrivals": str(plan.arrivals),
        "input_s": list(plan.inputs_s),
        "turn_detection": [public_settings(detection) for detection in plan.detections],
        "sessions": [kind.value for kind in plan.sessions],
        "endpointing": plan.endpointing,
        "sentinel_turns": plan.sentinel_turns,
        "uncertain": plan.uncertain,
    }


def _base_of(plan: CampaignPlan) -> RunConfig:
    """Return the shared settings: no judges, and no retries, which would hide failures."""
    config = plan.config.model_copy(update={"judges": JudgesTable(names=())})
    processes = config.turns.processes
    if processes is None:  # use the same number for all conditions
        kind = client(config.endpoint.name).transport_kind
        processes = default_processes(kind, max(plan.concurrency))
    return _with_turns(config, concurrency=plan.concurrency[0], processes=processes, repeat=1, retries=0)


def _measurable(plan: CampaignPlan, base: Plan) -> MeasurableCases | None:
    """Return the recordings whose end of speech is certain; None to run all recordings.

    In warm sessions, dialogues run as a whole, because a later turn can refer to an earlier one.
    """
    cases = [job.case for job in base.jobs]
    whole = SessionKind.WARM in plan.sessions and any(case.dialogue_id is not None for case in cases)
    if plan.uncertain or whole:
        return None
    with Recordings(base.config, base.spec) as recordings:
        return choose_measurable(cases, recordings.find(cases), plan.turns)


def _with_turns(config: RunConfig, **turns: Any) -> RunConfig:
    return config.model_copy(update={"turns": config.turns.model_copy(update=turns)})


def _check(plan: CampaignPlan) -> None:
    spec = client(plan.config.endpoint.name)
    if spec.transport_kind is TransportKind.HTTP and SessionKind.WARM in plan.sessions:
        raise UsageError(f"{spec.name} makes one request per turn and has no warm sessions")
    modes = (TurnMode.SERVER_VAD, TurnMode.MANUAL)
    if plan.endpointing and not set(modes) <= set(spec.turn_modes):
        raise UsageError(
            f"endpointing requires the turn modes {' and '.join(modes)}; {spec.name} supports "
            f"{', '.join(spec.turn_modes)}"
        )


def _warm(jobs: Sequence[Job], concurrency: int) -> Iterator[Job]:
    """Group single turns into dialogues of up to ten turns that share a session.

    If there are enough turns, the number of sessions equals the concurrency.
    """
    longest = max(1, min(LONGEST_WARM, len(jobs) // concurrency))
    for _, of_repeat in itertools.groupby(jobs, key=lambda job: job.repeat):
        single = 0
        for job in of_repeat:
            case = job.case
            if case.dialogue_id is None:
                name, index = f"warm-{single // longest + 1}", single % longest
                case = replace(case, dialogue_id=name, turn_index=index)
                single += 1
            yield replace(job, case=case)
