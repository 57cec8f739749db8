"""Define the results of duplex trials in tests: outcomes, durations, and assertions over several trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.turn_taking.outcomes import Outcome
from live_eval.analysis.turn_taking.trial import TrialResult, last_attempts
from live_eval.analysis.turn_taking.trial_metrics import ConditionMetrics
from live_eval.campaigns.duplex.assertions import check_duplex, check_probes, parse_duplex_assertion
from live_eval.campaigns.duplex.summary import duplex_summary, read_duplex
from live_eval.pytest_plugin.duration import Duration
from live_eval.text.wording import counted

__all__ = ["ProbeTrial", "ProbeTrials", "read_probe"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProbeTrial:
    """The last attempt at a trial, with its durations (defined in docs/reference/turn-taking.md)."""

    result: TrialResult
    folder: Path

    @property
    def condition(self) -> str:
        """The condition of the probe, for example ``400 ms``."""
        return self.result.facts.condition

    @property
    def outcome(self) -> Outcome:
        """The endpoint's behaviour."""
        return self.result.outcome

    @property
    def passed(self) -> bool | None:
        """Whether the endpoint behaved as expected; None if the trial is void."""
        return self.result.passed

    @property
    def response_latency(self) -> Duration:
        """Time from the user's last sample to the first audible sample of the reply."""
        return self._duration("response_latency")

    @property
    def barge_in_stop(self) -> Duration:
        """Time from the start of the user's speech over the reply to the last audible sample of the reply."""
        return self._duration("audible_stop")

    @property
    def provider_stop(self) -> Duration:
        """Time from the start of the user's speech over the reply until the endpoint reports its stop."""
        return self._duration("provider_stop")

    @property
    def new_reply(self) -> Duration:
        """Time from the end of the user's interruption to the first audible sample of the next reply."""
        return self._duration("new_reply")

    def _duration(self, name: str) -> Duration:
        ns = None if self.passed is None else self.result.judgement.durations_ns.get(name)
        if ns is None:
            return Duration(None, reason=self._outcome_in_words())
        return Duration(ns, error_bar_ns=self.result.lag_ns)

    def _outcome_in_words(self) -> str:
        return ": ".join(filter(None, (self.outcome.value, self.result.judgement.reason)))

    def __repr__(self) -> str:
        facts = self.result.facts
        return f"<trial {facts.trial_id!r}, {self._outcome_in_words()}, recorded in {self.folder}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProbeTrials(Sequence[ProbeTrial]):
    """The trials of a probe, sorted by condition, including failed and void ones."""

    trials: tuple[ProbeTrial, ...]
    conditions: Sequence[ConditionMetrics]
    probe: str
    folder: Path

    def meet(self, expression: str) -> CheckedAssertion:
        """Check an assertion such as ``barge_in.passed >= 90%`` or ``barge_in.stop.p50 < 400ms``.

        Returns:
            The result, which is true if the assertion holds and prints as a sentence. If the run file has an
            impairment, the assertion must hold with and without it.

        Raises:
            UsageError: The expression is not a valid assertion on this probe.
        """
        assertion = parse_duplex_assertion(expression)
        check_probes([assertion], [self.probe])
        checked = check_duplex([assertion], self.conditions)
        return next((each for each in checked if not each), checked[0])

    @overload
    def __getitem__(self, index: int) -> ProbeTrial: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ProbeTrial]: ...
    def __getitem__(self, index: int | slice) -> ProbeTrial | Sequence[ProbeTrial]:
        return self.trials[index]

    def __len__(self) -> int:
        return len(self.trials)

    def __repr__(self) -> str:
        outcomes = Counter(f"{each.condition} {each.outcome.value}" for each in self.trials)
        shown = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.items())
        return f"<{counted(len(self), 'trial')} of {self.probe}: {shown}, recorded in {self.folder}>"


def read_probe(folder: Path, probe: str) -> ProbeTrials:
    """Return the trials in a campaign that has one probe.

    Raises:
        StoreError: The folder is not a campaign.
    """
    conditions = duplex_summary(read_duplex(folder)).conditions
    trials = [trial for each in conditions for trial in last_attempts(each.trials)]
    return ProbeTrials(tuple(ProbeTrial(trial, folder) for trial in trials), conditions, probe, folder)
