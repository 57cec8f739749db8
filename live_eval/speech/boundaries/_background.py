"""Model the background, and detect sounds that the model does not explain.

The level of each band is compared with its background level on four time scales: 16 ms for sharp boundaries,
40 ms for plosives, and 70 ms and 210 ms for weak sounds. The evidence in a frame is the log likelihood ratio
between a level up to 30 dB higher in some bands and background in all bands. A sound is a segment whose total
evidence exceeds that of any longer or shorter segment, so its ends are the most likely change points. The
background itself determines how much evidence arises by chance.

Sources: Ruzzo and Tompa, "A linear time algorithm for finding all maximal scoring subsequences" (1999);
Karlin and Altschul, "Methods for assessing the statistical significance of molecular sequence features"
(1990).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scale:
    """The parameters of a time scale."""

    frames: int  # number of 4 ms frames to average beyond the 16 ms window
    least_spread_db: float  # minimum spread, for a steady background
    memory_frames: int  # number of neighbouring frames with dependent evidence


SCALES = (Scale(1, 1.5, 3), Scale(7, 1.2, 6), Scale(15, 1.0, 12), Scale(50, 0.7, 40))

# Share of bands in which a sound is assumed to exceed the background, and its maximum level increase.
_SHARE = 0.3
_RISE_DB = 30.0
# Limits on the evidence in a frame: a long pause must not outweigh the sound after it, and a single frame
# must not outweigh a pause.
_LEAST_EVIDENCE, _MOST_EVIDENCE = -2.0, 6.0
_MOST_OFFSET = 8.0
_Z_LIMIT = 6.0
_RATIO_LIMIT = 1e4
_STEEPEST_DECAY = 3.0


@dataclass(frozen=True, slots=True)
class SoundSegment:
    """A segment of frames (`end` is exclusive) that differs significantly from the background."""

    start: int
    end: int
    score: float  # summed evidence
    significance: float  # natural logarithm of the odds against this score by chance


class Background:
    """The background on one time scale, and the evidence against it in each frame.

    Args:
        levels_db: Levels of all frames, shape (frames, bands), smoothed for `scale`.
        quiet: Mask of the frames assumed to be only background, shape (frames,).
        scale: Time scale.
        floor_db: Maximum background level, which is used for every band if `quiet` is empty.
        wary: Whether to use a quantile below the median as the background level, because up to two thirds of
            `quiet` may contain a breath or a sigh.
    """

    __slots__ = ("_scale", "decay", "evidence", "offset", "spread_db", "typical_db")

    def __init__(
        self,
        levels_db: NDArray[np.float64],
        quiet: NDArray[np.bool_],
        scale: Scale,
        *,
        floor_db: float,
        wary: bool = False,
    ) -> None:
        self._scale = scale
        heard = levels_db[quiet] if quiet.any() else np.full((1, levels_db.shape[1]), floor_db)
        low, lower, middle, high = np.percentile(heard, [10, 30, 50, 84], axis=0)
        below = np.maximum((middle - low) / 1.28, scale.least_spread_db)
        self.typical_db = lower if wary else middle
        # other sounds increase the spread only upwards
        self.spread_db = np.clip(high - middle, below, 1.6 * below)
        chance = self._ratio(heard)
        self.offset = float(np.clip(np.quantile(chance, 0.97), 0, _MOST_OFFSET))
        self.evidence = np.clip(self._ratio(levels_db) - self.offset, _LEAST_EVIDENCE, _MOST_EVIDENCE)
        self.decay = _decay(np.clip(chance - self.offset, _LEAST_EVIDENCE, _MOST_EVIDENCE))

    def sounds(self, pause_frames: int) -> list[SoundSegment]:
        """Return the segments that differ significantly from the background, in order.

        More than `pause_frames` consecutive background frames split a segment.
        """
        found: list[SoundSegment] = []
        for start, end, _ in maximal_segments(self.evidence.tolist()):
            heard = start + np.flatnonzero(self.evidence[start:end] > 0)
            pauses = np.flatnonzero(np.diff(heard) > pause_frames)
            starts = [start, *(heard[pauses + 1]).tolist()]
            ends = [*(heard[pauses] + 1).tolist(), end]
            for first, last in zip(starts, ends, strict=True):
                score = float(self.evidence[first:last].sum())
                found.append(SoundSegment(first, last, score, score * self.decay / self._scale.memory_frames))
        return [sound for sound in found if sound.significance >= 1]

    def raised(self, levels_db: NDArray[np.float64], quiet: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the frames whose mean level exceeds the background's third quartile."""
        excess = ((levels_db - self.typical_db) / self.spread_db).mean(axis=1)
        return np.asarray(excess > np.quantile(excess[quiet], 0.75))

    def least_rise_db(self) -> float:
        """Return the smallest level increase that makes a sound with the background's spectrum detectable."""
        rises = np.arange(0.25, 30.25, 0.25)
        noticed = self._ratio(self.typical_db + rises[:, None]) - self.offset >= 1
        return float(rises[int(np.argmax(noticed))]) if noticed.any() else float(rises[-1])

    def _ratio(self, levels_db: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return each frame's log likelihood ratio, summed over bands, shape (frames,)."""
        z = np.clip((levels_db - self.typical_db) / self.spread_db, -_Z_LIMIT, _Z_LIMIT)
        ratio = self.spread_db * math.sqrt(2 * math.pi) / _RISE_DB * np.exp(z * z / 2) * _normal_cdf(z)
        mixed = np.log(1 - _SHARE + _SHARE * np.minimum(ratio, _RATIO_LIMIT))
        return np.asarray(mixed.sum(axis=1))


def maximal_segments(scores: Sequence[float]) -> list[tuple[int, int, float]]:
    """Return the start, end (exclusive) and sum of all maximal scoring segments (Ruzzo and Tompa), in order.

    Segments do not overlap, and no segment inside or around one of them has a larger sum. Frames without
    sound must have negative scores.

    >>> maximal_segments([1, -3, 2, -1, 4, -9, 1])
    [(0, 1, 1.0), (2, 5, 5.0), (6, 7, 1.0)]
    """
    # Candidates: start, end, sum before the start, sum to the end.
    kept: list[tuple[int, int, float, float]] = []
    total = 0.0
    for index, score in enumerate(scores):
        before, total = total, total + score
        if score <= 0:
            continue
        start = index
        while True:
            at = len(kept) - 1
            while at >= 0 and kept[at][2] >= before:
                at -= 1
            if at < 0 or kept[at][3] >= total:
                kept.append((start, index + 1, before, total))
                break
            start, before = kept[at][0], kept[at][2]
            del kept[at:]
    return [(start, end, float(after - before)) for start, end, before, after in kept]


def _decay(evidence: NDArray[np.float64]) -> float:
    """Return the λ for which the mean of exp(λ·evidence) over the background is 1."""
    if evidence.max() <= 0:
        return _STEEPEST_DECAY
    low, high = 0.005, _STEEPEST_DECAY
    if evidence.mean() >= 0 or np.mean(np.exp(low * evidence)) >= 1:
        return low
    for _ in range(30):
        middle = (low + high) / 2
        if np.mean(np.exp(middle * evidence)) < 1:
            low = middle
        else:
            high = middle
    return low


_CDF_AT = np.linspace(-_Z_LIMIT, _Z_LIMIT, 241)
_CDF = np.array([0.5 * (1 + math.erf(z / math.sqrt(2))) for z in _CDF_AT])


def _normal_cdf(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.interp(z, _CDF_AT, _CDF))
