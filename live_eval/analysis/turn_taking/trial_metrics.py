"""Compute the metrics of trials, by condition and for the whole endpoint.

Intervals resample a user's recordings, each with all of its trials. For the bundled stimuli, they resample
trials, so they do not generalise to other stimuli.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from live_eval.analysis.latency.drift import DriftCheck, drift_check
from live_eval.analysis.metric_definition import MetricValue
from live_eval.analysis.statistics.distribution import Distribution, distribution
from live_eval.analysis.statistics.intervals import (
    Estimate,
    estimate_mean,
    estimate_share,
    interval_json,
    rounded,
)
from live_eval.analysis.turn_taking import all_metrics
from live_eval.analysis.turn_taking.outcomes import Outcome, Rule
from live_eval.analysis.turn_taking.trial import SENTINEL, TrialResult, last_attempts
from live_eval.types import SpeechKind

__all__ = [
    "ConditionMetrics",
    "EndpointProfile",
    "condition_metrics",
    "drawn_as",
    "durations_ms",
    "endpoint_profile",
    "published_metrics",
    "sentinel_drift",
    "share_of",
]

_WHOLE = 100.0
_MS = 3
"""Decimals of a duration in ms."""


# -- One condition -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionMetrics:
    """The metrics of one condition in one run.

    Args:
        trials: All attempts at the condition's trials.
        rule: Rule that judges the trials.
        outcomes: Number of trials by the outcome of their last attempt.
        void: Number of void attempts.
        passed: Share of the conclusive trials that passed, in per cent.
        durations: Durations in ms, excluding void trials.
        talk_ratio: Mean ratio of audible endpoint speech to user speech.
        false_triggers_per_minute: Unprompted responses per minute of noise; None under other rules.
        correction: Share of corrections that were understood, in per cent, according to the ``reply`` and to
            the transcript ``heard``; empty without a correction.
    """

    run: str
    probe: str
    condition: str
    trials: Sequence[TrialResult]
    rule: Rule
    outcomes: Mapping[Outcome, int]
    void: int
    passed: Estimate
    durations: Mapping[str, Distribution]
    talk_ratio: Estimate
    false_triggers_per_minute: Estimate | None
    correction: Mapping[str, Estimate]

    def as_json(self) -> dict[str, Any]:
        """Return the metrics as printed by ``live-eval duplex --json``."""
        found: dict[str, Any] = {
            "probe": self.probe,
            "condition": self.condition,
            "run": self.run,
            "rule": self.rule.value,
            "passes": [outcome.value for outcome in self.rule.passes],
            "trials": [_trial_json(self.run, trial) for trial in self.trials],
            "outcomes": {outcome.value: count for outcome, count in self.outcomes.items()},
            "void": self.void,
            "passed": self.passed.as_json(_MS),
            "durations": {name: _duration_json(each) for name, each in self.durations.items()},
            "talk_ratio": self.talk_ratio.as_json(_MS),
        }
        if self.false_triggers_per_minute is not None:
            found["false_triggers_per_minute"] = self.false_triggers_per_minute.as_json(_MS)
        if self.correction:
            found["correction"] = {where: share.as_json(_MS) for where, share in self.correction.items()}
        return found


def condition_metrics(
    run: str, probe: str, condition: str, trials: Sequence[TrialResult]
) -> ConditionMetrics:
    """Compute the metrics of one condition in one run, from all attempts at its trials; at least one."""
    kept = last_attempts(trials)
    names = dict.fromkeys(name for trial in kept for name in trial.judgement.durations_ns)
    counted, rule = _counted(kept), kept[0].rule
    noisy = rule is Rule.FALSE_TRIGGER and any(map(_hears_noise, kept))
    return ConditionMetrics(
        run=run,
        probe=probe,
        condition=condition,
        trials=trials,
        rule=rule,
        outcomes=dict(Counter(trial.outcome for trial in kept).most_common()),
        void=sum(trial.outcome.void for trial in trials),
        passed=_share_passed(counted),
        durations={name: _distribution(kept, name) for name in names},
        talk_ratio=_mean(counted, lambda trial: trial.judgement.talk_ratio),
        false_triggers_per_minute=_mean(counted, _per_minute) if noisy else None,
        correction={where: _share_understood(counted, where) for where in ("reply", "heard")}
        if kept[0].facts.meant
        else {},
    )


def _trial_json(run: str, trial: TrialResult) -> dict[str, Any]:
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
        "heard": {"user": trial.heard, "sound": trial.sound_heard},
        "lag_ms": round(trial.lag_ns / 1e6, _MS),
        "flagged": any(turn.timing.flagged for turn in trial.turns),
    }


def _duration_json(duration: Distribution) -> dict[str, Any]:
    values = {name: rounded(each.value, _MS) for name, each in duration.estimates.items()}
    return {
        "n": duration.n,
        "p50": values.pop("p50"),
        "interval": interval_json(duration["p50"].interval, _MS),
        **values,
        "reason": {name: each.reason for name, each in duration.estimates.items() if each.reason},
    }


def durations_ms(trials: Iterable[TrialResult], name: str) -> dict[str, float]:
    """Return one duration in ms for each trial, excluding void trials."""
    return {
        trial.facts.trial_id: ns / 1e6
        for trial in trials
        if trial.passed is not None and (ns := trial.judgement.durations_ns.get(name)) is not None
    }


def drawn_as(trials: Iterable[TrialResult]) -> str:
    """Return the name of the resampling units of these trials."""
    return "recordings" if any(trial.facts.recorded for trial in trials) else "trials"


def _distribution(trials: Sequence[TrialResult], name: str) -> Distribution:
    values, units = durations_ms(trials, name), {trial.facts.trial_id: trial.facts.unit for trial in trials}
    return distribution(
        list(values.values()),
        [units[trial_id] for trial_id in values],
        statistics=("p50", "p90", "p95", "max"),
        drawn_as=drawn_as(trials),
    )


def _mean(trials: Sequence[TrialResult], value_of: Callable[[TrialResult], float | None]) -> Estimate:
    known = [(value, trial.facts.unit) for trial in trials if (value := value_of(trial)) is not None]
    return estimate_mean(
        [value for value, _ in known], [unit for _, unit in known], drawn_as=drawn_as(trials)
    )


def _counted(trials: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the trials that passed or failed, or none if at least as many trials are unknown.

    With so many unknown outcomes, the known trials would be a biased selection.
    """
    counted = [trial for trial in trials if trial.passed is not None]
    unknown = sum(trial.outcome is Outcome.UNKNOWN for trial in trials)
    return counted if len(counted) > unknown else []


def _share(trials: Sequence[TrialResult], holds: Callable[[TrialResult], bool]) -> Estimate:
    units = [trial.facts.unit for trial in trials]
    return estimate_share([_WHOLE * holds(trial) for trial in trials], units, drawn_as=drawn_as(trials))


def share_of(trials: Sequence[TrialResult], outcome: Outcome) -> Estimate:
    """Return the percentage of conclusive trials with this outcome, given all attempts at them."""
    return _share(_counted(last_attempts(trials)), lambda trial: trial.outcome is outcome)


def _share_passed(trials: Sequence[TrialResult]) -> Estimate:
    return _share(trials, lambda trial: bool(trial.passed))


def _share_understood(trials: Sequence[TrialResult], where: str) -> Estimate:
    """Return the share of corrections with a known transcript that were understood."""
    known = [trial for trial in trials if trial.correction.get(where) is not None]
    return _share(known, lambda trial: bool(trial.correction[where]))


def _hears_noise(trial: TrialResult) -> bool:
    return trial.conversation is not None and trial.conversation.user[-1].kind is SpeechKind.NOISE


def _per_minute(trial: TrialResult) -> float | None:
    """Return the unprompted responses per minute since the last utterance began; None if unknown."""
    conversation, triggers = trial.conversation, trial.judgement.triggers
    if conversation is None or triggers is None:
        return None
    return triggers / ((conversation.end_ns - conversation.user[-1].start_ns) / 60e9)


def published_metrics(trials: Sequence[TrialResult]) -> Mapping[str, MetricValue]:
    """Compute the published metrics over all successful sessions, including void trials, as in the sources.

    Trials in which consecutive replies cannot be distinguished are excluded.
    """
    return all_metrics(
        [
            trial.conversation
            for trial in trials
            if trial.conversation is not None
            and trial.failure is None
            and trial.facts.probe != SENTINEL
            and trial.outcome is not Outcome.UNKNOWN
        ]
    )


# -- The endpoint --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointProfile:
    """The pause tolerance, speed and selectivity of an endpoint.

    Args:
        longest_pause_ms: Longest pause of the ladder that the endpoint tolerated, or None.
        survived: Share of trials in which it tolerated each pause of the ladder, by condition, in per cent.
        quickness: Main durations in ms.
        selectivity: Share of sounds that need no response and were ignored, in per cent.
        yielding: Share of interruptions to which the endpoint yielded, in per cent.
    """

    longest_pause_ms: int | None
    survived: Mapping[str, Estimate]
    quickness: Mapping[str, Distribution]
    selectivity: Estimate
    yielding: Estimate

    def as_json(self) -> dict[str, Any]:
        """Return the profile as printed by ``live-eval duplex --json``."""
        return {
            "pauses": {
                "longest_pause_ms": self.longest_pause_ms,
                "survived": {name: share.as_json(_MS) for name, share in self.survived.items()},
            },
            "quickness": {name: _duration_json(each) for name, each in self.quickness.items()},
            "selectivity": self.selectivity.as_json(_MS),
            "yielding": self.yielding.as_json(_MS),
        }


def endpoint_profile(trials: Sequence[TrialResult], ladder: Mapping[tuple[str, str], int]) -> EndpointProfile:
    """Compute the profile of an endpoint.

    Args:
        trials: Last attempts of a run.
        ladder: Length of the pause in ms by probe and condition, shortest first.
    """
    # A silent endpoint has no false triggers, but must not get credit for that.
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
        not in (Outcome.NO_REPLY, Outcome.FAILED)  # these trials do not reveal the endpoint's behaviour
    ]
    of_rule = {rule: _counted([trial for trial in judged if trial.rule is rule]) for rule in Rule}
    undisturbed = [trial for trial in judged if trial.rule is not Rule.BEFORE_REPLY]
    answered = [trial for trial in undisturbed if trial.outcome in (Outcome.ANSWERED, Outcome.WAITED)]
    survived = _survived(of_rule[Rule.PAUSE], ladder)
    interrupted = of_rule[Rule.INTERRUPTION]
    return EndpointProfile(
        longest_pause_ms=_longest_pause_ms(survived, ladder),
        survived={condition: share for (_, condition), share in survived.items()},
        quickness={
            "response_latency": _distribution(answered, "response_latency"),
            **{
                name: _distribution(interrupted, name)
                for name in ("audible_stop", "provider_stop", "new_reply")
            },
        },
        selectivity=_share_passed([*of_rule[Rule.BACKCHANNEL], *of_rule[Rule.FALSE_TRIGGER]]),
        yielding=_share_passed(interrupted),
    )


def _survived(
    trials: Sequence[TrialResult], ladder: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Estimate]:
    of_gap = {
        gap: [trial for trial in trials if (trial.facts.probe, trial.facts.condition) == gap]
        for gap in ladder
    }
    return {gap: _share_passed(played) for gap, played in of_gap.items() if played}


def _longest_pause_ms(
    survived: Mapping[tuple[str, str], Estimate], ladder: Mapping[tuple[str, str], int]
) -> int | None:
    """Return the longest pause in ms that the endpoint tolerated; None if it tolerated none.

    The endpoint tolerates a pause if at least half of its trials, and half of the trials of every shorter
    pause, survived.
    """
    longest: int | None = None
    for gap, share in survived.items():
        if share.value is None or share.value < _WHOLE / 2:
            break
        longest = ladder[gap]
    return longest


def sentinel_drift(trials: Sequence[TrialResult]) -> list[DriftCheck]:
    """Return a drift check for each part of a run, compared with the first part."""
    parts: dict[str, list[TrialResult]] = {}
    for trial in trials:
        if trial.facts.probe == SENTINEL:
            parts.setdefault(trial.facts.condition, []).append(trial)
    # A question has the same turn ID in every part, which allows pairing.
    turns = {
        name: [
            replace(turn, turn_id=str(number)) for number, trial in enumerate(played) for turn in trial.turns
        ]
        for name, played in parts.items()
    }
    first = next(iter(turns.values()), [])
    return [drift_check(name, each, first) for name, each in turns.items()]
