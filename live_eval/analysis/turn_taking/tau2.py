"""Compute tau2-bench's interaction panel (τ-voice).

Source: tau2-bench a2c0247, ``src/tau2/metrics/voice_interaction_metrics.py`` and
``docs/interaction-metrics.md``. The values as defined are equal to those in tau2's own tests on its recorded
calls.

tau2 divides a call into ticks of 200 ms, and each side is either speaking or silent for a whole tick. Here, a
side speaks in every tick that contains any of its speech, so segments extend outwards to the grid: L_R is too
short and L_Y too long, by up to two ticks. The corrected values use exact times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from live_eval.analysis.metric_definition import MetricDefinition, MetricValue, mean_value
from live_eval.analysis.turn_taking.speech import (
    Conversation,
    UserSpeech,
    agent_segments,
    exchanges,
    over_at,
    speaking_at,
)
from live_eval.types import SpeechKind

__all__ = ["DEFINITIONS", "TICK_NS", "metrics"]

SOURCE = "tau2-bench a2c0247, src/tau2/metrics/voice_interaction_metrics.py"
TICK_NS = 200_000_000
"""The length of tau2's ticks."""
_MIN_EVENTS = 10
"""The minimum number of events for a rate in tau2's leaderboard."""
_LISTENING_NS = 4_000_000_000
"""The minimum listening time after the last turn before it counts as unanswered."""

_YIELD_NS = 2_000_000_000  # no_yield_window_sec
_STOP_NS = 1_000_000_000  # a stop within this time is a reaction to speech not addressed to the agent
_REACTION_NS = 2_000_000_000  # a new reply within this time is a reaction to such speech
_ANSWER_NS = 5_000_000_000  # a reply within this time may answer an open question: InteractionGym, eval.py

_GRID = "exact times are used instead of ticks"
_NATURAL = "natural ends are excluded"
_INTERRUPTIONS = (
    f"{_GRID}; {_NATURAL}, as are interruptions followed by less than 2 s of recording; a turn that contains "
    "a vocal tic counts as a turn"
)

DEFINITIONS = (
    MetricDefinition(
        name="tau2.L_R",
        source=SOURCE,
        means="mean time from the end of a user's turn to the agent's next segment",
        unit="s",
        better="lower",
        corrects=_GRID,
    ),
    MetricDefinition(
        name="tau2.L_Y",
        source=SOURCE,
        means="mean time from the start of the user's interruption until the agent is silent, if within 2 s",
        unit="s",
        better="lower",
        corrects=_INTERRUPTIONS,
    ),
    MetricDefinition(
        name="tau2.R_R",
        source=SOURCE,
        means="share of the user's turns that the agent answers before the user speaks again",
        better="higher",
        corrects=f"{_GRID}; an unanswered last turn counts if at least 4 s were recorded after it",
    ),
    MetricDefinition(
        name="tau2.R_Y",
        source=SOURCE,
        means="share of the user's interruptions that silence the agent within 2 s",
        better="higher",
        corrects=_INTERRUPTIONS,
    ),
    MetricDefinition(
        name="tau2.I_A",
        source=SOURCE,
        means="agent segments that begin while the user speaks, over the turns of R_R; can exceed 1",
        better="lower",
        corrects=f"{_GRID}; the value is the share of the user's turns during which the agent begins "
        "to speak",
    ),
    MetricDefinition(
        name="tau2.S_BC",
        source=SOURCE,
        means="share of backchannels over the agent's speech that do not silence it within 1 s",
        better="higher",
        corrects=f"{_GRID}; {_NATURAL}",
    ),
    *(
        MetricDefinition(
            name=f"tau2.{name}",
            source=SOURCE,
            means=f"share of {what} that neither silence the agent within 1 s nor make it begin within 2 s",
            better="higher",
            corrects=f"{_GRID}; {_NATURAL}; an event that the agent talks through counts as correct (tau2 "
            "ignores events outside a turn); the answer to the previous turn is not a reaction; an event "
            "inside a turn is part of it",
        )
        for name, what in (("S_VT", "vocal tics"), ("S_ND", "utterances to other people"))
    ),
    MetricDefinition(
        name="tau2.selectivity",
        source=SOURCE,
        means="mean of S_BC, S_VT and S_ND; hidden if one has fewer than 10 events",
        better="higher",
        corrects="the value is shown for any number of events",
    ),
)

_IGNORED = {"S_BC": SpeechKind.BACKCHANNEL, "S_VT": SpeechKind.VOCAL_TIC, "S_ND": SpeechKind.NON_DIRECTED}

_NONE = {
    SpeechKind.BACKCHANNEL: "no backchannel over the agent's speech",
    SpeechKind.VOCAL_TIC: "no vocal tic",
    SpeechKind.NON_DIRECTED: "no utterance to other people",
}


@dataclass(slots=True)
class _Events:
    responses_ns: list[int] = field(default_factory=list)
    unanswered: int = 0
    yields_ns: list[int] = field(default_factory=list)
    kept_talking: int = 0
    interruptions: int = 0
    interrupted: list[bool] = field(default_factory=list)  # one entry per turn
    ignored: dict[SpeechKind, list[bool]] = field(
        default_factory=lambda: {kind: [] for kind in _IGNORED.values()}
    )
    natural_ends: Counter[SpeechKind] = field(default_factory=Counter)


def metrics(conversations: Sequence[Conversation], tick_ns: int = TICK_NS) -> dict[str, MetricValue]:
    """Compute L_R and L_Y (in seconds), R_R, R_Y, I_A, S_BC, S_VT, S_ND and selectivity, by name.

    Turns and backchannels correspond to tau2's user segments. Vocal tics and utterances to other people
    correspond to its effects, which may lie inside a segment or outside.
    """
    defined, exact = _Events(), _Events()
    for conversation in conversations:
        _count_ticks(conversation, tick_ns, defined)
        _count(conversation, exact)
    turns = len(defined.responses_ns) + defined.unanswered
    natural = {kind: f"natural ends excluded: {count}" for kind, count in exact.natural_ends.items()}
    found = {
        "L_R": mean_value(
            _seconds(defined.responses_ns), _seconds(exact.responses_ns), missing="no answered turn"
        ),
        "L_Y": mean_value(
            _seconds(defined.yields_ns),
            _seconds(exact.yields_ns),
            missing="no yield",
            why=natural.get(SpeechKind.TURN, ""),
        ),
        "R_R": mean_value(
            _outcomes(len(defined.responses_ns), defined.unanswered),
            _outcomes(len(exact.responses_ns), exact.unanswered),
            missing="no turn that ends with the agent silent and is followed by speech",
        ),
        "R_Y": mean_value(
            _outcomes(len(defined.yields_ns), defined.kept_talking),
            _outcomes(len(exact.yields_ns), exact.kept_talking),
            missing="no interruption",
            why=natural.get(SpeechKind.TURN, ""),
        ),
        "I_A": MetricValue(
            as_defined=defined.interruptions / turns if turns else None,
            corrected=fmean(exact.interrupted) if exact.interrupted else None,
            n=turns,
            n_corrected=len(exact.interrupted),
            why="" if turns else "as defined: no turn that R_R counts",
        ),
    }
    for name, kind in _IGNORED.items():
        found[name] = mean_value(
            defined.ignored[kind], exact.ignored[kind], missing=_NONE[kind], why=natural.get(kind, "")
        )
    found["selectivity"] = _selectivity([found[name] for name in _IGNORED])
    return found


def _selectivity(parts: Sequence[MetricValue]) -> MetricValue:
    defined = [part.as_defined for part in parts if part.as_defined is not None and part.n >= _MIN_EVENTS]
    corrected = [part.corrected for part in parts if part.corrected is not None]
    why = []
    if len(defined) < len(parts):
        counts = ", ".join(str(part.n) for part in parts)
        why.append(f"as defined: hidden, S_BC, S_VT and S_ND require {_MIN_EVENTS} events each, got {counts}")
    if len(corrected) < len(parts):
        why.append("corrected: S_BC, S_VT or S_ND has no event")
    return MetricValue(
        as_defined=fmean(defined) if len(defined) == len(parts) else None,
        corrected=fmean(corrected) if len(corrected) == len(parts) else None,
        n=sum(part.n for part in parts),
        n_corrected=sum(part.n_corrected for part in parts),
        why="; ".join(why),
    )


def _seconds(durations_ns: Iterable[int]) -> list[float]:
    return [duration / 1e9 for duration in durations_ns]


def _outcomes(good: int, bad: int) -> list[bool]:
    return [True] * good + [False] * bad


class _Span(NamedTuple):
    """A half-open range of speech ticks."""

    start: int
    end: int
    kind: SpeechKind = SpeechKind.TURN


def _count_ticks(conversation: Conversation, tick_ns: int, events: _Events) -> None:
    """Count events by tau2's definition: in ticks, joining adjacent ones."""

    def span(start_ns: int, end_ns: int, kind: SpeechKind = SpeechKind.TURN) -> _Span:
        origin = conversation.start_ns
        return _Span((start_ns - origin) // tick_ns, -(-(end_ns - origin) // tick_ns), kind)

    ticks = -(-(conversation.end_ns - conversation.start_ns) // tick_ns)
    spoken = [span(each.start_ns, each.end_ns, each.kind) for each in conversation.user]
    user = _joined([each for each in spoken if each.kind in (SpeechKind.TURN, SpeechKind.BACKCHANNEL)])
    if user and (user[-1].start, user[-1].end) == (ticks - 1, ticks):
        user.pop()  # the tick in which tau2's simulated user ends the call
        ticks -= 1
    replies = agent_segments(conversation)
    agent = _until(ticks, _joined([span(each.start_ns, each.end_ns) for each in replies]))
    muted = {  # the reply pauses when the user begins
        span(each.start_ns, each.end_ns).start
        for each in conversation.user
        if speaking_at(replies, each.start_ns) and conversation.reply_at(each.start_ns) is None
    }
    effects = [each for each in spoken if each.kind in (SpeechKind.VOCAL_TIC, SpeechKind.NON_DIRECTED)]
    effects = _until(ticks, effects)

    _count_responses(user, agent, tick_ns, events)
    for segment in user:
        inside = {each.kind for each in effects if each.start < segment.end and segment.start < each.end}
        effect_kind = next((each for each in _IGNORED.values() if each in inside), None)
        over = _during(agent, segment.start)
        if over is not None and segment.start in muted:
            continue
        if over is None:
            if effect_kind is not None:
                begun = _begins(agent, segment.start, segment.end + _REACTION_NS // tick_ns)
                events.ignored[effect_kind].append(not begun)
            continue
        kind = segment.kind if segment.kind is SpeechKind.BACKCHANNEL else effect_kind or segment.kind
        window = (_YIELD_NS if kind is SpeechKind.TURN else _STOP_NS) // tick_ns
        silent = over.end < min(segment.start + window, ticks)
        if kind is not SpeechKind.TURN:
            events.ignored[kind].append(not silent)
        elif silent:
            events.yields_ns.append((over.end - segment.start) * tick_ns)
        else:
            events.kept_talking += 1
    events.interruptions += sum(_during(user, each.start) is not None for each in agent)

    for effect in effects:
        for start, end in _outside(effect, user):
            over = _during(agent, start)
            if over is not None and start in muted:
                continue
            if over is None:
                begun = _begins(agent, start, end + _REACTION_NS // tick_ns)
                events.ignored[effect.kind].append(not begun)
            elif (over.end - start) * tick_ns <= _STOP_NS:
                events.ignored[effect.kind].append(False)  # tau2 does not count an agent that continues


def _count_responses(user: Sequence[_Span], agent: Sequence[_Span], tick_ns: int, events: _Events) -> None:
    turns = [each for each in user if each.kind is SpeechKind.TURN and _during(agent, each.end) is None]
    for place, turn in enumerate(turns):
        reply = next((each.start for each in agent if each.start >= turn.end), None)
        following = turns[place + 1].start if place + 1 < len(turns) else None
        if reply is not None and (following is None or reply <= following):
            events.responses_ns.append((reply - turn.end) * tick_ns)
        elif following is not None:
            events.unanswered += 1


def _until(ticks: int, spans: Iterable[_Span]) -> list[_Span]:
    return [each._replace(end=min(each.end, ticks)) for each in spans if each.start < ticks]


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """Join adjacent spans; a joined span has the kind of the first."""
    found: list[_Span] = []
    for each in sorted(spans):
        if found and each.start <= found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, each.end))
        else:
            found.append(each)
    return found


def _during(spans: Iterable[_Span], tick: int) -> _Span | None:
    return next((each for each in spans if each.start <= tick < each.end), None)


def _begins(spans: Iterable[_Span], first: int, last: int) -> bool:
    return any(first <= each.start <= last for each in spans)


def _outside(effect: _Span, user: Sequence[_Span]) -> list[tuple[int, int]]:
    """Return the parts of an effect that do not overlap with other user speech."""
    found, start = [], effect.start
    for each in user:
        if each.end > start and each.start < effect.end:
            if each.start > start:
                found.append((start, each.start))
            start = max(start, each.end)
    return [*found, (start, effect.end)] if start < effect.end else found


def _count(conversation: Conversation, events: _Events) -> None:
    """Count events with exact times, without tau2's defects."""
    agent = agent_segments(conversation)
    turns = exchanges(conversation, agent)
    answerable = [turn for turn in turns if speaking_at(agent, turn.speech.end_ns) is None]
    for place, turn in enumerate(answerable):
        end_ns = turn.speech.end_ns
        reply = next((each.start_ns for each in agent if each.start_ns >= end_ns), None)
        following = answerable[place + 1].speech.start_ns if place + 1 < len(answerable) else None
        if reply is not None and (following is None or reply <= following):
            events.responses_ns.append(reply - end_ns)
        elif following is not None or conversation.end_ns - end_ns >= _LISTENING_NS:
            events.unanswered += 1

    for turn in turns:
        start_ns = turn.speech.start_ns
        events.interrupted.append(any(each.start_ns < turn.speech.end_ns for each in turn.agent))
        if turn.over is None:
            continue
        if turn.over.end_ns >= min(start_ns + _YIELD_NS, conversation.end_ns):
            events.kept_talking += conversation.end_ns >= start_ns + _YIELD_NS
        elif turn.over.natural_end:
            events.natural_ends[SpeechKind.TURN] += 1
        else:
            events.yields_ns.append(turn.over.end_ns - start_ns)

    for speech in conversation.user:
        if speech.kind not in events.ignored or _inside_a_turn(speech, conversation):
            continue
        over = over_at(conversation, agent, speech.start_ns)
        if over is None and speaking_at(agent, speech.start_ns) is not None:
            continue  # the reply pauses
        if over is not None:
            stopped = over.end_ns - speech.start_ns
            silent = stopped < _STOP_NS or (stopped == _STOP_NS and speech.kind is not SpeechKind.BACKCHANNEL)
            if silent and over.natural_end:
                events.natural_ends[speech.kind] += 1
            else:
                events.ignored[speech.kind].append(not silent)
        elif speech.kind is not SpeechKind.BACKCHANNEL:
            reacts = any(
                speech.start_ns <= each.start_ns <= speech.end_ns + _REACTION_NS
                and not _answers_a_turn(each.start_ns, speech, conversation, [one.start_ns for one in agent])
                for each in agent
            )
            events.ignored[speech.kind].append(not reacts)


def _inside_a_turn(speech: UserSpeech, conversation: Conversation) -> bool:
    return speech.kind is not SpeechKind.BACKCHANNEL and any(
        each.kind is SpeechKind.TURN and each.start_ns < speech.end_ns and speech.start_ns < each.end_ns
        for each in conversation.user
    )


def _answers_a_turn(
    reply_ns: int, speech: UserSpeech, conversation: Conversation, starts_ns: Sequence[int]
) -> bool:
    """Return whether a reply may answer a turn, either after the effect or still open before it."""
    turns = [each for each in conversation.user if each.kind is SpeechKind.TURN]
    if any(speech.end_ns <= each.start_ns < reply_ns for each in turns):
        return True
    before = [each.end_ns for each in turns if each.start_ns < speech.start_ns]
    if not before or reply_ns - before[-1] > _ANSWER_NS:
        return False
    return not any(before[-1] <= start < speech.start_ns for start in starts_ns)
