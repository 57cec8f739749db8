"""Convert the audio of a turn for the browser: excerpts, peaks and spectrograms. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from live_eval.audio import int16_to_float
from live_eval.audio.peaks import peaks
from live_eval.audio.spectrum import band_levels

__all__ = ["SIDES", "Side", "drawn_peaks", "excerpt", "spectrogram"]

Side: TypeAlias = Literal["user", "reply"]

SIDES: Mapping[str, int] = {"user": 0, "reply": 1}
"""The channel of each side."""

LOW_DB = -90.0
"""The lowest level in a spectrogram; levels below it appear as silence."""
HIGH_HZ = 8_000
"""The highest frequency in a spectrogram."""

_WINDOW_S = 0.025
_HOP_S = 0.005
_SECOND_NS = 1_000_000_000


def excerpt(both: NDArray[np.int16], rate_hz: int, start_s: float, end_s: float) -> NDArray[np.int16]:
    """Return an interval of the audio of both sides, int16, shape (samples, 2)."""
    return both[round(start_s * rate_hz) : round(min(end_s, len(both) / rate_hz) * rate_hz)]


def drawn_peaks(both: NDArray[np.int16], rate_hz: int, bins: int) -> dict[str, Any]:
    """Return the peaks of both sides in at most `bins` bins.

    Args:
        both: Audio of both sides, int16, shape (samples, 2).

    Returns:
        The bin length in seconds, and the peaks of each side from 0 to 255 on a square-root scale, which
        makes quiet speech visible.
    """
    step = max(1, math.ceil(len(both) / bins))
    found = peaks(both, rate_hz, -(-step * _SECOND_NS // rate_hz))
    return {
        "step_s": step / rate_hz,
        **{side: found[:, channel].tolist() for side, channel in SIDES.items()},
    }


def spectrogram(pcm: NDArray[np.int16], rate_hz: int, columns: int, rows: int) -> dict[str, Any]:
    """Compute the spectrogram of one side.

    Args:
        pcm: Audio, int16 mono, shape (samples,).
        columns: Maximum number of columns, all of equal duration.
        rows: Number of equally wide bands, up to `HIGH_HZ` or half the sample rate.

    Returns:
        The column length in seconds, the highest frequency, and the levels in base64. Each level is a byte
        from 0 (`LOW_DB`) to 255 (full scale); levels are stored column by column, from the lowest band.
    """
    # Without scipy.signal, whose import would take longer than the rest of the studio's first turn.
    length = round(_WINDOW_S * rate_hz)
    hop = max(1, round(_HOP_S * rate_hz))
    # at least one FFT bin per band
    points = max(length, 2 * math.ceil(rows * rate_hz / min(2 * HIGH_HZ, rate_hz)))
    samples = int16_to_float(pcm)
    frames = max(1, -(-max(len(samples), length) // hop))
    centred = np.pad(samples, (length // 2, max(0, frames * hop + length - len(samples))))
    framed = np.lib.stride_tricks.sliding_window_view(centred, length)[: frames * hop : hop]
    high_hz = min(HIGH_HZ, rate_hz // 2)
    bins = int(np.count_nonzero(np.fft.rfftfreq(points, 1 / rate_hz) <= high_hz))
    levels = band_levels(framed, points, np.arange(rows + 1) * bins // rows)
    together = math.ceil(len(levels) / columns)
    groups = math.ceil(len(levels) / together)
    level = np.maximum.reduceat(levels, np.arange(groups) * len(levels) // groups, axis=0)
    drawn = np.rint(np.clip(1 - level / LOW_DB, 0, 1) * 255).astype(np.uint8)
    return {
        "step_s": together * hop / rate_hz,
        "high_hz": high_hz,
        "low_db": LOW_DB,
        "columns": len(drawn),
        "rows": rows,
        "data": base64.b64encode(drawn.tobytes()).decode(),
    }
