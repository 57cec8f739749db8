"""Pauses inside an utterance: silent, filled, and those of a speaker who is tired or in tears."""

from __future__ import annotations

from collections.abc import Callable

from live_eval.campaigns.duplex.probes.probe import Condition, Probe
from live_eval.campaigns.duplex.stimuli import Gap, Line, Say

__all__ = ["EXPRESSIVE_PAUSE", "FILLED_PAUSE", "LADDER_MS", "PAUSE"]

LADDER_MS = (200, 400, 600, 800, 1000, 1500, 2000, 3000)
"""Gaps of the ladder, in ms."""

_FILLED_MS = (500, 1000)
_EXPRESSIVE_MS = (1200, 2000)
_EXPRESSIVE_SPEED = 0.75

_HALVES = (
    ("I would like to book a table for", "four people on Friday evening.", "Your table for four is booked."),
    ("Please remind me to call my sister about", "the train tickets.", "I will remind you to call her."),
    ("My phone number is five five five,", "zero one four two.", "Thank you, I have noted your number."),
    ("Can you tell me which bus goes from the station to", "the old harbor?", "The number nine bus does."),
)
_WORN_OUT = (
    ("I just", "I have not slept in days and", "I do not know what to do."),
    ("She is gone", "and I keep thinking that", "I should have called her."),
)


def _split_by(gap_ms: int, filler: str = "") -> Callable[[int], tuple[Line, ...]]:
    def lines(variant: int) -> tuple[Line, ...]:
        first, second, reply = _HALVES[variant]
        hesitation = (Gap(gap_ms), Say(filler), Gap(gap_ms)) if filler else (Gap(gap_ms),)
        return (Line(pieces=(Say(first), *hesitation, Say(second)), reply=reply),)

    return lines


def _worn_out(gap_ms: int) -> Callable[[int], tuple[Line, ...]]:
    def lines(variant: int) -> tuple[Line, ...]:
        first, second, third = (Say(text, speed=_EXPRESSIVE_SPEED) for text in _WORN_OUT[variant])
        pieces = (first, Gap(gap_ms), second, Gap(gap_ms), third)
        return (Line(pieces=pieces, reply="I am sorry. Take all the time you need."),)

    return lines


PAUSE = Probe(
    "pause",
    "A sentence with a silent gap in the middle, where it cannot end.",
    tuple(Condition(f"{gap_ms} ms", _split_by(gap_ms), len(_HALVES)) for gap_ms in LADDER_MS),
)

FILLED_PAUSE = Probe(
    "filled-pause",
    'The same sentences with "Um, let me think" in the middle, and a silent gap on either side of it.',
    tuple(
        Condition(f"2 × {gap_ms} ms", _split_by(gap_ms, "Um, let me think."), len(_HALVES))
        for gap_ms in _FILLED_MS
    ),
)

EXPRESSIVE_PAUSE = Probe(
    "expressive-pause",
    "Slow speech with two long pauses, as of a tired or sobbing speaker. Without --data it is the bundled "
    "voice, slowed down: its pauses are such a speaker's, its sound is not.",
    tuple(Condition(f"2 × {gap_ms} ms", _worn_out(gap_ms), len(_WORN_OUT)) for gap_ms in _EXPRESSIVE_MS),
)
