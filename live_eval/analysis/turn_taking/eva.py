"""Compute ServiceNow eva's turn-taking score.

Source: ServiceNow eva 997ae97, ``docs/metrics/turn_taking.md`` and
``src/eva/metrics/experience/turn_taking.py``. Each user turn scores 0 to 1: by the agent's yield time if the
user interrupts; by overlap, number of agent segments and latency if the agent interrupts; otherwise by
latency. A conversation's score is the mean over its turns. A greeting before the first turn is not scored.
The source's longer limits for turns with tool calls are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking.speech import Conversation, Exchange, agent_segments, exchanges

__all__ = ["DEFINITIONS", "count_score", "latency_score", "metrics", "overlap_score", "yield_score"]

SOURCE = "ServiceNow eva 997ae97, docs/metrics/turn_taking.md"

_EARLY_MS = -500.0  # LATENCY_HARD_EARLY_MS
_BEST_FROM_MS = 500.0  # LATENCY_SWEET_SPOT_LOW_MS
_BEST_TO_MS = 2_000.0  # LATENCY_SWEET_SPOT_HIGH_MS
_LATE_MS = 3_500.0  # LATENCY_HARD_LATE_MS
_HARD_MS = 2_000.0  # OVERLAP_HARD_MS, YIELD_HARD_MS
_MOST = 0.5  # AGENT_INTERRUPT_MAX_SCORE
_HARD_COUNT = 3  # INTERRUPT_COUNT_HARD

_NATURAL = "a natural end within 2 s of the user's onset is not a yield"

DEFINITIONS = (
    MetricDefinition(
        name="eva.turn_taking",
        source=SOURCE,
        means="mean score of the user's turns, 0 to 1; 0 for a conversation whose last turn is unanswered",
        better="higher",
        corrects=f"{_NATURAL}, and the answer's latency is scored; every unanswered turn scores 0, without "
        "affecting the other turns",
    ),
    MetricDefinition(
        name="eva.user_interruption.mean_yield_ms",
        source=SOURCE,
        means="mean time from the start of the user's interruption to the end of the agent's audio",
        unit="ms",
        better="lower",
        corrects=f"{_NATURAL}; unanswered turns are included",
    ),
    MetricDefinition(
        name="eva.user_interruption.mean_yield_score",
        source=SOURCE,
        means="mean of 1 − yield / 2,000 ms, at least 0",
        better="higher",
        corrects=f"{_NATURAL}; unanswered turns are included",
    ),
)


class _Score(NamedTuple):
    """A turn's score; if the user interrupts, also the yield time and whether the reply ended naturally."""

    score: float
    yield_ms: float | None
    natural: bool


def latency_score(latency_ms: float) -> float:
    """Return the score of a latency: 0 up to −500 ms, 1 from 500 to 2,000 ms, 0 from 3,500 ms, else linear.

    >>> latency_score(200), latency_score(2750)
    (0.7, 0.5)
    """
    if latency_ms < _BEST_FROM_MS:
        return max(0.0, (latency_ms - _EARLY_MS) / (_BEST_FROM_MS - _EARLY_MS))
    return min(1.0, max(0.0, (_LATE_MS - latency_ms) / (_LATE_MS - _BEST_TO_MS)))


def overlap_score(overlap_ms: float) -> float:
    """Return the score of the overlap when the agent interrupts: 0.5, falling to 0 at 2,000 ms.

    >>> overlap_score(500)
    0.375
    """
    return max(0.0, _MOST * (1 - overlap_ms / _HARD_MS))


def count_score(segments: int) -> float:
    """Return the score of the number of agent segments during one user turn: 0.5 for one, 0 for three.

    >>> count_score(2)
    0.25
    """
    return max(0.0, _MOST * (1 - (segments - 1) / (_HARD_COUNT - 1)))


def yield_score(yield_ms: float) -> float:
    """Return the score of the agent's yield time: 1 at 0 ms, falling to 0 at 2,000 ms.

    >>> yield_score(600)
    0.7
    """
    return max(0.0, 1 - yield_ms / _HARD_MS)


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the source's metrics, by name; all turns are scored as turns without tool calls."""
    defined: list[float] = []
    corrected: list[float] = []
    yields_ms: list[float] = []
    yields_corrected_ms: list[float] = []
    natural = unanswered = 0
    for conversation in conversations:
        turns = exchanges(conversation, agent_segments(conversation))
        if not turns:
            continue
        scores = [_score(turn) for turn in turns]
        answered = [score for turn, score in zip(turns, scores, strict=True) if turn.agent]
        defined.append(fmean(each.score for each in answered) if turns[-1].agent else 0.0)
        yields_ms += [each.yield_ms for each in answered if each.yield_ms is not None]
        natural += sum(each.natural for each in scores)
        unanswered += len(turns) - len(answered)
        corrected.append(fmean(_corrected(turn, score) for turn, score in zip(turns, scores, strict=True)))
        yields_corrected_ms += [e.yield_ms for e in scores if e.yield_ms is not None and not e.natural]
    ended = f"natural ends that the source counts as yields: {natural}" if natural else ""
    missed = f"unanswered turns: {unanswered}" if unanswered else ""
    scored = [[yield_score(each) for each in ms] for ms in (yields_ms, yields_corrected_ms)]
    return {
        "turn_taking": mean_value(
            defined, corrected, missing="no turn", why="; ".join(filter(None, (ended, missed)))
        ),
        "user_interruption.mean_yield_ms": mean_value(
            yields_ms, yields_corrected_ms, missing="no interruption", why=ended
        ),
        "user_interruption.mean_yield_score": mean_value(*scored, missing="no interruption", why=ended),
    }


def _corrected(turn: Exchange, score: _Score) -> float:
    if not turn.agent:
        return 0.0
    if score.natural:
        return _score(turn._replace(over=None)).score
    return score.score


def _score(turn: Exchange) -> _Score:
    """Score a turn as the source does."""
    end_ns = turn.speech.end_ns
    yield_ms = None if turn.over is None else (turn.over.end_ns - turn.speech.start_ns) / 1e6
    natural = yield_ms is not None and yield_ms < _HARD_MS and turn.over is not None and turn.over.natural_end
    scores = [] if yield_ms is None else [yield_score(yield_ms)]
    during = [each for each in turn.agent if each.start_ns < end_ns]
    if during:
        overlap_ns = sum(min(each.end_ns, end_ns) - each.start_ns for each in during)
        scores += [overlap_score(overlap_ns / 1e6), count_score(len(during))]
        settled = [each.start_ns for each in turn.agent if each.start_ns > end_ns]
        if settled and not any(each.end_ns > end_ns for each in during):
            scores.append(latency_score((settled[0] - end_ns) / 1e6))
    elif not scores and turn.agent:
        scores.append(latency_score((turn.agent[0].start_ns - end_ns) / 1e6))
    return _Score(min(scores, default=0.0), yield_ms, natural)
