"""Suppress messages that C libraries write to the terminal."""

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
    """Discard messages that C libraries (ALSA, PortAudio) write to C's `stderr`; no-op without glibc.

    File descriptor 2 is unchanged, so messages from Python and child processes still appear.
    """
    streams = _streams()
    if streams is None:
        yield
        return
    stderr, null = streams
    before, stderr.value = stderr.value, null
    try:
        yield
    finally:
        stderr.value = before


@functools.cache
def _streams() -> tuple[ctypes.c_void_p, int] | None:
    """Return C's `stderr` variable and a stream to the null device, or None without glibc."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):  # the variable may be read-only in other C libraries
        return None
    libc.fopen.restype = ctypes.c_void_p
    # Never closed: a library's thread may still be writing to it.
    null = libc.fopen(os.devnull.encode(), b"w")
    return (ctypes.c_void_p.in_dll(libc, "stderr"), null) if null else None
