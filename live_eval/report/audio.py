"""The sound in a report: as much as fits, first without loss, else smaller, and the rest left out."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import soundfile

__all__ = ["Clip", "clips"]

_AS_TEXT = 4 / 3  # base64


@dataclass(frozen=True, slots=True)
class Clip:
    """Both sides of a turn in stereo, as text.

    Args:
        key: The page's key of the turn.
        mime: What the bytes are.
        data: The bytes in base64.
    """

    key: str
    mime: str
    data: str


def clips(files: Sequence[tuple[str, Path]], budget_bytes: int) -> Iterator[Clip]:
    """Yield the sound of turns until the page has no more room for it.

    Where all files fit as they are kept (FLAC), they are taken as they are; where they do not, each becomes
    Ogg Vorbis, at about a third of the size.

    Args:
        files: The page's key of each turn and its file, in the order of the page. A file that is not there
            any more is passed over.
        budget_bytes: Room for all of it, as text.
    """
    there = [(key, file, file.stat().st_size) for key, file in files if file.is_file()]
    whole = sum(size for _, _, size in there) * _AS_TEXT <= budget_bytes
    room = budget_bytes
    for key, file, size in there:
        # A turn that cannot fit even when small ends it without the work of making it so.
        if not whole and size * _AS_TEXT / 8 > room:
            return
        data = file.read_bytes() if whole else _vorbis(file)
        text = base64.b64encode(data).decode()
        if len(text) > room:
            return
        room -= len(text)
        yield Clip(key, "audio/flac" if whole else "audio/ogg", text)


def _vorbis(file: Path) -> bytes:
    samples, rate_hz = soundfile.read(file, dtype="float32")
    made = io.BytesIO()
    soundfile.write(made, samples, rate_hz, format="OGG", subtype="VORBIS")
    return made.getvalue()
