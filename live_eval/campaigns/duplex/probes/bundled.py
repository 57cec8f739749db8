"""Define the probes with bundled stimuli: questions, pauses, interruptions, and irrelevant sounds."""

from __future__ import annotations

from collections.abc import Callable

from live_eval.campaigns.duplex.probes.probe import Condition, Probe
from live_eval.campaigns.duplex.stimuli import Gap, Line, Noise, NoiseKind, Piece, Say
from live_eval.types import Anchor, AnchorKind, SpeechKind

__all__ = [
    "BACKCHANNEL",
    "BARGE_IN",
    "CORRECTION",
    "EXPRESSIVE_PAUSE",
    "FILLED_PAUSE",
    "FLOOR_MS",
    "LADDER_MS",
    "NOISE",
    "PAUSE",
    "RESPONSE_LATENCY",
    "SIDE_TALK",
    "SIMULTANEOUS",
]

_OPENERS = (
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
"""Requests, each with a reply that takes a scripted endpoint about twenty seconds."""


def _opener(variant: int) -> Line:
    text, reply = _OPENERS[variant % len(_OPENERS)]
    return Line(pieces=(Say(text),), reply=reply)


def _over_reply(after_ms: int) -> Anchor:
    return Anchor(AnchorKind.REPLY_AUDIBLE, after_ms * 1_000_000)


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
    "A short question.",
    (Condition("question", _question, len(_QUESTIONS)),),
)


_BARGE_IN_MS = (400, 900, 1500)
_CORRECTION_MS = 900

_INTERRUPTIONS = (
    ("Actually, hold on a second. Who invented it?", "Nobody knows for certain who was the first."),
    ("Wait, stop. How long does that take?", "It takes about a day from beginning to end."),
    ("Sorry, let me ask something else. Is it expensive?", "No, it costs very little."),
    ("Okay, that is enough. What is it good for?", "People have used it for thousands of years."),
)

_BOOKINGS = (
    (
        "Please book a table for two on Thursday, and read the whole booking back to me.",
        "Certainly. I have a table for two people on Thursday evening at half past seven, by the window on "
        "the first floor, under your name. The kitchen closes at ten, and there is parking behind the house. "
        "If you are late, the table is kept for twenty minutes. Would you like me to add anything else, such "
        "as a high chair, a note about allergies, or a cake for a birthday?",
        "Sorry, I meant Tuesday, not Thursday.",
        "No problem. Your table for two is now booked for Tuesday.",
        ("tuesday",),
    ),
    (
        "Find me a train to Boston tomorrow morning, and tell me everything about it.",
        "There is a direct train to Boston tomorrow morning at ten past eight. It has a dining and a quiet "
        "car, and there are still seats by the window in both. The journey takes four hours and a quarter "
        "with seven stops on the way, and the fare is sixty two dollars. You can bring a bicycle if you "
        "reserve a place for it, and tickets can be returned until an hour before departure.",
        "Sorry, I meant Denver, not Boston.",
        "I see. The next train to Denver leaves tomorrow at nine.",
        ("denver",),
    ),
)


def _barge_in(after_ms: int) -> Callable[[int], tuple[Line, ...]]:
    def lines(variant: int) -> tuple[Line, ...]:
        text, reply = _INTERRUPTIONS[variant]
        return (_opener(variant), Line(pieces=(Say(text),), anchor=_over_reply(after_ms), reply=reply))

    return lines


def _correction(variant: int) -> tuple[Line, ...]:
    request, long_reply, text, reply, _ = _BOOKINGS[variant]
    return (
        Line(pieces=(Say(request),), reply=long_reply),
        Line(pieces=(Say(text),), anchor=_over_reply(_CORRECTION_MS), reply=reply),
    )


BARGE_IN = Probe(
    "barge-in",
    "An interruption some time after the reply became audible.",
    tuple(Condition(f"{after_ms} ms", _barge_in(after_ms), len(_OPENERS)) for after_ms in _BARGE_IN_MS),
)

SIMULTANEOUS = Probe(
    "simultaneous",
    "An interruption that begins as soon as the reply is known to be audible, at the earliest one frame "
    "after its start; `anchor` is the actual offset.",
    (Condition("0 ms", _barge_in(0), len(_OPENERS)),),
)

CORRECTION = Probe(
    "correction",
    "An interruption that corrects the request. Whether the correction was understood is checked in the next "
    "reply and in the endpoint's transcript of the user.",
    (Condition(f"{_CORRECTION_MS} ms", _correction, len(_BOOKINGS), lambda variant: _BOOKINGS[variant][-1]),),
)


LADDER_MS = (200, 400, 600, 800, 1000, 1500, 2000, 3000)
"""Gap lengths of the ladder in ms."""

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
    "Slow speech with two long pauses, like that of a tired or sobbing speaker. Without --data, the bundled "
    "voice is slowed down: it pauses like such a speaker but does not sound like one.",
    tuple(Condition(f"2 × {gap_ms} ms", _worn_out(gap_ms), len(_WORN_OUT)) for gap_ms in _EXPRESSIVE_MS),
)


FLOOR_MS = 20_000
"""Length of a noise-floor stimulus."""

_BACKCHANNEL_MS = (400, 900)
_REACTION_MS = 900
_BEFORE_REPLY_MS = 200  # too early for any endpoint to have answered
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
        return (_opener(variant), Line(pieces=sound(variant), speech=speech, anchor=_over_reply(after_ms)))

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


def _before_reply(sound: Callable[[int], tuple[Piece, ...]]) -> Callable[[int], tuple[Line, ...]]:
    at_once = Anchor(AnchorKind.UTTERANCE_ENDED, _BEFORE_REPLY_MS * 1_000_000)

    def lines(variant: int) -> tuple[Line, ...]:
        noise = Line(pieces=sound(variant), speech=SpeechKind.NOISE, anchor=at_once)
        return (*_question(variant), noise)

    return lines


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
    "Speech not addressed to the endpoint: by the user over the reply, and by another voice over and after "
    "the reply.",
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
    "A cough and two bursts of noise over the reply, and between the question and the reply; 20 s of pink "
    "noise alone at several levels.",
    (
        Condition("cough over the reply", _over(_REACTION_MS, SpeechKind.VOCAL_TIC, _cough), len(_OPENERS)),
        Condition("bursts over the reply", _over(_REACTION_MS, SpeechKind.NOISE, _bursts), len(_OPENERS)),
        Condition("cough before the reply", _before_reply(_cough), len(_QUESTIONS)),
        Condition("bursts before the reply", _before_reply(_bursts), len(_QUESTIONS)),
        *(Condition(f"floor {dbfs} dBFS", _floor(dbfs), 4) for dbfs in _FLOORS_DBFS),
    ),
)
