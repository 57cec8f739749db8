"""Draw a probe's charts: outcomes, durations, and every trial on two tracks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from live_eval.analysis.statistics.distribution import distribution
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.turn_taking.outcomes import Outcome, Rule
from live_eval.analysis.turn_taking.speech import Conversation
from live_eval.analysis.turn_taking.trial_metrics import ConditionMetrics
from live_eval.report.bars import Bar, BarChart, BarRow, Mark, bar
from live_eval.report.cells import Cell, estimate_cell, number
from live_eval.report.duplex.glossary import DURATION_TITLES, MARK_TITLES, spelt
from live_eval.report.duplex.sides import ConditionView
from live_eval.report.duplex.trial_view import TELLING, TrialView
from live_eval.report.plots import Axis

__all__ = ["duration_chart", "outcome_chart", "timeline_legend", "timelines"]

_NO_VALUES = distribution([])
_FURTHER: Mapping[str, tuple[Callable[[ConditionMetrics], Estimate | None], int]] = {
    "correction in the reply, %": (lambda metrics: metrics.correction.get("reply"), 0),
    "correction heard, %": (lambda metrics: metrics.correction.get("heard"), 0),
    "false triggers per minute": (lambda metrics: metrics.false_triggers_per_minute, 1),
    "talk ratio": (lambda metrics: metrics.talk_ratio, 1),
}
"""Further metrics of a condition and their number of decimals, by heading."""
_BEFORE_MS, _AFTER_MS = -4_000.0, 9_000.0
"""The ends of a timeline, relative to the time at which its trials are aligned."""


def outcome_chart(conditions: Sequence[ConditionView]) -> BarChart:
    """Draw the share of each outcome in the valid trials of each condition."""
    present = [outcome for outcome in Outcome if any(condition.count(outcome) for condition in conditions)]
    further = [
        title
        for title, (find, _) in _FURTHER.items()
        if any(find(condition.metrics) is not None for condition in conditions)
    ]
    axis = Axis(0.0, 100.0, 20.0)
    return BarChart(
        what="condition",
        axis="per cent of valid trials",
        columns=("passed, %", "trials", *(spelt(each) for each in present), *further),
        rows=tuple(_outcomes(condition, present, further, axis) for condition in conditions),
        ticks=axis.ticks(),
        zero=0.0,
        legend=tuple((_kind(outcome, conditions), spelt(outcome)) for outcome in present if not outcome.void),
    )


def _further(condition: ConditionView, title: str) -> Cell:
    find, digits = _FURTHER[title]
    found = find(condition.metrics)
    return Cell(number(None)) if found is None else estimate_cell(found, digits)


def _kind(outcome: Outcome, conditions: Sequence[ConditionView]) -> str:
    """Return an outcome's style, which reflects whether the outcome passes in any condition."""
    passes = any(outcome in condition.metrics.rule.passes for condition in conditions)
    return f"o-{outcome}" + (" passed" if passes else "")


def _outcomes(
    condition: ConditionView, present: Sequence[Outcome], further: Iterable[str], axis: Axis
) -> BarRow:
    counted = [(outcome, condition.count(outcome)) for outcome in present]
    valid = sum(count for outcome, count in counted if not outcome.void)
    bars, left = [], 0.0
    for outcome, count in counted:
        if count and not outcome.void:
            right = left + 100 * count / valid
            words = f"{spelt(outcome)}: {count} of {valid}"
            bars.append(bar(_kind(outcome, [condition]), left, right, axis, words))
            left = right
    counts = [Cell(str(count), href=condition.link(outcome) if count else "") for outcome, count in counted]
    return BarRow(
        condition.label,
        tuple(bars),
        (),
        (
            estimate_cell(condition.metrics.passed, strong=True),
            Cell(str(valid), href=condition.link()),
            *counts,
            *(_further(condition, title) for title in further),
        ),
    )


def duration_chart(name: str, conditions: Sequence[ConditionView]) -> BarChart | None:
    """Draw a duration of every trial, by condition, with the median and its interval.

    Returns:
        The chart; None if no trial has the duration.
    """
    drawn = [(condition, condition.values(name)) for condition in conditions]
    values = [ms for _, found in drawn for ms, _ in found]
    if not values:
        return None
    axis = Axis.around(min(values), max(values))
    return BarChart(
        what="condition",
        axis="milliseconds",
        columns=("n", "p50", "p95"),
        rows=tuple(_durations(name, condition, found, axis) for condition, found in drawn),
        ticks=axis.ticks(),
        zero=axis.percent(0),
        legend=(
            *(
                (f"trial {verdict}", words)
                for verdict, words in _VERDICTS.items()
                if any(view.verdict == verdict for _, found in drawn for _, view in found)
            ),
            ("p50", "p50"),
            ("interval", "interval of p50"),
            ("p95", "p95"),
        ),
    )


_VERDICTS = {"pass": "passed", "fail": "not passed", "failed": "session failed"}


def _durations(
    name: str, condition: ConditionView, found: Sequence[tuple[float, TrialView]], axis: Axis
) -> BarRow:
    duration = condition.metrics.durations.get(name, _NO_VALUES)
    p50, p95 = duration["p50"], duration["p95"]
    title, side = DURATION_TITLES[name], condition.side.index
    bars: tuple[Bar, ...] = ()
    if p50.interval is not None:
        low, high = p50.interval
        bars = (bar(f"interval c{side}", low, high, axis, f"p50: {number(low)} to {number(high)} ms"),)
    marks = [
        Mark(f"trial {view.verdict}", axis.percent(ms), f"{view.name}: {title} {number(ms)} ms", view.href)
        for ms, view in found
    ]
    marks += [
        Mark(f"{share} c{side}", axis.percent(value), f"{share}: {number(value)} ms")
        for share, value in (("p50", p50.value), ("p95", p95.value))
        if value is not None
    ]
    return BarRow(
        condition.label,
        bars,
        tuple(marks),
        (
            Cell(str(duration.n)),
            estimate_cell(p50, strong=True),
            Cell(number(p95.value), note="" if p95.value is not None else p95.reason),
        ),
    )


def timelines(condition: ConditionView) -> BarChart | None:
    """Draw every trial of a condition on two tracks: the user above, the endpoint (as heard) below.

    Trials are aligned at the tested event: the start of the user's interruption or sound, the start of the
    first pause, or the end of the user's speech, depending on the rule.

    Returns:
        The chart; None if no trial was recorded.
    """
    drawn = [
        (view, conversation)
        for view in condition.trials
        if (conversation := view.played.conversation) is not None
    ]
    if not drawn:
        return None
    ends = [
        _ms_from(zero, at)
        for view, conversation in drawn
        for zero in [_zero_ns(view.played.rule, conversation)]
        for sound in _audible(conversation)
        for at in sound
    ]
    axis = Axis.around(max(_BEFORE_MS, min(ends)) / 1e3, min(_AFTER_MS, max(ends)) / 1e3)
    rule = drawn[0][0].played.rule
    names = list(dict.fromkeys(view.played.facts.trial_id for view in condition.trials))
    return BarChart(
        what="trial",
        axis=" · ".join(filter(None, ["" if condition.alone else condition.side.label, _ALIGNED[rule]])),
        columns=("outcome", f"{DURATION_TITLES[TELLING[rule][0]]}, ms"),
        rows=tuple(
            _tracks(names.index(view.played.facts.trial_id) + 1, view, conversation, axis)
            for view, conversation in drawn
        ),
        ticks=axis.ticks(),
        zero=axis.percent(0),
    )


def timeline_legend(conditions: Iterable[ConditionView]) -> list[tuple[str, str]]:
    """Return the style and name of each kind of bar and mark in the conditions' timelines."""
    marked = {
        name
        for condition in conditions
        for view in condition.trials
        for name in view.played.judgement.marks_ns
    }
    return [
        ("t-user", "user"),
        ("t-endpoint", "endpoint, as heard"),
        *((_style(name), title) for name, title in MARK_TITLES.items() if name in marked & _SHOWN),
    ]


_ALIGNED = {
    Rule.ANSWER: "seconds after the user has finished",
    Rule.PAUSE: "seconds after the first pause begins",
    Rule.BEFORE_REPLY: "seconds after the sound begins",
    Rule.INTERRUPTION: "seconds after the user begins to speak over the reply",
    Rule.BACKCHANNEL: "seconds after the user begins to speak over the reply",
    Rule.FALSE_TRIGGER: "seconds after the sound begins",
}
_SHOWN = {"provider_stop", "gave_up", "trigger"}
"""Marks that do not coincide with an end of a bar."""


def _zero_ns(rule: Rule, conversation: Conversation) -> int:
    last = conversation.user[-1]
    match rule:
        case Rule.ANSWER:
            return last.end_ns
        case Rule.PAUSE:
            return last.phrases[0].end_ns
        case _:
            return last.start_ns


def _ms_from(zero_ns: int, at_ns: int) -> float:
    return (at_ns - zero_ns) / 1e6


def _audible(conversation: Conversation) -> Iterator[tuple[int, int]]:
    for user in conversation.user:
        yield from user.sounds
    for agent in conversation.agent:
        yield from agent.sounds


def _style(mark: str) -> str:
    return f"m-{mark.replace('_', '-')}"


def _tracks(number_: int, view: TrialView, conversation: Conversation, axis: Axis) -> BarRow:
    zero = _zero_ns(view.played.rule, conversation)
    tracks = [("t-user", "user", sound) for speech in conversation.user for sound in speech.sounds]
    tracks += [("t-endpoint", "endpoint", sound) for speech in conversation.agent for sound in speech.sounds]
    bars = []
    for kind, who, sound in tracks:
        start, end = (_ms_from(zero, at) / 1e3 for at in sound)
        if end > axis.low and start < axis.high:
            bars.append(bar(kind, start, end, axis, f"{who}: {number(start, 2)} to {number(end, 2)} s"))
    marks = [
        Mark(_style(name), axis.percent(at), f"{MARK_TITLES[name]}: {number(at, 2)} s")
        for name, at_ns in view.played.judgement.marks_ns.items()
        if name in _SHOWN and axis.low <= (at := _ms_from(zero, at_ns) / 1e3) <= axis.high
    ]
    played = view.played
    return BarRow(
        Cell(f"trial {number_}" + (" repeated" if played.playing else ""), href=view.href),
        tuple(bars),
        tuple(marks),
        (
            Cell(spelt(played.outcome), note=played.judgement.reason, strong=view.verdict == "fail"),
            Cell(number(view.milliseconds(TELLING[played.rule][0]))),
        ),
    )
