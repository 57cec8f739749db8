"""Read the turn data that statistics need: everything except the timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, get_type_hints

from live_eval.audio.rtp import MediaStats
from live_eval.errors import FAILURE_CAUSES, FailureCause, FailureKind
from live_eval.recording import TurnRecord
from live_eval.timing import Latencies, Latency
from live_eval.types import BenchmarkItem, Cue, Question, SpeechBoundaries, Task, Variant

__all__ = ["Observation", "TurnKey", "counted_ns", "failure_cause", "latency", "read_observations"]

_T = TypeVar("_T")

_LATENCIES = tuple(name for name, kind in get_type_hints(Latencies).items() if kind is Latency)

TurnKey: TypeAlias = tuple[str, int]
"""A case and its repetition, from 0: identifies the same turn in several runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The data of one turn that statistics need.

    `failed_by` is the cause of the turn's failure, or None if captured. `speech_end_ns` is relative to the
    recording's first sample.
    """

    turn_id: str
    case_id: str
    repeat: int
    script_id: str
    variant: Variant
    cue: Cue | None
    task: Task
    text: str | None
    question: Question | None
    source: str
    captured: bool
    failed_by: FailureCause | None
    timing: Latencies
    timing_version: int
    media: MediaStats | None
    setup_ns: Mapping[str, int]
    dialogue_id: str | None = None
    turn_index: int = 0
    boundaries: SpeechBoundaries | None = None
    speech_end_ns: int | None = None
    speech_start_wall_ns: int | None = None
    item: BenchmarkItem | None = None

    @property
    def key(self) -> TurnKey:
        """The case and the repetition."""
        return self.case_id, self.repeat

    @property
    def question_kind(self) -> str | None:
        """The type of the question, or None."""
        return self.question.kind if self.question is not None else None

    @property
    def unanswered(self) -> bool:
        """Whether the question has an answer key and the endpoint failed to answer it."""
        return (
            self.question is not None
            and self.question.answer is not None
            and self.failed_by is FailureCause.ENDPOINT
        )

    @property
    def is_excluded(self) -> bool:
        """Whether the turn failed for a reason unrelated to the model."""
        return self.failed_by not in (None, FailureCause.ENDPOINT)

    def milliseconds(self, name: str) -> float | None:
        """Return a latency in milliseconds, or None; see `counted_ns`."""
        ns = counted_ns(self.timing, name, self.failed_by)
        return None if ns is None else ns / 1e6


def latency(timing: Latencies, name: str) -> Latency:
    """Return one of `LATENCIES` by name."""
    found = getattr(timing, name)
    assert isinstance(found, Latency)
    return found


def counted_ns(timing: Latencies, name: str, failed_by: FailureCause | None) -> int | None:
    """Return a turn's latency, or None; of a failed turn, only the time to connect counts."""
    counts = failed_by is None or (name == "connect" and failed_by is not FailureCause.HARNESS)
    return latency(timing, name).ns if counts else None


def failure_cause(turn: TurnRecord) -> FailureCause | None:
    """Return the cause of a turn's failure; None if it was captured."""
    if turn.failure is None:
        return None
    # Over HTTP, the request contains the turn, which may cause the server to fail.
    if turn.failure.kind in (FailureKind.UNAVAILABLE, FailureKind.SERVER_ERROR) and turn.trace.t0_ns is None:
        return FailureCause.NO_SESSION
    return FAILURE_CAUSES.get(turn.failure.kind, FailureCause.ENDPOINT)


def read_observations(turns: Iterable[TurnRecord]) -> list[Observation]:
    """Return a run's observations; dialogue turns skipped after a failure get the cause of that failure."""
    facts: list[Observation] = []
    causes: dict[tuple[str, int], FailureCause] = {}
    followers: list[int] = []
    shared = _Shared()
    for turn in turns:
        each = _observation(turn, shared)
        if turn.failure is not None and each.dialogue_id is not None:
            if turn.failure.kind is FailureKind.DIALOGUE_ENDED:
                followers.append(len(facts))
            elif each.failed_by is not None:
                causes[each.dialogue_id, each.repeat] = each.failed_by
        facts.append(each)
    for place in followers:
        each = facts[place]
        if each.dialogue_id is not None and (cause := causes.get((each.dialogue_id, each.repeat))):
            facts[place] = replace(each, failed_by=cause)
    return facts


class _Shared:
    """Deduplicates equal values, to save memory."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def __call__(self, value: _T) -> _T:
        known: _T = self._known.setdefault(value, value)
        return known


def _observation(turn: TurnRecord, shared: _Shared) -> Observation:
    trace = turn.trace
    speech_end_ns: int | None = None
    if trace.boundaries is not None:
        speech_end_ns = trace.boundaries.voice_end_ns
    elif trace.t0_ns is not None and trace.voice_end_ns is not None:  # a run without stored boundaries
        speech_end_ns = trace.voice_end_ns - trace.t0_ns
    return Observation(
        turn_id=shared(turn.turn_id),
        case_id=shared(turn.case.case_id),
        repeat=turn.repeat,
        script_id=shared(turn.case.script_id),
        variant=turn.case.variant,
        cue=shared(turn.case.cue),
        task=turn.case.task,
        text=shared(turn.case.text),
        question=shared(turn.case.question),
        source=shared(turn.case.source),
        captured=turn.captured,
        failed_by=failure_cause(turn),
        timing=_sharing(turn.timing, shared),
        timing_version=turn.timing_version,
        media=turn.media,
        setup_ns=trace.setup_ns,
        dialogue_id=turn.case.dialogue_id,
        turn_index=turn.case.turn_index,
        boundaries=shared(trace.boundaries),
        speech_end_ns=speech_end_ns,
        speech_start_wall_ns=turn.speech_start_wall_ns,
        item=turn.case.item,
    )


def _sharing(timing: Latencies, shared: _Shared) -> Latencies:
    """Return latencies whose missing or equal values are shared with other turns."""
    return replace(timing, **{name: shared(getattr(timing, name)) for name in _LATENCIES})
