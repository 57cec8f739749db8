"""Exit promptly on Ctrl-C while Ray joins or leaves a cluster.

Ray's native code blocks for up to a minute, and Python handles signals only after it returns. Ray may also
block or crash when an interrupted interpreter shuts down. The process therefore exits without a shutdown,
which is safe because no work is in progress yet.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Iterator

from live_eval.run.stop_signals import STOP_SIGNALS, end_process

__all__ = ["prompt_exit"]

_GRACE_S = 2.0
_LAST_WORDS = "Interrupted."


@contextlib.contextmanager
def prompt_exit() -> Iterator[None]:
    """Let a signal in the block end the process, after two seconds if Python does not handle the signal.

    The processes of a cluster that Ray started end too. Does nothing outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    ended = threading.Event()

    def watch() -> None:
        with reader:
            while numbers := reader.recv(16):  # empty once the writer is closed
                if any(number in STOP_SIGNALS for number in numbers) and not ended.wait(_GRACE_S):
                    end_process(_LAST_WORDS)

    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except KeyboardInterrupt:
        ended.set()
        end_process(_LAST_WORDS)
        raise
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        writer.close()
