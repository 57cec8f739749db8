"""Find and remove what an ended process left in a run's folder, or everything that was recorded there.

Nothing here touches a run that is being written: both of its locks are taken first.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from live_eval.errors import StoreError
from live_eval.recording import _encoding as encoding
from live_eval.recording._files import own_folder
from live_eval.recording._lock import WriterLock, is_held
from live_eval.recording.schema import (
    AUDIO_FOLDER,
    KEPT_AUDIO,
    REPLACED,
    REPLACED_AUDIO,
    RUN_FILE,
    RUN_VERSIONS_READ,
    SCORES_FILE,
    SCORES_SCHEMA_VERSION,
    SIDE_FILES,
    WIRE_FOLDER,
    has_tables,
    open_database,
    open_for_reading,
    settle,
)
from live_eval.recording.scores import SCORES_LOCK_FILE
from live_eval.recording.writer import RUN_LOCK_FILE

__all__ = ["delete_campaign", "delete_run", "leftovers", "locked", "remove_leftovers"]

_LOCKS = (RUN_LOCK_FILE, SCORES_LOCK_FILE)
_FOLDERS = {AUDIO_FOLDER: (".flac", ".flac.part"), WIRE_FOLDER: (".jsonl", ".jsonl.part")}
_LOGS = tuple(f"{name}{suffix}" for name in (RUN_FILE, SCORES_FILE) for suffix in SIDE_FILES[1:])
_DATABASES = tuple(f"{name}{suffix}" for name in (RUN_FILE, SCORES_FILE) for suffix in SIDE_FILES)
_PART = ".part"
_OTHERS = ("report.html", "reference-endpoint.log")
_MADE_FOLDERS = ("inputs", "stimuli")
"""Of recordings that campaigns make."""
_CAMPAIGN_FILES = ("campaign.json", "latency.html", "words.json", "duplex.json", "duplex.html", *_OTHERS)


def leftovers(folder: Path) -> list[Path]:
    """Return the files in a run's folder that killed processes left, none while the run is being written.

    Audio and cassettes of attempts that are not in the store, temporary files, locks of processes that have
    ended, and SQLite's logs, which the databases have yet to take in.

    Args:
        folder: The run's folder.

    Raises:
        StoreError: It cannot be read.
    """
    if any(is_held(folder / name) for name in _LOCKS):
        return []
    side_files = [path for name in (*_LOCKS, *_LOGS) if os.path.lexists(path := folder / name)]
    return sorted([*side_files, *_orphans(folder)])


def remove_leftovers(folder: Path) -> list[Path]:
    """Remove the `leftovers` in a run's folder and return them.

    Raises:
        StoreLockedError: A process is writing the run or its scores.
        StoreError: The folder cannot be read or written.
    """
    found = [path for name in _LOCKS if os.path.lexists(path := folder / name)]
    with locked(folder):  # which removes the locks at the end
        found += (path for name in _LOGS if os.path.lexists(path := folder / name))
        for name, versions in ((RUN_FILE, RUN_VERSIONS_READ), (SCORES_FILE, (SCORES_SCHEMA_VERSION,))):
            logs = [folder / f"{name}{suffix}" for suffix in SIDE_FILES[1:]]
            if any(map(os.path.lexists, logs)) and has_tables(folder / name):
                with encoding.decoding(f"{folder / name}"):
                    settle(open_database(folder / name, *versions))
        for path in (orphans := _orphans(folder)):
            _remove(path)
    return sorted(path for path in (*found, *orphans) if not os.path.lexists(path))


def _orphans(folder: Path) -> list[Path]:
    """Return the temporary files, and the audio and cassettes that belong to no attempt in the store."""
    if not has_tables(folder / RUN_FILE):
        return []
    audio, wire = _known(folder)
    known = {AUDIO_FOLDER: audio, WIRE_FOLDER: wire}
    try:
        found = [path for path in _files(folder) if path.name.endswith(_PART)]
        for name, suffixes in _FOLDERS.items():
            if (folder / name).is_dir():
                inside = _files(own_folder(folder, folder / name))
                found += (
                    path for path in inside if path.name.endswith(suffixes) and path.name not in known[name]
                )
    except OSError as error:
        raise StoreError(f"{folder}: cannot be read: {error.strerror}") from None
    return found


def delete_run(folder: Path) -> list[Path]:
    """Delete what live-eval has written to a run's folder, and the folder if nothing else is in it.

    Turns, audio, scores with the answers of judging models, cassettes, the report and the log.

    Args:
        folder: The run's folder.

    Returns:
        What is left in the folder, since somebody else put it there; empty if the folder is gone.

    Raises:
        StoreLockedError: A process is writing the run or its scores.
        StoreError: Something cannot be deleted.
    """
    with locked(folder):
        try:
            for name in _FOLDERS:
                inside = folder / name
                if inside.is_dir() and not inside.is_symlink():
                    for path in _files(inside):
                        if path.name.endswith(_FOLDERS[name]):
                            _remove(path)
                    if not any(inside.iterdir()):
                        inside.rmdir()
            # The database goes last: until then the folder is still listed as a run.
            parts = [path.name for path in _files(folder) if path.name.endswith(_PART)]
            for name in (*parts, *_OTHERS, *reversed(_DATABASES)):
                if (folder / name).is_symlink() or (folder / name).is_file():
                    _remove(folder / name)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be deleted: {error.strerror}") from None
    return _removed_if_empty(folder)


def delete_campaign(folder: Path) -> list[Path]:
    """Delete what live-eval has written to a campaign's folder: its runs, its recordings, its document.

    Args:
        folder: The campaign's folder.

    Returns:
        As `delete_run`.

    Raises:
        StoreLockedError: As `delete_run`, of one of its runs; those before it are gone.
        StoreError: As `delete_run`.
    """
    try:
        for inside in sorted(folder.iterdir()):
            if inside.is_symlink() or not inside.is_dir():
                continue
            if (inside / RUN_FILE).exists():
                delete_run(inside)
            elif inside.name in _MADE_FOLDERS:
                shutil.rmtree(inside)
        for path in _files(folder):
            if path.name in _CAMPAIGN_FILES or path.name.endswith(_PART):
                _remove(path)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be deleted: {error.strerror}") from None
    return _removed_if_empty(folder)


def _removed_if_empty(folder: Path) -> list[Path]:
    """Remove a folder if it is empty; return what is in it otherwise."""
    try:
        left = sorted(folder.iterdir())
        if not left:
            folder.rmdir()
    except OSError as error:
        raise StoreError(f"{folder}: cannot be deleted: {error.strerror}") from None
    return left


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other process from writing the run in a folder or its scores.

    Raises:
        StoreLockedError: Another process is writing them.
    """
    with ExitStack() as stack:
        for name in _LOCKS:
            stack.callback(WriterLock(folder / name).release)
        yield


def _known(folder: Path) -> tuple[set[str], set[str]]:
    """Return the names of the audio files and of the cassettes that belong to attempts in the store."""
    file = folder / RUN_FILE
    with (
        encoding.decoding(f"{file}"),
        closing(open_for_reading(file, *RUN_VERSIONS_READ)) as db,
    ):
        kept, tables = [KEPT_AUDIO], ["turns", "failures"]
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (f"{REPLACED}turns",)).fetchone():
            kept.append(REPLACED_AUDIO)
            tables.append(f"{REPLACED}turns")
        audio = {str(row["both_file"]) for query in kept for row in db.execute(query)}
        attempts = [
            (row["turn_id"], row["attempt"])
            for table in tables
            for row in db.execute(f"SELECT turn_id, attempt FROM {table}")
        ]
    return audio, {encoding.cassette_name(turn_id, attempt) for turn_id, attempt in attempts}


def _files(folder: Path) -> list[Path]:
    """Return the regular files and links in a folder."""
    return [
        path for path in folder.iterdir() if stat.S_ISREG(mode := path.lstat().st_mode) or stat.S_ISLNK(mode)
    ]


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: cannot be deleted: {error.strerror}") from None
