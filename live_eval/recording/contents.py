"""Recognise live-eval's files in a folder by name, so that only those are removed."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from live_eval.errors import StoreError
from live_eval.recording._files import own_folder
from live_eval.recording.file_names import FILE_PATTERNS, cassette_name
from live_eval.recording.schema import (
    AUDIO_FOLDER,
    KEPT_AUDIO,
    REPLACED,
    REPLACED_AUDIO,
    RUN_FILE,
    SCORES_FILE,
    WIRE_FOLDER,
)
from live_eval.text.wording import limited

__all__ = [
    "FolderForms",
    "check_new",
    "files_in",
    "holds_only",
    "holds_recordings",
    "orphans",
    "recorded_files",
]

_ATTEMPT_FOLDERS = (AUDIO_FOLDER, WIRE_FOLDER)


class FolderForms(NamedTuple):
    """Path patterns for a folder that live-eval writes: recordings and the manifests next to them."""

    recording: re.Pattern[str]
    manifest: re.Pattern[str] | None = None

    def fits(self, path: str) -> bool:
        """Return whether a path matches one of the patterns."""
        return any(form.fullmatch(path) for form in self if form is not None)


def recorded_files(folder: Path, *kinds: str) -> list[Path]:
    """Return a run folder's audio files, cassettes and, for a live run, the user's utterances.

    Args:
        kinds: Any of ``audio``, ``wire`` and ``user``; all by default.

    Raises:
        OSError: The folder cannot be read.
    """
    return [
        path
        for kind in kinds or FILE_PATTERNS
        if (inside := folder / kind).is_dir() and not inside.is_symlink()
        for path in files_in(inside)
        if FILE_PATTERNS[kind].fullmatch(path.name)
    ]


def orphans(db: sqlite3.Connection, folder: Path, *kinds: str) -> list[Path]:
    """Return audio files and cassettes in a run folder to which its database does not refer.

    Args:
        kinds: ``audio`` or ``wire``; both by default.

    Raises:
        StoreError: The folder cannot be read or contains a link that leaves it.
    """
    for kind in kinds or _ATTEMPT_FOLDERS:
        if (folder / kind).is_dir():
            own_folder(folder, folder / kind)
    found: list[Path] = []
    try:
        for kind in kinds or _ATTEMPT_FOLDERS:
            known = _known(db, kind)
            found += (path for path in recorded_files(folder, kind) if path.name not in known)
    except OSError as error:
        raise StoreError(f"cannot read {folder}: {error.strerror}") from None
    return found


def holds_recordings(folder: Path) -> bool:
    """Return whether a folder contains a run, or a run's files without the database.

    Raises:
        OSError: The folder cannot be read.
    """
    return any(os.path.lexists(folder / name) for name in (RUN_FILE, SCORES_FILE)) or bool(
        recorded_files(folder, *_ATTEMPT_FOLDERS)
    )


def check_new(
    folder: Path,
    what: str,
    begun: Collection[str] = (),
    made: Mapping[str, FolderForms] | None = None,
) -> None:
    """Reject a folder for a new run or campaign if it is not empty.

    Args:
        what: Description of what will be created, for the message.
        begun: Names that an interrupted creation may leave behind; folders among them must be empty.
        made: Folders that it may leave behind, with path patterns for their files.

    Raises:
        StoreError: The folder contains other files or cannot be read.
    """
    try:
        there = [
            f"{path.name}{os.sep}" if path.is_dir() else path.name
            for path in (sorted(folder.iterdir()) if os.path.lexists(folder) else ())
            if path.name not in begun or path.is_symlink() or (path.is_dir() and any(path.iterdir()))
            if not (made and path.name in made and holds_only(path, made[path.name]))
        ]
    except OSError as error:
        raise StoreError(f"cannot use {folder} as a folder for {what}: {error.strerror}") from None
    if there:
        raise StoreError(
            f"{folder}: expected a new or empty folder for {what}, found {limited(there, ', ')}; "
            "choose another folder"
        )


def holds_only(folder: Path, forms: FolderForms) -> bool:
    """Return whether a folder contains only recordings that match the patterns and their manifests."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    inside = sorted(folder.rglob("*"))
    if any(path.is_symlink() or not (path.is_dir() or path.is_file()) for path in inside):
        return False
    files = {path: path.relative_to(folder).as_posix() for path in inside if path.is_file()}
    recorded = {path.parent for path, name in files.items() if forms.recording.fullmatch(name)}
    # live-eval writes the manifest last, so a manifest without recordings belongs to another program.
    return all(forms.fits(name) and path.parent in recorded for path, name in files.items())


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the regular files and links in a folder.

    Raises:
        OSError: The folder cannot be read.
    """
    for path in folder.iterdir():
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield path


def _known(db: sqlite3.Connection, kind: str) -> set[str]:
    """Return the file names referenced by attempts in the database."""
    has_replaced = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (f"{REPLACED}turns",)).fetchone()
    if kind == AUDIO_FOLDER:
        queries = (KEPT_AUDIO, REPLACED_AUDIO) if has_replaced else (KEPT_AUDIO,)
        return {row["both_file"] for query in queries for row in db.execute(query)}
    tables = ("turns", "failures", f"{REPLACED}turns") if has_replaced else ("turns", "failures")
    first_turns = _first_turns(db)
    return {
        cassette_name(turn_id, row["attempt"])
        for table in tables
        for row in db.execute(f"SELECT turn_id, attempt FROM {table}")
        for turn_id in (row["turn_id"], first_turns.get(row["turn_id"], row["turn_id"]))
    }


def _first_turns(db: sqlite3.Connection) -> dict[str, str]:
    """Return, for each turn, the first turn of its dialogue, after which the session's cassette is named."""
    rows = db.execute(
        """SELECT turn_id, repeat, json_extract("case", '$.dialogue_id') AS dialogue FROM turns
        WHERE dialogue IS NOT NULL ORDER BY json_extract("case", '$.turn_index')"""
    )
    firsts: dict[tuple[object, int], str] = {}
    return {
        row["turn_id"]: firsts.setdefault((row["dialogue"], row["repeat"]), row["turn_id"]) for row in rows
    }
