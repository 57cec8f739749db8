"""The statistic of cue sensitivity for known distances: hearing, deaf, talkative; too few replies."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from live_eval.analysis.cue_sensitivity.effects import (
    PERMUTATIONS,
    Effect,
    effect_over,
    scripts_of,
    why_too_few,
)
from live_eval.analysis.cue_sensitivity.measures import Measure, Reply, read_measures

VARIANTS = ("target", "neutral", "alternative")


def replies_of(scripts: int, repeats: int = 3, variants: Sequence[str] = VARIANTS) -> list[Reply]:
    return [
        Reply(
            f"{script}/{variant}/{repeat}", str(script), "synthesis", variant, "sigh" if script % 2 else "sad"
        )
        for script in range(scripts)
        for variant in variants
        for repeat in range(repeats)
    ]


def effect_of(measure: Measure, replies: Sequence[Reply]) -> Effect:
    return effect_over(scripts_of([measure], replies)[0], why_too_few(measure, replies))


def measured(replies: Sequence[Reply], place_of: Callable[[Reply], float]) -> Effect:
    """Return the effect of replies that are points on a line."""
    places = [place_of(reply) for reply in replies]
    everywhere = frozenset(range(len(replies)))
    measure = Measure("line", "", lambda one, other: abs(places[one] - places[other]), everywhere, {})
    return effect_of(measure, replies)


def test_an_endpoint_that_hears_only_words_scores_zero() -> None:
    effect = measured(replies_of(20), lambda reply: float(reply.script_id))
    assert effect.estimate.value == 0
    assert effect.estimate.interval is not None
    assert (effect.estimate.interval.low, effect.estimate.interval.high) == (0, 0)
    assert effect.p == 1
    assert (effect.between, effect.within, effect.scripts) == (0, 0, 20)


def test_an_endpoint_that_hears_the_style_does_not() -> None:
    effect = measured(
        replies_of(20), lambda reply: float(reply.script_id) + 3.0 * VARIANTS.index(reply.variant)
    )
    assert effect.estimate.value is not None
    assert effect.estimate.value > 0.3
    assert effect.estimate.interval is not None
    assert effect.estimate.interval.low > 0
    assert effect.p is not None
    assert effect.p < 0.001


def test_the_effect_is_one_if_voice_changes_as_much_as_words() -> None:
    random = np.random.default_rng(3)
    place: dict[tuple[str, str], float] = {}
    effect = measured(
        replies_of(300, repeats=2),
        lambda reply: place.setdefault((reply.script_id, reply.variant), float(random.normal())),
    )
    assert effect.estimate.value == pytest.approx(1.0, abs=0.12)


def test_false_positives_for_a_variable_deaf_endpoint_are_rare() -> None:
    random = np.random.default_rng(11)
    replies = replies_of(10, repeats=2)
    called = 0
    for _ in range(60):
        effect = measured(replies, lambda reply: float(reply.script_id) + float(random.normal()))
        assert effect.p is not None
        called += effect.p < 0.05
    assert called <= 8, "of 60, 3 are expected"


@pytest.mark.parametrize(
    ("replies", "scripts", "reason"),
    [
        (replies_of(4), 4, "fewer than 5 scripts have replies to two styles"),
        (
            replies_of(20, repeats=1),
            0,
            "fewer than 5 scripts have two replies to the same recording: run with --repeat 2",
        ),
        (replies_of(20, variants=("target",)), 0, "fewer than 5 scripts have replies to two styles"),
        ([], 0, "fewer than 5 scripts have replies to two styles"),
    ],
)
def test_too_few_replies_have_a_reason(replies: list[Reply], scripts: int, reason: str) -> None:
    effect = measured(replies, lambda _: 0.0)
    assert effect.estimate.value is None
    assert effect.p is None
    assert effect.estimate.reason == reason
    assert effect.scripts == scripts


def test_a_constant_endpoint_scores_zero() -> None:
    effect = measured(replies_of(10), lambda _: 1.0)
    assert (effect.estimate.value, effect.p) == (0, 1)


def test_the_same_seed_gives_the_same_effect() -> None:
    random = np.random.default_rng(5)
    places = {reply.turn_id: float(random.normal()) for reply in replies_of(12)}
    one, other = (measured(replies_of(12), lambda reply: places[reply.turn_id]) for _ in range(2))
    assert one == other


def test_words_are_compared_without_case_marks_and_typography() -> None:
    texts = ("Oh, it's no!", "oh it’s no", "Oh yes, indeed", None)
    replies = [Reply(str(place), "s", "synthesis", "v", text=text) for place, text in enumerate(texts)]
    [measure] = read_measures(replies, {}, None)
    assert measure.name == "words"
    assert measure.distance(0, 1) == 0
    assert measure.distance(0, 2) == pytest.approx(2 / 3)
    assert measure.measurable == {0, 1, 2}


def in_two_sources(replies: Sequence[Reply]) -> list[Reply]:
    return [replace(reply, source=source) for reply in replies for source in ("synthesis", "human")]


def test_an_endpoint_that_hears_only_the_source_does_not_hear_the_style() -> None:
    replies = in_two_sources(replies_of(8, repeats=2))
    effect = measured(replies, lambda reply: float(reply.script_id) + 5.0 * (reply.source == "human"))
    assert (effect.estimate.value, effect.p) == (0, 1)
    assert effect.scripts == 8, "a script with two sources counts once"


def test_styles_are_compared_within_a_source() -> None:
    # By hand: in the human recordings, other styles are 1 apart and repeats 0, so B = 1; in the synthetic
    # ones, B = 0; `between` is their mean. Other scripts of a source are 2 apart.
    replies = in_two_sources(replies_of(8, repeats=2))

    def distance(one: int, other: int) -> float:
        first, second = replies[one], replies[other]
        if first.source != second.source:
            return 100.0
        if first.script_id != second.script_id:
            return 2.0
        return float(first.source == "human" and first.variant != second.variant)

    effect = effect_of(Measure("by hand", "", distance, frozenset(range(len(replies))), {}), replies)
    assert (effect.between, effect.within, effect.scale) == (0.5, 0, 2)
    assert effect.estimate.value == 0.25
    assert effect.estimate.interval is not None
    assert (effect.estimate.interval.low, effect.estimate.interval.high) == (0.25, 0.25)


def test_the_permutation_test_approximates_the_exact_one() -> None:
    random = np.random.default_rng(2)
    replies = replies_of(5, repeats=2, variants=("target", "neutral"))
    places = {reply.turn_id: float(random.normal()) + (reply.variant == "target") for reply in replies}
    effect = measured(replies, lambda reply: places[reply.turn_id])

    def delta(of: tuple[float, ...]) -> float:
        """Return the result for four replies on a line, the first two to one style."""
        a, b, c, d = of
        return (abs(a - c) + abs(a - d) + abs(b - c) + abs(b - d)) / 4 - (abs(a - b) + abs(c - d)) / 2

    said = [tuple(places[reply.turn_id] for reply in replies if reply.script_id == str(s)) for s in range(5)]
    by_script = [[delta(order) for order in permutations(four)] for four in said]
    observed = sum(delta(four) for four in said)
    sums = np.zeros(1)
    for deltas in by_script:
        sums = np.add.outer(sums, deltas).ravel()
    exact = float((sums >= observed - 1e-9).mean())
    assert 0.02 < exact < 0.98, "a p that can be missed on both sides"
    assert effect.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / PERMUTATIONS))


def test_an_endpoint_that_replies_only_by_voice_has_no_effect_size() -> None:
    effect = measured(replies_of(10), lambda reply: float(VARIANTS.index(reply.variant)))
    assert effect.estimate.value is None
    assert effect.estimate.reason == "undefined: replies do not depend on the words"
    assert effect.p is not None
    assert effect.p < 0.001
    # |0 - 1|, |0 - 2| and |1 - 2|, equally often.
    assert effect.between == pytest.approx(4 / 3)
    assert (effect.within, effect.scale) == (0, 0)
