"""Store the append-only data of a turn: the user's speech, frame times and messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from live_eval.dialect import Message
from live_eval.timing import SPEECH_TAIL_NS
from live_eval.types import SpeechBoundaries

__all__ = ["MOST_FRAMES", "FrameTimes", "MessageLog", "RawMessage", "UserMarks"]

RawMessage: TypeAlias = tuple[int, bool, Message]
"""A message, its time, and whether the endpoint sent it."""

MOST_FRAMES = 30_000
"""Maximum number of frame times kept per turn: ten minutes of 20 ms frames, from the utterance onwards."""
_MOST_LOGGED_BYTES = 64_000_000
"""Maximum number of message bytes kept in a turn's log; later messages are dropped."""


@dataclass(slots=True)
class UserMarks:
    """The user's timestamps in a turn; see `TurnTrace`.

    Args:
        done_ns: Time at which the utterance was complete or, in a manual turn, committed; None while the user
            speaks.
        owed_answer: Whether an answer to an utterance of an earlier turn is due.
    """

    t0_ns: int | None = None
    onset_ns: int | None = None
    voice_end_ns: int | None = None
    done_ns: int | None = None
    last_frame_ns: int | None = None
    boundaries: SpeechBoundaries | None = None
    barge_in_ns: int | None = None
    backchannel: bool = False
    expects_answer: bool = True
    owed_answer: bool = False

    def locate(self, began_ns: int, boundaries: SpeechBoundaries | None) -> None:
        """Set the boundaries of the user's audio to include an utterance that began at `began_ns`.

        Args:
            began_ns: Time at which sample 0 of the utterance is spoken.
            boundaries: Boundaries relative to `began_ns`; None while the end is unknown.
        """
        assert self.t0_ns is not None
        assert self.onset_ns is not None
        self.boundaries, self.voice_end_ns = boundaries, None
        if boundaries is None:
            return
        self.voice_end_ns = began_ns + boundaries.voice_end_ns
        if (later_ns := began_ns - self.t0_ns) != 0:
            words_end_ns = boundaries.words_end_ns
            self.boundaries = replace(
                boundaries,
                onset_ns=self.onset_ns - self.t0_ns,
                voice_end_ns=boundaries.voice_end_ns + later_ns,
                words_end_ns=None if words_end_ns is None else words_end_ns + later_ns,
            )


@dataclass(slots=True)
class FrameTimes:
    """Deadlines and send times of a turn's frames.

    Args:
        number: Number of frames sent; exceeds the number of kept times in a very long turn.
        late_speech: Number of speech frames sent more than a frame late.
        skipped_silence: Number of silence frames skipped to catch up.
    """

    deadline_ns: list[int] = field(default_factory=list)
    sent_ns: list[int] = field(default_factory=list)
    number: int = 0
    late_speech: int = 0
    skipped_silence: int = 0

    def add(self, deadline_ns: int, sent_ns: int, *, spoken: bool) -> None:
        """Add a frame.

        Args:
            sent_ns: Time at which the frame was passed to the transport.
            spoken: Whether the turn's utterance has begun; from then on, the earliest times are kept.
        """
        self.number += 1
        if len(self.sent_ns) >= MOST_FRAMES:
            if spoken:
                return
            del self.sent_ns[: MOST_FRAMES // 2], self.deadline_ns[: MOST_FRAMES // 2]
        self.sent_ns.append(sent_ns)
        self.deadline_ns.append(deadline_ns)

    def utterance_began(self, onset_ns: int) -> None:
        """Drop the times of frames that cannot affect an utterance's latencies."""
        first = np.searchsorted(self.deadline_ns, onset_ns - SPEECH_TAIL_NS)
        del self.deadline_ns[:first], self.sent_ns[:first]


@dataclass(slots=True)
class MessageLog:
    """The messages of a turn.

    Args:
        messages: Kept messages, without the user's audio.
        kept_bytes: Wire size of the kept messages in bytes.
    """

    messages: list[RawMessage] = field(default_factory=list)
    kept_bytes: int = 0
    received: int = 0
    received_bytes: int = 0

    def add(self, at_ns: int, message: Message, *, incoming: bool) -> None:
        """Add a message."""
        if incoming:
            self.received += 1
            self.received_bytes += len(message)
        if self.kept_bytes <= _MOST_LOGGED_BYTES:
            self.kept_bytes += len(message)
            self.messages.append((at_ns, incoming, message))
