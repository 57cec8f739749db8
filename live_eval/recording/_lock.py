"""One writer for each database: an operating-system lock that ends with its process."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from live_eval.errors import StoreError, StoreLockedError
from live_eval.files import kind_of_file, open_regular, private_opener

__all__ = ["WriterLock", "is_held"]


class WriterLock:
    """A lock that is held from construction until `release`.

    Args:
        path: The lock file; it names the process that holds the lock and is removed with it.

    Raises:
        StoreLockedError: Another process (or another writer of this one) holds it; the message names it.
        StoreError: The file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Not bound to a thread: a run is written and closed by different ones.
        self._lock = FileLock(path, mode=0o644, blocking=False, thread_local=False)
        try:
            _check_kind(path)
            self._acquire()
        except OSError as error:
            _check_kind(path)
            raise StoreError(f"{path.parent}: cannot be written: {error.strerror}") from None
        # Where locks are mandatory, nobody can read who holds it.
        with contextlib.suppress(OSError), open(path, "w", opener=private_opener) as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}")

    def release(self) -> None:
        """Release the lock; do nothing if it has been released."""
        if self._lock.is_locked:
            # Windows removes no open file: it stays there, and the next writer takes it over.
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._lock.release()

    def _acquire(self) -> None:
        while True:
            try:
                self._lock.acquire()
            except Timeout:
                # The holder may have removed the file between our opening and our locking it.
                if not self._path.exists():
                    continue
                raise StoreLockedError(
                    f"{self._path.parent}: is being written by {_holder_of(self._path) or 'another process'}"
                ) from None
            return


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock, as far as its file shows.

    Does not try the lock: a writer that begins at that moment would find it taken.

    Args:
        path: The lock file. That of a process that was killed is left behind.
    """
    holder = re.fullmatch(r"process (\d+) on (.*)", _holder_of(path))
    if holder is None or holder[2] != socket.gethostname() or os.name != "posix":
        return os.path.lexists(path)
    try:
        os.kill(int(holder[1]), 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True


def _holder_of(path: Path) -> str:
    """Return what a lock file says about who holds it; empty if nothing."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        return file.read(200).decode(errors="replace").strip()
    return ""


def _check_kind(path: Path) -> None:
    """Refuse links, pipes and devices: the folder may come from somebody else."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(mode := path.lstat().st_mode):
            raise StoreError(f"{path}: expected a file, found {kind_of_file(mode)}; remove it")
