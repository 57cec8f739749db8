"""Define a speaker that streams recordings, each after a pause once the previous reply has been heard. Pure.

Use `live_eval.session.script` for recordings that begin at other times or expect no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.session.speaker import (
    Frame,
    Heard,
    ReplyContinues,
    ReplyEnded,
    UtteranceAnswered,
    UtteranceBegan,
    UtteranceEnded,
)
from live_eval.types import Anchor, SpeechBoundaries, SpeechKind

__all__ = ["PAUSE_NS", "Playback", "Utterance"]

PAUSE_NS = 600_000_000
"""Natural pause between the end of a reply, as heard, and the user's next utterance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """A recording ready for streaming.

    Args:
        frames: Wire frames of the recording (int16 little-endian mono), at least one.
        background: Frames to loop while the user is silent after the recording; empty for silence.
        anchor: Start of the recording; None for a pause after the previous reply.
    """

    frames: Sequence[bytes]
    frame_ns: int
    boundaries: SpeechBoundaries
    background: Sequence[bytes] = ()
    speech: SpeechKind = SpeechKind.TURN
    anchor: Anchor | None = None

    @property
    def expects_answer(self) -> bool:
        """Whether the endpoint should answer the utterance."""
        return self.speech is SpeechKind.TURN


class Playback:
    """A `Speaker` that streams recordings one after the other.

    Args:
        utterances: At least one recording, all with the same frame length.
    """

    listens = False

    def __init__(self, utterances: Sequence[Utterance], pause_ns: int = PAUSE_NS) -> None:
        self._utterances = utterances
        self._pause_ns = pause_ns
        self._playing = -1
        self._next_frame = 0
        self._over = False
        self._quiet_from_ns: int | None = None
        self._silence = Frame(b"")
        self.frame_ns = utterances[0].frame_ns

    def hear(self, heard: Heard) -> None:
        """Handle the end of a turn and of a reply."""
        match heard:
            case UtteranceAnswered():
                self._over = True
            case ReplyEnded(at_ns):
                self._quiet_from_ns = at_ns
            case ReplyContinues():
                self._quiet_from_ns = None
            case _:
                pass

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the next frame of a recording, or silence until the next recording is due."""
        frames = self._utterances[self._playing].frames if self._playing >= 0 else ()
        if self._next_frame < len(frames):
            return self._played(None)
        if self._playing >= 0:
            if not self._over:
                return self._silence
            if self._playing + 1 == len(self._utterances):
                return None
            if self._quiet_from_ns is None or now_ns < self._quiet_from_ns + self._pause_ns:
                return self._silence
        self._playing += 1
        self._next_frame, self._over, self._quiet_from_ns = 0, False, None
        utterance = self._utterances[self._playing]
        self._silence = Frame(bytes(len(utterance.frames[0])))
        return self._played(
            UtteranceBegan(start_ns, start_ns + utterance.boundaries.onset_ns, utterance.boundaries)
        )

    def _played(self, began: UtteranceBegan | None) -> Frame:
        utterance = self._utterances[self._playing]
        pcm = utterance.frames[self._next_frame]
        self._next_frame += 1
        last = self._next_frame == len(utterance.frames)
        return Frame(pcm, True, began, UtteranceEnded(utterance.boundaries) if last else None)
