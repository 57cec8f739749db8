"""Reset TCP connections instead of closing them."""

from __future__ import annotations

import socket
import struct

__all__ = ["reset_on_close"]

_RESET = struct.pack("ii", 1, 0)


def reset_on_close(sock: socket.socket) -> None:
    """Make a TCP socket send RST on close and discard unsent bytes (`SO_LINGER` with zero seconds).

    Raises:
        OSError: The socket is closed.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
