"""Who speaks when: the agent's segments and the user's turns, as the metrics read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from live_eval.duplex.conversation import BREATH_NS, AgentSpeech, Conversation, UserSpeech
from live_eval.types import SpeechKind

__all__ = ["AgentSegment", "UserTurn", "agent_segments", "answer_to", "speaking_at", "user_turns"]


class AgentSegment(NamedTuple):
    """A stretch of one response, from sound to sound.

    Args:
        start_ns: Its first audible sample.
        end_ns: Just past its last audible sample.
        response: The response.
        begins: Whether the response begins with it.
        natural_end: Whether the response ends with it by itself, cut off by nobody.
    """

    start_ns: int
    end_ns: int
    response: AgentSpeech
    begins: bool
    natural_end: bool


class UserTurn(NamedTuple):
    """An utterance that expects an answer, and until when the answer can come.

    Args:
        speech: The utterance.
        over: What the agent was saying when it began; None if the agent was silent.
        until_ns: Start of the user's next turn, or the end of the recording.
        last: Whether no turn follows.
        agent: The agent's segments that begin from its start until then.
    """

    speech: UserSpeech
    over: AgentSegment | None
    until_ns: int
    last: bool
    agent: list[AgentSegment]


def agent_segments(conversation: Conversation, pause_ns: int = BREATH_NS) -> list[AgentSegment]:
    """Return the agent's segments in order.

    Args:
        conversation: The conversation.
        pause_ns: The longest pause inside a segment; responses are never joined. Sources that see the
            agent's audio rather than its sound count a pause as speech however long it is;
            Full-Duplex-Bench v1.5 merges the model's segments at `BREATH_NS`.
    """
    found = []
    for response in conversation.agent:
        stretches: list[tuple[int, int]] = []
        for start, end in response.sounds:
            if stretches and start - stretches[-1][1] <= pause_ns:
                stretches[-1] = (stretches[-1][0], end)
            else:
                stretches.append((start, end))
        last = len(stretches) - 1
        found += [
            AgentSegment(start, end, response, place == 0, place == last and response.completed)
            for place, (start, end) in enumerate(stretches)
        ]
    return sorted(found, key=lambda segment: segment.start_ns)


def speaking_at(segments: Sequence[AgentSegment], at_ns: int) -> AgentSegment | None:
    """Return what the agent says at a time, or None if it is silent."""
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
            speaking_at(segments, speech.start_ns),
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
