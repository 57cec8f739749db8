"""Find the beginning of a reply on a media track when its event arrived late. Pure.

Packets and events travel separately. A lost event is retransmitted after a second or more, while the reply's
packets keep arriving. Packets since the sender's last idle gap are therefore kept and decoded to find the
first audible sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from live_eval.timing import WINDOWS_PER_S, audible_onset, loud_windows

__all__ = ["MARGIN_NS", "Beginning", "Preroll", "beginning"]

MARGIN_NS = 100_000_000
"""Margin before the first audible sample or the event of a reply, which prevents a clipped onset."""

_SILENCE_S = 1.0
"""Length of silence that counts as an idle gap in an unbroken stream."""


@dataclass(frozen=True, slots=True)
class Preroll:
    """The part of a track that arrived before the event of a reply.

    Args:
        chunks: Number of the response's chunks that had arrived.
        announced_ns: Arrival of the event.
        after_idle: Whether the sender was idle before the first chunk.
    """

    chunks: int
    announced_ns: int
    after_idle: bool


class Beginning(NamedTuple):
    """The beginning of a reply.

    Args:
        first_audio_ns: Arrival of the reply's first audio; None to use the first chunk's arrival.
    """

    chunk: int
    first_audio_ns: int | None


def beginning(
    preroll: Preroll,
    arrivals: Sequence[int],
    pcm: Sequence[NDArray[np.int16]],
    rate_hz: int,
    first_audio_ns: int | None,
    onset_ns: int | None = None,
) -> Beginning:
    """Return the beginning of a reply.

    The reply extends back to the last silence before the event: an idle gap after the user began to speak, or
    a second of silence. After an idle gap, the reply begins with the first packet, unless a second of silence
    follows. Otherwise, it begins with its first audible sample or the event, whichever is earlier.

    Args:
        preroll: Part of the track that arrived before the event.
        arrivals: Arrival of each chunk.
        pcm: Decoded chunks, int16 mono, shape (samples,).
        first_audio_ns: Arrival of the first packet after the event, or None.
        onset_ns: Start of the user's speech, or None. Earlier audio is not part of the reply.
    """
    whole = np.concatenate(pcm)
    ends = np.cumsum([len(chunk) for chunk in pcm])
    announced = int(ends[min(preroll.chunks, len(ends)) - 1])
    settled = _after_silence(whole[:announced], rate_hz)
    onset = audible_onset(whole[settled or 0 :], rate_hz)
    sounds = None if onset is None else onset + (settled or 0)
    after_idle = preroll.after_idle and (onset_ns is None or arrivals[0] > onset_ns + MARGIN_NS)
    if after_idle and settled is None and sounds is not None and sounds < _SILENCE_S * rate_hz:
        return Beginning(0, arrivals[0])
    begins_ns, first_ns = preroll.announced_ns, first_audio_ns
    # Without any silence, only the event shows where the reply begins.
    if sounds is not None and sounds < announced and (after_idle or settled is not None):
        begins_ns = first_ns = arrivals[int(np.searchsorted(ends, sounds, side="right"))]
    chunk = int(np.searchsorted(arrivals[: preroll.chunks], begins_ns - MARGIN_NS))
    return Beginning(chunk, first_ns)


def _after_silence(pcm: NDArray[np.int16], rate_hz: int) -> int | None:
    """Return the end of the last silence of a second or more, or None."""
    windows = loud_windows(pcm, rate_hz)
    around = np.concatenate(([-1], np.flatnonzero(windows), [len(windows)]))
    silent = np.flatnonzero(np.diff(around) > _SILENCE_S * WINDOWS_PER_S)
    # The onset may lie within the last window that is silent on average.
    window = rate_hz // WINDOWS_PER_S
    return max(0, int(around[silent[-1] + 1]) - 1) * window if len(silent) else None
