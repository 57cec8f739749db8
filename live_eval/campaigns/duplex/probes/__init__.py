"""Define the probes, their conditions, and the user's utterances in each trial.

A condition specifies the utterances of a trial; each variant has different words.
`live_eval.analysis.turn_taking.outcomes.rule_of` derives the rule for judging a trial from its utterances.
"""

from collections.abc import Sequence
from dataclasses import replace

from live_eval.analysis.turn_taking.trial import SENTINEL, Trial
from live_eval.campaigns.duplex.probes.bundled import (
    BACKCHANNEL,
    BARGE_IN,
    CORRECTION,
    EXPRESSIVE_PAUSE,
    FILLED_PAUSE,
    LADDER_MS,
    NOISE,
    PAUSE,
    RESPONSE_LATENCY,
    SIDE_TALK,
    SIMULTANEOUS,
)
from live_eval.campaigns.duplex.probes.own_recordings import OWN, expressive_probe, note_on_pauses, own_probe
from live_eval.campaigns.duplex.probes.probe import Condition, Probe, sessions_of, trials_of
from live_eval.campaigns.duplex.stimuli import TrialScript
from live_eval.data import DataSet
from live_eval.errors import DataError, UsageError
from live_eval.text.suggestions import did_you_mean

__all__ = [
    "LADDER",
    "OWN",
    "PROBES",
    "Condition",
    "Probe",
    "note_on_pauses",
    "probes_for",
    "sentinel",
    "sessions_of",
    "trials_of",
]

PROBES = {
    probe.name: probe
    for probe in (
        RESPONSE_LATENCY,
        PAUSE,
        FILLED_PAUSE,
        EXPRESSIVE_PAUSE,
        BARGE_IN,
        SIMULTANEOUS,
        CORRECTION,
        BACKCHANNEL,
        SIDE_TALK,
        NOISE,
    )
}
"""Every probe with bundled stimuli, by name."""

LADDER = {
    (PAUSE.name, condition.name): gap_ms
    for condition, gap_ms in zip(PAUSE.conditions, LADDER_MS, strict=True)
}
"""The gap in ms of each condition of the pause probe, shortest first."""


def sentinel(when: str, turns: int) -> list[TrialScript]:
    """Return a drift check's trials (one question, `turns` times); `when` is its time in the campaign."""
    (condition,) = RESPONSE_LATENCY.conditions
    return [
        TrialScript(
            Trial(trial_id=f"{SENTINEL}-{when}-{number}", probe=SENTINEL, condition=when), condition.lines(0)
        )
        for number in range(1, turns + 1)
    ]


def probes_for(names: Sequence[str], data: DataSet | None, conditions: Sequence[str] = ()) -> list[Probe]:
    """Return the probes to run.

    Args:
        names: Probe names; empty for every probe that can run.
        data: User recordings, for the probe `OWN` and for expressive pauses; or None.
        conditions: Names of the conditions to run; empty for all.

    Raises:
        UsageError: A probe or a condition does not exist, or a probe requires data.
        DataError: A named probe requires annotations or pauses that are missing from the data.
    """
    _check_known("probe", names, (*PROBES, OWN))
    if OWN in names and data is None:
        raise UsageError(f"the probe {OWN} requires --data with your annotated recordings")
    chosen = {name: probe for name, probe in PROBES.items() if not names or name in names}
    if data is not None:
        for name, make in ((EXPRESSIVE_PAUSE.name, expressive_probe), (OWN, own_probe)):
            try:
                if not names or name in names:
                    chosen[name] = make(data)
            except DataError:
                if names:  # without names, another probe may still use the data
                    raise
    return _limited(list(chosen.values()), conditions) if conditions else list(chosen.values())


def _limited(probes: Sequence[Probe], conditions: Sequence[str]) -> list[Probe]:
    """Limit the probes to the given conditions; omit probes that have none of them."""
    known = list(dict.fromkeys(condition.name for probe in probes for condition in probe.conditions))
    _check_known("condition", conditions, known)
    kept = ([each for each in probe.conditions if each.name in conditions] for probe in probes)
    return [replace(probe, conditions=some) for probe, some in zip(probes, kept, strict=True) if some]


def _check_known(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UsageError(
                f"unknown {what} {name!r}{did_you_mean(name, known)}; expected one of {', '.join(known)}"
            )
