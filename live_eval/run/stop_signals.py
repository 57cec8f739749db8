"""Handle Ctrl-C, SIGTERM and SIGHUP during a command.

The first signal stops the run cleanly. A second one ends the command immediately; if this takes more than a
few seconds, for example because of a slow disk, the process is killed. The recorded run stays intact. Signals
less than a second apart count as one, because GNU ``timeout`` signals both its child and the child's process
group. SIGHUP is sent when the terminal is closed; under ``nohup``, it remains ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Self

__all__ = [
    "STOP_SIGNALS",
    "StopSignals",
    "cleaned_up",
    "close_lost_terminal",
    "end_process",
    "end_with_parent",
    "stop_signals",
    "stop_with_stdin",
]

_HANGUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
STOP_SIGNALS = tuple(filter(None, (signal.SIGINT, signal.SIGTERM, _HANGUP)))
"""The signals that end a command."""

_REPEAT_S = 1.0
_GRACE_S = 3.0
_SHOW_CURSOR = "\x1b[?25h"
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG, prctl(2)


def stop_signals() -> list[signal.Signals]:
    """Return the `STOP_SIGNALS`, without SIGHUP if it is ignored, as under ``nohup``."""
    return [
        number
        for number in STOP_SIGNALS
        if number is not _HANGUP or signal.getsignal(number) is not signal.SIG_IGN
    ]


@contextlib.contextmanager
def cleaned_up() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command that writes files with an exception, so that no part is left."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    in_main = threading.current_thread() is threading.main_thread()  # only it can set handlers
    numbers = [number for number in stop_signals() if in_main and number is not signal.SIGINT]
    before = [signal.signal(number, end) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def close_lost_terminal() -> None:
    """Discard output to a closed terminal, because writing to it fails."""
    for descriptor in (1, 2):
        try:
            os.get_terminal_size(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                _discard(descriptor)


def _discard(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


def stop_with_stdin() -> None:
    """Send SIGINT to this process when standard input, a pipe from the parent, ends.

    Use it to end a child process however its parent dies. Output is then discarded, because writing to a pipe
    without a reader fails.
    """

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        for descriptor in (1, 2):
            _discard(descriptor)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, name="stop-with-stdin", daemon=True).start()


def end_with_parent() -> None:
    """Kill this process when its parent dies, even by SIGKILL. Call it first in a worker process.

    On Linux, the kernel does so, even if a computation never returns to Python, and also when the parent's
    thread that started the process ends. Elsewhere, this works for processes started by `multiprocessing`;
    others must exit when a pipe from the parent is closed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()


def end_process(last_words: str, end: Callable[[int], object] = os._exit) -> None:
    """Write a line to standard error, and end the process immediately with an interrupt's exit status."""
    with contextlib.suppress(OSError):
        show_cursor = _SHOW_CURSOR if os.isatty(2) else ""
        os.write(2, f"{show_cursor}{last_words}\n".encode())
    end(128 + signal.SIGINT)


class StopSignals:
    """A context manager that handles the `stop_signals`; does nothing outside the main thread.

    Signals raise KeyboardInterrupt. Within `gently`, the first signal only sets `requested` and cancels the
    tasks that are within `cancelling`. Later signals also kill the process after a grace period.

    Args:
        end_soon: Called on a later signal. Default: kill the process after `grace_s`.
        for_command: Whether the kill stays scheduled after the context has exited.
        grace_s: Time between a later signal and the kill.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        end_soon: Callable[[], None] | None = None,
        *,
        for_command: bool = True,
        grace_s: float = _GRACE_S,
    ) -> None:
        self.requested = False
        self.last_words = "Interrupted."
        """Message to print if the process is killed."""
        self._now_s = now_s
        self._end_soon = end_soon or self._end_process_soon
        self._for_command = for_command
        self._grace_s = grace_s
        self._timer: threading.Timer | None = None
        self._last_s: float | None = None
        self._gentle = 0
        self._cancel: list[Callable[[], object]] = []
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
        """Let the first signal in the block only set `requested`."""
        self._gentle += 1
        try:
            yield
        finally:
            self._gentle -= 1

    @contextlib.contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let the first signal cancel the block, which then ends without an error.

        Call this in one or more asyncio tasks, but do not nest it.
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

        def cancel_soon() -> None:
            loop.call_soon_threadsafe(cancel)

        self._cancel.append(cancel_soon)
        if self.requested:
            cancel()
        try:
            with self.gently():
                yield
        except asyncio.CancelledError:
            if not cancelled or task.uncancel():
                raise
        finally:
            inside = False
            self._cancel.remove(cancel_soon)

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
        for cancel in self._cancel:
            cancel()

    def _end_process_soon(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._grace_s, lambda: end_process(self.last_words))
            self._timer.daemon = True
            self._timer.start()
