"""Compare runs with the first run: paired by case, then averaged and bootstrapped by script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from live_eval.analysis.comparison.boundaries import Boundaries
from live_eval.analysis.comparison.prompts import prompt_sensitivity
from live_eval.analysis.comparison.run_comparison import check_same_data, compare_runs, latencies_differ
from live_eval.analysis.comparison.series import ComparedRun, series_of
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.latencies import LATENCIES
from live_eval.analysis.summary.run_summary import RunSummary
from live_eval.analysis.summary.vocal_sounds import VOCAL_SOUND_TITLES
from live_eval.errors import UsageError

__all__ = ["RunDifferences", "compare", "prompts_in_words"]

_NO_VALUES = Estimate(None, 0, 0, reason="no values")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifferences:
    """The differences between two runs: ``other − first`` on shared cases, averaged over scripts.

    Args:
        latencies: Differences in milliseconds by latency; empty if latencies are not comparable.
        without_flagged: Differences that exclude turns flagged in either run.
        flagged: Number of turns flagged in either run.
        boundaries: Differences between speech boundaries; None if the runs are not comparable.
        scores: Differences by score; scores from different judge versions are omitted.
        notes: Remarks on unpaired or flagged turns and on excluded comparisons.
        problem: Reason why the runs are not comparable; empty if they are.
    """

    first: str
    other: str
    latencies: Mapping[str, Estimate] = field(default_factory=dict)
    without_flagged: Mapping[str, Estimate] = field(default_factory=dict)
    flagged: int = 0
    boundaries: Boundaries | None = None
    scores: Mapping[str, Estimate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "first": self.first,
            "other": self.other,
            "latency_ms": {
                name: {**_json(estimate), "without_flagged": _json(self.without_flagged[name])}
                for name, estimate in self.latencies.items()
            },
            "flagged": self.flagged,
            "boundaries": None if self.boundaries is None else self.boundaries.as_json(),
            "scores": {name: _json(estimate) for name, estimate in self.scores.items()},
            "notes": list(self.notes),
            "problem": self.problem or None,
        }


def compare(
    runs: tuple[ComparedRun, ComparedRun], summaries: tuple[RunSummary, RunSummary]
) -> RunDifferences:
    """Compare a run with the first run; each score covers all its tasks."""
    first, other = (
        replace(run, series=series_of(each.turns, each.table, by_task=False))
        for run, each in zip(runs, summaries, strict=True)
    )
    try:
        [found] = compare_runs([first, other], common=True).comparisons
    except UsageError as error:
        return RunDifferences(first=first.name, other=other.name, problem=str(error))
    notes: list[str] = []
    paired = first.scripts.keys() & other.scripts.keys()
    only_first, only_other = len(first.scripts) - len(paired), len(other.scripts) - len(paired)
    if only_first or only_other:
        notes.append(
            f"only the {len(paired)} turns present in both runs are paired; "
            f"{only_first} are only in {first.name}, {only_other} only in {other.name}"
        )
    estimates = {name: each.difference for name, each in found.differences.items()}
    clear = {name: each.difference for name, each in found.without_flagged.items()}
    sounds = [name for name in VOCAL_SOUND_TITLES if name in estimates]
    comparable = () if latencies_differ(first, other) else (*LATENCIES, *sounds)
    if flagged := found.flagged_in_words(first.name):
        notes.append(flagged)
    return RunDifferences(
        first=first.name,
        other=other.name,
        latencies={name: estimates.get(name, _NO_VALUES) for name in comparable},
        without_flagged={name: clear.get(name, _NO_VALUES) for name in comparable},
        flagged=found.flagged,
        boundaries=found.boundaries,
        scores={name: estimates[name] for name, each in found.differences.items() if each.kind == "score"},
        notes=(*notes, *found.notes),
    )


def prompts_in_words(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Describe the prompt's effect in sentences, if the runs differ only in the prompt."""
    try:
        for other in runs[1:]:
            check_same_data(runs[0], other, common=True)
    except UsageError:
        return ()
    found = prompt_sensitivity(runs) if len(runs) > 1 else None
    return found.in_words() if found is not None else ()


def _json(estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval
    return {
        "mean": None if estimate.value is None else round(estimate.value, 6),
        "n": estimate.n,
        "interval": None if interval is None else [round(interval.low, 6), round(interval.high, 6)],
    }
