"""Detect audible onsets, ends and pauses of audio. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AUDIBLE_DBFS",
    "AUDIBLE_WINDOWS",
    "PAUSE_NS",
    "WINDOWS_PER_S",
    "audible_begins",
    "audible_end",
    "audible_onset",
    "audible_stretches",
    "loud_windows",
]

AUDIBLE_DBFS = -50.0
WINDOWS_PER_S = 100
AUDIBLE_WINDOWS = 3
"""Number of consecutive windows above `AUDIBLE_DBFS` required for audible audio."""
PAUSE_NS = 100_000_000
"""Minimum length of a pause between two stretches."""
_AMPLITUDE = 32_768 * 10 ** (AUDIBLE_DBFS / 20)
# Two windows fewer than a pause contains, since onsets and ends usually fall inside a window.
_GAP_WINDOWS = PAUSE_NS * WINDOWS_PER_S // 1_000_000_000 - 2


def loud_windows(pcm: NDArray[np.int16], rate_hz: int) -> NDArray[np.bool_]:
    """Return for each whole 10 ms window whether its RMS is above −50 dBFS.

    Args:
        pcm: int16 mono, shape (samples,).
        rate_hz: Samples per second.
    """
    window = rate_hz // WINDOWS_PER_S
    windows = pcm[: len(pcm) // window * window].astype(np.int64).reshape(-1, window)
    return np.asarray(np.einsum("ij,ij->i", windows, windows) > window * _AMPLITUDE**2)


def audible_onset(pcm: NDArray[np.int16], rate_hz: int) -> int | None:
    """Return the index of the first audible sample, or None for silence.

    The amplitude of the sample exceeds −50 dBFS, and so does the RMS of each of the three 10 ms windows that
    begin with the sample.

    Args:
        pcm: int16 mono, shape (samples,).
        rate_hz: Samples per second.
    """
    begins = audible_begins(pcm, rate_hz)
    return int(np.argmax(begins)) if begins.any() else None


def audible_begins(pcm: NDArray[np.int16], rate_hz: int) -> NDArray[np.bool_]:
    """Return for each sample whether it could be an audible onset; see `audible_onset`.

    Args:
        pcm: int16 mono, shape (samples,).
        rate_hz: Samples per second.
    """
    window = rate_hz // WINDOWS_PER_S
    begins = np.zeros(len(pcm), np.bool_)
    starts = len(pcm) - window * AUDIBLE_WINDOWS + 1
    if starts <= 0:
        return begins
    energy = np.concatenate(([0], np.cumsum(pcm.astype(np.int64) ** 2)))
    loud = energy[window:] - energy[:-window] > window * _AMPLITUDE**2
    begins[:starts] = np.abs(pcm[:starts].astype(np.int32)) > _AMPLITUDE
    for later in range(AUDIBLE_WINDOWS):
        begins[:starts] &= loud[later * window : later * window + starts]
    return begins


def audible_end(pcm: NDArray[np.int16], rate_hz: int) -> int | None:
    """Return the index after the last audible sample (`audible_onset` in reverse), or None for silence."""
    onset_of_mirror = audible_onset(pcm[::-1], rate_hz)
    return None if onset_of_mirror is None else len(pcm) - onset_of_mirror


def audible_stretches(pcm: NDArray[np.int16], rate_hz: int) -> list[tuple[int, int]]:
    """Return the audible stretches, split at every pause of at least `PAUSE_NS`.

    Args:
        pcm: int16 mono, shape (samples,).
        rate_hz: Samples per second.

    Returns:
        The start and the exclusive end of each stretch, in samples.
    """
    window = rate_hz // WINDOWS_PER_S
    loud = np.flatnonzero(loud_windows(pcm, rate_hz))
    found: list[tuple[int, int]] = []
    for run in np.split(loud, np.flatnonzero(np.diff(loud) > _GAP_WINDOWS) + 1):
        if len(run) < AUDIBLE_WINDOWS - 1:
            continue
        # The RMS of the windows that contain the onset and the end may be below the threshold.
        first = max(0, (int(run[0]) - 2) * window)
        part = pcm[first : (int(run[-1]) + 3) * window]
        onset, end = audible_onset(part, rate_hz), audible_end(part, rate_hz)
        if onset is None or end is None:
            continue
        begin, end = first + onset, first + end
        if found and (begin - found[-1][1]) * 1_000_000_000 < PAUSE_NS * rate_hz:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found
