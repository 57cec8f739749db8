"""Compute InteractionGym's rule-based scores: whether the agent behaves as expected, and how quickly.

Source: InteractionGym 283e86e, ``docs/FORMAT.md`` section 6.3, and ``src/interaction_gym/eval.py`` (37e535e).
Each utterance scores 0 to 1. A turn with pauses is scored phrase by phrase: the agent should wait after each
phrase except the last, and answer the last. The expectation ``interrupt`` has no metric because no utterance
here expects an interruption.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking.speech import AgentSegment, Conversation, agent_segments, over_at
from live_eval.types import SpeechKind

__all__ = ["DEFINITIONS", "latency_score", "metrics"]

SOURCE = "InteractionGym 283e86e, docs/FORMAT.md section 6.3"

_MID_MS, _WIDTH_MS = 950.0, 100.0
_RESPOND_NS = 5_000_000_000  # respond_within_ms, answer_window_ms
_STOP_NS = 1_000_000_000  # stop_grace_ms
_REPLY_NS = 2_000_000_000  # respond_window_ms

_NATURAL = "natural ends are excluded"
_MISSING = {
    "respond": "no turn that begins while the agent is silent",
    "yield": "no interruption",
    "ignore": "nothing to ignore",
    "wait": "no pause inside a turn",
    "total": "no user speech",
}

DEFINITIONS = (
    MetricDefinition(
        name="interaction_gym.respond",
        source=SOURCE,
        means="mean score of expected answers: s(latency), 0 if talked over or not answered within 5 s",
        better="higher",
    ),
    MetricDefinition(
        name="interaction_gym.yield",
        source=SOURCE,
        means="mean score of interruptions: s(stop), 0 if the agent continues, resumes or does not answer",
        better="higher",
        corrects=_NATURAL,
    ),
    MetricDefinition(
        name="interaction_gym.ignore",
        source=SOURCE,
        means="share of backchannels, tics, asides and noises that neither stop the agent nor are answered",
        better="higher",
    ),
    MetricDefinition(
        name="interaction_gym.wait",
        source=SOURCE,
        means="share of pauses inside turns that the agent waits through",
        better="higher",
    ),
    MetricDefinition(
        name="interaction_gym.total",
        source=SOURCE,
        means="mean of all these scores",
        better="higher",
        corrects=_NATURAL,
    ),
)


class _Said(NamedTuple):
    """A user phrase and the agent's expected behaviour."""

    start_ns: int
    end_ns: int
    expects: str
    backchannel: bool


class _Scored(NamedTuple):
    """A score and its expectation; `natural` is whether the agent's reply ended naturally."""

    expects: str
    score: float
    natural: bool = False


def latency_score(latency_ms: float) -> float:
    """Return the score s(Δ) = 1 / (1 + e^((Δ − 950) / 100)) of a latency Δ, clamped to at least 0 ms.

    >>> round(latency_score(700), 3), round(latency_score(1200), 3)
    (0.924, 0.076)
    """
    return 1 / (1 + math.exp(min(50.0, (max(0.0, latency_ms) - _MID_MS) / _WIDTH_MS)))


def metrics(conversations: Sequence[Conversation]) -> dict[str, MetricValue]:
    """Compute the mean score of each expectation, and of all of them."""
    scored = [each for conversation in conversations for each in _scores(conversation)]
    natural = sum(each.natural for each in scored)
    why = f"natural ends excluded: {natural}" if natural else ""
    found = {}
    for expects, missing in _MISSING.items():
        these = [each for each in scored if expects in (each.expects, "total")]
        found[expects] = mean_value(
            [each.score for each in these],
            [each.score for each in these if not each.natural],
            missing=missing,
            why=why if expects in ("yield", "total") else "",
        )
    return found


def _said(conversation: Conversation, segments: Sequence[AgentSegment]) -> list[_Said]:
    found = []
    for speech in conversation.user:
        if speech.kind is not SpeechKind.TURN:
            kind = speech.kind is SpeechKind.BACKCHANNEL
            found.append(_Said(speech.start_ns, speech.end_ns, "ignore", kind))
            continue
        *before, (start, end) = speech.phrases
        found += [_Said(*sound, "wait", False) for sound in before]
        expects = "respond" if over_at(conversation, segments, start) is None else "yield"
        found.append(_Said(start, end, expects, False))
    return found


def _scores(conversation: Conversation) -> Iterator[_Scored]:
    segments = agent_segments(conversation)
    said = _said(conversation, segments)
    for place, each in enumerate(said):
        over = over_at(conversation, segments, each.start_ns)
        if each.expects == "ignore":
            yield _Scored("ignore", float(not _reacts(each, said, segments, over, conversation.end_ns)))
            continue
        limit_ns = next((o.start_ns for o in said[place + 1 :] if o.expects != "ignore"), math.inf)
        talks_over = any(each.start_ns < one.start_ns < each.end_ns for one in segments)
        after = next((one for one in segments if each.end_ns <= one.start_ns < limit_ns), None)
        stopped = over is not None and (_cut(over, conversation.end_ns) or over.end_ns < each.end_ns)
        if each.expects == "wait":
            kept = over is not None and not stopped
            yield _Scored("wait", float(not (kept or talks_over or after is not None)))
            continue
        window_ns = min(limit_ns, each.end_ns + _RESPOND_NS)
        answered = after is not None and after.start_ns < window_ns
        censored = not answered and window_ns > conversation.end_ns
        if each.expects == "yield" and over is not None:
            natural = over.natural_end and over.end_ns < each.end_ns
            good = stopped and not talks_over and (answered or censored)
            stop_ms = (over.end_ns - each.start_ns) / 1e6
            yield _Scored("yield", latency_score(stop_ms) if good else 0.0, natural)
        elif talks_over or (not answered and not censored):
            yield _Scored("respond", 0.0)
        elif after is not None and answered:
            yield _Scored("respond", latency_score((after.start_ns - each.end_ns) / 1e6))


def _cut(segment: AgentSegment, end_ns: int) -> bool:
    """Return whether the agent was cut off, rather than ending naturally or with the recording."""
    return not segment.natural_end and segment.end_ns < end_ns


def _reacts(
    sound: _Said,
    said: Sequence[_Said],
    segments: Sequence[AgentSegment],
    over: AgentSegment | None,
    end_ns: int,
) -> bool:
    """Return whether the agent stops for or answers speech that is not addressed to it."""
    turns = [each for each in said if each.expects != "ignore"]
    if over is not None:
        if _cut(over, end_ns):
            return over.end_ns <= sound.end_ns + _STOP_NS
        heard_ns = max(sound.end_ns, over.end_ns)
        reply = _begins(segments, heard_ns)
        return (
            not sound.backchannel
            and reply is not None
            and not any(sound.start_ns < each.end_ns and each.start_ns < reply for each in turns)
        )
    reply = _begins(segments, sound.end_ns)
    if reply is None or any(sound.end_ns <= each.start_ns < reply for each in turns):
        return False
    before = [each.end_ns for each in turns if each.start_ns < sound.end_ns]
    if not before or reply - before[-1] > _RESPOND_NS:
        return True
    return any(before[-1] <= each.start_ns <= sound.start_ns for each in segments)


def _begins(segments: Sequence[AgentSegment], from_ns: int) -> int | None:
    """Return the time at which the agent first begins to speak within 2 s of a given time, or None."""
    return next((e.start_ns for e in segments if from_ns <= e.start_ns <= from_ns + _REPLY_NS), None)
