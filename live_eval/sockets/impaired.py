"""Traffic delivered late, twice or never, as an impairment says: UDP datagrams, and the bytes of a stream.

What we send leaves our pacer on time and waits here. What arrives carries its own stamp plus the time that
the damage adds: the moment at which it would have been received.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

from live_eval.clock import Clock
from live_eval.impair import Impairment
from live_eval.impair.packets import PacketPath, is_damaged, is_media
from live_eval.impair.streams import StreamPath
from live_eval.sockets.datagrams import StampedDatagram
from live_eval.sockets.stamps import Stamp
from live_eval.sockets.stream import StreamTransport
from live_eval.types import StampKind

__all__ = ["ImpairedDatagrams", "ImpairedStream"]

_MOST_ARRIVING_BYTES = 16 << 20  # more stay in the kernel until some of them are delivered
_MOST_ARRIVING_PIECES = 10_000


class _DelayLine:
    """Calls actions when they are due, those of one moment in the order in which they were given."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: set[asyncio.Task[None]] = set()

    def put(self, due_ns: int, action: Callable[[], None]) -> None:
        """Call an action at `due_ns`; at once if that has passed and nothing waits."""
        if not self._waiting and due_ns <= self._clock.now_ns():
            action()
            return
        task = asyncio.get_running_loop().create_task(self._clock.run_at(due_ns, action))
        self._waiting.add(task)
        task.add_done_callback(self._done)

    def close(self) -> None:
        """Drop what waits."""
        for task in self._waiting:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._waiting.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "delivery of delayed traffic failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)


class ImpairedDatagrams:
    """The damaged path of one WebRTC connection, over whichever of its sockets.

    Args:
        impairment: What is done to it, with the session's seed.
        clock: Delivers what is late.
    """

    def __init__(self, impairment: Impairment, clock: Clock) -> None:
        self._clock = clock
        self._up, self._down = PacketPath(impairment, "up"), PacketPath(impairment, "down")
        self._leaving, self._arriving = _DelayLine(clock), _DelayLine(clock)
        self._begun = False

    def begin(self) -> None:
        """Damage what travels from now on: the connection has been set up."""
        self._begun = True

    def send(self, data: bytes, leave: Callable[[], None]) -> None:
        """Let a datagram leave when it has gone through the damaged path, if it does."""
        if not (self._begun and is_damaged(data)):
            leave()
            return
        for due_ns in self._up.push(len(data), self._clock.now_ns(), media=is_media(data)):
            self._leaving.put(due_ns, leave)

    def receive(self, datagram: StampedDatagram, deliver: Callable[[StampedDatagram], None]) -> None:
        """Deliver a datagram when it has gone through the damaged path, if it does."""
        if not (self._begun and is_damaged(datagram)):
            deliver(datagram)
            return
        at_ns, kind = datagram.stamp
        for due_ns in self._down.push(len(datagram), at_ns, media=is_media(datagram)):
            datagram.stamp = Stamp(due_ns, kind)
            self._arriving.put(due_ns, functools.partial(deliver, datagram))

    def close(self) -> None:
        """Drop what is under way."""
        self._leaving.close()
        self._arriving.close()


class ImpairedStream(StreamTransport, asyncio.Protocol):
    """A stream whose bytes arrive and leave late, between a stream and the protocol that uses it.

    It passes everything on as it is until `begin`. What arrives is read only as far as a few megabytes are
    under way.

    Args:
        protocol: Is given what arrives.
        impairment: What is done to the stream, with the session's seed.
        clock: Delivers what is late, and stamps what arrives where the stream below does not.
        most_unsent_bytes: At how many waiting bytes the protocol is to pause; None to let them wait without
            limit, so that a slow line never holds up the pacer.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        impairment: Impairment,
        clock: Clock,
        *,
        most_unsent_bytes: int | None = None,
    ) -> None:
        super().__init__()
        self._protocol = protocol
        self._impairment = impairment
        self._clock = clock
        self._most_unsent_bytes = most_unsent_bytes
        self._lower: asyncio.Transport  # from `connection_made` on
        self._up: StreamPath | None = None
        self._down: StreamPath | None = None
        self._leaving, self._arriving, self._ending = _DelayLine(clock), _DelayLine(clock), _DelayLine(clock)
        self._left_ns = self._arrived_ns = 0
        self._unsent = 0
        self._too_much_waits: set[str] = set()
        self._arriving_bytes = self._arriving_pieces = 0
        self._full = self._protocol_paused = False  # the reasons not to read
        self._was_reset = False
        self._ends_ns: int | None = None
        self._stamp: Stamp | None = None

    def begin(self) -> None:
        """Damage what travels from now on: the connection has been set up."""
        now_ns = self._clock.now_ns()
        paths = [StreamPath(self._impairment, each, now_ns) for each in ("up", "down")]
        self._up, self._down = paths
        for path in paths:
            self._end_with(path)
            if path.resets_ns is not None:
                self._ending.put(path.resets_ns, self._reset)

    @property
    def stamp(self) -> Stamp:  # type: ignore[override]
        """Arrival of what is being handled, after the damage."""
        return self._stamp or self._stamp_below

    # -- The side of the network -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the stream: one of ours, or one of the event loop's."""
        self._lower = cast(asyncio.Transport, transport)  # uvloop's are not derived from it
        self._protocol.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Take bytes that arrived."""
        if self._down is None:
            self._protocol.data_received(data)
            return
        at_ns, kind = self._stamp_below
        begin = 0
        for due_ns, end in self._down.push(len(data), at_ns):
            self._arriving_bytes += end - begin
            self._arriving_pieces += 1
            deliver = functools.partial(self._deliver, data[begin:end], Stamp(due_ns, kind))
            self._arriving.put(due_ns, deliver)
            begin, self._arrived_ns = end, due_ns
        self._end_with(self._down)
        if self._arriving_bytes > _MOST_ARRIVING_BYTES or self._arriving_pieces > _MOST_ARRIVING_PIECES:
            self._full = True
            self._lower.pause_reading()

    def eof_received(self) -> bool:
        """Pass the end of the stream on, after what arrived before it.

        Returns:
            Whether the stream below stays open until we close it.
        """
        slow_ns = self._slow_ns(self._down)
        if slow_ns:
            self._arrived_ns = max(self._arrived_ns, self._clock.now_ns()) + slow_ns
        self._arriving.put(self._arrived_ns, self._end)
        return slow_ns > 0 and self._lower.can_write_eof()  # TLS ends in both directions at once

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the end of the connection on, after what arrived before it."""
        self._leaving.close()
        self._ending.close()
        if self._was_reset:
            exc = ConnectionResetError(errno.ECONNRESET, "the impairment reset the connection")
        self._arriving.put(self._arrived_ns, functools.partial(self._lose, exc))

    def pause_writing(self) -> None:
        """Pass on that too much waits to be sent."""
        self._hold_up("below")

    def resume_writing(self) -> None:
        """Pass on that little waits to be sent."""
        self._let_go_on("below")

    def pause_reading(self) -> None:
        """Leave arrivals to the stream below; those under way still arrive."""
        self._protocol_paused = True
        self._lower.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
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
        self._arriving_bytes -= len(data)
        self._arriving_pieces -= 1
        self._protocol.data_received(data)
        if (
            self._full
            and self._arriving_bytes <= _MOST_ARRIVING_BYTES // 2
            and self._arriving_pieces <= _MOST_ARRIVING_PIECES // 2
        ):
            self._full = False
            if not self._protocol_paused and not self._lower.is_closing():
                self._lower.resume_reading()

    def _end(self) -> None:
        if not self._protocol.eof_received() and self._slow_ns(self._down):
            self.close()

    def _end_with(self, path: StreamPath) -> None:
        """Close the connection when a direction of it says so."""
        if path.ends_ns is not None and self._ends_ns is None:
            self._ends_ns = path.ends_ns
            self._ending.put(path.ends_ns, self._lower.close)

    def _reset(self) -> None:
        """Reset the connection, for both sides, unless it has ended."""
        if self._lower.is_closing():
            return
        sock = self._lower.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._arriving.close()
        self._arrived_ns = 0
        self._was_reset = True
        self._lower.abort()

    @staticmethod
    def _slow_ns(path: StreamPath | None) -> int:
        return 0 if path is None else path.closes_later_ns

    def _lose(self, exc: Exception | None) -> None:
        protocol, self._protocol = self._protocol, asyncio.Protocol()
        protocol.connection_lost(exc)

    # -- The side of the protocol ------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if self._up is None:
            self._lower.write(data)
            return
        begin, whole = 0, bytes(data)
        for due_ns, end in self._up.push(len(whole), self._clock.now_ns()):
            self._unsent += end - begin
            self._leaving.put(due_ns, functools.partial(self._leave, whole[begin:end]))
            begin, self._left_ns = end, due_ns
        self._end_with(self._up)
        if self._most_unsent_bytes is not None and self._unsent > self._most_unsent_bytes:
            self._hold_up("here")

    def _leave(self, data: bytes) -> None:
        self._unsent -= len(data)
        self._lower.write(data)
        if self._most_unsent_bytes is not None and self._unsent <= self._most_unsent_bytes // 2:
            self._let_go_on("here")

    def _hold_up(self, where: str) -> None:
        """Let the protocol pause, since too much waits there to be sent."""
        if not self._too_much_waits:
            self._protocol.pause_writing()
        self._too_much_waits.add(where)

    def _let_go_on(self, where: str) -> None:
        """Let the protocol go on once too much waits nowhere."""
        if where in self._too_much_waits:
            self._too_much_waits.remove(where)
            if not self._too_much_waits:
                self._protocol.resume_writing()

    def can_write_eof(self) -> bool:
        """Return whether the stream below can be closed in one direction."""
        return self._lower.can_write_eof()

    def write_eof(self) -> None:
        """End our direction once all is sent."""
        self._leaving.put(self._leaves_ns, self._lower.write_eof)

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait to be sent."""
        return self._unsent + self._lower.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the stream below knows."""
        return self._lower.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether the connection is closed or about to be."""
        return self._lower.is_closing()

    def close(self) -> None:
        """Close once all is sent."""
        self._leaving.put(self._leaves_ns, self._lower.close)

    @property
    def _leaves_ns(self) -> int:
        """When the end of our direction leaves."""
        slow_ns = self._slow_ns(self._up)
        return max(self._left_ns, self._clock.now_ns()) + slow_ns if slow_ns else self._left_ns

    def abort(self) -> None:
        """Close at once; what is under way is dropped."""
        self._leaving.close()
        self._arriving.close()
        self._ending.close()
        self._arrived_ns = 0
        self._lower.abort()
