"""Error rates and coverage of the statistics, from simulated run comparisons.

Scripts have one to three variants (the number differs between scripts) and a difficulty shared by both runs;
metrics are binary (accuracy), Likert (1 to 5) and continuous (skewed, like latencies). Over 1,000 comparisons
each, the benchmark measures the false positive rate for one metric and for any of 20 metrics after Holm's
correction; the coverage of 95 % intervals of the difference and of d_z, with and without a true difference;
and the power of comparisons planned for a power of 80 %, including plans from a pilot. Every value is printed
with its bound: the nominal value plus or minus three standard errors.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import _benchmark
import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.sample_size import Aim, scripts_needed
from live_eval.analysis.statistics.intervals import LEVEL, estimate_mean
from live_eval.analysis.statistics.paired import ALPHA, holm, sign_flip, standardised_mean

KINDS = ("binary", "Likert", "continuous")
# A shift on each model's own scale, equal to a difference of about 0.25 standard deviations.
SHIFTS = {"binary": 0.45, "Likert": 0.25, "continuous": 0.08}
SCRIPTS = (15, 60, 500)
FAMILY = 20
FAMILY_SCRIPTS = 40
POWER = 0.8
PILOT = 60
MOST_SCRIPTS = 200_000
ERRORS = 3.0
# Percentile intervals of few, coarse values cover less than 95 %, even if widened; this shortfall is
# allowed up to this number of scripts, and the coverage is printed.
FEW_SCRIPTS = 20
SLACK = 0.02
# An interval that always contains the truth is too wide.
MOST_COVERED = 0.985


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and its bound."""

    name: str
    value: float
    low: float
    high: float

    @property
    def kept(self) -> bool:
        """Whether the value is within the bound."""
        return self.low <= self.value <= self.high


@dataclass(frozen=True, slots=True)
class Truth:
    """True differences of a model, over a very large number of scripts."""

    mean: float
    spread: float


def differences(
    kind: str, scripts: int, shift: float, random: np.random.Generator, metrics: int = 1
) -> NDArray[np.float64]:
    """Return each script's difference between two runs, shape (scripts, metrics).

    Metrics share the script's difficulty and half of each turn's random variation.
    """
    variants = np.arange(3)[:, None, None] < random.integers(1, 4, size=(scripts, 1))[None]
    script = random.normal(size=(1, scripts, 1))
    variant = random.normal(size=(3, scripts, 1))

    def run(moved: float) -> NDArray[np.float64]:
        shape = (3, scripts, metrics)
        chance = math.sqrt(0.5) * (random.normal(size=(3, scripts, 1)) + random.normal(size=shape))
        if kind == "binary":
            at = 1.5 * script + 0.5 * variant + moved + 1.7 * chance
            return (at > 0).astype(np.float64)
        if kind == "Likert":
            return np.clip(np.round(3 + script + 0.5 * variant + moved + chance), 1, 5)
        return np.asarray(800 * np.exp(0.3 * script + 0.2 * variant + moved + 0.3 * chance), np.float64)

    per_turn = np.where(variants, run(shift) - run(0.0), 0.0)
    return np.asarray(per_turn.sum(axis=0) / variants.sum(axis=0), np.float64)


@lru_cache
def truth(kind: str, shift: float) -> Truth:
    random = np.random.default_rng([9, KINDS.index(kind)])
    drawn = np.concatenate([differences(kind, MOST_SCRIPTS, shift, random)[:, 0] for _ in range(10)])
    return Truth(float(drawn.mean()) if shift else 0.0, float(drawn.std(ddof=1)))


def error(share: float, trials: int) -> float:
    return ERRORS * math.sqrt(share * (1 - share) / trials)


def single(kind: str, scripts: int, trials: int, seed: int) -> Iterator[Figure]:
    """Yield false positives and coverage of one metric."""
    random = np.random.default_rng([seed, KINDS.index(kind), scripts])
    label = f"{kind}, {scripts} scripts"
    called = held = 0
    for _ in range(trials):
        found = differences(kind, scripts, 0.0, random)[:, 0]
        p = sign_flip(found).p
        called += p is not None and p < ALPHA
        interval = estimate_mean(found, range(scripts)).interval
        held += interval is not None and interval.low <= 0 <= interval.high
    lowest = LEVEL - error(LEVEL, trials)
    few = lowest - SLACK * (scripts <= FEW_SCRIPTS)
    yield Figure(f"false positives: {label}", called / trials, 0.0, ALPHA + error(ALPHA, trials))
    yield Figure(f"coverage, no difference: {label}", held / trials, few, MOST_COVERED)
    real = truth(kind, SHIFTS[kind])
    held = held_dz = 0
    for _ in range(trials):
        found = differences(kind, scripts, SHIFTS[kind], random)[:, 0]
        interval = estimate_mean(found, range(scripts)).interval
        held += interval is not None and interval.low <= real.mean <= interval.high
        interval = standardised_mean(found).interval
        held_dz += interval is not None and interval.low <= real.mean / real.spread <= interval.high
    yield Figure(f"coverage, a difference: {label}", held / trials, few, MOST_COVERED)
    yield Figure(f"coverage of d_z: {label}", held_dz / trials, lowest, MOST_COVERED)


def family(kind: str, trials: int, seed: int) -> Iterator[Figure]:
    """Yield the rate of any false positive among many metrics, uncorrected and corrected."""
    random = np.random.default_rng([seed, 20, KINDS.index(kind)])
    raw = corrected = 0
    for _ in range(trials):
        found = differences(kind, FAMILY_SCRIPTS, 0.0, random, FAMILY)
        p_values = [sign_flip(column).p for column in found.T]
        raw += any(p is not None and p < ALPHA for p in p_values)
        corrected += any(p is not None and p < ALPHA for p in holm(p_values))
    label = f"any of {FAMILY} {kind} metrics, {FAMILY_SCRIPTS} scripts"
    yield Figure(f"false positives before correction: {label}", raw / trials, 0.0, 1.0)
    bound = ALPHA + error(ALPHA, trials)
    yield Figure(f"false positives after Holm: {label}", corrected / trials, 0.0, bound)


def planned(kind: str, trials: int, seed: int) -> Iterator[Figure]:
    """Yield the power of comparisons as large as planned."""
    random = np.random.default_rng([seed, 30, KINDS.index(kind)])
    real = truth(kind, SHIFTS[kind])
    aim = Aim(detect=abs(real.mean), power=POWER)
    scripts = scripts_needed(aim, real.spread)
    shown = 0
    for _ in range(trials):
        p = sign_flip(differences(kind, scripts, SHIFTS[kind], random)[:, 0]).p
        shown += p is not None and p < ALPHA
    off = error(POWER, trials)
    name = f"power, planned 0.80: {kind}, {scripts} scripts"
    yield Figure(name, shown / trials, POWER - off, POWER + off)
    pilots = [
        scripts_needed(aim, float(differences(kind, PILOT, SHIFTS[kind], random)[:, 0].std(ddof=1)))
        for _ in range(trials)
    ]
    ratio = float(np.median(pilots)) / scripts
    yield Figure(f"median plan from {PILOT} scripts by what it takes: {kind}", ratio, 0.85, 1.15)


def main() -> None:
    parser = _benchmark.parser(__doc__)
    parser.add_argument("--comparisons", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    trials, seed, began = asked.comparisons, asked.seed, time.perf_counter()
    broken = 0
    parts = [single(kind, scripts, trials, seed) for kind in KINDS for scripts in SCRIPTS]
    parts += [family(kind, trials, seed) for kind in KINDS] + [planned(kind, trials, seed) for kind in KINDS]
    for part in parts:
        for figure in part:
            broken += not figure.kept
            kept = "kept" if figure.kept else "NOT KEPT"
            print(
                f"{figure.name:<72} {figure.value:6.3f}   {figure.low:.3f} … {figure.high:.3f}   {kept}",
                flush=True,
            )
    print(f"{trials} comparisons for each figure, {time.perf_counter() - began:.0f} s")
    print(f"statistics_validity: {broken} figures beyond their bounds (aim 0)")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
