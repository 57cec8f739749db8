"""Trial metrics: by condition, paired between two runs, and for the endpoint as a whole.

Intervals resample trials, so they apply to these stimuli only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from live_eval.analysis.latency.drift import drift_metrics
from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_mean,
    estimate_quantile,
    estimate_share,
    interval_json,
    paired_difference,
    quantile,
    rounded,
)
from live_eval.analysis.turn_taking import DEFINITIONS, all_metrics
from live_eval.analysis.turn_taking.outcomes import Outcome, Rule
from live_eval.analysis.turn_taking.trial import SENTINEL, TrialResult
from live_eval.types import SpeechKind

__all__ = [
    "TRIALS",
    "condition_metrics",
    "differences",
    "metrics",
    "profile",
    "sentinel_drift",
]

TRIALS = "trials"
"""The resampling unit."""
_WHOLE = 100.0
_MS = 3
"""Decimals of a duration in ms."""


# -- One condition -------------------------------------------------------------------------------------


def condition_metrics(run: str, probe: str, condition: str, trials: Sequence[TrialResult]) -> dict[str, Any]:
    """Return the metrics of one condition in one run, from all attempts (at least one) at its trials."""
    kept = list({trial.facts.trial_id: trial for trial in trials}.values())
    names = dict.fromkeys(name for trial in kept for name in trial.judgement.durations_ns)
    counted = _counted(kept)
    entry = {
        "probe": probe,
        "condition": condition,
        "run": run,
        "rule": kept[0].rule.value,
        "passes": [outcome.value for outcome in kept[0].rule.passes],
        "trials": [_trial(run, trial) for trial in trials],
        "outcomes": dict(Counter(trial.outcome.value for trial in kept).most_common()),
        "void": sum(trial.outcome.void for trial in trials),
        "passed": _share(counted, lambda trial: bool(trial.passed)).as_json(_MS),
        "durations": {name: _distribution(_values(kept, name)) for name in names},
        "talk_ratio": _mean({trial.facts.trial_id: trial.judgement.talk_ratio for trial in counted}),
    }
    if kept[0].rule is Rule.FALSE_TRIGGER and any(map(_hears_noise, kept)):
        entry["false_triggers_per_minute"] = _mean(
            {trial.facts.trial_id: _per_minute(trial) for trial in counted}
        )
    if kept[0].facts.meant:
        entry["correction"] = {where: _taken_up(counted, where) for where in ("reply", "heard")}
    return entry


def _trial(run: str, trial: TrialResult) -> dict[str, Any]:
    conversation, judgement = trial.conversation, trial.judgement
    start_ns = conversation.start_ns if conversation is not None else 0
    return {
        "trial": trial.facts.trial_id,
        "playing": trial.playing,
        "run": run,
        "turns": [turn.turn_id for turn in trial.turns],
        "outcome": judgement.outcome.value,
        "passed": trial.passed,
        "reason": judgement.reason,
        "void_reason": judgement.reason if judgement.outcome.void else None,
        "failure": trial.failure.kind.value if trial.failure is not None else None,
        "durations_ms": {
            name: None if ns is None else round(ns / 1e6, _MS) for name, ns in judgement.durations_ns.items()
        },
        "marks": {name: round((at_ns - start_ns) / 1e6, _MS) for name, at_ns in judgement.marks_ns.items()},
        "talk_ratio": rounded(judgement.talk_ratio, _MS),
        "triggers": judgement.triggers,
        "correction": dict(trial.correction) or None,
        "lag_ms": round(trial.lag_ns / 1e6, _MS),
        "flagged": any(turn.timing.flagged for turn in trial.turns),
    }


def _values(trials: Iterable[TrialResult], name: str) -> dict[str, float]:
    """Return a duration in ms by trial, excluding void trials."""
    return {
        trial.facts.trial_id: ns / 1e6
        for trial in trials
        if trial.passed is not None and (ns := trial.judgement.durations_ns.get(name)) is not None
    }


def _distribution(values: Mapping[str, float]) -> dict[str, Any]:
    p50, p90, p95 = (
        estimate_quantile(list(values.values()), list(values), share, drawn_as=TRIALS)
        for share in (0.5, 0.9, 0.95)
    )
    return {
        "n": len(values),
        "p50": rounded(p50.value, _MS),
        "interval": interval_json(p50.interval, _MS),
        "p90": rounded(p90.value, _MS),
        "p95": rounded(p95.value, _MS),
        "max": rounded(max(values.values(), default=None), _MS),
        "reason": {
            key: each.reason for key, each in (("p50", p50), ("p90", p90), ("p95", p95)) if each.reason
        },
    }


def _mean(values: Mapping[str, float | None]) -> dict[str, Any]:
    known = {name: value for name, value in values.items() if value is not None}
    return estimate_mean(list(known.values()), list(known), drawn_as=TRIALS).as_json(_MS)


def _counted(trials: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the trials that passed or failed; none if at least as many are unknown.

    With more unknown outcomes, the known trials would be a biased selection.
    """
    counted = [trial for trial in trials if trial.passed is not None]
    unknown = sum(trial.outcome is Outcome.UNKNOWN for trial in trials)
    return counted if len(counted) > unknown else []


def _share(trials: Sequence[TrialResult], holds: Callable[[TrialResult], bool]) -> Estimate:
    """Return the percentage of trials that satisfy a predicate."""
    names = [trial.facts.trial_id for trial in trials]
    return estimate_share([_WHOLE * holds(trial) for trial in trials], names, drawn_as=TRIALS)


def _taken_up(trials: Sequence[TrialResult], where: str) -> dict[str, Any]:
    """Return the share of corrections with a known transcript that were understood."""
    known = [trial for trial in trials if trial.correction.get(where) is not None]
    return _share(known, lambda trial: bool(trial.correction[where])).as_json(_MS)


def _hears_noise(trial: TrialResult) -> bool:
    return trial.conversation is not None and trial.conversation.user[-1].kind is SpeechKind.NOISE


def _per_minute(trial: TrialResult) -> float | None:
    """Return the number of unprompted responses per minute since the last utterance began."""
    conversation, triggers = trial.conversation, trial.judgement.triggers
    if conversation is None or triggers is None:
        return None
    return triggers / ((conversation.end_ns - conversation.user[-1].start_ns) / 60e9)


# -- Pairs ---------------------------------------------------------------------------------------------


def differences(first: Sequence[TrialResult], second: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return the difference between the trials of two runs, second minus first, for each condition.

    The last attempts of each run are paired by trial name; void trials are excluded. Conditions are in the
    order of their first trial in `first`.
    """
    others = {trial.facts.trial_id: trial for trial in second}
    groups: dict[tuple[str, str], list[tuple[TrialResult, TrialResult]]] = {}
    for trial in first:
        other = others.get(trial.facts.trial_id)
        if trial.facts.probe != SENTINEL and other is not None:
            groups.setdefault((trial.facts.probe, trial.facts.condition), []).append((trial, other))
    return [
        {"probe": probe, "condition": condition, **_differences(pairs)}
        for (probe, condition), pairs in groups.items()
    ]


def _differences(pairs: Sequence[tuple[TrialResult, TrialResult]]) -> dict[str, Any]:
    judged = [pair for pair in pairs if None not in (pair[0].passed, pair[1].passed)]
    passed = paired_difference(
        [_WHOLE * bool(one.passed) for one, _ in judged],
        [_WHOLE * bool(other.passed) for _, other in judged],
        [one.facts.trial_id for one, _ in judged],
        drawn_as=TRIALS,
    )
    names = dict.fromkeys(name for one, _ in pairs for name in one.judgement.durations_ns)
    return {
        "pairs": len(judged),
        "outcomes": dict(Counter(f"{one.outcome} → {other.outcome}" for one, other in judged).most_common()),
        "passed": passed.as_json(_MS),
        "durations": {name: _difference(pairs, name) for name in names},
    }


def _difference(pairs: Sequence[tuple[TrialResult, TrialResult]], name: str) -> dict[str, Any]:
    """Return a duration's medians over the trials with a value in both runs, and the mean difference."""
    ones = _values((one for one, _ in pairs), name)
    others = _values((other for _, other in pairs), name)
    both = [trial_id for trial_id in ones if trial_id in others]
    first, second = [ones[each] for each in both], [others[each] for each in both]
    difference = paired_difference(first, second, both, drawn_as=TRIALS)
    return {
        "first_p50": rounded(quantile(first, 0.5), _MS),
        "second_p50": rounded(quantile(second, 0.5), _MS),
        "difference": difference.as_json(_MS),
    }


def metrics(trials: Sequence[TrialResult]) -> dict[str, Any]:
    """Return the published metrics over all successful sessions, including void trials, as in the sources.

    Trials in which consecutive replies cannot be distinguished are excluded.
    """
    conversations = [
        trial.conversation
        for trial in trials
        if trial.conversation is not None
        and trial.failure is None
        and trial.facts.probe != SENTINEL
        and trial.outcome is not Outcome.UNKNOWN
    ]
    return {
        name: {
            **each.as_json(),
            "means": DEFINITIONS[name].means,
            "unit": DEFINITIONS[name].unit,
            "better": DEFINITIONS[name].better,
            "corrects": DEFINITIONS[name].corrects,
        }
        for name, each in all_metrics(conversations).items()
    }


# -- The endpoint --------------------------------------------------------------------------------------


def profile(trials: Sequence[TrialResult], ladder: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Return metrics of an endpoint's patience, speed and selectivity.

    Args:
        trials: Last attempts of a run.
        ladder: Gap in ms by probe and condition, shortest first, for patience.
    """
    # A silent endpoint is never triggered, which is not a merit.
    heard = any(
        speech.sounds
        for trial in trials
        if trial.conversation is not None
        for speech in trial.conversation.agent
    )
    judged = [
        trial
        for trial in trials
        if heard
        and trial.facts.probe != SENTINEL
        and trial.outcome
        not in (Outcome.NO_REPLY, Outcome.FAILED)  # these trials do not show the endpoint's behaviour
    ]
    of_rule = {rule: _counted([trial for trial in judged if trial.rule is rule]) for rule in Rule}
    answered = [trial for trial in judged if trial.outcome in (Outcome.ANSWERED, Outcome.WAITED)]
    return {
        "patience": _patience(of_rule[Rule.PAUSE], ladder),
        "quickness": {
            "response_latency": _distribution(_values(answered, "response_latency")),
            "audible_stop": _distribution(_values(of_rule[Rule.INTERRUPTION], "audible_stop")),
            "provider_stop": _distribution(_values(of_rule[Rule.INTERRUPTION], "provider_stop")),
            "new_reply": _distribution(_values(of_rule[Rule.INTERRUPTION], "new_reply")),
        },
        "selectivity": _share(
            [*of_rule[Rule.BACKCHANNEL], *of_rule[Rule.FALSE_TRIGGER]], lambda trial: bool(trial.passed)
        ).as_json(_MS),
        "yielding": _share(of_rule[Rule.INTERRUPTION], lambda trial: bool(trial.passed)).as_json(_MS),
    }


def _patience(trials: Sequence[TrialResult], ladder: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    """Return the share of trials that survived each gap length of the ladder, and the longest survived gap.

    A gap is survived if at least half of the trials of this gap, and of every shorter one, survived.
    """
    longest: int | None = None
    survived: dict[str, Any] = {}
    unbroken = True
    for (probe, condition), gap_ms in ladder.items():
        played = [
            trial for trial in trials if (trial.facts.probe, trial.facts.condition) == (probe, condition)
        ]
        if not played:
            continue
        share = _share(played, lambda trial: bool(trial.passed))
        survived[condition] = share.as_json(_MS)
        unbroken = unbroken and share.value is not None and share.value >= _WHOLE / 2
        if unbroken:
            longest = gap_ms
    return {"longest_pause_ms": longest, "survived": survived}


def sentinel_drift(trials: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return the drift of one question's results during a run."""
    parts: dict[str, list[TrialResult]] = {}
    for trial in trials:
        if trial.facts.probe == SENTINEL:
            parts.setdefault(trial.facts.condition, []).append(trial)
    # Questions have the same name in every part, so that parts can be paired.
    turns = {
        name: [
            replace(turn, turn_id=str(number)) for number, trial in enumerate(played) for turn in trial.turns
        ]
        for name, played in parts.items()
    }
    first = next(iter(turns.values()), [])
    return [{"name": name, **drift_metrics(each, first)} for name, each in turns.items()]
