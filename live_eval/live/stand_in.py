"""Speak recordings in place of a person at the microphone, for a rehearsal with several endpoints. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["StandIn"]

_SECOND_NS = 1_000_000_000
_PAUSE_NS = 1_500_000_000  # longer than an endpoint takes to detect the end of speech


class StandIn:
    """Microphone audio that consists of recordings, each followed by silence until all replies have ended.

    Args:
        recordings: int16 mono, each of shape (samples,), at `rate_hz`.
        rate_hz: Sample rate of the blocks.
    """

    def __init__(self, recordings: Sequence[NDArray[np.int16]], rate_hz: int) -> None:
        self._waiting = deque(recordings)
        self._rate_hz = rate_hz
        self._left = np.empty(0, np.int16)  # of the current recording
        self._quiet_from_ns: int | None = None

    def block(self, at_ns: int, block_ns: int, *, quiet: bool) -> NDArray[np.int16] | None:
        """Return the next block; None once all replies to the last recording have ended.

        Args:
            at_ns: Time at which the block ends.
            block_ns: Length of the block.
            quiet: Whether all endpoints are listening.
        """
        if len(self._left) or not quiet:
            self._quiet_from_ns = None
        elif self._quiet_from_ns is None:
            self._quiet_from_ns = at_ns
        elif at_ns - self._quiet_from_ns >= _PAUSE_NS:
            if not self._waiting:
                return None
            self._left = self._waiting.popleft()
        length = self._rate_hz * block_ns // _SECOND_NS
        block, self._left = self._left[:length], self._left[length:]
        return np.pad(block, (0, length - len(block)))

    @property
    def speaks(self) -> bool:
        """Whether a recording is in progress."""
        return len(self._left) > 0
