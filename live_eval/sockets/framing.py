"""Where messages end in a stream of bytes, so that no read goes past the end of one.

A read that took the end of one message and the beginning of the next would give both the stamp of the later
one. So a transport asks its framing how many bytes to read.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from live_eval.sockets.stamps import Stamp

__all__ = ["Framing", "TlsFraming", "WebSocketFraming"]

_CONTROL = 0x8
_FINAL = 0x80
_MASKED = 0x80
_HEADER_BYTES = 2
_LENGTH_BYTES = {126: 2, 127: 8}
_TLS_HEADER_BYTES = 5
_HEAD_ENDS = b"\r\n\r\n"
_UPGRADES = b" 101 "
_ANYTHING = 65_536


class Framing(Protocol):
    """The frames of a protocol."""

    @property
    def wanted(self) -> int:
        """How many bytes to read at most: to the end of the frame, or of as much as shows where that is."""
        ...

    def took(self, data: bytes) -> bool:
        """Note bytes that were read, no more than wanted; return whether a frame ends with them."""
        ...

    def ended(self, stamp: Stamp) -> None:
        """Note when the frame arrived that `took` has just seen the end of."""
        ...


class WebSocketFraming:
    """The frames of a WebSocket (RFC 6455, 5.2), in one direction.

    Args:
        after_head: Whether the head of an HTTP response comes first; where it refuses a WebSocket, nothing
            is framed.
        keeps_stamps: Whether to keep the stamp of each message, for a reader that does not see the stream.
    """

    def __init__(self, *, after_head: bool = False, keeps_stamps: bool = False) -> None:
        self._head = bytearray()
        self._in_head = after_head
        self._refused = False
        self._header = bytearray()
        self._payload: int | None = None
        self._completes = False  # the last frame ended a message
        self.stamps: deque[Stamp] = deque()
        """The stamps of the messages that have ended and that no reader has taken yet, in order."""
        self._keeps_stamps = keeps_stamps

    @property
    def wanted(self) -> int:
        """As `Framing.wanted`."""
        if self._in_head:
            return next(left for left in range(1, 5) if self._head.endswith(_HEAD_ENDS[: 4 - left]))
        if self._refused:
            return _ANYTHING
        return self._header_bytes - len(self._header) if self._payload is None else self._payload

    def took(self, data: bytes) -> bool:
        """As `Framing.took`."""
        if self._in_head:
            self._head += data
            self._in_head = not self._head.endswith(_HEAD_ENDS)
            self._refused = not self._in_head and _UPGRADES not in self._head.partition(b"\r\n")[0]
            return not self._in_head
        if self._refused:
            return True
        if self._payload is None:
            self._header += data
            if len(self._header) < self._header_bytes:
                return False
            self._payload = self._payload_bytes
        else:
            self._payload -= len(data)
        if self._payload:
            return False
        first = self._header[0]
        self._completes = bool(first & _FINAL and not first & _CONTROL)
        self._header.clear()
        self._payload = None
        return True

    def ended(self, stamp: Stamp) -> None:
        """As `Framing.ended`."""
        if self._completes and self._keeps_stamps:
            self.stamps.append(stamp)

    @property
    def _header_bytes(self) -> int:
        """Length of the header, as far as it is known from what was read of it."""
        if len(self._header) < _HEADER_BYTES:
            return _HEADER_BYTES
        second = self._header[1]
        return _HEADER_BYTES + _LENGTH_BYTES.get(second & ~_MASKED, 0) + (4 if second & _MASKED else 0)

    @property
    def _payload_bytes(self) -> int:
        short = self._header[1] & ~_MASKED
        if short not in _LENGTH_BYTES:
            return short
        return int.from_bytes(self._header[_HEADER_BYTES : _HEADER_BYTES + _LENGTH_BYTES[short]])


class TlsFraming:
    """The records of TLS (RFC 8446, 5.1)."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._rest = 0

    @property
    def wanted(self) -> int:
        """As `Framing.wanted`."""
        return self._rest or _TLS_HEADER_BYTES - len(self._header)

    def took(self, data: bytes) -> bool:
        """As `Framing.took`."""
        if self._rest:
            self._rest -= len(data)
            return not self._rest
        self._header += data
        if len(self._header) < _TLS_HEADER_BYTES:
            return False
        self._rest = int.from_bytes(self._header[3:])
        self._header.clear()
        return not self._rest

    def ended(self, stamp: Stamp) -> None:
        """As `Framing.ended`."""
