"""A test speaker that interrupts the reply to its first recording with a second one."""

from live_eval.session.playback import Utterance
from live_eval.session.speaker import (
    EndpointEvent,
    Frame,
    Heard,
    ReplyAudible,
    ReplyEnded,
    UtteranceAnswered,
    UtteranceBegan,
    UtteranceEnded,
)

S = 1_000_000_000


class Interrupting:
    """A `Speaker`: the second recording begins `after_ns` after the reply to the first is audible."""

    listens = True

    def __init__(self, first: Utterance, second: Utterance, *, after_ns: int, rate_hz: int) -> None:
        self.frame_ns = first.frame_ns
        self.heard: list[Heard] = []
        self._waiting = [second]
        self._rate_hz = rate_hz
        self._after_ns = after_ns
        self._due_ns: int | None = None
        self._over = self._quiet = False
        self._silence = bytes(len(first.frames[0]))
        self._pcm, self._utterance = b"".join(first.frames), first
        self._began = False
        self._at = 0

    @property
    def events(self) -> list[EndpointEvent]:
        return [heard for heard in self.heard if isinstance(heard, EndpointEvent)]

    def hear(self, heard: Heard) -> None:
        self.heard.append(heard)
        match heard:
            case ReplyAudible(_, at_ns) if self._waiting and self._due_ns is None:
                self._due_ns = at_ns + self._after_ns
            case UtteranceAnswered():
                self._over = True
            case ReplyEnded():
                self._quiet = True
            case _:
                pass

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        if self._at < len(self._pcm):
            return self._spoken(start_ns)
        if self._due_ns is not None and self._waiting and self._due_ns < start_ns + self.frame_ns:
            silent = max(0, self._due_ns - start_ns) * self._rate_hz // S
            self._utterance = self._waiting.pop()
            self._pcm, self._at, self._began = b"".join(self._utterance.frames), 0, False
            return self._spoken(start_ns, silent)
        if self._over and self._quiet and not self._waiting:
            return None
        return Frame(self._silence)

    def _spoken(self, start_ns: int, silent: int = 0) -> Frame:
        room = len(self._silence) - 2 * silent
        pcm = self._pcm[self._at : self._at + room]
        self._at += room
        began = None
        if not self._began:
            self._began = True
            t0_ns = start_ns + silent * S // self._rate_hz
            found = self._utterance.boundaries
            began = UtteranceBegan(t0_ns, t0_ns + found.onset_ns, found)
        ended = UtteranceEnded(self._utterance.boundaries) if self._at >= len(self._pcm) else None
        return Frame((bytes(2 * silent) + pcm).ljust(len(self._silence), b"\0"), True, began, ended)
