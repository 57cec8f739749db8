"""Recognise the words of a campaign's replies, and cache them because recognition is slow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import orjson
from pydantic import TypeAdapter, ValidationError

from live_eval.audio import Audio
from live_eval.campaigns.documents import LATENCY_CAMPAIGN
from live_eval.files import atomic_write, read_regular
from live_eval.speech.recognition import Recogniser, Word

__all__ = ["WORDS_FILE", "ReplyWords"]

[WORDS_FILE] = LATENCY_CAMPAIGN.others
_MOST_BYTES = 1 << 28

_KEPT: TypeAdapter[dict[str, tuple[Word, ...]]] = TypeAdapter(dict[str, tuple[Word, ...]])


class ReplyWords:
    """Recognise the words of a campaign's replies once, and store them in its folder.

    Args:
        folder: Campaign folder. If it is not writable, words are recognised again next time.
    """

    def __init__(self, folder: Path, recogniser: Recogniser) -> None:
        self._path = folder / WORDS_FILE
        self._recogniser = recogniser
        self._kept: dict[str, tuple[Word, ...]] = {}
        with contextlib.suppress(OSError, ValidationError):
            self._kept = _KEPT.validate_json(read_regular(self._path, _MOST_BYTES))
        self._new = False

    def of(self, name: Sequence[str], reply: Audio) -> tuple[Word, ...]:
        """Return the words of a reply; `name` is the reply's run and turn."""
        key = orjson.dumps([self._recogniser.identity, *name, len(reply.samples)]).decode()
        if key not in self._kept:
            self._kept[key] = self._recogniser.transcribe(reply).words
            self._new = True
        return self._kept[key]

    def keep(self) -> None:
        """Write new words."""
        if self._new:
            with contextlib.suppress(OSError), atomic_write(self._path) as part:
                part.write_bytes(_KEPT.dump_json(self._kept))
            self._new = False
