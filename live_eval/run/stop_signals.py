"""Ctrl-C, SIGTERM and SIGHUP, from the beginning of a command to its end: one owner for all that it plays.

The first signal asks what is being played to stop. A later one ends the command at once, and kills it where
it does not end within seconds, as while it waits for a disk or a locked database: a run survives that.
Signals within a second of each other are one request: GNU ``timeout`` signals its child, and then the group
that the child is in. SIGHUP comes when the terminal is closed; under ``nohup`` it stays ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

__all__ = ["STOP_SIGNALS", "StopSignals", "close_lost_terminal", "end_process", "stop_signals"]

_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
STOP_SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _HANGUP)))
"""The signals that ask a command to end."""

_REPEAT_S = 1.0
_GRACE_S = 3.0
_SHOW_CURSOR = "\x1b[?25h"


def stop_signals() -> list[signal.Signals]:
    """Return the `STOP_SIGNALS` without SIGHUP if it is ignored, as under ``nohup``."""
    return [
        number
        for number in STOP_SIGNALS
        if number is not _HANGUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


def close_lost_terminal() -> None:
    """Discard what is written to a terminal that has been closed: writing to it fails."""
    for descriptor in (1, 2):
        try:
            os.get_terminal_size(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)


def end_process(last_words: str, end: Callable[[int], object] = os._exit) -> None:
    """End the process at once, as interrupted, after a line on standard error.

    Args:
        last_words: The line.
        end: Ends the process with a status.
    """
    with contextlib.suppress(OSError):
        show_cursor = _SHOW_CURSOR if os.isatty(2) else ""
        os.write(2, f"{show_cursor}{last_words}\n".encode())
    end(128 + signal.SIGINT)


class StopSignals:
    """Handles the `stop_signals` while it is entered. In another thread than the main one, it does nothing.

    A signal raises KeyboardInterrupt, except for the first one within `gently`, which only sets `requested`,
    and the first one within `cancelling`, which also cancels the task. A later one also ends the process
    after a few seconds.

    Args:
        now_s: Returns the time in seconds.
        end_soon: Called with a later signal; ends the process after a few seconds by default.
        for_command: Whether a command owns it, which has to end soon even once it is left. If not, leaving it
            calls that off.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        end_soon: Callable[[], None] | None = None,
        *,
        for_command: bool = True,
    ) -> None:
        self.requested = False
        self.last_words = "Interrupted."
        """Printed if the process has to be ended."""
        self._now_s = now_s
        self._end_soon = end_soon or self._end_process_soon
        self._for_command = for_command
        self._timer: threading.Timer | None = None
        self._last_s: float | None = None
        self._gentle = 0
        self._cancel: Callable[[], object] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._take) for number in stop_signals()}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self._timer is not None and not self._for_command:
            self._timer.cancel()

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

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number == _HANGUP:
            close_lost_terminal()
        now_s = self._now_s()
        if self._last_s is not None and now_s - self._last_s < _REPEAT_S:
            return
        self._last_s = now_s
        first, self.requested = not self.requested, True
        if not first:
            self._end_soon()
        if not (first and self._gentle):
            raise KeyboardInterrupt
        if self._cancel is not None:
            self._cancel()

    def _end_process_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_GRACE_S, lambda: end_process(self.last_words))
            self._timer.daemon = True
            self._timer.start()
