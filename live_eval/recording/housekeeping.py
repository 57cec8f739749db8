"""Find and remove what an ended process left in a run's folder, or everything that was recorded there.

Nothing here touches a run that is being written: both of its locks are taken first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from live_eval.errors import StoreError
from live_eval.recording import _encoding as encoding
from live_eval.recording._database import SIDE_FILES, has_tables, open_database, open_for_reading, settle
from live_eval.recording._lock import WriterLock, is_held
from live_eval.recording.contents import (
    CAMPAIGN_FORMS,
    FolderForms,
    files_in,
    holds_recordings,
    orphans,
    recorded_files,
)
from live_eval.recording.schema import (
    AUDIO_FOLDER,
    RUN_FILE,
    RUN_VERSIONS_READ,
    SCORES_FILE,
    SCORES_SCHEMA_VERSION,
    USER_FOLDER,
    WIRE_FOLDER,
)
from live_eval.recording.scores import SCORES_LOCK_FILE
from live_eval.recording.writer import RUN_LOCK_FILE

__all__ = ["delete_campaign", "delete_run", "is_busy", "leftovers", "locked", "remove_leftovers"]

_LOCKS = (RUN_LOCK_FILE, SCORES_LOCK_FILE)
_LOGS = tuple(f"{name}{suffix}" for name in (RUN_FILE, SCORES_FILE) for suffix in SIDE_FILES[1:])
_DATABASES = tuple(f"{name}{suffix}" for name in (RUN_FILE, SCORES_FILE) for suffix in SIDE_FILES)
_PART = ".part"
_PAGE = "report.html"
_OTHERS = (f"{_PAGE}{_PART}", _PAGE, "reference-endpoint.log")
_CAMPAIGN_FILES = ("campaign.json", "latency.html", "words.json", "duplex.json", "duplex.html")
_REPORT_FORMS = {"sounds": FolderForms(re.compile(r"[a-z0-9-]*\.(both|user|endpoint)\.flac(\.part)?"))}
_CAMPAIGN_FOLDERS = {**CAMPAIGN_FORMS, **_REPORT_FORMS}


def is_busy(folder: Path) -> bool:
    """Return whether a process is writing the run in a folder or its scores, as far as can be seen."""
    return any(is_held(folder / name) for name in _LOCKS)


def leftovers(folder: Path) -> list[Path]:
    """Return the files in a run's folder that killed processes left, none while the run is being written.

    Audio and cassettes of attempts that are not in the store, temporary files, locks of processes that have
    ended, and SQLite's logs, which the databases have yet to take in.

    Args:
        folder: The run's folder.

    Raises:
        StoreError: It cannot be read.
    """
    if is_busy(folder):
        return []
    side_files = [path for name in (*_LOCKS, *_LOGS) if os.path.lexists(path := folder / name)]
    return sorted([*side_files, *_unknown(folder)])


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
        for path in (unknown := _unknown(folder)):
            _remove(path)
    return sorted(path for path in (*found, *unknown) if not os.path.lexists(path))


def _unknown(folder: Path) -> list[Path]:
    """Return the temporary files of a run, and its `orphans`; none if its database is missing or empty."""
    file = folder / RUN_FILE
    if not has_tables(file):
        return []
    part = folder / f"{_PAGE}{_PART}"
    with encoding.decoding(f"{file}"), closing(open_for_reading(file, *RUN_VERSIONS_READ)) as db:
        return [*([part] if os.path.lexists(part) else ()), *orphans(db, folder)]


def delete_run(folder: Path) -> list[Path]:
    """Delete what live-eval has written to a run's folder, and the folder if nothing else is in it.

    Turns, audio, what the user of a live run said, scores with the answers of judging models, cassettes, the
    report and the log.

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
            for path in recorded_files(folder):
                _remove(path)
            for name in (AUDIO_FOLDER, WIRE_FOLDER, USER_FOLDER):
                _remove_empty(folder / name)
            # The database goes last: until then the folder is still listed as a run.
            for name in (*_OTHERS, *reversed(_DATABASES)):
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
            if holds_recordings(inside):
                delete_run(inside)
            elif inside.name in _CAMPAIGN_FOLDERS:
                _delete_sounds(inside, _CAMPAIGN_FOLDERS[inside.name])
        for path in files_in(folder):
            if path.name.removesuffix(_PART) in (*_CAMPAIGN_FILES, *_OTHERS):
                _remove(path)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be deleted: {error.strerror}") from None
    return _removed_if_empty(folder)


def _delete_sounds(folder: Path, forms: FolderForms) -> None:
    """Delete the files in a folder and its folders whose paths have these forms, and what is empty then."""
    inside = sorted(folder.rglob("*"), reverse=True)
    for path in inside:
        if forms.fits(path.relative_to(folder).as_posix()) and (path.is_symlink() or path.is_file()):
            _remove(path)
    for path in (*inside, folder):
        _remove_empty(path)


def _remove_empty(path: Path) -> None:
    """Remove a path if it is an empty folder."""
    if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()


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


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path}: cannot be deleted: {error.strerror}") from None
