"""Single keys from the terminal, without waiting for the line to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator

__all__ = ["HANG_UP", "reading_keys"]

HANG_UP = "\x04"
"""The key of a terminal that has gone away; Ctrl-D is the same."""

_MOST_BYTES = 1024


@contextlib.contextmanager
def reading_keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call `pressed` with each key, on the running event loop; with `HANG_UP` if the terminal goes away.

    Yields:
        Whether keys can be read: standard input is a terminal, and the system has terminal modes.
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield False
        return
    if not sys.stdin.isatty():
        yield False
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # Not through `sys.stdin`, which would buffer keys that have come together.
        try:
            keys = os.read(descriptor, _MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            keys = ""
        if not keys:
            loop.remove_reader(descriptor)
        for key in keys or HANG_UP:
            pressed(key)

    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield True
    finally:
        loop.remove_reader(descriptor)
        with contextlib.suppress(termios.error):  # the terminal has gone away
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
