"""Detect the greeting of an endpoint that speaks first, and make the user wait until it ends. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from live_eval.errors import FailureKind
from live_eval.session.playback import PAUSE_NS
from live_eval.session.speaker import (
    EndpointEvent,
    EndpointPacket,
    Frame,
    GreetingBegan,
    GreetingEnded,
    Heard,
    Speaker,
)
from live_eval.session.turn import Turn

__all__ = ["AfterGreeting", "GreetingWatch"]


class GreetingWatch:
    """Detect a greeting: a response before the user's first utterance.

    A greeting ends when its response has ended and its last sample has been heard, or when it stalls. If it
    exceeds the limits for a reply, the user stops waiting and speaks over it.
    """

    def __init__(self) -> None:
        self._sounds = self._endless = False
        self._progress_ns: int | None = None

    def look(self, turn: Turn, now_ns: int) -> Iterator[GreetingBegan | GreetingEnded]:
        """Yield the start or end of a greeting since the last call."""
        speaking, progress_ns = turn.continues(now_ns), turn.progress_ns
        if progress_ns is None or self._endless:
            return
        if progress_ns != self._progress_ns:
            self._progress_ns = progress_ns
            if not self._sounds:
                self._sounds = True
                yield GreetingBegan(progress_ns)
        if not self._sounds or speaking:
            return
        overdue = turn.overdue(now_ns)
        self._endless = overdue is not None and overdue.kind is FailureKind.ENDLESS
        ended_ns = now_ns if self._endless else turn.heard_until_ns or progress_ns
        if now_ns >= ended_ns:
            self._sounds = False
            yield GreetingEnded(ended_ns)


class AfterGreeting:
    """A `Speaker` that waits for the end of the endpoint's greeting.

    Args:
        silence: A frame of silence, int16 little-endian mono, as long as the speaker's frames.
        patience_ns: Maximum wait for a greeting to begin.
    """

    def __init__(self, speaker: Speaker, silence: bytes, patience_ns: int) -> None:
        self._speaker = speaker
        self._silence = Frame(silence)
        self._patience_ns = patience_ns
        self._until_ns: int | None = None  # None before the first frame and during a greeting
        self._greets = self._speaks = False
        self.frame_ns = speaker.frame_ns
        self.listens = speaker.listens

    def hear(self, heard: Heard) -> None:
        """Handle reports of greetings; do not pass them on, since no utterance may be anchored to one."""
        match heard:
            case GreetingBegan():
                self._greets, self._until_ns = True, None
            case GreetingEnded(at_ns):
                self._until_ns = at_ns + PAUSE_NS
            case _ if self._speaks or isinstance(heard, EndpointEvent | EndpointPacket):
                self._speaker.hear(heard)
            case _:
                pass

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return silence while a greeting is expected or audible, then the speaker's frames."""
        if not self._speaks:
            if self._until_ns is None and not self._greets:
                self._until_ns = now_ns + self._patience_ns
            self._speaks = self._until_ns is not None and now_ns >= self._until_ns
        return self._speaker.frame(now_ns, start_ns) if self._speaks else self._silence
