"""Compute TurnBench's recall and false-positive rate of end-of-turn and interruption events.

Source: TurnBench (SesameAILabs/turnbench) 5456220, ``turnbench/README.md`` and ``turnbench/score.py``. A
prediction is an event sent by the endpoint, as in the source's baseline for OpenAI's detector: the end of the
user's speech (end of turn, EOT) or its start (interruption, INT). For EOT, turn ends are positives and pauses
inside turns are negatives; for INT, turns that begin while the agent speaks are positives, and backchannels,
tics, speech to others and noise are negatives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue
from live_eval.analysis.turn_taking.speech import Conversation, Stretch, agent_segments, exchanges
from live_eval.types import SpeechKind

__all__ = ["AFTER_NS", "BEFORE_NS", "DEFINITIONS", "TaskScore", "metrics", "score_task"]

SOURCE = "TurnBench 5456220, turnbench/score.py"
BEFORE_NS = 250_000_000
"""The maximum time by which a matching prediction may precede its event (the annotation tolerance)."""
AFTER_NS = 3_000_000_000
"""The maximum time by which a matching prediction may follow its event."""
_BUDGET = 0.1
"""The maximum false-positive rate for a rank by recall on the leaderboard."""

_EXACT = "there is no tolerance before an event, because the boundaries are exact"
_TASKS = {"eot": "ends of turns", "int": "interruptions"}
_NEGATIVES = {"eot": "pauses inside turns", "int": "backchannels, tics, asides and noises"}

_PERCENTILES = (10, 50, 90)
_NO_EVENT = {"eot": "no turn", "int": "no interruption"}
_SILENT = {"eot": "the endpoint reports no end of speech", "int": "the endpoint reports no start of speech"}

DEFINITIONS = tuple(
    definition
    for task, events in _TASKS.items()
    for definition in (
        MetricDefinition(
            name=f"turnbench.{task}.recall",
            source=SOURCE,
            means=f"share of {events} that the endpoint reports within 3 s",
            better="higher",
            corrects=_EXACT,
        ),
        MetricDefinition(
            name=f"turnbench.{task}.fp_rate",
            source=SOURCE,
            means=f"share of {_NEGATIVES[task]} that the endpoint mistakes for {events}",
            better="lower",
            corrects=_EXACT,
        ),
        MetricDefinition(
            name=f"turnbench.{task}.recall_at_fp_rate",
            source=SOURCE,
            means=f"recall of {events}, if the false-positive rate is at most {_BUDGET}",
            better="higher",
            corrects=_EXACT,
        ),
        *(
            MetricDefinition(
                name=f"turnbench.{task}.latency_p{percent}",
                source=SOURCE,
                means=f"percentile of the delay of reported {events}",
                unit="ms",
                better="lower",
                corrects=_EXACT,
            )
            for percent in _PERCENTILES
        ),
    )
)


@dataclass(slots=True)
class TaskScore:
    """The counts for one task over events and negative spans, and the delay of each detected event."""

    tp: int = 0
    fn: int = 0
    fp: int = 0
    tn: int = 0
    latencies_ns: list[int] = field(default_factory=list)

    @property
    def recall(self) -> float | None:
        """TP / (TP + FN); None if there are no events."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else None

    @property
    def fp_rate(self) -> float | None:
        """FP / (FP + TN); None if there are no negative spans."""
        return self.fp / (self.fp + self.tn) if self.fp + self.tn else None

    def add(self, other: TaskScore) -> None:
        """Add the counts of another conversation."""
        self.tp += other.tp
        self.fn += other.fn
        self.fp += other.fp
        self.tn += other.tn
        self.latencies_ns += other.latencies_ns


def score_task(
    events_ns: Iterable[int],
    negatives: Iterable[Stretch],
    predictions_ns: Iterable[int],
    *,
    before_ns: int = BEFORE_NS,
) -> TaskScore:
    """Match a conversation's predictions with its events, one to one.

    Each event is matched with the earliest unmatched prediction in its window, which never extends past the
    next event. A prediction outside all windows and inside a negative span makes that span a false positive.

    Args:
        events_ns: Events to detect.
        negatives: Spans that should contain no prediction.
        predictions_ns: Times of the endpoint's predictions.
        before_ns: Maximum time by which a prediction may precede its event.
    """
    events, free = sorted(events_ns), sorted(predictions_ns)
    score, windows = TaskScore(), []
    for place, event in enumerate(events):
        following = next((each for each in events[place + 1 :] if each > event), math.inf)
        start, end = event - before_ns, min(event + AFTER_NS, following)
        windows.append((start, end))
        match = next((each for each in free if start <= each <= end), None)
        if match is None:
            score.fn += 1
        else:
            free.remove(match)
            score.tp += 1
            score.latencies_ns.append(match - event)
    stray = [each for each in free if not any(start <= each <= end for start, end in windows)]
    for span in negatives:
        if any(span.start_ns - before_ns <= each <= span.end_ns for each in stray):
            score.fp += 1
        else:
            score.tn += 1
    return score


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the source's metrics, by name; latencies are in ms."""
    found = {}
    for task in _TASKS:
        defined, exact = TaskScore(), TaskScore()
        reported = False
        for conversation in conversations:
            events, negatives, predictions = _task(conversation, task)
            reported = reported or bool(predictions)
            defined.add(score_task(events, negatives, predictions))
            exact.add(score_task(events, negatives, predictions, before_ns=0))
        missing = _missing(task, defined, reported=reported)
        others = _values(exact)
        for name, (value, n) in _values(defined).items():
            corrected, n_corrected = others[name]
            if not reported and missing[name] == _SILENT[task]:
                value = corrected = None
            found[f"{task}.{name}"] = MetricValue(
                as_defined=value,
                corrected=corrected,
                n=n,
                n_corrected=n_corrected,
                why="" if value is not None and corrected is not None else missing[name],
            )
    return found


def _task(conversation: Conversation, task: str) -> tuple[list[int], list[Stretch], tuple[int, ...]]:
    turns = exchanges(conversation, agent_segments(conversation))
    if task == "int":
        others = [each for each in conversation.user if each.kind is not SpeechKind.TURN]
        return (
            [turn.speech.start_ns for turn in turns if turn.over is not None],
            [Stretch(each.start_ns, each.end_ns) for each in others],
            conversation.speech_started_ns,
        )
    pauses = [pause for turn in turns for pause in turn.speech.pauses]
    return [turn.speech.end_ns for turn in turns], pauses, conversation.speech_stopped_ns


def _values(score: TaskScore) -> dict[str, tuple[float | None, int]]:
    """Return the value and the number of events of each metric."""
    from live_eval.analysis.statistics.intervals import quantile  # imports numpy

    events = score.tp + score.fn
    in_budget = score.fp_rate is not None and score.fp_rate <= _BUDGET
    latencies = {percent: quantile(score.latencies_ns, percent / 100) for percent in _PERCENTILES}
    return {
        "recall": (score.recall, events),
        "fp_rate": (score.fp_rate, score.fp + score.tn),
        "recall_at_fp_rate": (score.recall if in_budget else None, events),
        **{
            f"latency_p{percent}": (None if ns is None else ns / 1e6, score.tp)
            for percent, ns in latencies.items()
        },
    }


def _missing(task: str, score: TaskScore, *, reported: bool) -> dict[str, str]:
    no_event = "" if score.tp + score.fn else _NO_EVENT[task]
    silent = "" if reported else _SILENT[task]
    budget = f"the false-positive rate is above {_BUDGET}, or there are no {_NEGATIVES[task]}"
    late = no_event or silent or f"the endpoint reported none of the {_TASKS[task]}"
    return {
        "recall": no_event or silent,
        "fp_rate": silent or f"no {_NEGATIVES[task]}",
        "recall_at_fp_rate": no_event or silent or budget,
        **{f"latency_p{percent}": late for percent in _PERCENTILES},
    }
