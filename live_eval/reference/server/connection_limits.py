"""Handling of HTTP connections that hang up early or stay idle."""

from __future__ import annotations

import gc
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from live_eval.clock import Clock

__all__ = ["MOST_HEADER_S", "Connections"]

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
        self._idle_since_ns: dict[RequestHandler, int] = {}

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
            if connection in self._idle_since_ns:
                self._idle_since_ns[connection] = self._clock.now_ns()

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
                if connection not in self._answered and now_ns - since_ns >= self._most_header_ns:
                    connection.force_close()
            await self._clock.sleep_until(now_ns + min(_LOOK_NS, self._most_header_ns))
