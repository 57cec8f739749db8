"""Ctrl-C and SIGTERM, from the beginning of a command to its end: one owner, whatever the command plays.

The first signal asks what is being played to stop; a later one ends the command at once. Signals within a
second of each other are one request: GNU ``timeout`` signals its child, and then the group that the child is
in.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

__all__ = ["StopSignals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REPEAT_S = 1.0


class StopSignals:
    """Handles Ctrl-C and SIGTERM while it is entered. In another thread than the main one, it does nothing.

    A signal raises KeyboardInterrupt, except for the first one within `gently`, which only sets `requested`,
    and the first one within `cancelling`, which also cancels the task.

    Args:
        now_s: Returns the time in seconds.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.requested = False
        self._now_s = now_s
        self._last_s: float | None = None
        self._gentle = 0
        self._cancel: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    @contextlib.contextmanager
    def gently(self) -> Iterator[None]:
        """Let the first signal within the block only set `requested`."""
        self._gentle += 1
        try:
            yield
        finally:
            self._gentle -= 1

    @contextlib.contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let the first signal cancel the block, which then ends without an error; at once if it has come.

        Only in a task of an event loop, and not within another such block.
        """
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        inside, cancelled = True, False

        def cancel() -> None:
            nonlocal cancelled
            if inside:
                cancelled = True
                task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel)  # which wakes the event loop
        if self.requested:
            cancel()
        try:
            with self.gently():
                yield
        except asyncio.CancelledError:
            if not cancelled or task.uncancel():
                raise
        finally:
            inside, self._cancel = False, None

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        now_s = self._now_s()
        if self._last_s is not None and now_s - self._last_s < _REPEAT_S:
            return
        self._last_s = now_s
        first, self.requested = not self.requested, True
        if not (first and self._gentle):
            raise KeyboardInterrupt
        if self._cancel is not None:
            self._cancel()
