"""Compute the metrics of a campaign, and the JSON object printed by ``live-eval duplex --json``.

Keys of the object are stable; new ones may be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.greeting_summary import GreetingSummary, greetings_of, summarise_greetings
from live_eval.analysis.latency.drift import DriftCheck
from live_eval.analysis.licences import licences_of
from live_eval.analysis.metric_catalogue import DEFINITIONS
from live_eval.analysis.metric_definition import MetricValue
from live_eval.analysis.summary.run_summary import outages_in_words
from live_eval.analysis.turn_taking.outcomes import DURATIONS, RULES_VERSION
from live_eval.analysis.turn_taking.trial import SENTINEL, Trial, TrialResult, last_attempts
from live_eval.analysis.turn_taking.trial_metrics import (
    ConditionMetrics,
    EndpointProfile,
    condition_metrics,
    endpoint_profile,
    published_metrics,
    sentinel_drift,
)
from live_eval.analysis.turn_taking.trial_pairs import ConditionDifference, differences
from live_eval.campaigns.documents import DUPLEX_CAMPAIGN, names_a_run
from live_eval.campaigns.duplex.assertions import check_duplex, parse_duplex_assertion
from live_eval.campaigns.duplex.probes import LADDER, PROBES
from live_eval.campaigns.duplex.trial_results import CLEAN, read_trials
from live_eval.errors import StoreError
from live_eval.recording import RunReader
from live_eval.text.wording import counted, natural_order

__all__ = [
    "SUMMARY_SCHEMA",
    "DuplexComparison",
    "DuplexRecord",
    "DuplexSummary",
    "compare_campaigns",
    "duplex_summary",
    "read_duplex",
]

SUMMARY_SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexRecord:
    """A stored campaign.

    Args:
        facts: Content of duplex.json.
        trials: All attempts at the trials, by run; empty for a run that has not begun.
        outages: Notes on the endpoint's outages, one for each run with outages.
        licences: Notes on the licences of the recordings; empty for the user's own.
    """

    folder: Path
    facts: Mapping[str, Any]
    trials: Mapping[str, Sequence[TrialResult]]
    outages: Sequence[str] = ()
    licences: Sequence[str] = ()

    def last(self, run: str) -> list[TrialResult]:
        """Return the last attempt at each trial of a run."""
        return last_attempts(self.trials.get(run, ()))


def read_duplex(folder: Path) -> DuplexRecord:
    """Read a campaign, complete or not.

    Raises:
        StoreError: The folder contains no campaign, or a damaged campaign.
    """
    path = folder / DUPLEX_CAMPAIGN.file_name
    facts = DUPLEX_CAMPAIGN.read(folder)
    try:
        listed = [
            Trial(
                trial_id=str(each["trial"]),
                probe=str(each["probe"]),
                condition=str(each["condition"]),
                meant=tuple(map(str, each["meant"])),
                recorded=str(each.get("recorded", "")),
            )
            for each in facts["trials"]
        ]
        runs = [run for run in facts["runs"].values() if run is not None]
    except (AttributeError, KeyError, TypeError) as error:
        raise StoreError(f"{path}: expected a list of trials and the names of the runs: {error!r}") from None
    if not all(map(names_a_run, runs)):
        raise StoreError(f"{path}: expected the folder names of the runs, got {runs!r}")
    if len(set(runs)) < len(runs) or len({trial.trial_id for trial in listed}) < len(listed):
        raise StoreError(f"{path}: duplicate run or trial")
    begun = [run for run in runs if (folder / run).is_dir() and not (folder / run).is_symlink()]
    trials = {run: read_trials(folder / run, listed) for run in begun}
    manifests = {run: _manifest(folder / run) for run in begun}
    outages = {run: outages_in_words(manifest.get("outages")) for run, manifest in manifests.items()}
    return DuplexRecord(
        folder=folder,
        facts=facts,
        trials=trials,
        outages=[f"{run}: {note}" for run, note in outages.items() if note],
        licences=licences_of(manifests.values()),
    )


def _manifest(folder: Path) -> Mapping[str, Any]:
    with RunReader.open(folder) as run:
        return run.manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexSummary:
    """All metrics of a campaign; mappings are by run.

    Args:
        notes: Notes on the campaign, one sentence each.
        conditions: Metrics of each condition in each run.
        paired: Differences between the impaired run and the clean run.
        metrics: Published metrics by name.
    """

    campaign: DuplexRecord
    notes: Sequence[str]
    greetings: Mapping[str, GreetingSummary]
    conditions: Sequence[ConditionMetrics]
    paired: Sequence[ConditionDifference]
    metrics: Mapping[str, Mapping[str, MetricValue]]
    profiles: Mapping[str, EndpointProfile]
    sentinel: Mapping[str, Sequence[DriftCheck]]
    asserts: Sequence[CheckedAssertion] = ()

    @property
    def complete(self) -> bool:
        """Whether all trials were run."""
        return self.campaign.facts.get("complete") is True

    @property
    def impairment(self) -> str | None:
        """The impairment of the second run, or None."""
        found: str | None = self.campaign.facts.get("impairment")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return the object printed by ``live-eval duplex --json``."""
        facts = self.campaign.facts
        return {
            "schema": SUMMARY_SCHEMA,
            "endpoint": facts.get("endpoint"),
            "campaign": str(self.campaign.folder),
            "created": facts.get("created"),
            "complete": self.complete,
            "seed": facts.get("seed"),
            "stimuli": facts.get("stimuli", 1),
            "notes": list(self.notes),
            "greetings": {run: each.as_json() for run, each in self.greetings.items()},
            "runs": facts["runs"],
            "impairment": self.impairment,
            "rules_version": RULES_VERSION,
            "definitions": dict(DURATIONS),
            "probes": [each.as_json() for each in self.conditions],
            "paired": [each.as_json() for each in self.paired],
            "metrics": {
                run: {name: _metric_json(name, each) for name, each in metrics.items()}
                for run, metrics in self.metrics.items()
            },
            "profile": {run: each.as_json() for run, each in self.profiles.items()},
            "sentinel": {run: [each.as_json() for each in checks] for run, checks in self.sentinel.items()},
            "asserts": [each.as_json() for each in self.asserts],
        }


def _metric_json(name: str, value: MetricValue) -> dict[str, Any]:
    definition = DEFINITIONS[name]
    return {
        **value.as_json(),
        "means": definition.means,
        "unit": definition.unit,
        "better": definition.better,
        "corrects": definition.corrects,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplexComparison:
    """The differences between the clean runs of two campaigns, second minus first, paired by trial.

    Args:
        notes: Notes on the comparison, one sentence each.
    """

    campaigns: tuple[DuplexRecord, DuplexRecord]
    notes: Sequence[str]
    paired: Sequence[ConditionDifference]
    profiles: Sequence[EndpointProfile]

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the endpoints, or of the campaigns if the endpoints have the same name."""
        first, second = (str(campaign.facts.get("endpoint")) for campaign in self.campaigns)
        if first == second:
            first, second = (campaign.folder.resolve().name for campaign in self.campaigns)
        return first, second

    def as_json(self) -> dict[str, Any]:
        """Return the object printed by ``live-eval duplex compare --json``."""
        return {
            "schema": SUMMARY_SCHEMA,
            "endpoints": [campaign.facts.get("endpoint") for campaign in self.campaigns],
            "campaigns": [str(campaign.folder) for campaign in self.campaigns],
            "notes": list(self.notes),
            "paired": [each.as_json() for each in self.paired],
            "profiles": [each.as_json() for each in self.profiles],
        }


def duplex_summary(campaign: DuplexRecord) -> DuplexSummary:
    """Return all metrics of a campaign, complete or not, and the results of its assertions.

    Raises:
        StoreError: An assertion in the campaign is invalid.
    """
    trials = campaign.trials
    conditions = [condition_metrics(run, *group) for run in trials for group in _grouped(campaign, run)]
    asserted = DUPLEX_CAMPAIGN.assertions(campaign.folder, campaign.facts, parse_duplex_assertion)
    greetings = {
        run: summarise_greetings([*greetings_of(turn for trial in each for turn in trial.turns)])
        for run, each in trials.items()
    }
    return DuplexSummary(
        campaign=campaign,
        notes=[
            *(campaign.facts.get("notes") or ()),
            *campaign.outages,
            *(f"{run}: {each.in_words()}" for run, each in greetings.items() if each.greeted),
        ],
        greetings=greetings,
        conditions=conditions,
        paired=_paired(campaign),
        metrics={run: published_metrics(each) for run, each in trials.items()},
        profiles={run: endpoint_profile(campaign.last(run), LADDER) for run in trials},
        sentinel={run: sentinel_drift(campaign.last(run)) for run in trials},
        asserts=check_duplex(asserted, conditions),
    )


def compare_campaigns(first: DuplexRecord, second: DuplexRecord) -> DuplexComparison:
    """Return the differences between two campaigns, second minus first, paired by trial.

    Trials present in only one campaign are excluded.
    """
    campaigns = (first, second)
    trials = [_in_listing_order(campaign.last(CLEAN)) for campaign in campaigns]
    return DuplexComparison(
        campaigns=campaigns,
        notes=[*dict.fromkeys([*first.licences, *second.licences]), *_other_words(*trials)],
        paired=differences(*trials),
        profiles=[endpoint_profile(each, LADDER) for each in trials],
    )


def _other_words(first: Sequence[TrialResult], second: Sequence[TrialResult]) -> list[str]:
    """Return a note if trials with the same name have different recordings."""

    def recordings(trials: Sequence[TrialResult]) -> dict[str, list[str]]:
        return {trial.facts.trial_id: [turn.case.audio_path.name for turn in trial.turns] for trial in trials}

    ones, others = recordings(first), recordings(second)
    both = [name for name in ones if name in others]
    differ = sum(ones[name] != others[name] for name in both)
    note = f"the recordings differ in {differ} of {counted(len(both), 'pair')}"
    return [note] if differ else []


def _grouped(campaign: DuplexRecord, run: str) -> list[tuple[str, str, list[TrialResult]]]:
    groups: dict[tuple[str, str], list[TrialResult]] = {}
    for trial in _in_listing_order(campaign.trials[run]):
        if trial.facts.probe != SENTINEL:
            groups.setdefault((trial.facts.probe, trial.facts.condition), []).append(trial)
    return [(probe, condition, trials) for (probe, condition), trials in groups.items()]


def _in_listing_order(trials: Iterable[TrialResult]) -> list[TrialResult]:
    """Return trials by probe, condition and trial number."""
    probes = list(PROBES)

    def order(trial: TrialResult) -> tuple[Any, ...]:
        facts = trial.facts
        listed = [each.name for each in PROBES[facts.probe].conditions] if facts.probe in probes else []
        return (
            probes.index(facts.probe) if facts.probe in probes else len(probes),
            listed.index(facts.condition) if facts.condition in listed else len(listed),
            natural_order(facts.condition),
            natural_order(facts.trial_id),
            trial.playing,
        )

    return sorted(trials, key=order)


def _paired(campaign: DuplexRecord) -> list[ConditionDifference]:
    impaired = [run for run in campaign.trials if run != CLEAN]
    if not impaired:
        return []
    return differences(_in_listing_order(campaign.last(CLEAN)), campaign.last(impaired[0]))
