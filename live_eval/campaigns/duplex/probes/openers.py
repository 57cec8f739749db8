"""Requests whose replies are long enough to speak over."""

from __future__ import annotations

from live_eval.campaigns.duplex.stimuli import Line, Say
from live_eval.types import Anchor, AnchorKind

__all__ = ["OPENERS", "opener", "over_reply"]

OPENERS = (
    (
        "Please explain in detail how a bicycle stays upright.",
        "A bicycle stays upright because a rider, mostly without noticing, steers into every fall. When the "
        "bicycle leans to the left, the front wheel turns to the left, and the wheels move back under the "
        "weight. The shape of the fork helps, since the wheel meets the ground behind the line around which "
        "it steers. At speed the spinning wheels add a little as well, but much less than people think.",
    ),
    (
        "Tell me at length how honey is made.",
        "Worker bees fly from flower to flower and drink nectar, mostly water and sugar. Back in the "
        "hive they pass it from bee to bee, and each adds enzymes that split the sugar. Then they spread it "
        "over the cells of the comb and fan it with their wings until most water is gone. What is left "
        "is honey, and the bees close every full cell with a lid of wax so that it keeps through the winter.",
    ),
    (
        "Describe step by step how to bake a loaf of bread.",
        "First mix flour, water, salt and a little yeast until no dry flour is left. Let the dough rest for "
        "half an hour, then stretch and fold it a few times. Cover it and let it rise in a warm place until "
        "it has doubled. Shape it into a loaf and let it rise once more while the oven gets hot. Cut the "
        "top with a sharp knife and bake it for forty minutes, until it sounds hollow when you knock on it.",
    ),
    (
        "Give me a long summary of how the tides work.",
        "The tides come from the pull of the moon and, less strongly, of the sun. The side of the earth that "
        "faces the moon is pulled more than its center, and the far side less, so the sea rises on both. As "
        "the earth turns, most coasts pass through both bulges each day and have two high tides. When sun "
        "and the moon stand in line, the tides are highest, and when they stand at right angles, lowest.",
    ),
)
"""Requests, each with the reply of an endpoint that plays scripts: about twenty seconds."""


def opener(variant: int) -> Line:
    """Return the request with a number."""
    text, reply = OPENERS[variant % len(OPENERS)]
    return Line(pieces=(Say(text),), reply=reply)


def over_reply(after_ms: int) -> Anchor:
    """Return the anchor so long after the reply becomes audible."""
    return Anchor(AnchorKind.REPLY_AUDIBLE, after_ms * 1_000_000)
