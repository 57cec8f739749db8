"""Encode audio for embedding in a page, compressed if necessary to fit a size limit, and draw envelopes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.audio.peaks import PEAK_NS
from live_eval.errors import StoreError
from live_eval.files import read_regular
from live_eval.recording import read_sound
from live_eval.run.spread import core_count

__all__ = ["STREAMED_STEPS", "Clip", "clips", "drawn_envelope"]

_MOST_STEPS = 1000
"""Number of steps in a detailed envelope."""
STREAMED_STEPS = 200
"""Number of steps in the envelope of a turn whose audio is streamed: every turn of the page has one."""
_STEP_S = PEAK_NS / 1e9
_AT_A_TIME = 4
_MOST_MISSES = 8
"""Number of clips that may exceed the rest of the budget before no other one is tried."""


@dataclass(frozen=True, slots=True)
class Clip:
    """The audio of both sides of a turn in stereo.

    Args:
        key: Key of the turn on the page.
        data: Audio file in base64.
    """

    key: str
    mime: str
    data: str


def clips(
    files: Iterable[tuple[str, Path]], budget_bytes: int, warn: Callable[[str], None] | None = None
) -> Iterator[Clip]:
    """Yield the audio of turns until the size limit is reached.

    If all FLAC files fit, they are embedded unchanged. Otherwise, all are converted to Ogg Vorbis, at about a
    third of the size.

    Args:
        files: Key and audio file of each turn, by priority. Missing files are skipped.
        budget_bytes: Maximum total size of the audio in base64.
        warn: Called with a message for each damaged file, which is skipped.
    """
    if not budget_bytes:
        return
    existing = ((key, file) for key, file in files if file.is_file())
    first: list[tuple[str, Path]] = []
    size = 0
    for each in existing:  # only as many as are needed to see that not all of them fit
        first.append(each)
        size += _base64_size(each[1].stat().st_size)
        if size > budget_bytes:
            break
    lossless = size <= budget_bytes
    read = partial(_data, read=partial(read_regular, most_bytes=budget_bytes) if lossless else _vorbis)
    left, room = chain(first, existing), budget_bytes
    at_a_time = min(core_count(), _AT_A_TIME)  # few, because clips beyond the limit are encoded for nothing
    misses = 0
    with ThreadPoolExecutor(at_a_time) as pool:
        while misses < _MOST_MISSES and (some := list(islice(left, at_a_time))):
            contents = pool.map(read, [file for _, file in some])
            for (key, _), data in zip(some, contents, strict=True):
                if isinstance(data, Exception):
                    if warn is not None:
                        warn(f"audio missing from the page: {data}")
                    continue
                text = base64.b64encode(data).decode()
                if len(text) > room:
                    misses += 1
                    continue
                room -= len(text)
                yield Clip(key, "audio/flac" if lossless else "audio/ogg", text)


def _base64_size(size: int) -> int:
    return 4 * -(-size // 3)


def _data(file: Path, read: Callable[[Path], bytes]) -> bytes | Exception:
    """Return the content of an audio file, or why it cannot be read."""
    try:
        return read(file)
    except (StoreError, OSError) as error:
        return error


def _vorbis(file: Path) -> bytes:
    encoded = io.BytesIO()
    samples, rate_hz = read_sound(file, "float32")
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    try:
        with soundfile.SoundFile(encoded, "w", rate_hz, channels, format="OGG", subtype="VORBIS") as output:
            for start in range(0, len(samples), rate_hz):  # libsndfile crashes on two minutes at once
                output.write(samples[start : start + rate_hz])
    except soundfile.LibsndfileError as error:
        raise StoreError(f"cannot compress {file}: {error}") from None
    return encoded.getvalue()


def drawn_envelope(peaks: NDArray[np.uint8], *, steps: int = _MOST_STEPS) -> dict[str, Any]:
    """Return the envelopes of both sides for the page's script.

    Args:
        peaks: Result of `live_eval.audio.peaks.peaks`, uint8, shape (n, 2).
        steps: Maximum number of steps per envelope.
    """
    together = -(-len(peaks) // steps) or 1
    drawn = np.maximum.reduceat(peaks, np.arange(0, len(peaks), together)) if len(peaks) else peaks
    return {
        "step": together * _STEP_S,
        "user": base64.b64encode(drawn[:, 0].tobytes()).decode(),
        "endpoint": base64.b64encode(drawn[:, 1].tobytes()).decode(),
    }
