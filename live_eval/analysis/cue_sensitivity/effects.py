"""Estimate the voice's effect on a measure of the replies, with an interval and a permutation test."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.analysis.cue_sensitivity.measures import Measure, Reply
from live_eval.analysis.statistics.intervals import Estimate, estimate_statistic
from live_eval.analysis.statistics.paired import standardised_mean

__all__ = [
    "FEWEST_SCRIPTS",
    "NEIGHBOURS",
    "PERMUTATIONS",
    "Effect",
    "ScriptEffect",
    "effect_over",
    "scripts_of",
    "usable_scripts",
    "why_too_few",
]

FEWEST_SCRIPTS = 5
"""The minimum number of scripts for an effect."""

SIGNIFICANT_BELOW = 0.05
"""The significance level: below this p, replies are considered to change with the voice."""

PERMUTATIONS = 2_000
NEIGHBOURS = 12
"""Number of replies drawn for comparison with each reply; a run has too many pairs to use all."""

_UNDEFINED = "undefined: replies do not depend on the words"


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of the voice on replies by one measure.

    Args:
        estimate: Effect with its interval, or the reason why it is missing.
        p: p-value of the permutation test, or None.
        consistency: Cohen's d_z of δ over scripts; None with fewer than 8 scripts, or if all δ are equal.
        between: Mean distance of replies to different styles of a script.
        within: Mean distance of replies to the same recording.
        scale: Mean distance of replies to different scripts.
    """

    estimate: Estimate
    p: float | None = None
    consistency: float | None = None
    between: float | None = None
    within: float | None = None
    scale: float | None = None
    scripts: int = 0

    @property
    def in_words(self) -> str:
        """The result of the test in one or two sentences."""
        value, found = self.estimate.value, self.estimate.interval
        if self.p is None:
            return f"No conclusion: {self.estimate.reason}."
        size = ""
        if value is not None:
            low_high = (
                "" if found is None else f"95 % interval {_number(found.low)} to {_number(found.high)}, "
            )
            p = "p < 0.001" if self.p < 0.001 else f"p {self.p:.3f}"
            deaf = "A model that hears only the words, and always the same, is at 0"
            size = f": {_number(value)} ({low_high}{p}). {deaf}"
        if self.p >= SIGNIFICANT_BELOW:
            differ = "replies differ no more between styles than between repeats"
            return f"No sensitivity to the voice found: {differ}{size}."
        changed = "Replies differ more between styles than between repeats of one recording"
        return f"{changed}{size or f'. Size of the effect: {self.estimate.reason}'}."

    def as_json(self) -> dict[str, Any]:
        """Return the effect as printed by ``cue-sensitivity --json``."""
        found = self.estimate.interval
        return {
            "effect": self.estimate.value,
            "low": found.low if found is not None else None,
            "high": found.high if found is not None else None,
            "p": self.p,
            "d_z": self.consistency,
            "between": self.between,
            "within": self.within,
            "scale": self.scale,
            "scripts": self.scripts,
            "reason": self.estimate.reason or None,
        }


def _number(value: float) -> str:
    return f"{value:z.2f}".replace("-", "−")


class RepeatedValues:
    """Values with many duplicates, shape (n,), stored as distinct values and small indices.

    Six replies have only 15 distinct permutations, so a script's values take an eighth of the memory.
    """

    __slots__ = ("_distinct", "_places")

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._distinct, places = np.unique(values, return_inverse=True)
        self._places = places.astype(np.min_scalar_type(len(self._distinct)))

    def values(self) -> NDArray[np.float64]:
        """Return the values, shape (n,)."""
        return np.asarray(self._distinct[self._places], np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ScriptEffect:
    """The contribution of a script to an effect.

    Args:
        between: Mean distance between its replies to different styles.
        within: Mean distance between its replies to the same recording.
        far: Mean distance of its replies from replies to other scripts.
        exchanged: Values of ``between − within`` with permuted styles.
    """

    script_id: str
    between: float
    within: float
    far: float
    exchanged: RepeatedValues


def scripts_of(
    measures: Sequence[Measure], replies: Sequence[Reply], *, seed: int = 0
) -> list[list[ScriptEffect]]:
    """Return, for each measure, the scripts with replies to two styles and two replies to one recording.

    Styles are compared and permuted within one source, since a different speaker is not a different cue. A
    script with several sources counts once, with its mean over the sources.
    """
    found: dict[int, list[ScriptEffect]] = {}
    # Measures that cover the same replies share the random draws.
    for measurable in dict.fromkeys(measure.measurable for measure in measures):
        same = [place for place, measure in enumerate(measures) if measure.measurable == measurable]
        random = np.random.default_rng(seed)
        scripts = _scripts([measures[place] for place in same], replies, measurable, random)
        found.update(zip(same, scripts, strict=True))
    return [found[place] for place in range(len(measures))]


def _scripts(
    measures: Sequence[Measure],
    replies: Sequence[Reply],
    measurable: frozenset[int],
    random: np.random.Generator,
) -> list[list[ScriptEffect]]:
    neighbours = _neighbours(replies, measurable, random)
    parts: dict[str, list[list[tuple[float, float, RepeatedValues]]]] = defaultdict(list)
    for (script_id, _), places in _groups(replies, measurable).items():
        if script_id in neighbours and _usable(replies, places):
            parts[script_id].append(_contrasts(measures, replies, places, random))
    return [
        [
            ScriptEffect(
                script_id,
                between=float(np.mean([by_measure[number][0] for by_measure in of_sources])),
                within=float(np.mean([by_measure[number][1] for by_measure in of_sources])),
                far=_far(measure, neighbours[script_id]),
                exchanged=_mean([by_measure[number][2] for by_measure in of_sources]),
            )
            for script_id, of_sources in parts.items()
        ]
        for number, measure in enumerate(measures)
    ]


def _mean(of_sources: Sequence[RepeatedValues]) -> RepeatedValues:
    if len(of_sources) == 1:
        return of_sources[0]
    return RepeatedValues(np.mean([each.values() for each in of_sources], axis=0))


def _far(measure: Measure, neighbours: Sequence[tuple[int, NDArray[np.int32]]]) -> float:
    return float(
        np.mean([measure.distance(place, other) for place, others in neighbours for other in others.tolist()])
    )


def effect_over(scripts: Sequence[ScriptEffect], too_few: str, *, seed: int = 0) -> Effect:
    """Return the effect over scripts; `too_few` is the reason to give below `FEWEST_SCRIPTS`."""
    if len(scripts) < FEWEST_SCRIPTS:
        return Effect(Estimate(None, 0, len(scripts), reason=too_few), scripts=len(scripts))
    between = np.asarray([each.between for each in scripts])
    within = np.asarray([each.within for each in scripts])
    deltas = between - within
    scale = np.asarray([each.far for each in scripts])

    def ratio(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        below = np.asarray(drawn @ scale, np.float64)
        # If all replies are equal, the voice has no effect. If only replies to different scripts are equal,
        # the effect has no scale.
        without = np.where(drawn @ (between + within) == 0, 0.0, np.nan)
        return np.asarray(np.divide(drawn @ deltas, below, out=without, where=below > 0))

    exchanged = np.zeros(PERMUTATIONS)
    for each in scripts:
        exchanged += each.exchanged.values()
    # at least the observed effect, up to rounding
    as_much = int((exchanged >= deltas.sum() - 1e-9 * max(1.0, abs(float(deltas.sum())))).sum())
    # If no script changes, the effect is 0 and its interval has zero width.
    estimate = estimate_statistic(ratio, [each.script_id for each in scripts], no_width="", seed=seed)
    if estimate.value is None:
        estimate = Estimate(None, len(scripts), len(scripts), reason=_UNDEFINED)
    return Effect(
        estimate,
        p=(1 + as_much) / (1 + PERMUTATIONS),
        consistency=standardised_mean(deltas).value,
        between=float(between.mean()),
        within=float(within.mean()),
        scale=float(scale.mean()),
        scripts=len(scripts),
    )


def usable_scripts(replies: Sequence[Reply]) -> int:
    """Return the number of scripts with replies to two styles and two replies to one recording."""
    groups = _groups(replies, range(len(replies)))
    return len({script_id for (script_id, _), places in groups.items() if _usable(replies, places)})


def why_too_few(measure: Measure, replies: Sequence[Reply]) -> str:
    """Explain why fewer than `FEWEST_SCRIPTS` scripts contribute, with a remedy."""
    if usable_scripts(replies) >= FEWEST_SCRIPTS:
        missing = [
            f"only {count} of {len(replies)} replies have {what}"
            for what, count in measure.needs.items()
            if count < len(replies)
        ]
        return ", ".join(missing) or f"fewer than {FEWEST_SCRIPTS} scripts share a style with other scripts"
    groups = _groups(replies, range(len(replies)))
    styled = {
        script_id
        for (script_id, _), places in groups.items()
        if len({replies[place].variant for place in places}) > 1
    }
    if len(styled) < FEWEST_SCRIPTS:
        return f"fewer than {FEWEST_SCRIPTS} scripts have replies to two styles"
    return f"fewer than {FEWEST_SCRIPTS} scripts have two replies to the same recording: run with --repeat 2"


def _groups(
    replies: Sequence[Reply], places: Sequence[int] | frozenset[int]
) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in sorted(places):
        groups[replies[place].script_id, replies[place].source].append(place)
    return groups


def _usable(replies: Sequence[Reply], places: Sequence[int]) -> bool:
    counts = Counter(replies[place].variant for place in places)
    return len(counts) > 1 and max(counts.values()) > 1


def _neighbours(
    replies: Sequence[Reply], measurable: frozenset[int], random: np.random.Generator
) -> Mapping[str, list[tuple[int, NDArray[np.int32]]]]:
    """Return each script's replies, each paired with random replies to other scripts in the same style."""
    by_style: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place in sorted(measurable):
        by_style[replies[place].source, replies[place].variant].append(place)
    found: dict[str, list[tuple[int, NDArray[np.int32]]]] = defaultdict(list)
    for places in by_style.values():
        drawn = random.integers(0, len(places), (len(places), NEIGHBOURS))
        numbers: dict[str, int] = {}
        scripts = np.asarray([numbers.setdefault(replies[place].script_id, place) for place in places])
        others = np.asarray(places, np.int32)[drawn]
        foreign = scripts[drawn] != scripts[:, None]
        for row, place in enumerate(places):
            if foreign[row].any():
                found[replies[place].script_id].append((place, others[row, foreign[row]]))
    return found


def _contrasts(
    measures: Sequence[Measure], replies: Sequence[Reply], places: Sequence[int], random: np.random.Generator
) -> list[tuple[float, float, RepeatedValues]]:
    """Return the contribution of a script's replies to one source to its `ScriptEffect`, by measure."""
    labels = np.unique([replies[place].variant for place in places], return_inverse=True)[1]
    pairs = list(combinations(range(len(places)), 2))
    ones, others = np.asarray(pairs).T
    drawn = np.vstack([labels, random.permuted(np.tile(labels, (PERMUTATIONS, 1)), axis=1)])
    same = (drawn[:, ones] == drawn[:, others]).astype(np.float64)
    inside = int(same[0].sum())  # constant over permutations
    found = []
    for measure in measures:
        distances = np.asarray([measure.distance(places[one], places[other]) for one, other in pairs])
        inside_sums = same @ distances
        within = inside_sums / inside
        between = (distances.sum() - inside_sums) / (len(pairs) - inside)
        found.append((float(between[0]), float(within[0]), RepeatedValues((between - within)[1:])))
    return found
