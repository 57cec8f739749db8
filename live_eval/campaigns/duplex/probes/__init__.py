"""The probes: what each plays, in which conditions. How a trial is judged follows from what is played.

`live_eval.campaigns.duplex.outcomes.rule_of` names the rule. A probe is a table of conditions; a condition
writes the lines of a trial, with other words in each of its variants.
"""

from collections.abc import Sequence

from live_eval.campaigns.duplex.probes.answers import RESPONSE_LATENCY
from live_eval.campaigns.duplex.probes.interruptions import BARGE_IN, CORRECTION, SIMULTANEOUS
from live_eval.campaigns.duplex.probes.own_recordings import OWN, expressive_probe, note_on_pauses, own_probe
from live_eval.campaigns.duplex.probes.pauses import EXPRESSIVE_PAUSE, FILLED_PAUSE, PAUSE
from live_eval.campaigns.duplex.probes.probe import Condition, Probe, sessions_of, trials_of
from live_eval.campaigns.duplex.probes.reactions import BACKCHANNEL, NOISE, SIDE_TALK
from live_eval.campaigns.duplex.stimuli import Trial
from live_eval.data import DataSet
from live_eval.errors import DataError, UsageError

__all__ = [
    "OWN",
    "PROBES",
    "SENTINEL",
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
"""Every probe with stimuli of our own, by name."""

SENTINEL = "sentinel"
"""What the trials of a campaign's sentinel are listed as."""


def sentinel(when: str, turns: int) -> list[Trial]:
    """Return the trials of a campaign's sentinel: one question, asked over and over.

    Args:
        when: The part of the campaign.
        turns: How many.
    """
    (condition,) = RESPONSE_LATENCY.conditions
    return [
        Trial(
            trial_id=f"{SENTINEL}-{when}-{number}",
            probe=SENTINEL,
            condition=when,
            lines=condition.lines(0),
        )
        for number in range(1, turns + 1)
    ]


def probes_for(names: Sequence[str], data: DataSet | None) -> list[Probe]:
    """Return the probes to play.

    Args:
        names: Their names; none for every probe that can be played.
        data: A user's recordings, for the probe `OWN` and for expressive pauses; None without any.

    Raises:
        UsageError: There is no such probe, or it needs data.
        DataError: A probe that is named needs annotations or pauses that the data does not have.
    """
    unknown = [name for name in names if name not in (*PROBES, OWN)]
    if unknown:
        raise UsageError(
            f"unknown probe {', '.join(map(repr, unknown))}; there are: {', '.join((*PROBES, OWN))}"
        )
    if OWN in names and data is None:
        raise UsageError(f"the probe {OWN} needs --data: your annotated recordings")
    chosen = {name: probe for name, probe in PROBES.items() if not names or name in names}
    if data is not None:
        for name, make in ((EXPRESSIVE_PAUSE.name, expressive_probe), (OWN, own_probe)):
            try:
                if not names or name in names:
                    chosen[name] = make(data)
            except DataError:
                if names:  # otherwise the data is good for something else
                    raise
    return list(chosen.values())
