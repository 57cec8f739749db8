"""Single keys from the terminal, without waiting for the line to end."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator

__all__ = ["reading_keys"]


@contextlib.contextmanager
def reading_keys(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Call `pressed` with each key, on the running event loop.

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
    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, lambda: pressed(sys.stdin.read(1)))
        yield True
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
