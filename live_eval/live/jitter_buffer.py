"""Buffer audio for an output device, which reads it on its own clock. Pure.

The event loop pushes and the device's callback reads without a lock, since each moves only its own end of a
ring buffer. If another clock paces the source, drift is compensated by dropping or repeating single samples
where the signal is flattest.
"""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

__all__ = ["PlayoutBuffer"]

_KEPT_S = 130  # long enough for a whole reply in one burst
_WINDOW_S = 2  # the minimum fill is measured over this interval


class PlayoutBuffer:
    """Buffer the audio of one side.

    Args:
        rate_hz: Rate of the device.
        wait_ms: Amount of audio to buffer before playback begins after silence.
    """

    def __init__(self, rate_hz: int, *, wait_ms: int = 60) -> None:
        self._rate_hz = rate_hz
        self._wait = rate_hz * wait_ms // 1000
        self._ring = np.zeros(_KEPT_S * rate_hz, np.int16)
        self._tail = 0  # moved by `push` only
        self._head = 0  # moved by `read` only
        self._drop_to = 0  # set by `drop`, applied by `read`
        self._plays = False
        self._silent_reads = 0
        self._paced = False
        self._least = 0
        self._window = 0
        self._slip = 0
        self._resamplers: dict[int, soxr.ResampleStream] = {}
        self._reads = 0
        self.began = 0
        """Index, counting all samples read, at which audio last began after silence."""
        self.lost = 0
        """Samples dropped because the buffer was full."""

    def push(self, pcm: NDArray[np.int16], rate_hz: int, *, paced: bool = False) -> None:
        """Add samples: int16 mono, shape (samples,), at `rate_hz`."""
        self._paced = paced
        if rate_hz != self._rate_hz:
            if rate_hz not in self._resamplers:
                self._resamplers[rate_hz] = soxr.ResampleStream(rate_hz, self._rate_hz, 1, dtype="int16")
            pcm = self._resamplers[rate_hz].resample_chunk(pcm)
        room = len(self._ring) - (self._tail - self._head)
        self.lost += max(0, len(pcm) - room)
        pcm = pcm[:room]
        at = self._tail % len(self._ring)
        first = len(self._ring) - at
        self._ring[at : at + len(pcm)] = pcm[:first]
        self._ring[: max(0, len(pcm) - first)] = pcm[first:]
        self._tail += len(pcm)

    def drop(self) -> None:
        """Drop the unread samples."""
        self._drop_to = self._tail
        for resampler in self._resamplers.values():
            resampler.clear()

    @property
    def waiting(self) -> int:
        """The number of unread samples."""
        return self._tail - max(self._head, self._drop_to)

    def read(self, samples: int) -> NDArray[np.int16]:
        """Return the next samples, padded with silence: int16 mono, shape (samples,)."""
        self._reads += samples
        self._head = max(self._head, self._drop_to)
        there = self._tail - self._head
        if not self._plays:
            self._silent_reads = self._silent_reads + 1 if there else 0
            # Play a reply shorter than `wait_ms` once no audio has arrived for that time.
            if there < self._wait and self._silent_reads * samples < self._wait:
                return np.zeros(samples, np.int16)
            self._plays, self.began = there > 0, self._reads - samples
            self._least, self._window = there, 0
        used = min(samples + self._follow(there, samples), there)
        pcm = self._ring.take(np.arange(self._head, self._head + used), mode="wrap")
        self._head += used
        self._plays = used == there == 0 or there > used
        if used == samples + 1:
            pcm = np.delete(pcm, _flattest(pcm))
        elif used == samples - 1 and there > used:
            at = _flattest(pcm)
            pcm = np.insert(pcm, at, pcm[at])
        return np.pad(pcm, (0, samples - len(pcm)))

    def _follow(self, there: int, samples: int) -> int:
        """Return the number of extra samples to consume: -1, 0 or 1."""
        if not self._paced:
            return 0
        self._least = min(self._least, there)
        self._window += samples
        if self._window >= _WINDOW_S * self._rate_hz:
            self._slip = (self._least > self._wait + samples) - (self._least < self._wait // 4 + samples)
            self._least, self._window = there, 0
        return self._slip


def _flattest(pcm: NDArray[np.int16]) -> int:
    return int(np.argmin(np.abs(np.diff(pcm.astype(np.int32))))) if len(pcm) > 1 else 0
