"""Compare prompts on the same endpoint: the effect on each metric, and the best prompt."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from live_eval.analysis.comparison.difference import Difference, difference_of
from live_eval.analysis.comparison.run_settings import prompt_names, prompts_alone_differ, states_cue
from live_eval.analysis.comparison.series import ComparedRun, Series
from live_eval.analysis.leaderboard_columns import prompt_scores
from live_eval.analysis.statistics.paired import cluster_means
from live_eval.analysis.summary.observations import TurnKey

__all__ = [
    "BestPrompt",
    "PromptSensitivity",
    "RankedPrompts",
    "averaged",
    "prompt_sensitivity",
    "rank_prompts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPrompt:
    """The best prompt by one metric, over the turns with a value for every prompt.

    Args:
        means: Mean over scripts for each prompt, best first; keys are the names of the first runs with each
            prompt.
        best: Name of the first run with the best prompt, or None.
        lead: Difference from the second-best prompt, with an uncorrected p, or None.
        n: Number of turns with a value for every prompt.
        reason: Why there is no best prompt; empty if there is one.
    """

    metric: str
    means: Mapping[str, float]
    best: str | None
    lead: Difference | None
    n: int
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the result as printed by ``live-eval compare --json``; its keys are stable."""
        return {
            "best": self.best,
            "means": {name: round(mean, 6) for name, mean in self.means.items()},
            "lead": None if self.lead is None else self.lead.as_json(),
            "n": self.n,
            "reason": self.reason,
        }

    def in_words(self, prompts: Mapping[str, str]) -> str:
        """Describe the best prompt in a sentence; `prompts` maps run names to prompts."""
        if self.best is None or self.lead is None:
            return f"no best prompt by {self.metric}: {self.reason}"
        count = Counter(prompts.values())
        runs = {prompt: f" over {times} runs" if times > 1 else "" for prompt, times in count.items()}
        means = ", ".join(
            f"{prompts[name]} {mean:.2f}{runs[prompts[name]]}" for name, mean in self.means.items()
        )
        found = self.lead.difference
        assert found.value is not None
        lead = f"{found.value:+.2f}"
        if found.interval is not None:
            lead += f" ({found.interval.low:+.2f} … {found.interval.high:+.2f})"
        return (
            f"best prompt by {self.metric}, chosen as in the paper's table: {prompts[self.best]} ({means}; "
            f"{self.n} turns with a value for each); against the second best {lead}: {self.lead.in_words}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSensitivity:
    """The effect of the prompt on the metrics, from runs of one endpoint that differ only in the prompt.

    `stating_cue` lists the runs whose prompt states the cue. They give an upper bound and are excluded from
    the choice of the best prompt.
    """

    prompts: Mapping[str, str]
    stating_cue: tuple[str, ...]
    best: Mapping[str, BestPrompt]

    def as_json(self) -> dict[str, Any]:
        """Return the result as printed by ``live-eval compare --json``; its keys are stable."""
        return {
            "prompts": dict(self.prompts),
            "told_the_cue": list(self.stating_cue),
            "best": {metric: best.as_json() for metric, best in self.best.items()},
        }

    def in_words(self) -> tuple[str, ...]:
        """Return sentences on the effect of the prompt, to be printed below the table of differences."""
        stated = ", ".join(self.prompts[name] for name in self.stating_cue)
        return (
            "The runs differ only in the prompt. Latencies also vary with the load of the endpoint.",
            *([f"{stated}: excluded as best prompt, because it states the cue"] if stated else ()),
            *(best.in_words(self.prompts) for best in self.best.values()),
        )


def prompt_sensitivity(runs: Sequence[ComparedRun], *, seed: int = 0) -> PromptSensitivity | None:
    """Return the effect of the prompt if only the prompt differs between the runs; otherwise None."""
    if not prompts_alone_differ([run.manifest for run in runs]):
        return None
    prompts = dict(zip([run.name for run in runs], prompt_names([run.manifest for run in runs]), strict=True))
    candidates = [run for run in runs if not states_cue(run.manifest)]
    return PromptSensitivity(
        prompts=prompts,
        stating_cue=tuple(run.name for run in runs if run not in candidates),
        best={metric: _best(metric, candidates, prompts, seed) for metric in prompt_scores()},
    )


def _best(metric: str, runs: Sequence[ComparedRun], prompts: Mapping[str, str], seed: int) -> BestPrompt:
    def none(reason: str) -> BestPrompt:
        return BestPrompt(metric=metric, means={}, best=None, lead=None, n=0, reason=reason)

    if len({prompts[run.name] for run in runs}) < 2:
        return none("expected at least two prompts that do not state the cue")
    if unscored := [run.name for run in runs if metric not in run.series]:
        return none(f"{' and '.join(unscored)} {'has' if len(unscored) == 1 else 'have'} no such score")
    if len({run.series[metric].version for run in runs}) > 1:
        return none(f"{metric} has different versions")
    repeated: dict[str, list[ComparedRun]] = {}
    for run in runs:
        repeated.setdefault(prompts[run.name], []).append(run)
    series = {same[0].name: averaged([run.series[metric] for run in same]) for same in repeated.values()}
    found = rank_prompts(series, runs[0].scripts)
    if found is None:
        return none(f"no turn has {metric} under every prompt")
    if len(found.best) > 1:
        return replace(none("the best means are equal"), means=found.means, n=len(found.keys))
    best, next_best = (
        replace(series[name], values={key: series[name].values[key] for key in found.keys})
        for name in list(found.means)[:2]
    )
    lead = difference_of(next_best, best, runs[0].scripts, seed=seed)
    return BestPrompt(metric=metric, means=found.means, best=found.best[0], lead=lead, n=len(found.keys))


def averaged(series: Sequence[Series]) -> Series:
    """Average a metric over runs, turn by turn, so that each prompt counts once.

    A turn without a value in one of the runs has no mean.
    """
    values: dict[TurnKey, float | None] = {}
    for key in series[0].values:
        found = [value for one in series if (value := one.values.get(key)) is not None]
        values[key] = fmean(found) if len(found) == len(series) else None
    return replace(series[0], values=values)


@dataclass(frozen=True, slots=True)
class RankedPrompts:
    """Prompts ranked by mean over scripts, and the turns with a value for every prompt."""

    means: Mapping[str, float]
    keys: tuple[TurnKey, ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The prompts with the best mean, up to rounding."""
        top = next(iter(self.means.values()))
        return tuple(name for name, mean in self.means.items() if math.isclose(mean, top, rel_tol=1e-12))


def rank_prompts(series: Mapping[str, Series], scripts: Mapping[TurnKey, str]) -> RankedPrompts | None:
    """Rank prompts by one metric, best first; return None if no turn has a value for every prompt."""
    keys = [key for key in scripts if all(one.values.get(key) is not None for one in series.values())]
    if not keys:
        return None
    of = [scripts[key] for key in keys]
    means = {
        name: fmean(cluster_means([value for key in keys if (value := one.values[key]) is not None], of))
        for name, one in series.items()
    }
    higher = next(iter(series.values())).higher_is_better is not False
    ranked = sorted(means, key=lambda name: -means[name] if higher else means[name])
    return RankedPrompts({name: means[name] for name in ranked}, tuple(keys))
