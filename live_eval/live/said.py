"""What the user said, on the session's axis, for as long as a turn may need it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from live_eval.session.speaker import Frame, Heard, Speaker

__all__ = ["Observed", "SaidAudio"]

_SECOND_NS = 1_000_000_000
_KEPT_NS = 600 * _SECOND_NS


class SaidAudio:
    """The user's frames with the times at which they were spoken; the last ten minutes at most.

    Args:
        rate_hz: Rate of the frames.
    """

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self._frames: deque[tuple[int, NDArray[np.int16]]] = deque()

    def append(self, start_ns: int, pcm: bytes) -> None:
        """Add a frame (int16 little-endian mono) whose first sample is spoken at `start_ns`."""
        self._frames.append((start_ns, np.frombuffer(pcm, "<i2")))
        self.forget(start_ns - _KEPT_NS)

    def forget(self, before_ns: int) -> None:
        """Drop frames that began before `before_ns`."""
        while self._frames and self._frames[0][0] < before_ns:
            self._frames.popleft()

    def between(self, begin_ns: int, end_ns: int) -> NDArray[np.int16]:
        """Return what was said from `begin_ns` to `end_ns`: int16 mono, shape (samples,).

        What was not kept is silence; later frames win where two overlap.
        """
        pcm = np.zeros(max(0, self._samples(end_ns - begin_ns)), np.int16)
        for start_ns, frame in tuple(self._frames):
            at = self._samples(start_ns - begin_ns)
            if at >= len(pcm) or at + len(frame) <= 0:
                continue
            first = max(0, -at)
            at = max(0, at)
            kept = frame[first : first + len(pcm) - at]
            pcm[at : at + len(kept)] = kept
        return pcm

    def _samples(self, ns: int) -> int:
        return round(ns * self.rate_hz / _SECOND_NS)


class Observed:
    """A speaker whose frames, and what it hears, somebody else sees too; a `Speaker` that listens.

    Args:
        speaker: Who speaks.
        said: Called with each frame and when its first sample is spoken.
        heard: Called with what the user hears.
        stays: Returns whether a speaker who has said everything still listens.
    """

    listens = True

    def __init__(
        self,
        speaker: Speaker,
        said: Callable[[Frame, int], None],
        heard: Callable[[Heard], None],
        stays: Callable[[int], bool],
    ) -> None:
        self._speaker = speaker
        self._said = said
        self._heard = heard
        self._stays = stays
        self._leaves = False
        self._silence = Frame(b"")
        self.frame_ns = speaker.frame_ns

    def leave(self) -> None:
        """End the session with the next frame."""
        self._leaves = True

    def hear(self, heard: Heard) -> None:
        """Pass on what the user hears."""
        self._heard(heard)
        self._speaker.hear(heard)

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        """Return the speaker's next frame; silence once it has said everything and still listens."""
        if self._leaves:
            return None
        frame = self._speaker.frame(now_ns, start_ns)
        if frame is None and self._stays(now_ns):
            frame = self._silence
        if frame is not None:
            self._said(frame, start_ns)
            self._silence = Frame(bytes(len(frame.pcm)))
        return frame
