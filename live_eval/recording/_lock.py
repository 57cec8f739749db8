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


class WriterLock:
    """A lock that is held from construction until `release`.

    Args:
        path: The lock file, which names the holder; removed on release.

    Raises:
        StoreLockedError: Another writer holds it; the message names its process.
        StoreError: The file cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Not bound to a thread: different threads write and close a run.
        self._lock = FileLock(path, mode=0o644, blocking=False, thread_local=False)
        try:
            _check_kind(path)
            self._acquire()
        except OSError as error:
            _check_kind(path)
            raise StoreError(f"{path.parent}: cannot be written: {error.strerror}") from None
        # With mandatory locks the file cannot be written, and the holder is unknown to others.
        with contextlib.suppress(OSError), open(path, "w", opener=private_opener) as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}")

    def release(self) -> None:
        """Release the lock; do nothing if it has been released."""
        if self._lock.is_locked:
            # Windows does not remove an open file; the next writer takes it over.
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._lock.release()

    def _acquire(self) -> None:
        while True:
            try:
                self._lock.acquire()
            except Timeout:
                # The holder may have removed the file after it was opened here.
                if not self._path.exists():
                    continue
                raise StoreLockedError(
                    f"{self._path.parent}: is being written by {_holder_of(self._path) or 'another process'}"
                ) from None
            return


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock, judged by the process that its file names."""
    # The lock itself is not tried: a writer that begins at that moment would be refused.
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
    """Return the holder that a lock file names, or an empty text."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        return file.read(200).decode(errors="replace").strip()
    return ""


def _check_kind(path: Path) -> None:
    """Refuse links, pipes and devices: the folder may be somebody else's."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(mode := path.lstat().st_mode):
            raise StoreError(f"{path}: expected a file, found {kind_of_file(mode)}; remove it")
