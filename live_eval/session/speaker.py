"""The contract of whoever speaks to an endpoint: recordings, a script, a microphone, a caller. Pure.

The session owns the pace, the connection and the dialect. Before each frame is due it reports what the user
hears and asks the speaker for the frame; the speaker answers with speech or silence, and marks where its
utterances begin and end. A speaker does not know about turns: a turn is what happens between two utterances.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from live_eval.audio.rtp import RtpPacket
from live_eval.dialect import Event
from live_eval.types import SpeechBoundaries

__all__ = [
    "EndpointEvent",
    "EndpointPacket",
    "Frame",
    "GreetingBegan",
    "GreetingEnded",
    "Heard",
    "ReplyAudible",
    "ReplyContinues",
    "ReplyEnded",
    "Speaker",
    "TurnOver",
    "UtteranceBegan",
    "UtteranceEnded",
]


@dataclass(frozen=True, slots=True)
class UtteranceBegan:
    """The user begins an utterance. Times are absolute, on the session's axis.

    Args:
        t0_ns: When its sample 0 is spoken; it may lie within the frame, or before it.
        onset_ns: When the speaker's own sound begins.
        boundaries: Where that sound lies, counted from `t0_ns`; None while the end is not known.
        own_turn: Whether a turn of its own begins with it in any case. Otherwise it belongs to the turn under
            way, unless that has its answer or the user speaks over a reply.
        expects_answer: Whether it is to be answered; if not, no answer is no failure of its turn.
    """

    t0_ns: int
    onset_ns: int
    boundaries: SpeechBoundaries | None = None
    own_turn: bool = False
    expects_answer: bool = True


@dataclass(frozen=True, slots=True)
class UtteranceEnded:
    """The user has ended an utterance; its turn may be answered.

    Args:
        boundaries: Where the speaker's own sound lay, counted from `UtteranceBegan.t0_ns`.
    """

    boundaries: SpeechBoundaries


@dataclass(frozen=True, slots=True)
class Frame:
    """What the user says during one frame.

    Args:
        pcm: int16 little-endian mono, at the rate and of the length that the endpoint takes.
        speech: Whether it must not be lost: late speech catches up, late silence is dropped.
        began: The utterance that begins with this frame, or whose beginning was found in it.
        ended: The end of the utterance, reported once this frame has left.
    """

    pcm: bytes = field(repr=False)
    speech: bool = False
    began: UtteranceBegan | None = None
    ended: UtteranceEnded | None = None


# -- What the user hears -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyAudible:
    """The first audible sample of a response is heard at `at_ns`, which may lie ahead.

    Reported only to a speaker that listens.
    """

    response_id: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The user hears the last sample of the reply at `at_ns`, which may lie ahead; no more is under way.

    Reported once the turn is over; to a speaker that listens, as soon as no response is open.
    """

    at_ns: int


@dataclass(frozen=True, slots=True)
class ReplyContinues:
    """Another response is under way after `ReplyEnded`, or after `TurnOver`."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class TurnOver:
    """The endpoint has answered the last utterance, and the turn's limits wait for nothing more of it."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class GreetingBegan:
    """The endpoint begins a response before the user's first utterance; its first sign arrived at `at_ns`."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class GreetingEnded:
    """The greeting is over, and its last sample was heard at `at_ns`. Another one may begin."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class EndpointEvent:
    """An event of the dialect: a transcript, detected speech, a response. For a speaker that listens."""

    event: Event
    at_ns: int


@dataclass(frozen=True, slots=True)
class EndpointPacket:
    """A packet of the endpoint's media track. For a speaker that listens."""

    packet: RtpPacket


Heard: TypeAlias = (
    ReplyAudible
    | ReplyEnded
    | ReplyContinues
    | TurnOver
    | GreetingBegan
    | GreetingEnded
    | EndpointEvent
    | EndpointPacket
)


class Speaker(Protocol):
    """Whoever speaks in a session. The session calls it from the event loop: neither method may block."""

    @property
    def frame_ns(self) -> int:
        """Length of its frames; the client's specification says which length the endpoint takes."""
        ...

    @property
    def listens(self) -> bool:
        """Whether it hears replies and events; the session then decodes replies for it."""
        ...

    def hear(self, heard: Heard) -> None:
        """Take note of what the user hears. Called before `frame`."""
        ...

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the next frame, or None to end the session.

        Args:
            now_ns: The present moment.
            start_ns: When the frame's first sample is spoken; the frame leaves when its last one is.
                Frames of silence may be skipped where the session is late, or where the endpoint takes no
                audio between utterances: `start_ns` says how far time has moved.
        """
        ...
