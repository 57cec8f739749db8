"""Limit a database to one writer, with an operating-system lock that is released when the process ends."""

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


class WriterLock:
    """A lock, acquired on construction and held until `release`.

    Args:
        path: Lock file, which identifies the holder; removed on release.

    Raises:
        StoreLockedError: Another writer holds the lock; the message identifies its process.
        StoreError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # not thread-local: the thread that closes a run may not be the one that writes it
        self._lock = FileLock(path, mode=0o644, blocking=False, thread_local=False)
        try:
            _check_kind(path)
            self._acquire()
        except OSError as error:
            _check_kind(path)
            raise StoreError(f"cannot write {path.parent}: {error.strerror}") from None
        # A mandatory lock prevents this write, so other processes cannot identify the holder.
        with contextlib.suppress(OSError), open(path, "w", opener=private_opener) as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}")

    def release(self) -> None:
        """Release the lock; no-op if already released."""
        if self._lock.is_locked:
            # Windows does not remove an open file; the next writer reuses it.
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._lock.release()

    def _acquire(self) -> None:
        while True:
            try:
                self._lock.acquire()
            except Timeout:
                # The previous holder may have removed the file after this process opened it.
                if not self._path.exists():
                    continue
                raise StoreLockedError(
                    f"{self._path.parent} is being written by {_holder_of(self._path) or 'another process'}"
                ) from None
            return


def is_held(path: Path) -> bool:
    """Return whether the process named in the lock file is still running."""
    # Do not try to acquire the lock, since this could block a writer that starts at the same time.
    holder = re.fullmatch(r"process (\d+) on (.*)", _holder_of(path))
    if holder is None or holder[2] != socket.gethostname() or os.name != "posix":
        return os.path.lexists(path)
    try:
        os.kill(int(holder[1]), 0)  # signal 0 only checks whether the process exists
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process belongs to another user
        pass
    return True


def _holder_of(path: Path) -> str:
    """Return the holder named in a lock file; empty if it names no holder."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        return file.read(200).decode(errors="replace").strip()
    return ""


def _check_kind(path: Path) -> None:
    """Reject links, pipes and devices, since the folder may be untrusted."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(mode := path.lstat().st_mode):
            raise StoreError(f"{path}: expected a file, found {kind_of_file(mode)}; remove it")
