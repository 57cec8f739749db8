"""A prompt end of the process by Ctrl-C while Ray joins a cluster, or leaves it.

Ray's own code blocks for up to a minute without returning to Python, which handles a signal only then. And
where it is interrupted, it may block again, or crash, as the interpreter ends. So the interpreter does not:
nothing is under way then that would have to be ended in order.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator

from live_eval.run.stop_signals import STOP_SIGNALS, end_process

__all__ = ["prompt_exit"]

_GRACE_S = 2.0
_LAST_WORDS = "Interrupted."


@contextlib.contextmanager
def prompt_exit(end: Callable[[int], object] = os._exit) -> Iterator[None]:
    """Let a signal within the block end the process, after two seconds if Python does not handle it before.

    The processes of a cluster that Ray has started end with this one. In another thread than the main one,
    do nothing.

    Args:
        end: Ends the process with a status.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    left = threading.Event()

    def watch() -> None:
        with reader:
            while numbers := reader.recv(16):  # nothing once the writer is closed
                if any(number in STOP_SIGNALS for number in numbers) and not left.wait(_GRACE_S):
                    end_process(_LAST_WORDS, end)

    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        left.set()
        end_process(_LAST_WORDS, end)
        raise
    finally:
        left.set()
        signal.set_wakeup_fd(before)
        writer.close()
