"""Messages of C libraries, kept from the terminal."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Iterator

__all__ = ["no_c_messages"]


@contextlib.contextmanager
def no_c_messages() -> Iterator[None]:
    """Discard what C libraries such as ALSA and PortAudio write to C's `stderr`, where that is glibc's.

    File descriptor 2 stays as it is: messages of Python and of child processes still arrive.
    """
    streams = _streams()
    if streams is None:
        yield
        return
    stderr, nowhere = streams
    before, stderr.value = stderr.value, nowhere
    try:
        yield
    finally:
        stderr.value = before


@functools.cache
def _streams() -> tuple[ctypes.c_void_p, int] | None:
    """Return C's variable `stderr`, and a stream that leads nowhere; None without glibc.

    The stream is never closed: a thread of a library may still be writing to it.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):  # elsewhere the variable may be read-only
        return None
    libc.fopen.restype = ctypes.c_void_p
    nowhere = libc.fopen(os.devnull.encode(), b"w")
    return (ctypes.c_void_p.in_dll(libc, "stderr"), nowhere) if nowhere else None
