"""The sound in a report: lossless if it fits, otherwise compressed, and only as much as fits."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import soundfile

from live_eval.errors import StoreError
from live_eval.files import read_regular
from live_eval.recording import read_sound

__all__ = ["Clip", "clips"]

_AT_A_TIME = 16


@dataclass(frozen=True, slots=True)
class Clip:
    """Both sides of a turn in stereo, as text.

    Args:
        mime: What the bytes are.
        data: The bytes in base64.
    """

    key: str
    mime: str
    data: str


def clips(files: Sequence[tuple[str, Path]], budget_bytes: int) -> Iterator[Clip]:
    """Yield the sound of turns until the page has no more room for it.

    If all files fit as they are (FLAC), they are kept; otherwise each becomes Ogg Vorbis, about a third of
    the size.

    Args:
        files: The page's key of each turn and its file, in the order of the page. A missing file is
            skipped.
        budget_bytes: Room for all of it, as text.

    Raises:
        StoreError: A file is damaged.
    """
    there = [(key, file) for key, file in files if file.is_file()]
    whole = sum(_as_text(file.stat().st_size) for _, file in there) <= budget_bytes
    room = budget_bytes
    with ThreadPoolExecutor() as pool:
        for start in range(0, len(there), _AT_A_TIME):
            if room <= budget_bytes / 1000:
                return  # do not encode what will not fit
            some = there[start : start + _AT_A_TIME]
            read = partial(read_regular, most_bytes=budget_bytes) if whole else _vorbis
            made = pool.map(read, [file for _, file in some])
            for (key, _), data in zip(some, made, strict=True):
                text = base64.b64encode(data).decode()
                if len(text) > room:
                    return
                room -= len(text)
                yield Clip(key, "audio/flac" if whole else "audio/ogg", text)


def _as_text(size: int) -> int:
    return 4 * -(-size // 3)  # base64


def _vorbis(file: Path) -> bytes:
    made = io.BytesIO()
    samples, rate_hz = read_sound(file, "float32")
    try:
        soundfile.write(made, samples, rate_hz, format="OGG", subtype="VORBIS")
    except soundfile.LibsndfileError as error:
        raise StoreError(f"{file}: cannot be made smaller: {error}") from None
    return made.getvalue()
