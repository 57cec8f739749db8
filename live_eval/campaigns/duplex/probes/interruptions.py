"""Speech over the reply that is meant for the endpoint: it should stop, and answer."""

from __future__ import annotations

from collections.abc import Callable

from live_eval.campaigns.duplex.probes.openers import OPENERS, opener, over_reply
from live_eval.campaigns.duplex.probes.probe import Condition, Probe
from live_eval.campaigns.duplex.stimuli import Line, Say

__all__ = ["BARGE_IN", "CORRECTION", "SIMULTANEOUS"]

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
        return (opener(variant), Line(pieces=(Say(text),), anchor=over_reply(after_ms), reply=reply))

    return lines


def _correction(variant: int) -> tuple[Line, ...]:
    request, long_reply, text, reply, _ = _BOOKINGS[variant]
    return (
        Line(pieces=(Say(request),), reply=long_reply),
        Line(pieces=(Say(text),), anchor=over_reply(_CORRECTION_MS), reply=reply),
    )


BARGE_IN = Probe(
    "barge-in",
    "An interruption some time after the reply became audible.",
    tuple(Condition(f"{after_ms} ms", _barge_in(after_ms), len(OPENERS)) for after_ms in _BARGE_IN_MS),
)

SIMULTANEOUS = Probe(
    "simultaneous",
    "An interruption that begins as soon as the reply is known to be audible: a frame after it, not with it. "
    "The duration `anchor` says by how much.",
    (Condition("0 ms", _barge_in(0), len(OPENERS)),),
)

CORRECTION = Probe(
    "correction",
    "An interruption that corrects the request. Whether it was taken up is checked in the next reply, and in "
    "what the endpoint's transcriber heard.",
    (
        Condition(
            f"{_CORRECTION_MS} ms",
            _correction,
            len(_BOOKINGS),
            lambda variant: _BOOKINGS[variant][-1],
        ),
    ),
)
