"""Objects between this process and one that holds its sessions, over a pair of sockets."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import Callable
from typing import Any, cast

__all__ = ["Pipe"]

_LENGTH = struct.Struct("!Q")


class Pipe(asyncio.Protocol):
    """One end of the pair. Both ends trust each other: objects are pickled.

    Args:
        take: Takes each object that comes.
        ended: Called once the other side, or `close`, has ended the pipe.
    """

    def __init__(self, take: Callable[[Any], None], ended: Callable[[], None]) -> None:
        self._take = take
        self._ended = ended
        self._transport: asyncio.WriteTransport | None = None
        self._buffer = bytearray()

    def send(self, value: object) -> None:
        """Send an object; what has ended swallows it."""
        data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_LENGTH.pack(len(data)))
            self._transport.write(data)

    def close(self) -> None:
        """End the pipe, without what has not been sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As `asyncio.Protocol`."""
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's are no subclasses

    def data_received(self, data: bytes) -> None:
        """As `asyncio.Protocol`."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as whole, whole[_LENGTH.size : end] as body:
                value = pickle.loads(body)
            del self._buffer[:end]
            self._take(value)

    def connection_lost(self, exc: Exception | None) -> None:
        """As `asyncio.Protocol`."""
        self._ended()
