"""Cache speech boundaries on disk, because detection is slow."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

import platformdirs

from live_eval.audio.parquet import in_table, read_in_table, recording_exists
from live_eval.errors import AudioError, FailureKind
from live_eval.files import open_regular, private_folder, read_regular
from live_eval.types import Case, SpeechBoundaries

_MOST_BYTES = 1 << 20


class BoundaryCache:
    """A folder with a small JSON file for each recording and method, by default in the user's cache folder.

    The name of an entry contains two hashes: one over the bytes of the recording and its clean take, and one
    over the method version, the recogniser and the script. The folder may be deleted at any time and shared
    by several processes.
    """

    __slots__ = ("_folder", "_writable")

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or Path(platformdirs.user_cache_dir("live-eval")) / "edges"
        self._writable = True

    def key(self, case: Case, method: str, recogniser: str) -> str:
        """Return the name of a case's entry.

        Raises:
            AudioError: The recording cannot be read.
        """
        how = json.dumps([method, recogniser, case.text if recogniser else None])
        return f"{_recording_key(case)}-{hashlib.sha256(how.encode()).hexdigest()[:16]}"

    def entries(self, case: Case) -> list[Path]:
        """Return the cache files for a case's recording, for all methods.

        Raises:
            AudioError: The recording cannot be read.
        """
        return sorted(self._folder.glob(f"{_recording_key(case)}-*.json"))

    def get(self, key: str) -> SpeechBoundaries | None:
        """Return the entry for `key`; None if it is missing or unreadable."""
        try:
            return SpeechBoundaries(**json.loads(read_regular(self._path(key), _MOST_BYTES)))
        except (OSError, ValueError, TypeError):
            return None

    def put(self, key: str, boundaries: SpeechBoundaries) -> None:
        """Store the entry for `key`; do nothing if the folder is read-only."""
        if not self._writable:
            return
        path = self._path(key)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            private_folder(path.parent)
            part.write_text(json.dumps(asdict(boundaries)))
            part.replace(path)
        except OSError:
            # a read-only home directory must not fail a run
            self._writable = False

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _recording_key(case: Case) -> str:
    digest = hashlib.sha256(_sha256(case.audio_path))
    if case.clean_audio_path is not None:
        # `Path.is_file` raises an error for names that are too long
        readable = os.path.isfile(case.clean_audio_path)
        digest.update(_sha256(case.clean_audio_path) if readable else b"clean take not there")
    return digest.hexdigest()


def _sha256(path: Path) -> bytes:
    try:
        if (place := in_table(path)) is not None:
            return hashlib.sha256(read_in_table(place)).digest()
        with open_regular(path, links=True) as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        kind = FailureKind.AUDIO_UNREADABLE if recording_exists(path) else FailureKind.AUDIO_MISSING
        raise AudioError(kind, f"{path}: {error.strerror or error}") from error
