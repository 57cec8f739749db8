"""The append-only part of a turn: the user's speech, the times of frames, and the messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from live_eval.dialect import Message
from live_eval.timing import SPEECH_TAIL_NS
from live_eval.types import SpeechBoundaries

__all__ = ["MOST_FRAMES", "MOST_LOGGED_BYTES", "FrameTimes", "MessageLog", "RawMessage", "UserMarks"]

RawMessage: TypeAlias = tuple[int, bool, Message]
"""When a message was sent or arrived, whether it came from the endpoint, and the message."""

MOST_FRAMES = 30_000
"""Most frame times kept of a turn: ten minutes of frames of 20 ms, counted from its utterance."""
MOST_LOGGED_BYTES = 64_000_000
"""Most bytes of messages kept of a turn for its log; further messages are dropped."""


@dataclass(slots=True)
class UserMarks:
    """The user's part of a turn. Marks are those of `TurnTrace`.

    Args:
        done_ns: When the utterance was complete, and committed in a manual turn; None while the user speaks.
        last_frame_ns: When the last frame of the utterance was due.
        expects_answer: Whether the utterance expects an answer.
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
        """Set where the user's sound lies, up to the end of an utterance that began at `began_ns`.

        Args:
            began_ns: When sample 0 of the turn's first, or of a later utterance is spoken.
            boundaries: Counted from `began_ns`; None while the end is unknown.
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
    """When the frames of a turn were due and sent.

    Args:
        number: How many frames were sent; more than the times kept in a very long turn.
        late_speech: Frames of speech that left more than a frame late.
        skipped_silence: Frames of silence that were skipped to catch up.
    """

    deadline_ns: list[int] = field(default_factory=list)
    sent_ns: list[int] = field(default_factory=list)
    number: int = 0
    late_speech: int = 0
    skipped_silence: int = 0

    def add(self, deadline_ns: int, sent_ns: int, *, spoken: bool) -> None:
        """Add a frame.

        Args:
            deadline_ns: When it was due.
            sent_ns: When it was handed to the transport.
            spoken: Whether the turn's utterance has begun: from then on the first times are kept.
        """
        self.number += 1
        if len(self.sent_ns) >= MOST_FRAMES:
            if spoken:
                return
            del self.sent_ns[: MOST_FRAMES // 2], self.deadline_ns[: MOST_FRAMES // 2]
        self.sent_ns.append(sent_ns)
        self.deadline_ns.append(deadline_ns)

    def utterance_began(self, onset_ns: int) -> None:
        """Drop the times of frames that cannot matter to an utterance."""
        first = np.searchsorted(self.deadline_ns, onset_ns - SPEECH_TAIL_NS)
        del self.deadline_ns[:first], self.sent_ns[:first]


@dataclass(slots=True)
class MessageLog:
    """The messages of a turn.

    Args:
        messages: Those that are kept, without the user's audio.
        kept_bytes: Their length on the wire.
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
        if self.kept_bytes <= MOST_LOGGED_BYTES:
            self.kept_bytes += len(message)
            self.messages.append((at_ns, incoming, message))
