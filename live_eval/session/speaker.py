"""Define the interface of speakers, such as recordings, a script, a microphone or a caller. Pure.

Before each frame is due, the session reports to the speaker what the user hears, then requests the frame. The
speaker returns speech or silence, and marks where utterances begin and end. The session derives turns from
these marks.
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
    "UtteranceAnswered",
    "UtteranceBegan",
    "UtteranceEnded",
]


@dataclass(frozen=True, slots=True)
class UtteranceBegan:
    """The user begins an utterance. Times are absolute, on the session's axis.

    Args:
        t0_ns: Time at which sample 0 of the utterance is spoken, within or before the frame.
        onset_ns: Onset of the speaker's audio.
        boundaries: Boundaries of the speaker's audio, relative to `t0_ns`; None while the end is unknown.
        own_turn: Whether the utterance always begins a new turn. Otherwise it continues the turn in progress,
            unless that turn has an answer or the user speaks over a reply.
        expects_answer: Whether the turn fails without an answer.
    """

    t0_ns: int
    onset_ns: int
    boundaries: SpeechBoundaries | None = None
    own_turn: bool = False
    expects_answer: bool = True


@dataclass(frozen=True, slots=True)
class UtteranceEnded:
    """The user has ended an utterance, and its turn may be answered."""

    boundaries: SpeechBoundaries


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the user's audio.

    Args:
        pcm: int16 little-endian mono, at the endpoint's input rate and frame length.
        speech: Whether the frame must be sent even if it is late; late silence is dropped.
        began: The utterance that began in this frame or was detected in it.
        ended: The end of the utterance, reported after this frame was sent.
    """

    pcm: bytes = field(repr=False)
    speech: bool = False
    began: UtteranceBegan | None = None
    ended: UtteranceEnded | None = None


# -- What the user hears -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyAudible:
    """A response's first audible sample is heard at `at_ns`, which may be in the future.

    Reported only to speakers that listen.
    """

    response_id: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The user hears the last sample of the reply at `at_ns`; no response is open.

    Reported when the turn is over or, to a speaker that listens, immediately.
    """

    at_ns: int


@dataclass(frozen=True, slots=True)
class ReplyContinues:
    """Another response is in progress after `ReplyEnded` or `UtteranceAnswered`."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class UtteranceAnswered:
    """The endpoint has answered the last utterance, and the session expects nothing more."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class GreetingBegan:
    """A response before the user's first utterance; its first event or audio arrived at `at_ns`."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class GreetingEnded:
    """The greeting is over, and its last sample was heard at `at_ns`. Another one may begin."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class EndpointEvent:
    """A dialect event, such as a transcript or detected speech. Reported only to speakers that listen."""

    event: Event
    at_ns: int


@dataclass(frozen=True, slots=True)
class EndpointPacket:
    """A packet of the endpoint's media track. Reported only to speakers that listen."""

    packet: RtpPacket


Heard: TypeAlias = (
    ReplyAudible
    | ReplyEnded
    | ReplyContinues
    | UtteranceAnswered
    | GreetingBegan
    | GreetingEnded
    | EndpointEvent
    | EndpointPacket
)


class Speaker(Protocol):
    """The user in a session. Methods are called on the event loop, so they must not block."""

    @property
    def frame_ns(self) -> int:
        """Frame length, as declared by the client's specification."""
        ...

    @property
    def listens(self) -> bool:
        """Whether replies and events are reported to the speaker; if so, the session decodes replies."""
        ...

    def hear(self, heard: Heard) -> None:
        """Handle a report of what the user hears. Called before `frame`."""
        ...

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the next frame, or None to end the session.

        Args:
            start_ns: Time at which the frame's first sample is spoken; the frame is sent when its last sample
                is spoken. Silence may be skipped, so `start_ns` may advance by more than a frame.
        """
        ...
