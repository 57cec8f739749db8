"""Sounds that are not to be reacted to: the reply should go on, or nothing should be said."""

from __future__ import annotations

from collections.abc import Callable

from live_eval.campaigns.duplex.probes.openers import OPENERS, opener, over_reply
from live_eval.campaigns.duplex.probes.probe import Condition, Probe
from live_eval.campaigns.duplex.stimuli import Gap, Line, Noise, NoiseKind, Piece, Say
from live_eval.types import Anchor, AnchorKind, SpeechKind

__all__ = ["BACKCHANNEL", "FLOOR_MS", "NOISE", "SIDE_TALK"]

FLOOR_MS = 20_000
"""Length of a noise floor."""

_BACKCHANNEL_MS = (400, 900)
_REACTION_MS = 900
_AFTER_REPLY_MS = 600
_FLOORS_DBFS = (-40, -30, -20)
_NOISE_DBFS = -20.0
_DISTANT_DB = -6.0

_TOKENS = ("Mm-hmm.", "Yeah.", "Uh-huh.", "Right.")
_ASIDES = (
    "Honey, can you turn off the stove?",
    "No, the blue one is in the kitchen.",
    "Just leave the keys on the table, please.",
    "I am on the phone, give me a minute.",
)


def _over(
    after_ms: int, speech: SpeechKind, sound: Callable[[int], tuple[Piece, ...]]
) -> Callable[[int], tuple[Line, ...]]:
    def lines(variant: int) -> tuple[Line, ...]:
        return (opener(variant), Line(pieces=sound(variant), speech=speech, anchor=over_reply(after_ms)))

    return lines


def _token(variant: int) -> tuple[Piece, ...]:
    return (Say(_TOKENS[variant]),)


def _aside(variant: int) -> tuple[Piece, ...]:
    return (Say(_ASIDES[variant], gain_db=_DISTANT_DB),)


def _others(variant: int) -> tuple[Piece, ...]:
    return (Say(_ASIDES[variant], other=True, gain_db=_DISTANT_DB),)


def _cough(variant: int) -> tuple[Piece, ...]:
    return (Noise(NoiseKind.COUGH, 300, _NOISE_DBFS, seed=variant),)


def _bursts(variant: int) -> tuple[Piece, ...]:
    burst = Noise(NoiseKind.BURST, 200, _NOISE_DBFS, seed=variant)
    return (burst, Gap(150), burst)


def _others_after_reply(variant: int) -> tuple[Line, ...]:
    after = Anchor(AnchorKind.REPLY_ENDED, _AFTER_REPLY_MS * 1_000_000)
    question = Line(pieces=(Say("What is the capital of Portugal?"),), reply="It is Lisbon.")
    return (question, Line(pieces=_others(variant), speech=SpeechKind.NON_DIRECTED, anchor=after))


def _floor(dbfs: int) -> Callable[[int], tuple[Line, ...]]:
    def lines(variant: int) -> tuple[Line, ...]:
        noise = Noise(NoiseKind.BURST, FLOOR_MS, dbfs, seed=variant)
        return (Line(pieces=(noise,), speech=SpeechKind.NOISE),)

    return lines


BACKCHANNEL = Probe(
    "backchannel",
    'A "mm-hmm" or "yeah" over the reply.',
    tuple(
        Condition(f"{after_ms} ms", _over(after_ms, SpeechKind.BACKCHANNEL, _token), len(_TOKENS))
        for after_ms in _BACKCHANNEL_MS
    ),
)

SIDE_TALK = Probe(
    "side-talk",
    "Speech that is not meant for the endpoint: the user's own to somebody else, and another voice's, over "
    "the reply and after it.",
    (
        Condition("aside over the reply", _over(_REACTION_MS, SpeechKind.NON_DIRECTED, _aside), len(_ASIDES)),
        Condition(
            "other voice over the reply", _over(_REACTION_MS, SpeechKind.NON_DIRECTED, _others), len(_ASIDES)
        ),
        Condition("other voice after the reply", _others_after_reply, len(_ASIDES)),
    ),
)

NOISE = Probe(
    "noise",
    "A cough and two bursts of noise over the reply, and 20 s of pink noise alone at several levels.",
    (
        Condition("cough over the reply", _over(_REACTION_MS, SpeechKind.VOCAL_TIC, _cough), len(OPENERS)),
        Condition("bursts over the reply", _over(_REACTION_MS, SpeechKind.NOISE, _bursts), len(OPENERS)),
        *(Condition(f"floor {dbfs} dBFS", _floor(dbfs), 4) for dbfs in _FLOORS_DBFS),
    ),
)
