"""Estimate from existing runs the sample size that a comparison requires.

The difference is paired and averaged within scripts, as in `live_eval.analysis.comparison`; the sample size
follows from its variation between scripts. Two runs provide this variation. With one run, the correlation
with another run is assumed, as the output notes; repetitions provide a lower bound.

The power is computed for the paired t test (non-central t), which the sign-flip test approximates; see
``benchmarks/statistics_validity.py``. If no sign flip can produce a p below the level, the number of scripts
is insufficient.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.comparison.difference import script_differences
from live_eval.analysis.comparison.run_comparison import check_same_data, check_same_measure
from live_eval.analysis.comparison.series import ComparedRun, Series, find_series
from live_eval.analysis.licences import licences_of
from live_eval.analysis.statistics.intervals import MIN_CLUSTERS, Estimate, Interval
from live_eval.analysis.statistics.paired import (
    ALPHA,
    cluster_means,
    least_p,
    noncentral_below,
    standard_deviation,
)
from live_eval.analysis.summary.observations import TurnKey
from live_eval.errors import UsageError
from live_eval.text.wording import significant

__all__ = ["Aim", "Basis", "SamplePlan", "detectable", "plan_sample", "power_of", "scripts_needed"]

# Most conservative first.
_ASSUMED = (0.0, 0.5)
_MOST_SCRIPTS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """The aim of a comparison.

    Args:
        detect: Difference to detect, in the metric's unit.
        power: Probability of detecting the difference if it exists.
        alpha: Probability of reporting a difference if there is none.
        tests: Number of tests to correct for; Holm's first step divides alpha by this number.

    Raises:
        UsageError: A value is out of range.
    """

    detect: float
    power: float = 0.8
    alpha: float = ALPHA
    tests: int = 1

    def __post_init__(self) -> None:
        if not (math.isfinite(self.detect) and self.detect > 0):
            raise UsageError(f"--detect {self.detect:g}: expected a difference above 0")
        if not (0 < self.alpha < self.power < 1):
            raise UsageError(
                f"--alpha {self.alpha:g}, --power {self.power:g}: expected shares "
                "with 0 < alpha < power < 1, such as 0.05 and 0.8"
            )
        if self.tests < 1:
            raise UsageError(f"expected at least 1 test, got {self.tests}")

    @property
    def level(self) -> float:
        """The significance level of a single test."""
        return self.alpha / self.tests


def power_of(detect: float, spread: float, scripts: int, alpha: float = ALPHA) -> float:
    """Return the power of the two-sided paired t test.

    The power is ``P(|T| > t)``, where T has a non-central t distribution with k − 1 degrees of freedom and
    non-centrality ``δ √k / σ``, and t is the 1 − α/2 quantile of Student's t. Scripts are assumed
    independent, with normally distributed differences.

    Args:
        detect: Difference δ.
        spread: Standard deviation σ of a script's difference, above 0.
        scripts: Number of scripts k, at least 2.
        alpha: Significance level.
    """
    from scipy.special import stdtrit

    freedom, centre = scripts - 1, detect * math.sqrt(scripts) / spread
    bound = float(stdtrit(freedom, 1 - alpha / 2))
    # Compute the upper tail as the lower tail of the mirrored distribution.
    return noncentral_below(-bound, freedom, -centre) + noncentral_below(-bound, freedom, centre)


def scripts_needed(aim: Aim, spread: float) -> int:
    """Return the smallest number of scripts with the required power, but at least the minimum for a test.

    `spread` is the standard deviation of a script's difference.

    Raises:
        UsageError: The number is too large.
    """
    few = MIN_CLUSTERS
    while least_p(few) >= aim.level:
        few += 1
    many = few
    while spread > 0 and power_of(aim.detect, spread, many, aim.level) < aim.power:
        few, many = many + 1, 2 * many
        if many > _MOST_SCRIPTS:
            raise UsageError(
                f"detecting {significant(aim.detect)} requires more than {_MOST_SCRIPTS} scripts"
            )
    while few < many:
        middle = (few + many) // 2
        if power_of(aim.detect, spread, middle, aim.level) < aim.power:
            few = middle + 1
        else:
            many = middle
    return many


def detectable(aim: Aim, spread: float, scripts: int) -> float | None:
    """Return the smallest difference that this many scripts can detect with the required power, or None.

    The difference in `aim` is ignored; `spread` is the standard deviation of a script's difference.
    """
    from scipy.optimize import brentq

    if least_p(scripts) >= aim.level:
        return None
    if spread <= 0:
        return 0.0

    def shortfall(detect: float) -> float:
        return power_of(detect, spread, scripts, aim.level) - aim.power

    most = spread
    while shortfall(most) < 0:
        most *= 2
    return float(brentq(shortfall, 0.0, most))


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The sample size, based on one estimate of the variation.

    Args:
        basis: Source of the estimate: ``runs``, ``repetitions`` or ``assumed``.
        in_words: Description of the estimate.
        rho: Observed or assumed correlation between two runs' script means.
        spread: Standard deviation of a script's difference.
        scripts: Required number of scripts with a value in both runs.
        scripts_interval: `scripts` at both ends of the interval of `spread`, or None.
        play: Number of scripts to run so that `scripts` of them have a value.
        turns: Corresponding number of turns per run, with the run's variants and repetitions.
        detectable: Smallest difference that the existing scripts can detect; None if there are too few
            scripts.
    """

    basis: str
    in_words: str
    rho: float | None
    spread: Estimate
    scripts: int
    scripts_interval: tuple[int, int] | None
    play: int
    turns: int
    detectable: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the plan as printed by ``live-eval plan --json``; its keys are stable."""
        interval = self.spread.interval
        return {
            "basis": self.basis,
            "in_words": self.in_words,
            "rho": None if self.rho is None else round(self.rho, 4),
            "spread": self.spread.value,
            "spread_interval": None if interval is None else [interval.low, interval.high],
            "scripts": self.scripts,
            "scripts_interval": None if self.scripts_interval is None else list(self.scripts_interval),
            "play": self.play,
            "turns": self.turns,
            "detectable": self.detectable,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePlan:
    """The sample sizes that are needed to detect a difference in a metric.

    Args:
        aim: Aim of the comparison.
        runs: Runs that the estimate is based on.
        n_scripts: Number of scripts with a value in these runs.
        turns_per_script: Number of turns per script in the run.
        scored: Share of the run's scripts with a value.
        bases: Estimates, the preferred one first.
    """

    metric: str
    unit: str
    aim: Aim
    runs: tuple[str, ...]
    n_scripts: int
    turns_per_script: float
    scored: float
    bases: tuple[Basis, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the plan as printed by ``live-eval plan --json``; its keys are stable."""
        chosen = self.bases[0]
        return {
            "metric": self.metric,
            "unit": self.unit,
            "detect": self.aim.detect,
            "power": self.aim.power,
            "alpha": self.aim.alpha,
            "tests": self.aim.tests,
            "runs": list(self.runs),
            "n_scripts": self.n_scripts,
            "turns_per_script": self.turns_per_script,
            "scored": self.scored,
            "scripts": chosen.scripts,
            "play": chosen.play,
            "turns": chosen.turns,
            "bases": [basis.as_json() for basis in self.bases],
            "notes": list(self.notes),
        }


def plan_sample(runs: Sequence[ComparedRun], metric: str, aim: Aim, *, common: bool = False) -> SamplePlan:
    """Estimate the sample size needed to detect a difference, from one run or two runs on the same data.

    `metric` is as in `find_series`; `common` compares only the cases that the runs share.

    Raises:
        UsageError: The runs have different data, do not have the metric, or have too few scripts.
    """
    series = [find_series(run, metric) for run in runs]
    means = _script_means(runs[0], series[0])
    _check_scripts(runs[0].name, series[0].name, len(means))
    if len(runs) == 2:
        check_same_data(*runs, common=common)
        check_same_measure(runs[0], series[0], runs[1], series[1])
        differences = script_differences(series[0], series[1], runs[0].scripts)
        _check_scripts(" and ".join(run.name for run in runs), series[0].name, len(differences))
        shared = [key for key in series[0].values if key in series[1].values]
        design = _design(aim, runs[0], shared, len(differences))
        words = f"from the differences between {runs[0].name} and {runs[1].name}"
        bases = [design.basis("runs", words, None, standard_deviation(differences))]
    else:
        design = _design(aim, runs[0], series[0].values, len(means))
        bases = list(_from_one(runs[0], series[0], means, design))
    notes = []
    if bases[0].spread.value == 0:
        notes.append("all scripts differ equally in these runs, so other runs may vary more")
    if aim.tests == 1:
        notes.append(
            f"for a comparison of {series[0].name} alone (live-eval compare --metric); for more metrics, "
            "pass their number as --tests, because p is corrected"
        )
    notes.extend(licences_of(run.manifest for run in runs))
    return SamplePlan(
        metric=series[0].name,
        unit=series[0].unit,
        aim=aim,
        runs=tuple(run.name for run in runs),
        n_scripts=design.scripts,
        turns_per_script=round(design.per_script, 3),
        scored=round(design.scored, 4),
        bases=tuple(bases),
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _Design:
    """The design of a run: number and share of scripts with a value, and turns per script."""

    aim: Aim
    scripts: int
    per_script: float
    scored: float

    def basis(self, basis: str, in_words: str, rho: float | None, spread: Estimate) -> Basis:
        assert spread.value is not None
        needed = scripts_needed(self.aim, spread.value)
        interval = spread.interval
        ends = None
        if interval is not None:
            ends = scripts_needed(self.aim, interval.low), scripts_needed(self.aim, interval.high)
        play = math.ceil(needed / self.scored)
        return Basis(
            basis=basis,
            in_words=in_words,
            rho=rho,
            spread=spread,
            scripts=needed,
            scripts_interval=ends,
            play=play,
            turns=math.ceil(play * self.per_script),
            detectable=detectable(self.aim, spread.value, self.scripts),
        )


def _design(aim: Aim, run: ComparedRun, turns: Collection[TurnKey], scripts: int) -> _Design:
    run_scripts = len({run.scripts[key] for key in turns})
    return _Design(aim, scripts, len(turns) / run_scripts, scripts / run_scripts)


def _from_one(
    run: ComparedRun, series: Series, means: NDArray[np.float64], design: _Design
) -> Sequence[Basis]:
    """Return estimates based on one run: from assumptions and, if there are any, from repetitions."""
    total = standard_deviation(means)
    bases = [
        design.basis(
            "assumed",
            f"assuming a correlation of {rho:g} between the script means of two runs",
            rho,
            _scaled(total, math.sqrt(2 * (1 - rho))),
        )
        for rho in _ASSUMED
    ]
    noise = _noise(run, series)
    if noise is not None:
        variance = total.value**2 if total.value else 0.0
        rho = None if variance == 0 else max(0.0, 1 - noise / variance)
        words = f"from the repetitions of {run.name}: a lower bound for another endpoint"
        spread = Estimate(math.sqrt(2 * noise), len(means), len(means), reason="from repetitions")
        bases.append(design.basis("repetitions", words, rho, spread))
    return bases


def _noise(run: ComparedRun, series: Series) -> float | None:
    """Return the sampling variance of a script's mean over its repetitions; None without repetitions.

    It is estimated from the variance between repetitions, over cases with a value in every repetition.
    """
    repeats = sorted({repeat for _, repeat in series.values})
    if len(repeats) < 2:
        return None
    by_script: dict[str, list[list[float]]] = {}
    for case in dict.fromkeys(case for case, _ in series.values):
        found = [series.values.get((case, repeat)) for repeat in repeats]
        values = [value for value in found if value is not None]
        if len(values) == len(repeats):
            by_script.setdefault(run.scripts[case, repeats[0]], []).append(values)
    if len(by_script) < MIN_CLUSTERS:
        return None
    variances = [np.mean(rows, axis=0).var(ddof=1) for rows in by_script.values()]
    return float(np.mean(variances)) / len(repeats)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    assert estimate.value is not None
    interval = estimate.interval and Interval(estimate.interval.low * factor, estimate.interval.high * factor)
    return replace(estimate, value=estimate.value * factor, interval=interval)


def _script_means(run: ComparedRun, series: Series) -> NDArray[np.float64]:
    known = [(key, value) for key, value in series.values.items() if value is not None]
    return cluster_means([value for _, value in known], [run.scripts[key] for key, _ in known])


def _check_scripts(who: str, metric: str, scripts: int) -> None:
    if scripts < MIN_CLUSTERS:
        raise UsageError(f"{who}: expected {metric} for at least {MIN_CLUSTERS} scripts, got {scripts}")
