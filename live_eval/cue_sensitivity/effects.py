"""How much the voice changes replies, with the interval and the permutation test."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from live_eval.cue_sensitivity.measures import COMPONENTS, Embedder, Measure, Reply, read_measures
from live_eval.statistics import Estimate, estimate_figure, holm, standardised_mean
from live_eval.store import RunReader, ScoreReader
from live_eval.types import Task

__all__ = ["FEWEST_SCRIPTS", "PERMUTATIONS", "CueSensitivity", "Effect", "cue_sensitivity", "effect_of"]

FEWEST_SCRIPTS = 5
"""With fewer scripts nothing is said."""

PERMUTATIONS = 2_000
_NEIGHBOURS = 12


@dataclass(frozen=True, slots=True)
class Effect:
    """How much the voice changes replies, by one measure.

    Args:
        estimate: The effect with its interval; without a value, the reason is there.
        p: Of the permutation test; None where nothing is said.
        consistency: Cohen's d_z of δ over scripts; None where nothing is said.
        between: Mean distance of replies to different styles of a script.
        within: Mean distance of replies to the same recording.
        scale: Mean distance of replies to different scripts.
        scripts: Scripts that it rests on.
    """

    estimate: Estimate
    p: float | None = None
    consistency: float | None = None
    between: float | None = None
    within: float | None = None
    scale: float | None = None
    scripts: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the effect as ``cue-sensitivity --json`` prints it."""
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


@dataclass(frozen=True, slots=True)
class CueSensitivity:
    """The whole.

    Args:
        overall: By all measures that make up the overall one together.
        components: Their names.
        measures: By measure.
        attributes: By the cue that scripts were written for, overall measure; `p` is corrected over them
            after Holm.
        left_out: Turns that have no part in it, by reason.
        replies: Replies that have.
        notes: What to know to read it.
    """

    overall: Effect
    components: tuple[str, ...]
    measures: Mapping[str, Effect]
    attributes: Mapping[str, Effect]
    left_out: Mapping[str, int]
    replies: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as ``cue-sensitivity --json`` prints it."""
        return {
            "overall": self.overall.as_json() | {"components": list(self.components)},
            "measures": {name: effect.as_json() for name, effect in self.measures.items()},
            "attributes": {name: effect.as_json() for name, effect in self.attributes.items()},
            "left_out": dict(self.left_out),
            "replies": self.replies,
            "permutations": PERMUTATIONS,
            "notes": list(self.notes),
        }


def cue_sensitivity(
    run: RunReader, scores: ScoreReader, *, embedder: Embedder | None = None, seed: int = 0
) -> CueSensitivity:
    """Return how sensitive a run's replies are to the voice.

    Args:
        run: The run; each recording played twice at least (``--repeat 2``).
        scores: Its scores: of `prosody`, `emoalign`, `rubric` and `ves` more measures are made.
        embedder: Places sentences by what they mean; without one they are compared word by word.
        seed: Seed of all that is random.
    """
    left_out: Counter[str] = Counter()
    replies: list[Reply] = []
    for turn in run.turns():
        if turn.case.task is not Task.CONVERSATION:
            left_out["no conversation"] += 1
        elif turn.case.dialogue_id is not None:  # its reply depends on what was said before
            left_out["a turn of a dialogue"] += 1
        elif not turn.captured:
            left_out["the turn failed"] += 1
        else:
            cue = turn.case.script_cue
            replies.append(
                Reply(
                    turn.turn_id,
                    turn.case.script_id,
                    f"{turn.case.source}/{turn.case.variant}",
                    (cue.attribute or cue.phrase) if cue is not None else None,
                    (turn.reply_text or "").strip() or None,
                    turn.heard_text,
                )
            )
    rows = {(row.judge, row.turn_id): row for row in scores.read() if row.status == "scored"}
    measures = read_measures(replies, rows, embedder)
    overall = _together([measure for measure in measures if measure.name in COMPONENTS], replies, seed)
    effects = {measure.name: effect_of(measure, replies, seed=seed) for measure in measures}
    components = tuple(measure.name for measure in measures if measure.name in COMPONENTS)
    return CueSensitivity(
        overall=effect_of(overall, replies, seed=seed),
        components=components,
        measures=effects,
        attributes=_by_attribute(overall, replies, seed),
        left_out=dict(left_out),
        replies=len(replies),
        notes=tuple(_notes(replies, components, embedder)),
    )


def _together(measures: Sequence[Measure], replies: Sequence[Reply], seed: int) -> Measure:
    """Return the mean of measures, each by its own scale."""
    scales = [_scale(measure, replies, seed) for measure in measures]
    there = frozenset.intersection(*(measure.there for measure in measures)) if measures else frozenset()

    def distance(one: int, other: int) -> float:
        parts = [
            measure.distance(one, other) / scale
            for measure, scale in zip(measures, scales, strict=True)
            if scale > 0
        ]
        return sum(parts) / len(parts) if parts else 0.0

    return Measure("overall", "mean of the components, each by its scale", distance, there)


def _scale(measure: Measure, replies: Sequence[Reply], seed: int) -> float:
    found = _far(measure, replies, sorted(measure.there), np.random.default_rng(seed))
    return float(np.mean(list(found.values()))) if found else 0.0


def _far(
    measure: Measure, replies: Sequence[Reply], places: Sequence[int], random: np.random.Generator
) -> dict[str, float]:
    """Return for each script the mean distance of its replies from those to other scripts in their style."""
    by_variant: dict[str, list[int]] = defaultdict(list)
    for place in places:
        by_variant[replies[place].variant].append(place)
    sums: dict[str, list[float]] = defaultdict(list)
    for place in places:
        others = by_variant[replies[place].variant]
        for number in random.integers(0, len(others), _NEIGHBOURS):
            other = others[number]
            if replies[other].script_id != replies[place].script_id:
                sums[replies[place].script_id].append(measure.distance(place, other))
    return {script: float(np.mean(found)) for script, found in sums.items()}


@dataclass(frozen=True, slots=True)
class _Script:
    """A script's δ, what it is made of, and what it would be with the styles exchanged."""

    script_id: str
    between: float
    within: float
    exchanged: NDArray[np.float64]


def effect_of(
    measure: Measure,
    replies: Sequence[Reply],
    *,
    scripts: frozenset[str] | None = None,
    seed: int = 0,
) -> Effect:
    """Return how much the voice changes replies, by one measure.

    Args:
        measure: The measure.
        replies: The replies that it places.
        scripts: Only these; all where None. The scale is always that of all.
        seed: Seed of the exchanges.
    """
    random = np.random.default_rng(seed)
    far = _far(measure, replies, sorted(measure.there), random)
    by_script: dict[str, list[int]] = defaultdict(list)
    for place in sorted(measure.there):
        if scripts is None or replies[place].script_id in scripts:
            by_script[replies[place].script_id].append(place)
    found = [
        made
        for script_id, places in by_script.items()
        if script_id in far and (made := _script(measure, replies, script_id, places, random)) is not None
    ]
    if len(found) < FEWEST_SCRIPTS:
        reason = (
            f"fewer than {FEWEST_SCRIPTS} scripts have replies to two styles, and two to the same recording"
        )
        return Effect(Estimate(None, 0, len(found), reason=reason), scripts=len(found))
    deltas = np.asarray([each.between - each.within for each in found])
    scale = np.asarray([far[each.script_id] for each in found])

    def ratio(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        below = np.asarray(drawn @ scale, np.float64)
        return np.asarray(np.divide(drawn @ deltas, below, out=np.zeros_like(below), where=below > 0))

    exchanged = np.sum([each.exchanged for each in found], axis=0)
    # As much as was found, but for the rounding of sums in another order.
    as_much = int((exchanged >= deltas.sum() - 1e-9 * max(1.0, abs(float(deltas.sum())))).sum())
    consistency = standardised_mean(deltas).value if deltas.std() > 0 else None
    return Effect(
        estimate_figure(ratio, [each.script_id for each in found], seed=seed),
        p=(1 + as_much) / (1 + PERMUTATIONS),
        consistency=consistency,
        between=float(np.mean([each.between for each in found])),
        within=float(np.mean([each.within for each in found])),
        scale=float(scale.mean()),
        scripts=len(found),
    )


def _script(
    measure: Measure,
    replies: Sequence[Reply],
    script_id: str,
    places: Sequence[int],
    random: np.random.Generator,
) -> _Script | None:
    """Return a script's part, or None where it has not two styles, or none of them twice."""
    variants = [replies[place].variant for place in places]
    if len(set(variants)) < 2 or max(Counter(variants).values()) < 2:
        return None
    labels = np.unique(variants, return_inverse=True)[1]
    pairs = np.asarray(list(combinations(range(len(places)), 2)))
    distances = np.asarray([measure.distance(places[one], places[other]) for one, other in pairs])
    drawn = random.permuted(np.tile(labels, (PERMUTATIONS, 1)), axis=1)
    same = np.vstack([labels, drawn])[:, pairs[:, 0]] == np.vstack([labels, drawn])[:, pairs[:, 1]]
    inside = int(same[0].sum())  # however the styles are exchanged
    within = same @ distances / inside
    between = (distances.sum() - same @ distances) / (len(pairs) - inside)
    return _Script(script_id, float(between[0]), float(within[0]), (between - within)[1:])


def _by_attribute(measure: Measure, replies: Sequence[Reply], seed: int) -> dict[str, Effect]:
    scripts: dict[str, set[str]] = defaultdict(set)
    for reply in replies:
        if reply.attribute is not None:
            scripts[reply.attribute].add(reply.script_id)
    effects = {
        name: effect_of(measure, replies, scripts=frozenset(mine), seed=seed)
        for name, mine in sorted(scripts.items())
    }
    adjusted = holm([effect.p for effect in effects.values()])
    return {name: replace(effect, p=p) for (name, effect), p in zip(effects.items(), adjusted, strict=True)}


def _notes(replies: Sequence[Reply], components: Sequence[str], embedder: Embedder | None) -> list[str]:
    notes = []
    if embedder is None:
        notes.append(
            "replies are compared word by word: a model of sentences (judge semsim) would tell paraphrases "
            "from other replies"
        )
    if "prosody" not in components:
        notes.append("how replies are spoken has no part in it: score the run with the judge prosody")
    heard: dict[str, set[str]] = defaultdict(set)
    for reply in replies:
        if reply.heard is not None:
            heard[reply.script_id].add(" ".join(re.findall(r"[\w']+", reply.heard.casefold())))
    differing = sum(len(texts) > 1 for texts in heard.values())
    if differing:
        notes.append(
            f"in {differing} of {len(heard)} scripts the endpoint's transcriber heard other words in some of "
            "the recordings: where it misheard, the reply may change without the voice having been heard"
        )
    return notes
