"""A question and its answer: how long an endpoint takes when nothing is difficult."""

from __future__ import annotations

from live_eval.campaigns.duplex.probes.probe import Condition, Probe
from live_eval.campaigns.duplex.stimuli import Line, Say

__all__ = ["RESPONSE_LATENCY"]

_QUESTIONS = (
    ("What is the capital of Portugal?", "The capital of Portugal is Lisbon."),
    ("How many days does a leap year have?", "A leap year has three hundred and sixty six days."),
    ("Which planet is closest to the sun?", "Mercury is the planet closest to the sun."),
    ("What color do you get from blue and yellow?", "Blue and yellow make green."),
)


def _question(variant: int) -> tuple[Line, ...]:
    text, reply = _QUESTIONS[variant]
    return (Line(pieces=(Say(text),), reply=reply),)


RESPONSE_LATENCY = Probe(
    "response-latency",
    "A short question, and nothing else.",
    (Condition("question", _question, len(_QUESTIONS)),),
)
