"""Encode audio for embedding in a page, compressed if necessary to fit a size limit, and draw envelopes."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from live_eval.audio.peaks import PEAK_NS
from live_eval.errors import StoreError
from live_eval.files import read_regular
from live_eval.recording import read_sound

__all__ = ["MOST_STEPS", "STREAMED_STEPS", "Clip", "clips", "drawn_envelope"]

MOST_STEPS = 1000
"""Number of steps in a detailed envelope."""
STREAMED_STEPS = 200
"""Number of steps in the envelope of a turn whose audio is streamed: every turn of the page has one."""
_AT_A_TIME = 4  # small, because clips beyond the limit are encoded for nothing
_STEP_S = PEAK_NS / 1e9


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


def clips(files: Sequence[tuple[str, Path]], budget_bytes: int) -> Iterator[Clip]:
    """Yield the audio of turns until the size limit is reached.

    If all FLAC files fit, they are embedded unchanged. Otherwise, all are converted to Ogg Vorbis, at about a
    third of the size.

    Args:
        files: Key and audio file of each turn, by priority. Missing files are skipped.
        budget_bytes: Maximum total size of the audio in base64.

    Raises:
        StoreError: A file is damaged.
    """
    existing = [(key, file) for key, file in files if file.is_file()]
    lossless = sum(_base64_size(file.stat().st_size) for _, file in existing) <= budget_bytes
    room = budget_bytes
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(existing), _AT_A_TIME):
            if room <= budget_bytes / 1000:
                return  # the next clip cannot fit, so do not encode it
            some = existing[start : start + _AT_A_TIME]
            read = partial(read_regular, most_bytes=budget_bytes) if lossless else _vorbis
            contents = pool.map(read, [file for _, file in some])
            for (key, _), data in zip(some, contents, strict=True):
                text = base64.b64encode(data).decode()
                if len(text) > room:
                    return
                room -= len(text)
                yield Clip(key, "audio/flac" if lossless else "audio/ogg", text)


def _base64_size(size: int) -> int:
    return 4 * -(-size // 3)


def _vorbis(file: Path) -> bytes:
    encoded = io.BytesIO()
    samples, rate_hz = read_sound(file, "float32")
    try:
        soundfile.write(encoded, samples, rate_hz, format="OGG", subtype="VORBIS")
    except soundfile.LibsndfileError as error:
        raise StoreError(f"cannot compress {file}: {error}") from None
    return encoded.getvalue()


def drawn_envelope(peaks: NDArray[np.uint8], *, steps: int = MOST_STEPS) -> dict[str, Any]:
    """Return the envelopes of both sides for the page's script.

    Args:
        peaks: Result of `live_eval.audio.peaks.peaks`, uint8, shape (n, 2).
        steps: Maximum number of steps per envelope.
    """
    together = -(-len(peaks) // steps) or 1
    padded = np.pad(peaks, ((0, -len(peaks) % together), (0, 0))).reshape(-1, together, 2).max(axis=1)
    return {
        "step": together * _STEP_S,
        "user": base64.b64encode(padded[:, 0].tobytes()).decode(),
        "endpoint": base64.b64encode(padded[:, 1].tobytes()).decode(),
    }
