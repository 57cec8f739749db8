"""Impair traffic: deliver UDP datagrams and stream bytes late, twice or never.

Frames leave the pacer on time and are delayed here. The timestamp of an arrival is the original timestamp
plus the impairment's delay.
"""

from __future__ import annotations

import asyncio
import errno
import functools
from collections.abc import Callable
from typing import Any, cast

from live_eval.clock import Clock
from live_eval.impair import Impairment
from live_eval.impair.paths import PacketPath, StreamPath, is_damaged, is_media
from live_eval.sockets.datagrams import StampedDatagram
from live_eval.sockets.delays import DelayedBytes, DelayLine
from live_eval.sockets.resets import reset_on_close
from live_eval.sockets.stamps import Stamp
from live_eval.sockets.stream import StreamTransport
from live_eval.types import StampKind

__all__ = ["ImpairedDatagrams", "ImpairedStream"]

_MOST_ARRIVING_BYTES = 16 << 20  # later bytes stay in the kernel


class ImpairedDatagrams:
    """The impaired path of one WebRTC connection, over all of its sockets."""

    def __init__(self, impairment: Impairment, clock: Clock) -> None:
        self._clock = clock
        self._up, self._down = PacketPath(impairment, "up"), PacketPath(impairment, "down")
        self._leaving, self._arriving = DelayLine(clock), DelayLine(clock)
        self._begun = False

    def begin(self) -> None:
        """Start the impairment; call this after the ICE, DTLS and data channel handshakes."""
        self._begun = True

    def send(self, data: bytes, leave: Callable[[], None]) -> None:
        """Send a datagram through the impaired path."""
        if not (self._begun and is_damaged(data)):
            leave()
            return
        for due_ns in self._up.push(len(data), self._clock.now_ns(), media=is_media(data)):
            self._leaving.put(due_ns, leave)

    def receive(self, datagram: StampedDatagram, deliver: Callable[[StampedDatagram], None]) -> None:
        """Deliver a datagram through the impaired path."""
        if not (self._begun and is_damaged(datagram)):
            deliver(datagram)
            return
        at_ns, kind = datagram.stamp
        for due_ns in self._down.push(len(datagram), at_ns, media=is_media(datagram)):
            datagram.stamp = Stamp(due_ns, kind)
            self._arriving.put(due_ns, functools.partial(deliver, datagram))

    def close(self) -> None:
        """Drop delayed datagrams."""
        self._leaving.close()
        self._arriving.close()


class ImpairedStream(StreamTransport, asyncio.Protocol):
    """A layer between a stream and its protocol that delays all bytes, including handshakes.

    Args:
        clock: Clock that schedules late bytes, and stamps arrivals if the underlying stream does not.
        window_bytes: Maximum number of bytes in transit per direction, like TCP's window. None limits
            arrivals to 16 MiB and does not limit sending, so that a slow line never blocks the pacer.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        impairment: Impairment,
        clock: Clock,
        *,
        window_bytes: int | None = None,
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._impairment = impairment
        self._clock = clock
        self._most_leaving = window_bytes
        self._most_arriving = _MOST_ARRIVING_BYTES if window_bytes is None else window_bytes
        self._lower: asyncio.Transport  # set by `connection_made`, like the next two attributes
        self._leaving: DelayedBytes
        self._arriving: DelayedBytes
        self._ending = DelayLine(clock)
        self._ends_ns: int | None = None
        self._too_much_waits: set[str] = set()  # the full buffers that pause writing
        self._full = self._protocol_paused = False  # each of these pauses reading
        self._was_reset = False
        self._slow_end = False
        self._stamp: Stamp | None = None

    @property
    def stamp(self) -> Stamp:  # type: ignore[override]
        """Arrival time of the bytes being handled, after impairment."""
        return self._stamp or self._stamp_below

    # -- Network side -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the stream (this package's or the event loop's), and start the impairment's clock."""
        self._lower = cast(asyncio.Transport, transport)  # uvloop's transports are not subclasses
        now_ns = self._clock.now_ns()
        up, down = (StreamPath(self._impairment, each, now_ns) for each in ("up", "down"))
        self._leaving = DelayedBytes(up, self._clock, self._leave, self._end_at)
        self._arriving = DelayedBytes(down, self._clock, self._deliver, self._end_at)
        self._slow_end = down.closes_later_ns > 0
        self._protocol.connection_made(self)
        for path in (up, down):
            if path.ends_ns is not None:
                self._end_at(path.ends_ns)
            if path.resets_ns is not None:
                self._ending.put(path.resets_ns, self._reset)

    def data_received(self, data: bytes) -> None:
        """Delay bytes that arrived."""
        self._arriving.put(data, self._stamp_below)
        if self._arriving.size > self._most_arriving and not self._full:
            self._full = True
            self._lower.pause_reading()

    def eof_received(self) -> bool:
        """Forward the end of the stream after earlier arrivals; return whether to keep it open."""
        self._arriving.then(self._end, closes=True)
        return self._slow_end and self._lower.can_write_eof()  # TLS closes both directions at once

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward the end of the connection after earlier arrivals."""
        self._ending.close()
        if self._was_reset:
            exc = ConnectionResetError(errno.ECONNRESET, "the impairment reset the connection")
        self._leaving.close()
        self._arriving.then(functools.partial(self._lose, exc))

    def pause_writing(self) -> None:
        self._pause("below")

    def resume_writing(self) -> None:
        self._resume("below")

    def pause_reading(self) -> None:
        """Pause the underlying stream. Delayed bytes still arrive."""
        self._protocol_paused = True
        self._lower.pause_reading()

    def resume_reading(self) -> None:
        self._protocol_paused = False
        if not self._full:
            self._lower.resume_reading()

    @property
    def _stamp_below(self) -> Stamp:
        lower = self._lower
        if isinstance(lower, StreamTransport):
            return lower.stamp
        return Stamp(self._clock.now_ns(), StampKind.USER)

    def _deliver(self, data: bytes, stamp: Stamp) -> None:
        self._stamp = stamp
        self._protocol.data_received(data)
        if self._full and self._arriving.size <= self._most_arriving // 2:
            self._full = False
            if not self._protocol_paused and not self._lower.is_closing():
                self._lower.resume_reading()

    def _end(self) -> None:
        if not self._protocol.eof_received() and self._slow_end:
            self.close()

    def _end_at(self, at_ns: int) -> None:
        """Close the connection at `at_ns` unless the other direction has already set an end."""
        if self._ends_ns is None:
            self._ends_ns = at_ns
            self._ending.put(at_ns, self._lower.close)

    def _reset(self) -> None:
        """Reset the connection for both sides unless it has ended."""
        if not self._lower.is_closing():
            reset_on_close(self._lower.get_extra_info("socket"))
            self._was_reset = True
            self._drop()
            self._lower.abort()

    def _lose(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, asyncio.Protocol()
        protocol.connection_lost(exc)

    # -- Protocol side ------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        self._leaving.put(bytes(data), Stamp(self._clock.now_ns(), StampKind.USER))
        if self._most_leaving is not None and self._leaving.size > self._most_leaving:
            self._pause("here")

    def _leave(self, data: bytes, _stamp: Stamp) -> None:
        self._lower.write(data)
        if self._most_leaving is not None and self._leaving.size <= self._most_leaving // 2:
            self._resume("here")

    def _pause(self, where: str) -> None:
        """Pause the protocol's writing because too many bytes are pending at `where`."""
        if not self._too_much_waits:
            self._protocol.pause_writing()
        self._too_much_waits.add(where)

    def _resume(self, where: str) -> None:
        """Resume the protocol's writing once no buffer has too many bytes."""
        if where in self._too_much_waits:
            self._too_much_waits.remove(where)
            if not self._too_much_waits:
                self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        """Return whether the underlying stream can be closed in one direction."""
        return self._lower.can_write_eof()

    def write_eof(self) -> None:
        self._leaving.then(self._lower.write_eof, closes=True)

    def get_write_buffer_size(self) -> int:
        return self._leaving.size + self._lower.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._lower.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._lower.is_closing()

    def close(self) -> None:
        """Close the connection once all bytes are sent."""
        self._leaving.then(self._lower.close, closes=True)

    def abort(self) -> None:
        self._ending.close()
        self._drop()
        self._lower.abort()

    def _drop(self) -> None:
        self._leaving.close()
        self._arriving.close()
