"""Handling of a server's HTTP connections that hang up early, stay idle or are too many."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from operator import itemgetter

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from live_eval.clock import Clock

__all__ = ["MOST_HEADER_S", "Connections", "LimitedSite"]

MOST_HEADER_S = 20.0
"""A connection without a complete request for this long is closed."""

_LOOK_NS = 1_000_000_000
_MOST_UNCOLLECTED = 200_000  # objects, of some hundred bytes each

_log = logging.getLogger(__name__)


class Connections:
    """The connections of one server.

    Args:
        clock: The clock.
        most_header_s: Longest time to receive the headers of a request, or between two requests.
    """

    def __init__(self, clock: Clock, *, most_header_s: float = MOST_HEADER_S) -> None:
        self._clock = clock
        self._most_header_ns = round(most_header_s * 1e9)
        self._answered: set[RequestHandler] = set()
        self._idle_since_ns: dict[RequestHandler, int] = {}  # those that wait longest first

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Answer a request; a client that hangs up first is not an error."""
        connection = request.protocol
        self._answered.add(connection)
        try:
            return await handler(request)
        except ConnectionError as error:
            _log.debug("a client hung up before the answer: %s", error)
            return web.Response(status=400)  # reaches nobody
        finally:
            self._answered.discard(connection)
            if self._idle_since_ns.pop(connection, None) is not None:
                self._idle_since_ns[connection] = self._clock.now_ns()

    def make_room(self, open_now: Sequence[RequestHandler]) -> bool:
        """Close the connection that has kept the server waiting for a request for longest.

        Args:
            open_now: The server's connections, the oldest first.

        Returns:
            Whether there was one.
        """
        for connection in chain(self._idle_since_ns, open_now):  # at the latest look, and since
            waits = connection not in self._answered and not _is_receiving(connection)
            if waits and connection.transport is not None:
                connection.force_close()
                self._idle_since_ns.pop(connection, None)
                return True
        return False

    async def watch(self, server: web.Server) -> None:
        """Close connections that keep the server waiting for a request, until cancelled.

        Where the garbage collector is off, also collect what refused requests leave, once it is a lot.
        """
        while True:
            if not gc.isenabled() and gc.get_count()[0] > _MOST_UNCOLLECTED:
                gc.collect()
            now_ns = self._clock.now_ns()
            open_now = server.connections
            self._idle_since_ns = {each: self._idle_since_ns.get(each, now_ns) for each in open_now}
            for connection, since_ns in self._idle_since_ns.items():
                if _is_receiving(connection):
                    self._idle_since_ns[connection] = now_ns
                elif connection not in self._answered and now_ns - since_ns >= self._most_header_ns:
                    connection.force_close()
            self._idle_since_ns = dict(sorted(self._idle_since_ns.items(), key=itemgetter(1)))
            await self._clock.sleep_until(now_ns + min(_LOOK_NS, self._most_header_ns))


def _is_receiving(connection: RequestHandler) -> bool:
    """Return whether an answer is on its way: files are sent after the middleware, with reading paused."""
    transport = connection.transport
    return transport is not None and (transport.get_write_buffer_size() > 0 or not transport.is_reading())


class LimitedSite(web.BaseSite):
    """Listens on a TCP port; beyond a limit, a new connection displaces one that sends no request.

    Args:
        runner: The application's runner, set up.
        host: Address to bind.
        port: Port to bind; 0 picks a free one.
        most: Most connections at a time; where all are being answered, further ones are closed at once.
        connections: The server's connections.
    """

    def __init__(
        self, runner: web.BaseRunner, host: str, port: int, *, most: int, connections: Connections
    ) -> None:
        super().__init__(runner)
        self._host, self._port, self._most, self._connections = host, port, most, connections

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
        self._server = await self._listen()

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: self._protocol() if self._has_room() else _Refusal(), self._host, self._port
        )

    def _protocol(self) -> RequestHandler:
        assert self._runner.server is not None
        return self._runner.server()

    def _has_room(self) -> bool:
        assert self._runner.server is not None
        open_now = self._runner.server.connections
        return len(open_now) < self._most or self._connections.make_room(open_now)


class _Refusal(asyncio.Protocol):
    """Closes its connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
