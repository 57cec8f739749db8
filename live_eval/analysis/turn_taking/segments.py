"""Who speaks when: the agent's segments and the user's turns, as the metrics read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from live_eval.analysis.turn_taking.conversation import AgentSpeech, Conversation, UserSpeech
from live_eval.types import SpeechKind

__all__ = [
    "AgentSegment",
    "UserTurn",
    "agent_segments",
    "answer_to",
    "over_at",
    "speaking_at",
    "user_turns",
]


class AgentSegment(NamedTuple):
    """A reply that was heard, with its pauses.

    Args:
        start_ns: Its first audible sample.
        end_ns: Just past its last audible sample.
        response: The reply.
        natural_end: Whether it ends by itself, cut off by nobody.
    """

    start_ns: int
    end_ns: int
    response: AgentSpeech
    natural_end: bool


class UserTurn(NamedTuple):
    """An utterance that expects an answer, and until when the answer can come.

    Args:
        speech: The utterance.
        over: The reply that sounded when it began; None if none did.
        until_ns: Start of the user's next turn, or the end of the recording.
        last: Whether no turn follows.
        agent: The agent's segments that begin from its start until then.
    """

    speech: UserSpeech
    over: AgentSegment | None
    until_ns: int
    last: bool
    agent: list[AgentSegment]


def agent_segments(conversation: Conversation) -> list[AgentSegment]:
    """Return the agent's segments in order: one for each reply, from its first sound to its last.

    A reply is what the probes take for one, whatever pauses it makes.
    """
    found = [
        AgentSegment(each.sounds[0].start_ns, each.sounds[-1].end_ns, each, each.completed)
        for each in conversation.agent
        if each.sounds
    ]
    return sorted(found, key=lambda segment: segment.start_ns)


def over_at(conversation: Conversation, segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return the reply over which the user speaks from a moment on, as `Conversation.reply_at` does."""
    reply = conversation.reply_at(at_ns)
    return next((each for each in segments if each.response is reply), None)


def speaking_at(segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return the reply of the agent at a time, which may pause then; None without one."""
    return next((each for each in segments if each.start_ns <= at_ns < each.end_ns), None)


def user_turns(conversation: Conversation, segments: Sequence[AgentSegment]) -> list[UserTurn]:
    """Return the user's turns (utterances of the kind `SpeechKind.TURN`) in order.

    Args:
        conversation: The conversation.
        segments: Its agent's segments.
    """
    turns = [speech for speech in conversation.user if speech.kind is SpeechKind.TURN]
    if not turns:
        return []
    ends = [*(speech.start_ns for speech in turns[1:]), conversation.end_ns]
    return [
        UserTurn(
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


def answer_to(turn: UserTurn) -> AgentSegment | None:
    """Return the first segment that begins in a turn and outlasts the user's speech; None if there is none.

    Neither what begins and ends while the user speaks is an answer nor the rest of an interrupted reply.
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
