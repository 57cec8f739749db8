"""Play the replies of several endpoints in one room: one endpoint's, or all of them in turn. Pure.

If all are heard, replies are played in order of arrival: each reply is buffered until the previous replies
have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from live_eval.live.reply import AudioSink, HeardAudio, IncomingReply, loud_samples
from live_eval.live.updates import AudioSide

__all__ = ["EndpointSink", "Room"]


class Room:
    """Share one output device among several endpoints.

    Args:
        replies: Function that returns the current reply of each endpoint, None before its first session.
        now_ns: The conversation's clock.
    """

    def __init__(
        self,
        sink: AudioSink,
        replies: Callable[[], Sequence[IncomingReply | None]],
        now_ns: Callable[[], int],
    ) -> None:
        self.heard: int | None = 0
        """The chosen endpoint; None if all are heard in turn."""
        self.audio = HeardAudio()
        """The replies as the room hears them."""
        self._sink = sink
        self._replies = replies
        self._now_ns = now_ns
        self._waiting: dict[
            int, list[tuple[NDArray[np.int16], int]]
        ] = {}  # in order of arrival; the first one plays

    @property
    def current(self) -> int | None:
        """The chosen endpoint or, if all are heard, the one that replies; None if none does."""
        return self.heard if self.heard is not None else next(iter(self._waiting), None)

    def plays(self, at_ns: int) -> bool:
        """Return whether a reply is being heard or the rest of one has yet to arrive."""
        return bool(self._waiting) or at_ns < self.audio.until_ns or self._is_speaking(self.heard, at_ns)

    def speaks(self, at_ns: int) -> bool:
        """Return whether a reply is being heard, excluding silence at its end, or has yet to arrive."""
        return bool(self._waiting) or at_ns < self.audio.loud_until_ns or self._is_speaking(self.heard, at_ns)

    def choose(self, heard: int | None) -> None:
        """Switch to another endpoint, whose reply continues from now, or to all in turn."""
        if heard == self.heard:
            return
        self.heard = heard
        self.silence()
        reply = self._replies()[heard] if heard is not None else None
        if reply is not None and heard is not None:
            pcm, rate_hz = reply.heard.pending(self._now_ns())
            if len(pcm):
                self._play(pcm, rate_hz)

    def silence(self) -> None:
        """Drop all audio that has not been heard yet."""
        self._waiting.clear()
        self._drop()

    def play(self, endpoint: int, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool) -> None:
        """Accept audio of an endpoint's reply."""
        if self.heard is not None:
            if self.heard == endpoint:
                self._play(pcm, rate_hz, paced=paced)
            return
        held = self._waiting.get(endpoint)
        if held is None:
            if paced and not len(loud_samples(pcm)):
                return  # a track's silence between replies
            held = self._waiting.setdefault(endpoint, [])
        if next(iter(self._waiting)) == endpoint:
            self._play(pcm, rate_hz)
        else:
            held.append((pcm, rate_hz))

    def drop(self, endpoint: int) -> None:
        """Drop the rest of an endpoint's reply."""
        if self.heard is not None:
            if self.heard == endpoint:
                self.silence()
        elif self._waiting and next(iter(self._waiting)) == endpoint:
            self._drop()
        else:
            self._waiting.pop(endpoint, None)

    def advance(self, at_ns: int) -> None:
        """Start the next reply once the room has heard the current one in full. Call this frequently."""
        while self._waiting and at_ns >= self.audio.loud_until_ns:
            current = next(iter(self._waiting))
            reply = self._replies()[current]
            if reply is not None and reply.is_arriving(at_ns):
                return
            del self._waiting[current]
            for held in self._waiting.values():
                for pcm, rate_hz in held:
                    self._play(pcm, rate_hz)
                held.clear()
                break

    def _is_speaking(self, endpoint: int | None, at_ns: int) -> bool:
        reply = self._replies()[endpoint] if endpoint is not None else None
        return reply is not None and reply.is_speaking(at_ns)

    def _drop(self) -> None:
        self.audio.drop(self._now_ns())
        self._sink.drop()

    def _play(self, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        self.audio.push(pcm, rate_hz, self._now_ns())
        self._sink.play(AudioSide.REPLY, pcm, rate_hz, paced=paced)


class EndpointSink:
    """One endpoint's `AudioSink` in a room."""

    def __init__(self, room: Room, endpoint: int) -> None:
        self._room = room
        self._endpoint = endpoint

    def play(self, side: AudioSide, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """See `AudioSink.play`."""
        self._room.play(self._endpoint, pcm, rate_hz, paced=paced)

    def drop(self) -> None:
        """See `AudioSink.drop`."""
        self._room.drop(self._endpoint)
