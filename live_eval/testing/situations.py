"""Find the situations that a golden session covers, based on its events."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from live_eval.cassettes import Call, Cassette, Closed
from live_eval.cassettes.player import DialectFactory
from live_eval.dialect import (
    EndpointProblem,
    InputTranscript,
    Interrupted,
    Output,
    PlaybackStarted,
    QueuedAudio,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SessionReady,
    SpeechStarted,
    StreamAudio,
    StreamText,
    UnknownEvent,
)
from live_eval.errors import FailureKind
from live_eval.testing.dialects import play_cassette
from live_eval.timing import ResponseStatus

__all__ = ["Situation", "situations_in"]

_AUDIO = (QueuedAudio, ReplyAudio, StreamAudio, PlaybackStarted)
_TRANSCRIPT = (InputTranscript, ReplyText, StreamText)
_LIMITS = {FailureKind.RATE_LIMITED, FailureKind.BUSY}
_NAMED_APART = {
    *_LIMITS,
    FailureKind.CLOSED,
    FailureKind.MALFORMED_MESSAGE,
    FailureKind.SESSION_EXPIRED,
}


class Situation(StrEnum):
    """A situation that a dialect's golden sessions should cover if its service supports it."""

    ORDINARY_TURN = "ordinary_turn"
    """A session becomes ready, and a response completes."""
    MANUAL_TURN = "manual_turn"
    """The client ends the turn, and a response follows."""
    BARGE_IN = "barge_in"
    """The user interrupts or stops a reply."""
    ERROR = "error"
    """The service reports an error."""
    RATE_LIMIT = "rate_limit"
    """A rate limit is reached."""
    CANCELLED = "cancelled"
    """A response ends as cancelled."""
    INCOMPLETE = "incomplete"
    """A response ends as incomplete."""
    TRANSCRIPT_BEFORE_AUDIO = "transcript_before_audio"
    TRANSCRIPT_AFTER_AUDIO = "transcript_after_audio"
    UNKNOWN_EVENT = "unknown_event"
    MALFORMED_MESSAGE = "malformed_message"
    SESSION_EXPIRED = "session_expired"
    """The service ends the session at its time limit."""
    CLOSE_BEFORE_READY = "close_before_ready"
    CLOSE_MID_REPLY = "close_mid_reply"
    CLOSE_AFTER_REPLY = "close_after_reply"


def situations_in(
    factory: DialectFactory, cassette: Cassette, *, frame_samples: int = 480
) -> frozenset[Situation]:
    """Return the situations that a golden session covers.

    Since a dialect with continuous media does not separate responses, its response situations require only a
    ready session.

    Args:
        factory: The dialect class, or another callable that creates a dialect.
        cassette: The session; the dialect must reproduce its outputs exactly.
        frame_samples: Number of samples per frame of the user's audio.

    Raises:
        ConformanceError: The dialect's outputs differ from the session's.
    """
    outputs = play_cassette(factory, cassette, frame_samples=frame_samples)
    continuous = factory(cassette.endpoint_settings("ws://127.0.0.1:9", None)).continuous_media
    calls = {step.name for step in cassette.steps if isinstance(step, Call)}
    closed = any(isinstance(step, Closed) for step in cassette.steps)
    ready, begun = _count(outputs, SessionReady) > 0, _count(outputs, ResponseStarted)
    ends = [event.status for event in outputs if isinstance(event, ResponseDone)]
    kinds = {event.kind for event in outputs if isinstance(event, EndpointProblem)}
    audio = [number for number, event in enumerate(outputs) if isinstance(event, _AUDIO)]
    words = [number for number, event in enumerate(outputs) if isinstance(event, _TRANSCRIPT)]
    interrupted = "interrupt" in calls or _count(outputs, Interrupted) > 0
    shown = {
        Situation.ORDINARY_TURN: ready and (continuous or ResponseStatus.COMPLETED in ends),
        Situation.MANUAL_TURN: "end_turn" in calls and bool(ends),
        Situation.BARGE_IN: _count(outputs, SpeechStarted) > 0 if continuous else interrupted,
        Situation.ERROR: bool(kinds - _NAMED_APART),
        Situation.RATE_LIMIT: bool(kinds & _LIMITS),
        Situation.CANCELLED: ResponseStatus.CANCELLED in ends,
        Situation.INCOMPLETE: ResponseStatus.INCOMPLETE in ends,
        Situation.UNKNOWN_EVENT: _count(outputs, UnknownEvent) > 0,
        Situation.MALFORMED_MESSAGE: FailureKind.MALFORMED_MESSAGE in kinds,
        Situation.SESSION_EXPIRED: FailureKind.SESSION_EXPIRED in kinds,
        Situation.CLOSE_BEFORE_READY: closed and not ready,
        Situation.CLOSE_MID_REPLY: closed and (ready if continuous else begun > len(ends)),
        Situation.CLOSE_AFTER_REPLY: closed and (ready if continuous else begun == len(ends) > 0),
    }
    if words and (audio or continuous):  # continuous media has no event for the start of audio
        shown[Situation.TRANSCRIPT_BEFORE_AUDIO] = continuous or words[0] < audio[0]
        shown[Situation.TRANSCRIPT_AFTER_AUDIO] = continuous or words[-1] > audio[0]
    return frozenset(situation for situation, is_shown in shown.items() if is_shown)


def _count(outputs: Sequence[Output], kind: type) -> int:
    return sum(isinstance(output, kind) for output in outputs)
