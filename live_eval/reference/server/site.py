"""Where the reference endpoint listens, and its WebSockets; what arrives carries the kernel's stamps."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from typing import cast

from aiohttp import WSMsgType, web

from live_eval.clock import Clock
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.sockets.stream import StampedTransport
from live_eval.transport import Arrival

__all__ = ["MOST_CONNECTIONS", "SocketChannel", "StampedSite"]

_BACKLOG = 1_024
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_EXHAUSTED_S = 1.0
MOST_CONNECTIONS = 4_096
"""Most connections at a time, sessions and requests together; further ones are closed at once."""

_log = logging.getLogger(__name__)


class StampedSite(web.BaseSite):
    """Listens on a TCP port.

    Args:
        runner: The application's runner, set up.
        host: Address to bind.
        port: Port to bind; 0 picks a free one.
        clock: Stamps arrivals where the kernel does not.
    """

    def __init__(self, runner: web.BaseRunner, host: str, port: int, clock: Clock) -> None:
        super().__init__(runner)
        self._host, self._port, self._clock = host, port, clock

    @property
    def name(self) -> str:
        """The URL."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen from now on.

        Raises:
            OSError: The address cannot be bound.
        """
        await super().start()
        server = self._runner.server
        assert server is not None
        found = await asyncio.get_running_loop().getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        listening: list[socket.socket] = []
        try:
            for family, _, _, _, address in found:
                listening.append(socket.create_server(address[:2], family=family, backlog=_BACKLOG))
        except OSError:
            for sock in listening:
                sock.close()
            raise
        self._server = cast(asyncio.Server, _Listener(listening, server, self._clock))


class _Listener:
    """Sockets that listen, one for each address; as much of `asyncio.Server` as a site uses."""

    def __init__(self, listening: list[socket.socket], server: web.Server, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = server
        self._clock = clock
        self.sockets = listening
        for sock in listening:
            sock.setblocking(False)
            self._listen(sock)

    def close(self) -> None:
        """Listen no more; connections stay."""
        for sock in self.sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self.sockets = []

    def _accept(self, listening: socket.socket) -> None:
        try:
            while True:
                sock, _ = listening.accept()
                if len(self._server.connections) >= MOST_CONNECTIONS:
                    sock.close()
                    continue
                with contextlib.suppress(OSError):  # it may be gone already
                    StampedTransport(sock, ArrivalStamps(self._clock), self._server())
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            _log.warning("cannot accept a connection now: %s", error)
            self._loop.remove_reader(listening.fileno())
            self._loop.call_later(_EXHAUSTED_S, self._listen, listening)

    def _listen(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)


class SocketChannel:
    """A connection to one client.

    Args:
        socket: The WebSocket, open.
        framing: Holds the stamp of each message that has arrived.
        stream: What carries it.
        binary: Whether to send binary messages.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse[bool],
        framing: WebSocketFraming,
        stream: StampedTransport,
        *,
        binary: bool,
    ) -> None:
        self._socket = socket
        self._framing = framing
        self._stream = stream
        self._kind = WSMsgType.BINARY if binary else WSMsgType.TEXT

    async def receive(self) -> Arrival | None:
        """Wait for the next message; None once the connection has ended."""
        try:
            message = await self._socket.receive()
        except ConnectionError:  # a pong could not be sent any more
            return None
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            return Arrival(message.data, self._framing.stamps.popleft().at_ns)
        return None

    async def send(self, message: bytes) -> int:
        """Send a message, or drop it if the connection has ended; return when."""
        # `receive` reports the end of the connection; drop what cannot be sent.
        with contextlib.suppress(ConnectionError):
            await self._socket.send_frame(message, self._kind)
        return self._stream.written_ns

    async def close(self, code: int, reason: str) -> None:
        """Close the connection; `receive` returns None from then on."""
        await self._socket.close(code=code, message=reason.encode())
