"""Play queued audio in real time, as a telephone network does. Pure.

An agent on a phone line sends its reply faster than real time to a queue, which it may clear. The line
converts the queue to a continuous stream in which each piece of audio is timestamped with its playout time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from live_eval.audio import CodecName
from live_eval.audio.codecs import samples_in
from live_eval.dialect import Event, QueuedAudio, StreamAudio, StreamInterrupted
from live_eval.playout import PlayoutQueue

__all__ = ["Passed", "PlayoutLine"]

_PIECES_PER_S = 50
# An interruption is handled slightly after it arrives; pieces that begin in between must not be played.
_HELD_NS = 20_000_000


class Passed(NamedTuple):
    """An event and its time: for queued audio, the time at which its first sample is played."""

    event: Event
    at_ns: int


class PlayoutLine:
    """The queue of one call."""

    def __init__(self) -> None:
        self._queue = PlayoutQueue()
        self._waiting: deque[Passed] = deque()

    def passed(self, event: Event, at_ns: int) -> Iterator[Passed]:
        """Yield the audio played before an event, then the event itself unless it is queued audio."""
        yield from self._due(at_ns)
        if isinstance(event, QueuedAudio):
            self._push(event, at_ns)
            yield from self._due(at_ns)
            return
        if isinstance(event, StreamInterrupted):
            self._clear(at_ns)
        yield Passed(event, at_ns)

    def played(self, now_ns: int) -> Iterator[Passed]:
        """Yield the audio that has been played by `now_ns`, except for the last 20 ms."""
        return self._due(now_ns - _HELD_NS)

    def _due(self, until_ns: int) -> Iterator[Passed]:
        while self._waiting and self._waiting[0].at_ns <= until_ns:
            yield self._waiting.popleft()

    def _push(self, audio: QueuedAudio, arrival_ns: int) -> None:
        """Add a chunk in pieces of 20 ms."""
        codec = audio.codec
        step = codec.rate_hz // _PIECES_PER_S * (2 if codec.name is CodecName.PCM16 else 1)
        for start in range(0, len(audio.data), step):
            piece = StreamAudio(audio.data[start : start + step], codec)
            played_ns = self._queue.push(arrival_ns, samples_in(piece.data, codec), codec.rate_hz)
            self._waiting.append(Passed(piece, played_ns))

    def _clear(self, at_ns: int) -> None:
        """Drop the pieces that have not started playing."""
        while self._waiting and self._waiting[-1].at_ns > at_ns:
            self._waiting.pop()
        self._queue.drop(at_ns)
