"""Answer HTTP requests in pieces: each request is a session of one turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from aiohttp import web

from live_eval.clock import Clock
from live_eval.reference.engine.engine import Engine
from live_eval.reference.protocols.opens2s import OPENS2S_CONFIG, OpenS2SProtocol
from live_eval.reference.server.authentication import RefusedError, refused
from live_eval.reference.server.host import SessionHost
from live_eval.sockets.resets import reset_on_close
from live_eval.transport import Arrival

__all__ = ["ModelWorker", "RequestChannel"]

_PATH = "/worker_generate_stream"
_MOST_BYTES = 21 * 1024 * 1024


class ModelWorker:
    """Serve the model worker of OpenS2S."""

    def __init__(
        self, host: SessionHost, protocol: Callable[[Engine], OpenS2SProtocol] = OpenS2SProtocol
    ) -> None:
        self._host = host
        self._protocol = protocol

    def mount(self, app: web.Application) -> None:
        """Add the route."""
        app.router.add_post(_PATH, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            admitted = self._host.admit(request, ())
            with self._host.handshake():
                settings, instead = await self._host.begin(request, admitted)
            if instead is not None:
                return instead
            body = await _body(request)
        except RefusedError as error:
            return refused(error)
        response = web.StreamResponse()
        await response.prepare(request)
        channel = RequestChannel(request, response, body, self._host.clock)
        protocol = self._protocol(self._host.engine(settings, OPENS2S_CONFIG))
        with self._host.session():
            await self._host.run_session(channel, protocol)
        return response


class RequestChannel:
    """A `Channel` that receives one request and sends its response, whose messages end with NUL bytes."""

    def __init__(self, request: web.Request, response: web.StreamResponse, body: bytes, clock: Clock) -> None:
        self._request = request
        self._response = response
        self._received: Arrival | None = Arrival(body, clock.now_ns())
        self._clock = clock
        self._over = asyncio.Event()

    async def receive(self) -> Arrival | None:
        """Return the request, then None once the response has ended."""
        received, self._received = self._received, None
        if received is None:
            await self._over.wait()
        return received

    async def send(self, message: bytes) -> int:
        """Send a message, or drop it if the response has ended; return the send time."""
        await self.send_raw(message + b"\0")
        return self._clock.now_ns()

    async def send_raw(self, data: bytes) -> None:
        """Write bytes into the response."""
        if not self._over.is_set():
            try:
                await self._response.write(data)
            except ConnectionError:  # the client has left
                self._over.set()

    async def close(self, code: int, reason: str) -> None:
        """End the response."""
        if not self._over.is_set():
            self._over.set()
            with contextlib.suppress(ConnectionError):
                await self._response.write_eof()

    def drop(self, *, reset: bool) -> None:
        """End the connection within the response, with RST if `reset`."""
        self._over.set()
        if self._request.transport is not None:
            if reset:
                reset_on_close(self._request.transport.get_extra_info("socket"))
            self._request.transport.abort()


async def _body(request: web.Request) -> bytes:
    """Return the body of a request, which is longer than the application's limit.

    Raises:
        RefusedError: It is too long.
    """
    pieces: list[bytes] = []
    length = 0
    async for piece in request.content.iter_any():
        pieces.append(piece)
        length += len(piece)
        if length > _MOST_BYTES:
            raise RefusedError(413, "message_too_large", f"Expected at most {_MOST_BYTES} bytes.")
    return b"".join(pieces)
