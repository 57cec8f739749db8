"""Remove the leftovers of killed processes, or all recorded files, from a run folder.

Both locks of the run are acquired first, so a run in progress is never changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from live_eval.errors import StoreError
from live_eval.recording import _encoding as encoding
from live_eval.recording._database import SIDE_FILES, has_tables, open_database, open_for_reading, settle
from live_eval.recording._lock import WriterLock, is_held
from live_eval.recording.contents import FolderForms, orphans, recorded_files
from live_eval.recording.reviews import REVIEWS_FILE, REVIEWS_LOCK_FILE
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

__all__ = [
    "delete_run",
    "is_busy",
    "leftovers",
    "locked",
    "remove_files",
    "remove_if_empty",
    "remove_leftovers",
]

_LOCKS = (RUN_LOCK_FILE, SCORES_LOCK_FILE, REVIEWS_LOCK_FILE)
_LOGS = tuple(f"{name}{suffix}" for name in (RUN_FILE, SCORES_FILE) for suffix in SIDE_FILES[1:])
_DATABASES = tuple(f"{name}{suffix}" for name in (RUN_FILE, SCORES_FILE) for suffix in SIDE_FILES)


def is_busy(folder: Path) -> bool:
    """Return whether a process is writing a run or its scores, according to the locks."""
    return any(is_held(folder / name) for name in _LOCKS)


def leftovers(folder: Path, others: Collection[str] = ()) -> list[Path]:
    """Return the files that killed processes left in a run folder; none while the run is being written.

    Leftovers are audio files and cassettes of attempts missing from the database, temporary files, stale
    locks, and SQLite's logs, which are merged before they are removed.

    Args:
        others: Names of files that other modules write atomically to the folder.

    Raises:
        StoreError: The folder cannot be read.
    """
    if is_busy(folder):
        return []
    return sorted([*_in(folder, (*_LOCKS, *_LOGS)), *_unknown(folder, others)])


def remove_leftovers(folder: Path, others: Collection[str] = ()) -> list[Path]:
    """Remove and return the `leftovers` in a run folder.

    Raises:
        StoreLockedError: A process is writing the run or its scores.
        StoreError: The folder cannot be read or written.
    """
    found = _in(folder, _LOCKS)
    with locked(folder):  # exiting the context removes the lock files
        found += _in(folder, _LOGS)
        for name, versions in ((RUN_FILE, RUN_VERSIONS_READ), (SCORES_FILE, (SCORES_SCHEMA_VERSION,))):
            logs = _in(folder, [f"{name}{suffix}" for suffix in SIDE_FILES[1:]])
            if logs and has_tables(folder / name):
                with encoding.decoding(f"{folder / name}"):
                    settle(open_database(folder / name, *versions))
        for path in (unknown := _unknown(folder, others)):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(f"cannot delete {path}: {error.strerror}") from None
    return sorted(path for path in (*found, *unknown) if not os.path.lexists(path))


def _in(folder: Path, names: Iterable[str]) -> list[Path]:
    return [path for name in names if os.path.lexists(path := folder / name)]


def _unknown(folder: Path, others: Collection[str]) -> list[Path]:
    """Return a run's temporary files and `orphans`; an empty list if its database is missing or empty."""
    file = folder / RUN_FILE
    if not has_tables(file):
        return []
    with encoding.decoding(f"{file}"), closing(open_for_reading(file, *RUN_VERSIONS_READ)) as db:
        return [*_in(folder, [f"{name}.part" for name in (REVIEWS_FILE, *others)]), *orphans(db, folder)]


def delete_run(folder: Path, others: Collection[str] = ()) -> list[Path]:
    """Delete all files that live-eval wrote to a run folder, then the folder itself if it is empty.

    Args:
        others: Names of files that other modules write to the folder.

    Returns:
        The remaining files, which live-eval did not write; an empty list if the folder was removed.

    Raises:
        StoreLockedError: A process is writing the run or its scores.
        StoreError: A file or folder cannot be deleted.
    """
    others = (REVIEWS_FILE, *others)
    temporary = [f"{name}.part" for name in others]
    try:
        with locked(folder):
            for path in recorded_files(folder):
                path.unlink(missing_ok=True)
            for inside in _in(folder, (AUDIO_FOLDER, WIRE_FOLDER, USER_FOLDER)):
                if inside.is_dir() and not inside.is_symlink():
                    remove_if_empty(inside)
            # Delete the database last, so that the folder remains a run until everything else is gone.
            for path in _in(folder, (*temporary, *others, *reversed(_DATABASES))):
                if path.is_symlink() or path.is_file():
                    path.unlink()
        return remove_if_empty(folder)
    except OSError as error:
        raise StoreError(f"cannot delete {folder}: {error.strerror}") from None


def remove_files(folder: Path, forms: FolderForms) -> None:
    """Remove a folder's files that match these patterns, then any folders left empty.

    Raises:
        OSError: A file or folder cannot be removed.
    """
    inside = sorted(folder.rglob("*"), reverse=True)
    for path in inside:
        if forms.fits(path.relative_to(folder).as_posix()) and (path.is_symlink() or path.is_file()):
            path.unlink()
    for path in (*inside, folder):
        if path.is_dir() and not path.is_symlink():
            remove_if_empty(path)


def remove_if_empty(folder: Path) -> list[Path]:
    """Remove a folder if it is empty; otherwise, return its contents.

    Raises:
        OSError: The folder cannot be removed.
    """
    content = sorted(folder.iterdir())
    if not content:
        folder.rmdir()
    return content


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a run and its scores against other writers.

    Raises:
        StoreLockedError: Another process is writing the run or its scores.
    """
    with ExitStack() as stack:
        for name in _LOCKS:
            stack.callback(WriterLock(folder / name).release)
        yield
