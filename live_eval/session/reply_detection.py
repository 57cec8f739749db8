"""Detect replies in a continuous stream by energy. Pure.

Used for endpoints that do not separate responses (full-duplex models, bots over WebRTC). A reply begins with
the first *audible* audio (`live_eval.timing`: above −50 dBFS for 30 ms) and ends after a longer silence.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from live_eval.timing import AUDIBLE_WINDOWS, WINDOWS_PER_S, loud_windows

__all__ = ["Chunk", "EnergySegmenter", "StreamStretch"]

_KEPT_BEFORE_NS = 100_000_000
_KEPT_AFTER_NS = 200_000_000
_BREATH_NS = 300_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A chunk of the stream.

    Args:
        pcm: int16 mono, shape (samples,).
        fresh: Whether playout restarts with the chunk.
    """

    at_ns: int
    pcm: NDArray[np.int16] = field(repr=False)
    fresh: bool = False


@dataclass(slots=True)
class StreamStretch:
    """A stretch of audible audio.

    Args:
        began_ns: Arrival of the chunk with the stretch's first audible audio.
        chunks: Chunks from 100 ms before to 200 ms after the audible chunks.
        audible_ns: Arrival of the last audible chunk so far.
        ended_ns: End of the stretch; None while it is open.
    """

    began_ns: int
    chunks: list[Chunk]
    audible_ns: int
    ended_ns: int | None = None


class EnergySegmenter:
    """Split a stream into stretches of audible audio.

    Args:
        silence_ns: Length of silence that ends a stretch.
    """

    def __init__(self, rate_hz: int, silence_ns: int = 1_500_000_000) -> None:
        self._rate_hz = rate_hz
        self._silence_ns = silence_ns
        self._rest: NDArray[np.int16] = np.empty(0, np.int16)
        self._loud = 0
        self._before: deque[Chunk] = deque()
        self._quiet: list[Chunk] = []
        self.voice_end_ns: int | None = None
        """End of the user's speech. A stretch that began earlier ends after a short silence (a breath):
        otherwise, a backchannel and an answer within `silence_ns` would count as one reply with a negative
        latency.
        """
        self.stretches: list[StreamStretch] = []
        """All stretches so far; the last stretch may be open."""

    @property
    def open(self) -> StreamStretch | None:
        """The open stretch, or None."""
        last = self.stretches[-1] if self.stretches else None
        return last if last is not None and last.ended_ns is None else None

    def push(self, chunk: Chunk) -> None:
        """Add the next chunk of the stream."""
        self.tick(chunk.at_ns)
        audible = self._hears(chunk.pcm)
        stretch = self.open
        if stretch is None:
            self._before.append(chunk)
            # A chunk lasts until the next chunk arrives, so the audible audio may have begun in an earlier
            # chunk.
            while len(self._before) > 1 and chunk.at_ns - self._before[1].at_ns > _KEPT_BEFORE_NS:
                self._before.popleft()
            if audible:
                self.stretches.append(StreamStretch(chunk.at_ns, list(self._before), chunk.at_ns))
                self._before.clear()
        elif audible:
            stretch.chunks += [*self._quiet, chunk]
            stretch.audible_ns = chunk.at_ns
            self._quiet.clear()
        else:
            self._quiet.append(chunk)

    def tick(self, at_ns: int) -> None:
        """End the open stretch if the silence up to `at_ns` is long enough."""
        stretch = self.open
        if stretch is None or at_ns < (ends_ns := self._ends_ns(stretch)):
            return
        until_ns = stretch.audible_ns + _KEPT_AFTER_NS
        stretch.chunks += [chunk for chunk in self._quiet if chunk.at_ns <= until_ns]
        self._quiet.clear()
        stretch.ended_ns = ends_ns

    def _ends_ns(self, stretch: StreamStretch) -> int:
        """Return the time at which `stretch` ends if no audible audio follows."""
        ends_ns = stretch.audible_ns + self._silence_ns
        if self.voice_end_ns is not None and stretch.audible_ns < self.voice_end_ns:
            ends_ns = min(ends_ns, max(self.voice_end_ns, stretch.audible_ns + _BREATH_NS))
        return ends_ns

    def _hears(self, pcm: NDArray[np.int16]) -> bool:
        """Return whether any of these samples is audible; an incomplete window is kept for the next chunk."""
        samples = np.concatenate((self._rest, pcm)) if len(self._rest) else pcm
        windows = loud_windows(samples, self._rate_hz)
        self._rest = samples[len(windows) * (self._rate_hz // WINDOWS_PER_S) :].copy()
        audible = False
        for loud in windows.tolist():
            self._loud = self._loud + 1 if loud else 0
            audible = audible or self._loud >= AUDIBLE_WINDOWS or (loud and self.open is not None)
        return audible
