"""Listen on TCP and serve WebSocket channels for the reference endpoint, with kernel arrival timestamps."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any, cast

from aiohttp import WSMsgType, web

from live_eval.clock import Clock
from live_eval.http.connection_rate import ConnectionRate
from live_eval.http.connections import CLOSE_TIMEOUT_S, Connections, LimitedSite
from live_eval.reference.faults.handshake import ConnectionFaults
from live_eval.reference.protocols.protocol import TextMessage
from live_eval.reference.server.authentication import RefusedError
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.resets import reset_on_close
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.sockets.stream import StampedTransport
from live_eval.transport import Arrival

__all__ = ["MOST_CONNECTIONS", "SocketChannel", "StampedSite", "accept_socket"]

_BACKLOG = 1_024
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_S = 1.0
MOST_CONNECTIONS = 4_096
"""Maximum number of connections, including plain HTTP requests."""
_NEW_PER_S = 100.0  # new connections per second from one remote machine
_NEW_AT_ONCE = 1_000
_TOO_MANY = b'{"error":{"type":"requests","code":"rate_limit_exceeded","message":"Too many connections."}}'
_REFUSAL = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_TOO_MANY), _TOO_MANY)
)

_log = logging.getLogger(__name__)


class StampedSite(LimitedSite):
    """Listen on a TCP port, timestamp arrivals, and inject faults. See `LimitedSite`.

    Args:
        runner: The application's runner, after setup.
        host: Address to bind.
        port: Port to bind; 0 picks a free port.
        clock: Clock for arrival timestamps if the kernel provides none.
        connection_faults: Faults for new connections, or None.
        connections: The application's connections.
    """

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str,
        port: int,
        clock: Clock,
        connection_faults: ConnectionFaults | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(runner, host, port, most=MOST_CONNECTIONS, connections=connections)
        self._clock, self._connection_faults = clock, connection_faults

    async def _listen(self) -> asyncio.Server:
        found = await asyncio.get_running_loop().getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening: list[socket.socket] = []
        try:
            for family, _, _, _, address in found:
                listening.append(_bound(address[:2], family))
        except OSError:
            for sock in listening:
                sock.close()
            raise
        if self._connection_faults is not None:
            await self._connection_faults.prepare()
        listener = _Listener(listening, self._http, self._has_room, self._clock, self._connection_faults)
        return cast(asyncio.Server, listener)


def _bound(address: tuple[Any, ...], family: int) -> socket.socket:
    """Return a bound socket that does not listen, so that connections are refused."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise type(error)(error.errno, f"{error.strerror} (while attempting to bind {address})") from None
    return sock


class _Listener:
    """Listen on one socket per address, with the part of `asyncio.Server`'s interface that a site uses."""

    def __init__(
        self,
        listening: list[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        has_room: Callable[[], bool],
        clock: Clock,
        connection_faults: ConnectionFaults | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._protocol, self._has_room = protocol, has_room
        self._clock = clock
        self._rate = ConnectionRate(per_s=_NEW_PER_S, burst=_NEW_AT_ONCE)
        self._receive = (
            self._serve
            if connection_faults is None
            else functools.partial(connection_faults.receive, serve=self._serve)
        )
        self.sockets = listening
        opens_s = 0.0 if connection_faults is None else connection_faults.opens_s
        for sock in listening:
            sock.setblocking(False)
            if not opens_s and opens_s is not None:
                self._open(sock)
            elif opens_s is not None:
                self._loop.call_later(opens_s, self._open, sock)

    def close(self) -> None:
        """Stop listening; connections remain open."""
        for sock in self.sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self.sockets = []

    def _accept(self, listening: socket.socket) -> None:
        try:
            while True:
                sock, peer = listening.accept()
                if self._rate.admits(peer[0], self._clock.now_ns()) and self._has_room():
                    self._receive(sock)
                else:
                    _refuse(sock)
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            _log.warning("cannot accept connections at the moment: %s", error)
            self._loop.remove_reader(listening.fileno())
            self._loop.call_later(_EXHAUSTED_S, self._listen, listening)

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the client may have closed the connection
            StampedTransport(sock, ArrivalStamps(self._clock), self._protocol())

    def _open(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            listening.listen(_BACKLOG)
            self._listen(listening)

    def _listen(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)


def _refuse(sock: socket.socket) -> None:
    """Send status 429 on a new connection and close it without waiting for a request."""
    with contextlib.suppress(OSError), sock:
        sock.setblocking(False)
        sock.send(_REFUSAL)
        sock.shutdown(socket.SHUT_WR)


async def accept_socket(
    request: web.Request, *, most_bytes: int, binary: bool, subprotocols: Sequence[str] = ()
) -> SocketChannel:
    """Accept a request for a WebSocket; see `SocketChannel`.

    Args:
        most_bytes: Maximum message size; a longer message closes the connection with code 1009.
        subprotocols: Subprotocols that the client may offer.

    Raises:
        RefusedError: The request is not a WebSocket handshake, or its connection has closed.
    """
    socket: web.WebSocketResponse[bool] = web.WebSocketResponse(
        compress=False, max_msg_size=most_bytes, protocols=subprotocols, timeout=CLOSE_TIMEOUT_S
    )
    if not socket.can_prepare(request).ok:
        raise RefusedError(426, "upgrade_required", "Expected a WebSocket handshake.")
    stream = request.transport
    if not isinstance(stream, StampedTransport):
        raise RefusedError(400, "connection_closed", "The client closed the connection.")
    framing = stream.framing = WebSocketFraming(keeps_stamps=True)
    await socket.prepare(request)
    return SocketChannel(socket, framing, stream, binary=binary)


class SocketChannel:
    """A `Channel` over a WebSocket connection to one client.

    Args:
        socket: The open WebSocket.
        framing: Provides the timestamp of each received message.
        stream: The socket's transport.
        binary: Whether to send binary messages, except for each `TextMessage`.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse[bool],
        framing: WebSocketFraming,
        stream: StampedTransport,
        *,
        binary: bool,
    ) -> None:
        self.socket = socket
        self._framing = framing
        self._stream = stream
        self._kind = WSMsgType.BINARY if binary else WSMsgType.TEXT

    async def receive(self) -> Arrival | None:
        """Wait for the next message; return None once the connection has ended."""
        try:
            message = await self.socket.receive()
        except ConnectionError:  # sending a pong failed
            return None
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            return Arrival(message.data, self._framing.stamps.popleft().at_ns)
        return None

    async def send(self, message: bytes) -> int:
        """Send a message, or drop it if the connection has ended; return the send time."""
        # `receive` reports the end of the connection.
        with contextlib.suppress(ConnectionError):
            kind = WSMsgType.TEXT if isinstance(message, TextMessage) else self._kind
            await self.socket.send_frame(message, kind)
        return self._stream.written_ns

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; `receive` then returns None."""
        await self.socket.close(code=code, message=reason.encode())

    def drop(self, *, reset: bool) -> None:
        """End the connection without a close frame, with RST if `reset`."""
        if reset:
            reset_on_close(self._stream.get_extra_info("socket"))
        self._stream.abort()

    async def send_raw(self, data: bytes) -> None:
        """Write bytes into the TCP stream."""
        self._stream.write(data)
