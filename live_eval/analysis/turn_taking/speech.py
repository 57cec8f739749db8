"""A conversation on one timeline: who could be heard when. Pure.

Probes, metrics and pages read a `Conversation`, never the turns that it was made of. All times are absolute
monotonic nanoseconds; the user's sound is timed as spoken, the endpoint's as heard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from live_eval.types import SpeechKind

__all__ = [
    "BREATH_NS",
    "PAUSE_NS",
    "SIMULTANEOUS_NS",
    "AgentSpeech",
    "Conversation",
    "Stretch",
    "UserSpeech",
    "overlaps",
]

BREATH_NS = 500_000_000
"""A pause of one response up to this long belongs to its speech: a breath between sentences is no yield."""

PAUSE_NS = 150_000_000
"""A silence of the user at least this long is a pause; a shorter one is a part of fluent speech."""

SIMULTANEOUS_NS = 50_000_000
"""An utterance that begins up to this long before a reply begins over it."""


class Stretch(NamedTuple):
    """A stretch of sound.

    Args:
        start_ns: Its first sample.
        end_ns: Just past its last sample.
    """

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpeech:
    """One utterance of the user.

    Args:
        kind: What it is to the endpoint.
        sounds: The speaker's own sound, in order; at least one stretch. What overlaps is sound, so silence
            between stretches does not count, however short.
        text: Its words; empty if unknown.
        case_id: The case that was played; empty where none was.
    """

    kind: SpeechKind
    sounds: tuple[Stretch, ...]
    text: str = ""
    case_id: str = ""

    @property
    def start_ns(self) -> int:
        """When the user begins to speak."""
        return self.sounds[0].start_ns

    @property
    def end_ns(self) -> int:
        """When the user has spoken the last sample."""
        return self.sounds[-1].end_ns

    @property
    def pauses(self) -> tuple[Stretch, ...]:
        """The silences of `PAUSE_NS` or more between its sounds."""
        return tuple(
            Stretch(before.end_ns, after.start_ns)
            for before, after in pairwise(self.sounds)
            if after.start_ns - before.end_ns >= PAUSE_NS
        )

    @property
    def phrases(self) -> tuple[Stretch, ...]:
        """What is said before, between and after its pauses; at least one stretch."""
        edges = [self.start_ns, *(edge for pause in self.pauses for edge in pause), self.end_ns]
        return tuple(Stretch(edges[at], edges[at + 1]) for at in range(0, len(edges), 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpeech:
    """One response of the endpoint.

    Args:
        response_id: The endpoint's name for it, or ours where it gives none.
        sounds: Its audible sound as heard, in order, split at every pause of 100 ms or more; empty if nothing
            of it was heard.
        created_ns: The endpoint said that the response began; None if it does not say so.
        cancelled_ns: The endpoint said that it stops or was interrupted; None if it did not say so.
        completed: Whether the endpoint said that it ended by itself, with nothing cancelled or dropped.
        discarded_ns: Duration of the audible audio that arrived and was not heard.
        text: What it says, as the endpoint transcribes it; empty if unknown.
        unsure: Why the sound that follows may be the rest of it; empty if it is another reply.
    """

    response_id: str
    sounds: tuple[Stretch, ...]
    created_ns: int | None = None
    cancelled_ns: int | None = None
    completed: bool = True
    discarded_ns: int = 0
    text: str = ""
    unsure: str = ""

    @property
    def began_ns(self) -> int | None:
        """The first sign of it: the endpoint's word, or its first audible sample; None without either."""
        signs = (self.created_ns, self.sounds[0].start_ns if self.sounds else None)
        return min((at for at in signs if at is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A session from its first utterance to its end.

    Args:
        start_ns: When the user's audio begins.
        end_ns: Until when both sides were recorded.
        user: The user's utterances, in order.
        agent: The endpoint's responses, in the order in which they began.
        speech_started_ns: When the endpoint reported that it hears the user begin, each time.
        speech_stopped_ns: When it reported the end of the user's speech, or accepted a commit, each time.
        lag_ns: How late we were ourselves at most: the error bar of its durations.
        continuous: Whether only silence divides the endpoint's replies.
    """

    start_ns: int
    end_ns: int
    user: tuple[UserSpeech, ...]
    agent: tuple[AgentSpeech, ...]
    speech_started_ns: tuple[int, ...] = ()
    speech_stopped_ns: tuple[int, ...] = ()
    lag_ns: int = 0
    continuous: bool = False

    def reply_at(self, at_ns: int) -> AgentSpeech | None:
        """Return the reply over which the user speaks from a moment on; None if nothing sounds then.

        A reply that pauses at that moment does not sound. One that begins within `SIMULTANEOUS_NS` does.
        """
        sounding = (
            each
            for each in reversed(self.agent)
            for place, sound in enumerate(each.sounds)
            if sound.start_ns - (0 if place else SIMULTANEOUS_NS) <= at_ns < sound.end_ns
        )
        return next(sounding, None)


def overlaps(user: Sequence[Stretch], agent: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the stretches in which both sides sound."""
    for mine in user:
        for theirs in agent:
            start_ns, end_ns = max(mine.start_ns, theirs.start_ns), min(mine.end_ns, theirs.end_ns)
            if start_ns < end_ns:
                yield Stretch(start_ns, end_ns)
