"""Represent a conversation on one timeline: who speaks when. Pure.

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
"""The longest pause within a response that counts as a breath between sentences, not a yield."""

PAUSE_NS = 150_000_000
"""The shortest user silence that counts as a pause; shorter silences are part of fluent speech."""

SIMULTANEOUS_NS = 50_000_000
"""The maximum time by which an utterance may precede a reply and still count as overlapping it."""
_REACTION_NS = 50_000_000
"""The minimum time for an unreported reaction; a reply that falls silent sooner may do so on its own."""
_REPORT_NS = 20_000_000
"""The maximum time from a reply's last audible sample to the endpoint's report of the stop: one frame."""


class Stretch(NamedTuple):
    """A segment of audible speech or other audio, as a half-open time range."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSpeech:
    """One utterance of the user.

    Args:
        kind: Kind of speech, which determines how the endpoint should treat it.
        sounds: Audible segments, in order; at least one. The silences between them never overlap with a
            reply, however short they are.
        text: Transcript; empty if unknown.
        case_id: ID of the streamed case, or empty.
    """

    kind: SpeechKind
    sounds: tuple[Stretch, ...]
    text: str = ""
    case_id: str = ""

    @property
    def start_ns(self) -> int:
        """The start of the first audible segment."""
        return self.sounds[0].start_ns

    @property
    def end_ns(self) -> int:
        """The end of the last audible segment."""
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
        bounds = [self.start_ns, *(bound for pause in self.pauses for bound in pause), self.end_ns]
        return tuple(Stretch(bounds[at], bounds[at + 1]) for at in range(0, len(bounds), 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpeech:
    """One response of the endpoint.

    Args:
        response_id: ID from the endpoint, or assigned by live-eval if the endpoint sends none.
        sounds: Audible parts as heard, split at pauses of 100 ms or more; empty if the response was not
            heard.
        created_ns: Time at which the endpoint announced the response, or None.
        cancelled_ns: Time at which the endpoint reported a stop or an interruption, or None.
        completed: Whether the endpoint reported a normal end, with nothing cancelled or dropped.
        discarded_ns: Duration of audible audio that arrived but was not heard.
        text: Transcript from the endpoint; empty if unknown.
        unsure: Reason why the next segment may belong to the same reply; empty if it does not.
    """

    response_id: str
    sounds: tuple[Stretch, ...]
    created_ns: int | None = None
    cancelled_ns: int | None = None
    completed: bool = True
    discarded_ns: int = 0
    text: str = ""
    unsure: str = ""

    def stops_at(self, at_ns: int) -> bool:
        """Return whether a reported stop, after a given time, explains the end of the last audible part."""
        if self.cancelled_ns is None or not self.sounds:
            return False
        return at_ns <= self.cancelled_ns <= self.sounds[-1].end_ns + _REPORT_NS

    @property
    def began_ns(self) -> int | None:
        """The time of the announcement or the first audible sample, whichever is earlier, or None."""
        signs = (self.created_ns, self.sounds[0].start_ns if self.sounds else None)
        return min((at for at in signs if at is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A session from its first utterance to its end.

    Args:
        start_ns: Start of the user's audio.
        end_ns: End of the recording of both sides.
        user: Utterances in order.
        agent: Responses, ordered by start.
        speech_started_ns: Times at which the endpoint reported the start of the user's speech.
        speech_stopped_ns: Times at which the endpoint reported the end of the user's speech, or accepted a
            commit.
        lag_ns: live-eval's maximum lateness: the error bar of all durations.
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
        """Return the reply that is audible when the user begins to speak, or None.

        A reply is not audible during its pauses, or if it falls silent within `_REACTION_NS`, unless the
        endpoint reports at that moment that it was stopped: an endpoint next to us that detects speech by
        energy stops within 9 to 60 ms. A reply that begins within `SIMULTANEOUS_NS` counts as audible.
        """
        for each in reversed(self.agent):
            for place, sound in enumerate(each.sounds):
                reacts = each.stops_at(at_ns) and place == len(each.sounds) - 1
                last_ns = sound.end_ns - (1 if reacts else _REACTION_NS)
                if sound.start_ns - (0 if place else SIMULTANEOUS_NS) <= at_ns <= last_ns:
                    return each
        return None


def overlaps(user: Sequence[Stretch], agent: Sequence[Stretch]) -> Iterator[Stretch]:
    """Yield the time ranges in which both sides are audible."""
    for mine in user:
        for theirs in agent:
            start_ns, end_ns = max(mine.start_ns, theirs.start_ns), min(mine.end_ns, theirs.end_ns)
            if start_ns < end_ns:
                yield Stretch(start_ns, end_ns)


class AgentSegment(NamedTuple):
    """A heard reply, from its first to its last audible sample, including pauses."""

    start_ns: int
    end_ns: int
    response: AgentSpeech
    natural_end: bool


class Exchange(NamedTuple):
    """An utterance that expects an answer, with the time range for the answer.

    Args:
        speech: Utterance of the user.
        over: Reply that was audible at the start of the utterance, or None.
        until_ns: Start of the next exchange, or the end of the recording.
        agent: Agent segments that begin within the exchange.
    """

    speech: UserSpeech
    over: AgentSegment | None
    until_ns: int
    last: bool
    agent: list[AgentSegment]


def agent_segments(conversation: Conversation) -> list[AgentSegment]:
    """Return the agent's segments in order, one per reply, regardless of pauses."""
    found = [
        AgentSegment(each.sounds[0].start_ns, each.sounds[-1].end_ns, each, each.completed)
        for each in conversation.agent
        if each.sounds
    ]
    return sorted(found, key=lambda segment: segment.start_ns)


def over_at(conversation: Conversation, segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return the segment of the reply that is audible at a time, or None; see `Conversation.reply_at`."""
    reply = conversation.reply_at(at_ns)
    return next((each for each in segments if each.response is reply), None)


def speaking_at(segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return the segment that contains a time (pauses included), or None."""
    return next((each for each in segments if each.start_ns <= at_ns < each.end_ns), None)


def exchanges(conversation: Conversation, segments: Sequence[AgentSegment]) -> list[Exchange]:
    """Return an exchange for each utterance of kind `SpeechKind.TURN`, in order."""
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

    The rest of an interrupted reply is not an answer.
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
