"""Define TCP connections with kernel-stamped reads, and TLS over them. Both are asyncio transports.

asyncio's own transports read with `recv`, which drops the timestamps.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Any, cast

from live_eval.sockets.framing import Framing, TlsFraming
from live_eval.sockets.stamps import ANCILLARY_BYTES, ArrivalStamps, Stamp

__all__ = ["StampedTransport", "StreamTransport", "TlsTransport", "encrypted"]

_READ_BYTES = 65_536
_HIGH_WATER_BYTES = 65_536


class StreamTransport(asyncio.Transport):
    """A transport that exposes the arrival time of the bytes being received."""

    stamp: Stamp


class StampedTransport(StreamTransport):
    """A transport over a connected TCP socket.

    Raises:
        OSError: The connection has already ended; the socket is then closed.
    """

    def __init__(self, sock: socket.socket, stamps: ArrivalStamps, protocol: asyncio.Protocol) -> None:
        try:
            names = {"peername": sock.getpeername(), "sockname": sock.getsockname()}
        except OSError:  # the peer has disconnected
            sock.close()
            raise
        super().__init__({"socket": sock, **names})
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._stamps = stamps
        self._protocol = protocol
        self._unsent = bytearray()
        self._partial = bytearray()  # the part of the current frame received so far
        self._rest = 0  # number of bytes missing in the frame; 0 while unknown
        self._reading = self._closing = self._lost = False
        self._ends_writing = self._protocol_paused = False
        self.framing: Framing | None = None
        """The stream's framing: only complete frames are passed on, except for long ones. None to read all
        bytes.
        """
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stamps.enable(sock)
        self.stamp = stamps.stamp(())
        self.written_ns = self.stamp.at_ns
        """Time at which bytes were last passed to the kernel."""
        protocol.connection_made(self)
        self.resume_reading()

    # -- Reading -----------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        """Stop reading. Arrivals wait in the kernel, which continues to timestamp them."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock.fileno())

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._sock.fileno(), self._read)

    def _read(self) -> bool:
        """Read part of a frame, and pass the frame on once complete; return whether more data may be pending.

        The next frame is read in the loop's next iteration, after any actions that are due.
        """
        framing, rest, sized = self.framing, self._rest, True
        try:
            if framing is None:
                rest = _READ_BYTES
            elif not rest:
                head = self._sock.recv(framing.look, socket.MSG_PEEK)
                size = framing.size(bytes(self._partial) + head if self._partial else head)
                sized = size > 0
                rest = size - len(self._partial) if sized else len(head)
            data, ancillary, _, _ = self._sock.recvmsg(
                rest if rest < _READ_BYTES else _READ_BYTES, ANCILLARY_BYTES
            )
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._lose(error)
            return False
        if not data:
            self._update_stamp(ancillary)
            self._end()
            return False
        if framing is not None:
            self._rest = rest - len(data) if sized else 0
            if self._rest or not sized:
                self._keep(data)
                return True
        self._update_stamp(ancillary)
        if framing is not None:
            framing.ended(self.stamp)
        self._pass_on(data)
        return True

    def _keep(self, data: bytes) -> None:
        """Buffer part of a frame; pass on the pieces of a long frame."""
        if len(self._partial) < _READ_BYTES:
            self._partial += data
        else:
            self._pass_on(data)

    def _update_stamp(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        stamp = self._stamps.stamp(ancillary)
        if stamp.at_ns > self.stamp.at_ns:  # a mapping error must not reorder arrivals
            self.stamp = stamp

    def _pass_on(self, data: bytes) -> None:
        if self._partial:
            data = bytes(self._partial + data)
            self._partial.clear()
        self._protocol.data_received(data)

    def _end(self) -> None:
        """Handle the end of the peer's data."""
        if self._partial:
            self._pass_on(b"")
        self.pause_reading()
        if not self._protocol.eof_received():
            self.close()

    # -- Writing -----------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Pass bytes to the kernel immediately, and buffer what it does not accept."""
        if self._lost or self._ends_writing or not data:
            return
        if not self._unsent:
            self.written_ns = self._stamps.now_ns()
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._break(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._loop.add_writer(self._sock.fileno(), self._writable)
        self._unsent += data
        if len(self._unsent) > _HIGH_WATER_BYTES and not self._protocol_paused:
            self._protocol_paused = True
            self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        """Return True, because TCP can be closed in one direction."""
        return True

    def write_eof(self) -> None:
        if not self._ends_writing:
            self._ends_writing = True
            if not self._unsent:
                self._shut_down()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def _writable(self) -> None:
        try:
            sent = self._sock.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._break(error)
            return
        del self._unsent[:sent]
        if self._protocol_paused and len(self._unsent) <= _HIGH_WATER_BYTES // 4:
            self._protocol_paused = False
            self._protocol.resume_writing()
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())
            if self._ends_writing:
                self._shut_down()
            if self._closing:
                self._lose(None)

    def _break(self, error: OSError) -> None:
        """Handle a failed write after reading pending bytes, which may contain the reason."""
        self._ends_writing = True
        if self._unsent:
            self._unsent.clear()
            self._loop.remove_writer(self._sock.fileno())
        self._loop.call_soon(self._read_rest, error)

    def _read_rest(self, error: OSError) -> None:
        while self._reading and self._read():
            pass
        self._lose(error)

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    # -- Ending ------------------------------------------------------------------------------------------

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close once all bytes are sent."""
        self.pause_reading()
        if not self._closing:
            self._closing = True
            if not self._unsent:
                self._lose(None)

    def abort(self) -> None:
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self.pause_reading()
        self._lost = self._closing = True
        if self._unsent:
            self._unsent.clear()
            self._loop.remove_writer(self._sock.fileno())
        self._loop.call_soon(self._finish, error)

    def _finish(self, error: Exception | None) -> None:
        self._sock.close()
        protocol, self._protocol = self._protocol, asyncio.Protocol()  # breaks the reference cycle
        protocol.connection_lost(error)


class TlsTransport(StreamTransport, asyncio.Protocol):
    """TLS over a stream transport; created by `encrypted`. Acts as the transport's protocol."""

    def __init__(
        self, lower: StreamTransport, context: ssl.SSLContext, host: str, protocol: asyncio.Protocol
    ) -> None:
        super().__init__()
        self._lower = lower
        self._protocol = protocol
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._shaken: asyncio.Future[None] | None = asyncio.get_running_loop().create_future()
        self._error: ssl.SSLError | None = None
        if isinstance(lower, StampedTransport):
            lower.framing = TlsFraming()
        lower.set_protocol(self)

    @property
    def stamp(self) -> Stamp:  # type: ignore[override]
        """Arrival of the record being handled."""
        return self._lower.stamp

    async def handshake(self) -> None:
        """Perform the TLS handshake.

        Raises:
            OSError: The handshake failed; `ssl.SSLError` if TLS reports the reason.
        """
        assert self._shaken is not None
        self._shake_hands()
        await self._shaken
        if self._lower.is_closing():
            raise ConnectionResetError("the connection closed right after the handshake")
        self._shaken = None
        self._protocol.connection_made(self)
        self._read()  # data that arrived with the end of the handshake

    def _shake_hands(self) -> None:
        assert self._shaken is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except OSError as error:
            if not self._shaken.done():
                self._shaken.set_exception(error)
        else:
            if not self._shaken.done():
                self._shaken.set_result(None)
        self._flush()

    # -- Network side -------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Decrypt bytes that arrived."""
        self._incoming.write(data)
        if self._shaken is None:
            self._read()
        elif not self._shaken.done():
            self._shake_hands()

    def eof_received(self) -> None:
        """Handle the end of the stream, with or without a close_notify."""
        if self._shaken is None:
            self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._shaken is None:
            protocol, self._protocol = self._protocol, asyncio.Protocol()
            protocol.connection_lost(self._error or exc)
        elif not self._shaken.done():
            self._shaken.set_exception(exc or ConnectionResetError("the connection ended"))

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def _read(self) -> None:
        try:
            while data := self._tls.read(_READ_BYTES):
                self._protocol.data_received(data)
            self._protocol.eof_received()
            self._lower.close()
        except ssl.SSLWantReadError:
            self._flush()  # TLS itself may respond, for example to a key update
        except ssl.SSLError as error:
            self._error = error
            self._flush()  # an alert
            self._lower.abort()

    def pause_reading(self) -> None:
        """Pause the underlying connection."""
        self._lower.pause_reading()

    def resume_reading(self) -> None:
        self._lower.resume_reading()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._lower.write(self._outgoing.read())

    # -- Protocol side ------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt and send bytes."""
        if data and not self._lower.is_closing():
            self._tls.write(data)
            self._flush()

    def can_write_eof(self) -> bool:
        """Return False, because TLS is closed in both directions at once."""
        return False

    def get_write_buffer_size(self) -> int:
        return self._lower.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._lower.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def is_closing(self) -> bool:
        return self._lower.is_closing()

    def close(self) -> None:
        """Send close_notify, then close."""
        if not self._lower.is_closing():
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        self._lower.close()

    def abort(self) -> None:
        self._lower.abort()


async def encrypted(
    lower: StreamTransport, context: ssl.SSLContext, host: str, protocol: asyncio.Protocol
) -> TlsTransport:
    """Set up TLS over a connection as the client.

    Args:
        host: Host name that the certificate must match.

    Raises:
        OSError: The handshake failed and the connection is closed; `ssl.SSLError` if TLS reports the reason.
    """
    transport = TlsTransport(lower, context, host, protocol)
    try:
        await transport.handshake()
    except BaseException:
        lower.abort()
        raise
    return transport
