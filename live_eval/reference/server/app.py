"""The reference endpoint as one aiohttp application: routes, sessions, and serving them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby

import orjson
from aiohttp import WSCloseCode, web

from live_eval.http.connections import CLOSE_TIMEOUT_S, Connections
from live_eval.http.connections import serve as serve_application
from live_eval.reference.engine.events import CloseConnection
from live_eval.reference.faults.accept import ConnectionFaults
from live_eval.reference.faults.catalogue import FaultLayer
from live_eval.reference.protocols.gemini import SessionStore
from live_eval.reference.server.authentication import RefusedError, refused
from live_eval.reference.server.host import SessionHost
from live_eval.reference.server.routes import MODEL, ROUTES, Route, SessionRequest
from live_eval.reference.server.signalling import WebRtcSessions
from live_eval.reference.server.site import SocketChannel, StampedSite
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.stream import StampedTransport

__all__ = ["MODEL", "Endpoint", "serve"]

# Largest request body: an offer, or the settings of a session.
_MAX_BODY_BYTES = 256 * 1024


class Endpoint:
    """The reference endpoint as an application: its routes, and its sessions over WebSocket.

    Args:
        host: What all sessions share; closed with the application.
    """

    def __init__(self, host: SessionHost) -> None:
        self.host = host
        self._stored_sessions = SessionStore()
        self._connection_faults = ConnectionFaults(host.settings.faults, host.schedule)
        self._seats: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._open: set[web.WebSocketResponse[bool]] = set()
        self._webrtc_sessions = WebRtcSessions(host)
        self.connections = Connections(host.clock)

    @property
    def connection_faults(self) -> ConnectionFaults | None:
        """The faults of new connections; None if no fault strikes them."""
        return self._connection_faults if self.host.settings.faults.in_layers(FaultLayer.ACCEPT) else None

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[self.connections.middleware])
        app.router.add_get("/healthz", self._health)
        for path, routes in groupby(ROUTES, lambda route: route.path):
            app.router.add_get(path, self._entrance(tuple(routes)))
        self._webrtc_sessions.mount(app)
        app.on_shutdown.append(self._close_all)
        app.on_cleanup.append(self._let_go)
        return app

    async def _close_all(self, app: web.Application) -> None:
        for socket in tuple(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the endpoint stops")
        await self._webrtc_sessions.close()

    async def _let_go(self, app: web.Application) -> None:
        await self.host.close()

    async def _health(self, request: web.Request) -> web.Response:
        body = {"status": "ok", "sessions": self.host.sessions, "calibrate": self.host.settings.calibrate}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    def _entrance(self, routes: Sequence[Route]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler of a path."""

        async def enter(request: web.Request) -> web.StreamResponse:
            return await self._enter(request, next(route for route in routes if route.suits(request.headers)))

        return enter

    async def _enter(self, request: web.Request, route: Route) -> web.StreamResponse:
        refusal: CloseConnection | None = None
        settings = self.host.settings
        try:
            admitted = self.host.admit(request, route.parameters)
            with self.host.handshake():
                settings, answer = await self.host.begin(request, admitted)
            if answer is not None:
                return answer
        except RefusedError as error:
            refusal = route.refusals.get(error.status)
            if refusal is None:
                return refused(error)
        socket: web.WebSocketResponse[bool] = web.WebSocketResponse(
            compress=False,
            max_msg_size=route.most_bytes,
            protocols=route.subprotocols,
            timeout=CLOSE_TIMEOUT_S,
        )
        if not socket.can_prepare(request).ok:
            return refused(RefusedError(426, "upgrade_required", "Expected a WebSocket handshake."))
        stream = request.transport
        assert isinstance(stream, StampedTransport)
        framing = stream.framing = WebSocketFraming(keeps_stamps=True)
        await socket.prepare(request)
        if refusal is not None:
            await socket.close(code=refusal.code, message=refusal.reason.encode())
            return socket
        channel = SocketChannel(socket, framing, stream, binary=route.binary)
        self._open.add(socket)
        try:
            with self.host.session():
                async with self._seats[route.dialect] if route.exclusive else contextlib.nullcontext():
                    engine = self.host.engine(settings, route.config)
                    expires_at = self.host.expires_at(settings)
                    opening = SessionRequest(request.query, self._stored_sessions, expires_at)
                    # A protocol may load its codec.
                    protocol = await asyncio.to_thread(route.protocol, engine, opening)
                    await self.host.hold(channel, protocol)
        finally:
            self._open.discard(socket)
            if not self._open and not gc.isenabled():
                gc.collect()
        return socket


async def serve(
    endpoint: Endpoint,
    host: str,
    port: int,
    announce: Callable[[int], None],
    *,
    until_end_of: int | None = None,
) -> None:
    """Serve an endpoint on an address; see `live_eval.http.connections.serve`."""
    shared = endpoint.host

    def site(runner: web.AppRunner) -> StampedSite:
        faults, connections = endpoint.connection_faults, endpoint.connections
        return StampedSite(runner, host, port, shared.clock, faults, connections=connections)

    await serve_application(
        endpoint.application(), site, announce, beside=shared.probe.run, until_end_of=until_end_of
    )
