"""Define the names of a run's files: audio, cassettes, and a person's utterances.

Keep names and patterns consistent, since housekeeping removes only files whose names match.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping

from live_eval.recording.schema import AUDIO_FOLDER, USER_FOLDER, WIRE_FOLDER

__all__ = ["FILE_PATTERNS", "cassette_name", "file_stem", "utterance_id", "utterance_name"]

_STEM = r"[A-Za-z0-9_-]{1,60}-[0-9a-f]{10}"
FILE_PATTERNS: Mapping[str, re.Pattern[str]] = {
    AUDIO_FOLDER: re.compile(rf"{_STEM}(-[0-9]+)?\.(both|reply|response-[0-9]+)\.flac(\.part)?"),
    WIRE_FOLDER: re.compile(rf"{_STEM}-[0-9]+\.jsonl(\.part)?"),
    USER_FOLDER: re.compile(r"turn-[0-9]{4,}\.flac(\.part)?"),
}
"""Name patterns for recorded files by folder; the first two begin with a `file_stem`."""


def file_stem(turn_id: str, generation: int) -> str:
    """Return a portable, unique and readable file name for a turn, without suffix.

    Args:
        turn_id: Turn ID, any text.
        generation: Number of the turn's commit, appended if greater than 1.

    >>> file_stem("id_355/target", 1)
    'id_355-target-7cbb301e7b'
    """
    plain = unicodedata.normalize("NFKD", turn_id).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-")[:60] or "turn"
    digest = hashlib.sha256(turn_id.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{slug}-{digest}" if generation == 1 else f"{slug}-{digest}-{generation}"


def cassette_name(turn_id: str, attempt: int) -> str:
    """Return the file name of an attempt's cassette."""
    return f"{file_stem(turn_id, 1)}-{attempt}.jsonl"


def utterance_id(number: int) -> str:
    """Return the case ID of a person's utterance in a live run."""
    return f"turn-{number:04d}"


def utterance_name(case_id: str) -> str:
    """Return the file name of a person's utterance."""
    return f"{case_id}.flac"
