"""Serve HTTP with limits on idle and excess connections; tolerate clients that disconnect early."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from live_eval.clock import Clock
from live_eval.errors import LiveEvalError

__all__ = ["CLOSE_TIMEOUT_S", "MOST_HEADER_S", "Connections", "LimitedSite", "serve", "stop_event"]

MOST_HEADER_S = 20.0
"""Time without a complete request after which a connection is closed."""

CLOSE_TIMEOUT_S = 2.0
"""Maximum time for connections to close when the server stops."""

_LOOK_NS = 1_000_000_000
_MOST_UNCOLLECTED = 200_000  # objects of about a hundred bytes each

_log = logging.getLogger(__name__)


class Connections:
    """The connections of one server.

    Args:
        most_header_s: Maximum time for receiving a request's headers, and between two requests.
    """

    def __init__(self, clock: Clock, *, most_header_s: float = MOST_HEADER_S) -> None:
        self._clock = clock
        self._most_header_ns = round(most_header_s * 1e9)
        self._answered: set[RequestHandler] = set()
        self._idle_since_ns: dict[RequestHandler, int] = {}  # longest idle first

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Handle a request. A client that disconnects early is not an error."""
        connection = request.protocol
        self._answered.add(connection)
        try:
            return await handler(request)
        except ConnectionError as error:
            _log.debug("a client disconnected before the response: %s", error)
            return web.Response(status=400)  # no client receives this response
        finally:
            self._answered.discard(connection)
            if self._idle_since_ns.pop(connection, None) is not None:
                self._idle_since_ns[connection] = self._clock.now_ns()

    def make_room(self, open_now: Sequence[RequestHandler]) -> bool:
        """Close the longest-idle connection in `open_now`, which is sorted from oldest to newest.

        Returns:
            Whether a connection was closed.
        """
        for connection in chain(self._idle_since_ns, open_now):  # first those idle at the last check
            waits = connection not in self._answered and not _is_receiving(connection)
            if waits and connection.transport is not None:
                connection.force_close()
                self._idle_since_ns.pop(connection, None)
                return True
        return False

    async def watch(self, server: web.Server) -> None:
        """Close connections that stay idle for too long, until cancelled.

        While the garbage collector is off, also collect garbage after many rejected requests.
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
    """Return whether a response is being sent, during which reading is paused."""
    transport = connection.transport
    return transport is not None and (transport.get_write_buffer_size() > 0 or not transport.is_reading())


def stop_event() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def serve(
    app: web.Application,
    site: Callable[[web.AppRunner], LimitedSite],
    announce: Callable[[int], None],
    *,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
    until_end_of: int | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        announce: Called with the port when the server accepts connections.
        until_end_of: File descriptor of a pipe from the parent; the server also stops at its end of file.

    Raises:
        LiveEvalError: The address cannot be bound.
    """
    loop, stop = asyncio.get_running_loop(), stop_event()
    if until_end_of is not None:

        def read(descriptor: int = until_end_of) -> None:
            if not os.read(descriptor, 4096):
                loop.remove_reader(descriptor)
                stop.set()

        loop.add_reader(until_end_of, read)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S)
    await runner.setup()
    try:
        listening = site(runner)
        await listening.start()
        async with asyncio.TaskGroup() as tasks:
            helpers = [tasks.create_task(run()) for run in (listening.watch, beside) if run is not None]
            announce(int(runner.addresses[0][1]))
            await stop.wait()
            for helper in helpers:
                helper.cancel()
    finally:
        await runner.cleanup()


class LimitedSite(web.BaseSite):
    """A TCP listener with a connection limit; at the limit, a new connection replaces an idle one.

    Args:
        port: Port to bind; 0 selects a free port.
        most: Maximum number of concurrent connections. At the limit, if no connection is idle, a new
            connection is closed immediately.
        tls: Settings for https; None for http.
    """

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str,
        port: int,
        *,
        most: int,
        connections: Connections,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._host, self._port, self._most, self._connections = host, port, most, connections

    @property
    def name(self) -> str:
        """The URL."""
        return f"{'http' if self._ssl_context is None else 'https'}://{self._host}:{self._port}"

    async def start(self) -> None:
        """Start listening.

        Raises:
            LiveEvalError: The address cannot be bound.
        """
        await super().start()
        assert self._runner.server is not None
        self._http = self._runner.server  # the runner drops the site while connections may be pending
        try:
            self._server = await self._listen()
        except OSError as error:
            where = f"{self._host} port {self._port}"
            if error.errno == errno.EADDRINUSE:  # asyncio's text repeats the address
                raise LiveEvalError(
                    f"cannot listen on {where}: the port is in use; --port 0 picks a free port"
                ) from None
            raise LiveEvalError(f"cannot listen on {where}: {error.strerror or error}") from None

    async def watch(self) -> None:
        """Close connections that stay idle for too long, until cancelled."""
        await self._connections.watch(self._http)

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: self._http() if self._has_room() else _Refusal(),
            self._host,
            self._port,
            ssl=self._ssl_context,
        )

    def _has_room(self) -> bool:
        open_now = self._http.connections
        return len(open_now) < self._most or self._connections.make_room(open_now)


class _Refusal(asyncio.Protocol):
    """A protocol that closes its connection immediately."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
