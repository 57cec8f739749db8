"""A conversation on one timeline: who speaks when. Pure.

All times are absolute monotonic nanoseconds; the user's speech is timed as spoken, the endpoint's as heard.
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
    "AgentSegment",
    "AgentSpeech",
    "Conversation",
    "Exchange",
    "Stretch",
    "UserSpeech",
    "agent_segments",
    "answer_to",
    "exchanges",
    "over_at",
    "overlaps",
    "speaking_at",
]

BREATH_NS = 500_000_000
"""A pause of up to this length within one response is a breath between sentences, not a yield."""

PAUSE_NS = 150_000_000
"""The shortest silence of the user that counts as a pause; shorter ones are part of fluent speech."""

SIMULTANEOUS_NS = 50_000_000
"""An utterance that begins up to this long before a reply counts as beginning over it."""


class Stretch(NamedTuple):
    """A stretch of audible speech or other sound, from its first sample to just past its last."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpeech:
    """One utterance of the user.

    Args:
        kind: How the endpoint should treat it.
        sounds: At least one stretch, in order. Only these can overlap with a reply, however short a silence
            is.
        text: Its transcript; empty if unknown.
        case_id: The case that was streamed; empty without one.
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
        """When the user has finished."""
        return self.sounds[-1].end_ns

    @property
    def pauses(self) -> tuple[Stretch, ...]:
        """The silences of `PAUSE_NS` or more."""
        return tuple(
            Stretch(before.end_ns, after.start_ns)
            for before, after in pairwise(self.sounds)
            if after.start_ns - before.end_ns >= PAUSE_NS
        )

    @property
    def phrases(self) -> tuple[Stretch, ...]:
        """The parts between the pauses; at least one."""
        edges = [self.start_ns, *(edge for pause in self.pauses for edge in pause), self.end_ns]
        return tuple(Stretch(edges[at], edges[at + 1]) for at in range(0, len(edges), 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpeech:
    """One response of the endpoint.

    Args:
        response_id: The endpoint's ID, or ours if it sends none.
        sounds: Its audible parts as heard, split at every pause of 100 ms or more; empty if it was not heard.
        created_ns: When the endpoint announced it, or None.
        cancelled_ns: When the endpoint reported that it stops or was interrupted, or None.
        completed: Whether the endpoint reported a normal end, with nothing cancelled or dropped.
        discarded_ns: Duration of the audible audio that arrived but was not heard.
        text: Its transcript from the endpoint; empty if unknown.
        unsure: Why the next sound may belong to the same reply; empty if it belongs to another.
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
        """Its announcement or its first audible sample, whichever is first; None without either."""
        signs = (self.created_ns, self.sounds[0].start_ns if self.sounds else None)
        return min((at for at in signs if at is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A session from its first utterance to its end.

    Args:
        start_ns: When the user's audio begins.
        end_ns: When the recording of both sides ends.
        user: The utterances, in order.
        agent: The responses, ordered by their beginning.
        speech_started_ns: When the endpoint reported the start of the user's speech.
        speech_stopped_ns: When it reported the end, or accepted a commit.
        lag_ns: Our maximum lateness: the error bar of all durations.
        continuous: Whether only silence separates the endpoint's replies.
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
        """Return the audible reply at the moment when the user begins to speak, or None.

        A reply in a pause is not audible. One that begins within `SIMULTANEOUS_NS` counts as audible.
        """
        sounding = (
            each
            for each in reversed(self.agent)
            for place, sound in enumerate(each.sounds)
            if sound.start_ns - (0 if place else SIMULTANEOUS_NS) <= at_ns < sound.end_ns
        )
        return next(sounding, None)


def overlaps(user: Sequence[Stretch], agent: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the stretches in which both sides are audible."""
    for mine in user:
        for theirs in agent:
            start_ns, end_ns = max(mine.start_ns, theirs.start_ns), min(mine.end_ns, theirs.end_ns)
            if start_ns < end_ns:
                yield Stretch(start_ns, end_ns)


class AgentSegment(NamedTuple):
    """A reply that was heard, from its first to its last audible sample, pauses included."""

    start_ns: int
    end_ns: int
    response: AgentSpeech
    natural_end: bool


class Exchange(NamedTuple):
    """An utterance that expects an answer, and the time in which the answer can come.

    Args:
        speech: The utterance.
        over: The reply that was audible when it began, or None.
        until_ns: Start of the next exchange, or the end of the recording.
        last: Whether it is the last exchange.
        agent: The agent's segments that begin within the exchange.
    """

    speech: UserSpeech
    over: AgentSegment | None
    until_ns: int
    last: bool
    agent: list[AgentSegment]


def agent_segments(conversation: Conversation) -> list[AgentSegment]:
    """Return the agent's segments in order, one for each reply, however long its pauses."""
    found = [
        AgentSegment(each.sounds[0].start_ns, each.sounds[-1].end_ns, each, each.completed)
        for each in conversation.agent
        if each.sounds
    ]
    return sorted(found, key=lambda segment: segment.start_ns)


def over_at(conversation: Conversation, segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return the segment of `Conversation.reply_at`."""
    reply = conversation.reply_at(at_ns)
    return next((each for each in segments if each.response is reply), None)


def speaking_at(segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return the segment that contains a time, even in a pause; None without one."""
    return next((each for each in segments if each.start_ns <= at_ns < each.end_ns), None)


def exchanges(conversation: Conversation, segments: Sequence[AgentSegment]) -> list[Exchange]:
    """Return an exchange for each utterance of the kind `SpeechKind.TURN`, in order."""
    turns = [speech for speech in conversation.user if speech.kind is SpeechKind.TURN]
    if not turns:
        return []
    ends = [*(speech.start_ns for speech in turns[1:]), conversation.end_ns]
    return [
        Exchange(
            speech,
            over_at(conversation, segments, speech.start_ns),
            until_ns,
            speech is turns[-1],
            [
                each
                for each in segments
                if speech.start_ns <= each.start_ns and (speech is turns[-1] or each.start_ns < until_ns)
            ],
        )
        for speech, until_ns in zip(turns, ends, strict=True)
    ]


def answer_to(turn: Exchange) -> AgentSegment | None:
    """Return the first segment of an exchange that outlasts the user's speech, or None.

    The rest of an interrupted reply is no answer.
    """
    return next(
        (
            each
            for each in turn.agent
            if each.end_ns > turn.speech.end_ns
            and (turn.over is None or each.response is not turn.over.response)
        ),
        None,
    )
