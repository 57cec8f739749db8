"""Create conversations from times in seconds."""

from __future__ import annotations

from collections.abc import Sequence

from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation, Stretch, UserSpeech
from live_eval.types import SpeechKind

S = 1_000_000_000


def stretch(start_s: float, end_s: float) -> Stretch:
    return Stretch(round(start_s * S), round(end_s * S))


def said(*sounds_s: tuple[float, float], kind: SpeechKind = SpeechKind.TURN, case_id: str = "") -> UserSpeech:
    """Return an utterance with these audible segments."""
    return UserSpeech(kind=kind, sounds=tuple(stretch(*sound) for sound in sounds_s), case_id=case_id)


def reply(
    *sounds_s: tuple[float, float], completed: bool = True, text: str = "", created_s: float | None = None
) -> AgentSpeech:
    """Return a response with these audible segments."""
    return AgentSpeech(
        response_id=f"{sounds_s}",
        sounds=tuple(stretch(*sound) for sound in sounds_s),
        completed=completed,
        text=text,
        created_ns=None if created_s is None else round(created_s * S),
    )


def conversation(
    user: Sequence[UserSpeech],
    agent: Sequence[AgentSpeech] = (),
    end_s: float = 30.0,
    started_s: Sequence[float] = (),
    stopped_s: Sequence[float] = (),
) -> Conversation:
    """Return a conversation that starts at 0 s."""
    return Conversation(
        start_ns=0,
        end_ns=round(end_s * S),
        user=tuple(user),
        agent=tuple(agent),
        speech_started_ns=tuple(round(each * S) for each in started_s),
        speech_stopped_ns=tuple(round(each * S) for each in stopped_s),
    )
