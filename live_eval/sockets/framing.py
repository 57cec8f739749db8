"""Find the ends of frames in a byte stream, so that no read extends past a frame.

A read across a message boundary would give both messages the later one's timestamp. A transport therefore
peeks at the first pending bytes, then reads one frame.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from live_eval.sockets.stamps import Stamp

__all__ = ["Framing", "TlsFraming", "WebSocketFraming"]

_CONTROL = 0x8
_FINAL = 0x80
_MASKED = 0x80
_LONGEST_HEADER_BYTES = 14
_TLS_HEADER_BYTES = 5
_HEAD_ENDS = b"\r\n\r\n"
_UPGRADES = b" 101 "
_ANYTHING = 65_536


def frame_bytes(head: bytes | bytearray) -> int:
    """Return the length of a WebSocket frame (RFC 6455, 5.2) with its header; 0 if `head` is too short."""
    if len(head) < 2:
        return 0
    length = head[1] & ~_MASKED
    header = 2
    if length == 126:
        header = 4
        length = int.from_bytes(head[2:4])
    elif length == 127:
        header = 10
        length = int.from_bytes(head[2:10])
    if len(head) < header:
        return 0
    return header + (4 if head[1] & _MASKED else 0) + length


class Framing(Protocol):
    """Find the ends of a protocol's frames."""

    look: int
    """Number of bytes to peek at."""

    def size(self, head: bytes) -> int:
        """Return the length of the frame that begins with `head`; 0 if `head` is too short.

        Read the complete frame before the next call.
        """
        ...

    def ended(self, stamp: Stamp) -> None:
        """Record that the last byte of the frame for which `size` was called has arrived."""
        ...


class WebSocketFraming:
    """Find the ends of a WebSocket's frames in one direction.

    Args:
        after_head: Whether an HTTP response head precedes the frames. If the response rejects the WebSocket,
            no frames follow.
        keeps_stamps: Whether to keep the timestamps of messages, for readers without access to the stream.
    """

    def __init__(self, *, after_head: bool = False, keeps_stamps: bool = False) -> None:
        self.look = _ANYTHING if after_head else _LONGEST_HEADER_BYTES
        self._head = bytearray()
        self._in_head = after_head
        self._refused = False
        self._completes = False  # whether the frame ends a message
        self.stamps: deque[Stamp] = deque()
        """Timestamps of complete messages that no reader has taken yet, in order."""
        self._keeps_stamps = keeps_stamps

    def size(self, head: bytes) -> int:
        """See `Framing.size`. Each part of an HTTP head counts as a frame."""
        if self._refused:
            return len(head)
        if self._in_head:
            return self._size_in_head(head)
        size = frame_bytes(head)
        self._completes = bool(size and head[0] & _FINAL and not head[0] & _CONTROL)
        return size

    def ended(self, stamp: Stamp) -> None:
        """See `Framing.ended`."""
        if self._completes and self._keeps_stamps:
            self.stamps.append(stamp)

    def _size_in_head(self, head: bytes) -> int:
        known = len(self._head)
        self._head += head
        end = self._head.find(_HEAD_ENDS, max(0, known - len(_HEAD_ENDS) + 1))
        if end < 0:
            return len(head)
        self._in_head = False
        self._refused = _UPGRADES not in self._head.partition(b"\r\n")[0]
        if not self._refused:
            self.look = _LONGEST_HEADER_BYTES
        return end + len(_HEAD_ENDS) - known


class TlsFraming:
    """Find the ends of TLS records (RFC 8446, 5.1)."""

    look = _TLS_HEADER_BYTES

    def size(self, head: bytes) -> int:
        """See `Framing.size`."""
        if len(head) < _TLS_HEADER_BYTES:
            return 0
        return _TLS_HEADER_BYTES + int.from_bytes(head[3:5])

    def ended(self, stamp: Stamp) -> None:
        """See `Framing.ended`."""
