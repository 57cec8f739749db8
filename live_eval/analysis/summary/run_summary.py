"""Summarise a run: facts from its manifest, and all its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from live_eval.analysis.cue_sensitivity.measures import Reply
from live_eval.analysis.cue_sensitivity.sensitivity import (
    CollectedReplies,
    CueSensitivity,
    collect_replies,
    reply_in,
    sensitivity_of,
)
from live_eval.analysis.greeting_summary import Greeting, GreetingSummary, greetings_of, summarise_greetings
from live_eval.analysis.licences import licence_of
from live_eval.analysis.run_conditions import RunConditions, conditions_of
from live_eval.analysis.statistics.intervals import ALL_TURNS
from live_eval.analysis.summary.audits import AuditSummary
from live_eval.analysis.summary.changes import DialogueSummary, summarise_dialogues
from live_eval.analysis.summary.cue_maps import CueMap, cue_maps
from live_eval.analysis.summary.groups import Group, group_turns
from live_eval.analysis.summary.latencies import LATENCIES, Lag, LatencySummary, lag_of, summarise_latency
from live_eval.analysis.summary.main_scores import MainScore, main_scores
from live_eval.analysis.summary.media_tracks import MediaSummary, summarise_media
from live_eval.analysis.summary.observations import Observation, read_observations
from live_eval.analysis.summary.score_table import (
    JudgeFacts,
    ScoreSummary,
    ScoreTable,
    run_scores,
    summarise_scores,
)
from live_eval.analysis.summary.task_metrics import TaskSummary, summarise_tasks
from live_eval.analysis.summary.vocal_sounds import has_vocal_sound, summarise_vocal_sounds
from live_eval.recording import RunReader, TurnRecord, part_of, text_of
from live_eval.recording.calibrations import KeptCalibration, kept_in
from live_eval.session.event_loop import uncollected
from live_eval.text.wording import counted

__all__ = [
    "OutageSpan",
    "RunFacts",
    "RunSummary",
    "model_of",
    "outage_spans",
    "outages_in_words",
    "summarise",
    "unfinished",
]

_LONGEST_S = 1e10  # maximum plausible outage length, and time since the Unix epoch
_NAMED = 5
_NOT_IN_JSON = frozenset({"voice", "planned", "unfinished", "outages"})
_NOT_COMPARABLE = "one request per turn: latencies are not comparable with those of realtime endpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts about a run from its manifest; None if missing.

    Args:
        name: Name of the run folder.
        model: Model reported by the endpoint, or else the requested model.
        conditions: Turn mode, prompt, impairment and concurrency.
        comparable: Whether the latencies are comparable with realtime endpoints.
        state: ``running`` (or crashed), ``interrupted`` or ``finished``.
        started_at: Start time, ISO 8601 in UTC.
        ended_at: End time, ISO 8601 in UTC; None if the run has not ended.
        planned: Number of planned turns.
        unfinished: Note on an incomplete run; empty if it has ended.
        calibration: Latency error from the machine's last calibration; None if never calibrated.
        outages: Note on outages of the endpoint; empty if there were none.
        nodes: Note on cluster machines that ran sessions or were refused; empty without a cluster.
        licence: Note on the licence of a benchmark's recordings; empty for other data.
    """

    name: str
    endpoint: str | None
    model: str | None
    voice: str | None
    conditions: RunConditions
    comparable: bool
    data: str | None
    state: str
    started_at: str
    ended_at: str | None
    planned: int | None
    unfinished: str
    calibration: KeptCalibration | None = None
    outages: str = ""
    nodes: str = ""
    licence: str = ""

    @property
    def about(self) -> tuple[str, ...]:
        """The conditions of the run, as short texts for headers."""
        texts = (self.endpoint, self.model, self.voice, *self.conditions.in_words, self.data)
        return tuple(text for text in texts if text)

    def as_json(self) -> dict[str, Any]:
        """Return the facts as printed by ``show --json``; ``calibration`` is omitted if it is None."""
        facts = {name: value for name, value in asdict(self).items() if name not in _NOT_IN_JSON}
        facts |= facts.pop("conditions")
        calibration = facts.pop("calibration")
        return facts if calibration is None else facts | {"calibration": calibration.model_dump(mode="json")}


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """All metrics of a run, computed on first access.

    Args:
        facts: Facts about the run.
        turns: Turns in commit order.
        failures: Number of failed turns, by kind.
        retried: Number of failed attempts that were retried, by kind.
        warnings: Number of warnings, by kind.
        first_warnings: The first message of each kind of warning.
        greetings: Greetings of the endpoint.
        table: Scores of each turn.
        collected: Replies from which cue sensitivity is measured.
        lost_audio: Turns with missing or unusable audio files, with the reason.
    """

    facts: RunFacts
    turns: tuple[Observation, ...]
    failures: Mapping[str, int]
    retried: Mapping[str, int]
    warnings: Mapping[str, int]
    first_warnings: Mapping[str, str]
    greetings: GreetingSummary
    table: ScoreTable
    collected: CollectedReplies
    lost_audio: Mapping[str, str]

    @cached_property
    def latencies(self) -> Mapping[str, LatencySummary]:
        """The latencies by name."""
        return {name: summarise_latency(name, self.turns) for name in LATENCIES}

    @cached_property
    def vocal_sounds(self) -> Mapping[str, LatencySummary]:
        """The latencies of turns whose cue is a vocal sound, from the last word and from the last sound."""
        return summarise_vocal_sounds(self.turns)

    @cached_property
    def scores(self) -> Mapping[str, ScoreSummary]:
        """The scores by name."""
        return summarise_scores(self.table, self.turns)

    @cached_property
    def lag(self) -> Lag:
        """live-eval's own lateness."""
        return lag_of(turn.timing for turn in self._captured)

    @cached_property
    def media(self) -> MediaSummary | None:
        """The media tracks, or None."""
        return summarise_media(self.turns)

    @cached_property
    def judges(self) -> tuple[JudgeFacts, ...]:
        """The judges that judged turns of the run."""
        return self.table.judges

    @property
    def audits(self) -> Mapping[str, AuditSummary]:
        """The audits by judge."""
        return self.table.audits

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The turns of each task by variant and by cue."""
        return group_turns(self.turns, self.table)

    @cached_property
    def main_scores(self) -> tuple[MainScore, ...]:
        """The main score of each task."""
        return main_scores(self.table, self.turns)

    @cached_property
    def cue_maps(self) -> tuple[CueMap, ...]:
        """The scores of each task by cue."""
        return cue_maps(self.groups, self.table, {each.task: each for each in self.main_scores})

    @cached_property
    def cue_sensitivity(self) -> CueSensitivity | None:
        """Whether replies change with the voice, compared by words; None without single conversations."""
        if not self.collected.concern_conversations:
            return None
        return sensitivity_of(self.collected, self.table, run=self.facts.name, overall_only=True)

    @cached_property
    def tasks(self) -> tuple[TaskSummary, ...]:
        """The turns by task."""
        return summarise_tasks(self.table, self.turns)

    @cached_property
    def dialogues(self) -> DialogueSummary | None:
        """The metrics of the dialogues; None if there are none."""
        return summarise_dialogues(self.table, self.turns)

    @property
    def could_not_run(self) -> Mapping[str, str]:
        """The judges that could not run, each with the reason."""
        return {problem.judge: problem.reason for problem in self.table.problems}

    @property
    def captured(self) -> int:
        """The number of captured turns."""
        return len(self._captured)

    @property
    def uncertain(self) -> int:
        """The number of captured turns with an uncertain end of speech."""
        return sum(turn.timing.uncertain for turn in self._captured)

    @property
    def stalled(self) -> int:
        """The number of captured turns with a playout underrun."""
        return sum(turn.timing.stalls > 0 for turn in self._captured)

    @property
    def premature(self) -> int:
        """The number of responses cancelled because the user's utterance continued."""
        return sum(turn.timing.premature for turn in self._captured)

    @property
    def total(self) -> int:
        """The number of turns in the run, including failed turns."""
        return len(self.turns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the latencies, one sentence each."""
        notes = [] if self.facts.comparable else [_NOT_COMPARABLE]
        if len(self.tasks) > 1:
            notes.append(
                f"covers the turns of all tasks: {', '.join(each.task.value for each in self.tasks)}"
            )
        if self.lost_audio:
            named = [*list(self.lost_audio)[:_NAMED], *(["…"] if len(self.lost_audio) > _NAMED else [])]
            notes.append(
                f"the audio of {counted(len(self.lost_audio), 'turn')} is missing ({', '.join(named)}), so "
                "they cannot be played back, judged or retimed"
            )
        if sounds := {turn.cue.name for turn in self.turns if turn.cue is not None and has_vocal_sound(turn)}:
            notes.append(
                "voice to voice from the last word and the last sound: turns whose cue is a sound of the "
                f"speaker ({', '.join(sorted(sounds))}), including those with an uncertain end of speech"
            )
        if greetings := self.greetings.in_words():
            notes.append(greetings)
        if self.facts.outages:
            notes.append(self.facts.outages)
        if self.facts.calibration is not None:
            notes.append(self.facts.calibration.in_words())
        if self.facts.nodes:
            notes.append(self.facts.nodes)
        if self.facts.licence:
            notes.append(self.facts.licence)
        return (*notes, self.media.in_words()) if self.media is not None else tuple(notes)

    @cached_property
    def _captured(self) -> tuple[Observation, ...]:
        return tuple(turn for turn in self.turns if turn.captured)

    @uncollected()
    def as_json(self, *, cues: bool = True) -> dict[str, Any]:
        """Return the metrics as printed by ``live-eval show --json``; its keys are stable.

        Without `cues`, omit the part returned by `cues_json`, which takes half of the time.
        """
        return {
            "turns": {
                "total": self.total,
                "captured": self.captured,
                "failed": self.total - self.captured,
                "planned": self.facts.planned,
            },
            "estimator": ALL_TURNS,
            "latency_ms": {name: summary.as_json() for name, summary in self.latencies.items()},
            "vocal_sounds": {name: summary.as_json() for name, summary in self.vocal_sounds.items()},
            "scores": {name: summary.as_json() for name, summary in self.scores.items()},
            "main_scores": [each.as_json() for each in self.main_scores],
            **(self.cues_json() if cues else {}),
            "tasks": {each.task.value: each.as_json() for each in self.tasks},
            "dialogues": None if self.dialogues is None else self.dialogues.as_json(),
            "failures": dict(self.failures),
            "retried": dict(self.retried),
            "warnings": dict(self.warnings),
            "lag_ms": {**self.lag.percentiles_json(), "flagged": self.lag.flagged},
            "uncertain": self.uncertain,
            "stalled": self.stalled,
            "premature": self.premature,
            "greetings": self.greetings.as_json(),
            "media": None if self.media is None else self.media.as_json(),
            "judges": {
                judge.name: {"version": judge.version, "models": list(judge.models)} for judge in self.judges
            },
            "could_not_run": dict(self.could_not_run),
            "unread_scores": self.table.unread,
            "audits": {judge: asdict(audit) for judge, audit in self.audits.items()},
            "lost_audio": dict(self.lost_audio),
            "run": self.facts.as_json(),
        }

    def cues_json(self) -> dict[str, Any]:
        """Return the cue sensitivity and the scores by cue, the slow part of `as_json`."""
        return {
            "cue_sensitivity": None if self.cue_sensitivity is None else self.cue_sensitivity.summary_json(),
            "cue_maps": [each.as_json() for each in self.cue_maps],
        }


@uncollected()
def summarise(
    run: RunReader,
    *,
    retime: bool = False,
    seen: Callable[[TurnRecord, ScoreTable], None] | None = None,
) -> RunSummary:
    """Read the metrics of a run, ended or not; without scores if these cannot be read (see `run_scores`).

    With `retime`, the latencies are recomputed with the current definitions. `seen` is called with every turn
    and the scores, which saves a caller from reading the turns again; paths to the data are unresolved.
    """
    table = run_scores(run)
    warnings: Counter[str] = Counter()
    first_warnings: dict[str, str] = {}
    failures: Counter[str] = Counter()
    greetings: list[Greeting | None] = []
    replies: list[Reply | str] = []

    def counted_turns() -> Iterator[TurnRecord]:
        for turn in run.turns(retime=retime, finds_data=False):
            greetings.extend(greetings_of([turn]))
            replies.append(reply_in(turn))
            for warning in turn.warnings:
                warnings[warning.kind.value] += 1
                first_warnings.setdefault(warning.kind.value, warning.message)
            failures.update([turn.failure.kind.value] if turn.failure is not None else [])
            if seen is not None:
                seen(turn, table)
            yield turn

    turns = read_observations(counted_turns())
    retried = Counter(attempt.failure.kind.value for attempt in run.failures() if attempt.retried)
    return RunSummary(
        facts=_run_facts(run),
        turns=tuple(turns),
        failures=dict(failures.most_common()),
        retried=dict(retried.most_common()),
        warnings=dict(warnings.most_common()),
        first_warnings=first_warnings,
        greetings=summarise_greetings(greetings),
        table=table,
        collected=collect_replies(replies),
        lost_audio=run.lost_audio(),
    )


def model_of(run: RunReader) -> str | None:
    """Return the model of a run, as reported by the endpoint or else as requested; None if unknown."""
    return " and ".join(run.models[:2]) or text_of(part_of(run.manifest, "endpoint"), "model")


def _run_facts(run: RunReader) -> RunFacts:
    endpoint, data = part_of(run.manifest, "endpoint"), part_of(run.manifest, "data")
    return RunFacts(
        name=run.path.resolve().name,
        endpoint=text_of(endpoint, "name"),
        model=model_of(run),
        voice=text_of(endpoint, "voice"),
        conditions=conditions_of(run.manifest),
        comparable=endpoint.get("comparable") is not False,
        data=text_of(data, "name"),
        state=run.state,
        started_at=run.started_at,
        ended_at=run.ended_at,
        planned=_planned(run),
        unfinished=unfinished(run),
        calibration=kept_in(run.manifest),
        outages=outages_in_words(run.manifest.get("outages")),
        nodes=nodes_in_words(part_of(run.manifest, "machine").get("nodes")),
        licence=licence_of(run.manifest),
    )


def outages_in_words(kept: object) -> str:
    """Describe the outages in a manifest, which may be untrusted; empty if there are none."""
    spans = outage_spans(kept)
    if not spans:
        return ""
    open_loop = any(span.open_loop for span in spans)
    meanwhile = "sessions due during that time began late" if open_loop else "the run paused"
    times, seconds = counted(len(spans), "time"), sum(span.seconds for span in spans)
    return f"the endpoint was unreachable {times}, for {seconds:.0f} s in total; {meanwhile}"


class OutageSpan(NamedTuple):
    """An outage of a run.

    Args:
        began_wall_ns: Start time in nanoseconds since the Unix epoch; 0 if unknown.
        seconds: Length in seconds; 0 if unknown.
        open_loop: Whether sessions became due during the outage.
    """

    began_wall_ns: float
    seconds: float
    open_loop: bool

    def overlaps(self, from_wall_ns: float, to_wall_ns: float) -> bool:
        """Return whether the outage overlaps a time span (nanoseconds since the Unix epoch)."""
        return from_wall_ns < self.began_wall_ns + self.seconds * 1e9 and self.began_wall_ns < to_wall_ns


def outage_spans(kept: object) -> list[OutageSpan]:
    """Return the outages in a manifest, which may be untrusted."""

    def number(value: object, limit: float) -> float:
        return value if isinstance(value, int | float) and 0 <= value < limit else 0.0

    outages = [each for each in kept if isinstance(each, Mapping)] if isinstance(kept, list) else []
    return [
        OutageSpan(
            number(each.get("since_wall_ns"), _LONGEST_S * 1e9),
            number(each.get("seconds"), _LONGEST_S),
            each.get("open_loop") is True,
        )
        for each in outages
    ]


def nodes_in_words(nodes: object) -> str:
    """Describe the cluster machines in a manifest; empty if there are none."""
    if not isinstance(nodes, list):
        return ""
    listed = [node for node in nodes if isinstance(node, dict) and isinstance(node.get("name"), str)]
    used = [node for node in listed if not node.get("refused")]
    if not listed:
        return ""
    names = ", ".join(node["name"] for node in used)
    refused = [
        f"; {node['name']} ran no timed sessions: {node['refused']}" for node in listed if node not in used
    ]
    return f"sessions ran on {counted(len(used), 'node')} ({names}){''.join(refused)}"


def unfinished(run: RunReader) -> str:
    """Return a note if the run has not ended, else an empty string."""
    if run.ended:
        return ""
    planned = _planned(run)
    return f"incomplete: {len(run)}{f' of {planned}' if planned is not None else ''} turns recorded"


def _planned(run: RunReader) -> int | None:
    planned = run.manifest.get("turns")
    return planned if isinstance(planned, int) else None
