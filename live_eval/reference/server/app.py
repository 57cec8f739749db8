"""The reference endpoint as one aiohttp application: routes, sessions, and serving them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import orjson
from aiohttp import WSCloseCode, web

from live_eval.clock import Clock, SystemClock
from live_eval.errors import LiveEvalError, UsageError
from live_eval.http.connections import Connections
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import CloseConnection
from live_eval.reference.engine.reply_plan import WireReply
from live_eval.reference.faults.accept import ConnectionFaults
from live_eval.reference.faults.catalogue import FaultLayer
from live_eval.reference.faults.requests import apply_request_faults
from live_eval.reference.faults.schedule import FaultSchedule
from live_eval.reference.protocols.gemini import SessionStore
from live_eval.reference.protocols.protocol import ServerProtocol
from live_eval.reference.responders.responder import Responder
from live_eval.reference.responders.speech_models import SpeechModels
from live_eval.reference.server.authentication import RefusedError, authenticate, refused
from live_eval.reference.server.connection import Channel, ServerSession, packer
from live_eval.reference.server.output_buffer import SessionAudio
from live_eval.reference.server.routes import MODEL, ROUTES, Route, SessionRequest
from live_eval.reference.server.signalling import WebRtcSessions
from live_eval.reference.server.site import SocketChannel, StampedSite
from live_eval.reference.settings import ReferenceSettings
from live_eval.reference.truth import TrueTurn, TrueUtterance, TruthFile
from live_eval.session.event_loop import LoopProbe
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.stream import StampedTransport
from live_eval.types import Secret

__all__ = ["MODEL", "Endpoint", "serve"]

_log = logging.getLogger(__name__)

# Largest request body: an offer, or the settings of a session.
_MAX_BODY_BYTES = 256 * 1024
_LAG_BEFORE_VOICE_END_NS = 200_000_000
_MOST_SESSIONS = 2_000
_MOST_HANDSHAKES = 512  # more than any run opens sessions at once
_CLOSE_TIMEOUT_S = 2.0
_WAIT = {"Retry-After": "1"}
# Encoding one takes the interpreter from the sessions under way.
_FIXED_REPLIES = 16


class Endpoint:
    """The reference endpoint: what all sessions share.

    Args:
        settings: Default behaviour of sessions; their URL can override it.
        speech_models: Voice detector and recogniser; closed with the application.
        responder: Finds replies; closed with the application.
        token: Bearer token that clients must present, or None to accept any client.
        truth: File for the true times, or None.
        clock: The clock of all sessions.
    """

    def __init__(
        self,
        settings: ReferenceSettings,
        speech_models: SpeechModels,
        responder: Responder,
        *,
        token: Secret | None = None,
        truth: TruthFile | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._speech_models = speech_models
        self._responder = responder
        self._token = token
        self._truth = truth
        self.clock = clock or SystemClock()
        self.probe = LoopProbe(self.clock)  # of the event loop: the error bar of the true times
        self._stored_sessions = SessionStore()
        self._schedule = FaultSchedule()
        self._connection_faults = ConnectionFaults(settings.faults, self._schedule)
        self._seats: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._handshakes = 0
        self._open: set[web.WebSocketResponse[bool]] = set()
        self._fixed_replies: dict[tuple[Hashable, ...], WireReply] = {}
        self._webrtc_sessions = WebRtcSessions(self)
        self.connections = Connections(self.clock)

    @property
    def connection_faults(self) -> ConnectionFaults | None:
        """The faults of new connections; None if no fault strikes them."""
        return self._connection_faults if self._settings.faults.in_layers(FaultLayer.ACCEPT) else None

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

    @property
    def sessions(self) -> int:
        """How many sessions there are now."""
        return len(self._open) + len(self._webrtc_sessions)

    async def _close_all(self, app: web.Application) -> None:
        for socket in tuple(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the endpoint stops")
        await self._webrtc_sessions.close()

    async def _let_go(self, app: web.Application) -> None:
        await self._responder.close()
        await self._speech_models.close()

    async def _health(self, request: web.Request) -> web.Response:
        body = {
            "status": "ok",
            "sessions": self.sessions,
            "calibrate": self._settings.calibrate,
        }
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    # -- Coming in --------------------------------------------------------------------------------------

    def admit(
        self, request: web.Request, parameters: Collection[str], *, known: bool = False
    ) -> ReferenceSettings:
        """Return the settings of the requested session.

        Args:
            request: The request.
            parameters: URL parameters that belong to the dialect.
            known: Whether the client is already authenticated.

        Raises:
            RefusedError: There is none, or there are too many sessions.
        """
        if not known:
            authenticate(request, self._token)
        if self.sessions >= _MOST_SESSIONS:
            message = f"Expected at most {_MOST_SESSIONS} sessions at a time."
            raise RefusedError(429, "rate_limit_exceeded", message, headers=_WAIT)
        query = {key: value for key, value in request.query.items() if key not in parameters}
        try:
            settings = self._settings.overridden(query)
        except UsageError as error:
            raise RefusedError(400, "invalid_value", str(error)) from None
        return settings

    async def begin(
        self, request: web.Request, settings: ReferenceSettings
    ) -> tuple[ReferenceSettings, web.Response | None]:
        """Return the settings of a session with the faults that strike it.

        Returns:
            The settings, and what to answer in place of a session, if a fault says so.

        Raises:
            RefusedError: A fault refuses the request.
            ConnectionError: A fault has ended the connection.
        """
        script = self._schedule.of_session(settings.faults)
        return replace(settings, faults=script), await apply_request_faults(request, script, self.clock)

    @contextlib.contextmanager
    def handshake(self) -> Iterator[None]:
        """Count a handshake that goes on meanwhile: a session that has been asked for and is not open yet.

        Raises:
            RefusedError: There are too many.
        """
        if self._handshakes >= _MOST_HANDSHAKES:
            message = f"Expected at most {_MOST_HANDSHAKES} handshakes at a time."
            raise RefusedError(429, "rate_limit_exceeded", message, headers=_WAIT)
        self._handshakes += 1
        try:
            yield
        finally:
            self._handshakes -= 1

    def engine(self, settings: ReferenceSettings, config: EngineConfig) -> Engine:
        """Return the engine of a new session."""
        session_id = f"sess_{secrets.token_hex(8)}"
        return Engine(session_id, settings, config, waits_for_words=self._responder.waits_for_words)

    def expires_at(self, settings: ReferenceSettings) -> int:
        """Return when a session that starts now expires, in seconds since the Unix epoch."""
        return self.clock.wall_ns() // 1_000_000_000 + settings.session_limit_s

    async def hold(
        self, channel: Channel, protocol: ServerProtocol, sound: SessionAudio | None = None
    ) -> None:
        """Run a session until its connection ends, with a track if audio does not travel in messages.

        Never raises.
        """
        session_id = protocol.engine.session_id
        fixed = await asyncio.to_thread(self._packed, protocol)
        link = ServerSession(
            channel, protocol, self._speech_models, self._responder, fixed, self.clock, self._keep, sound
        )
        try:
            await link.run()
        except Exception:
            _log.exception("session %s ended because of a bug in this endpoint", session_id)
            await channel.close(WSCloseCode.INTERNAL_ERROR, "internal error")

    def _entrance(self, routes: Sequence[Route]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the handler of a path."""

        async def enter(request: web.Request) -> web.StreamResponse:
            return await self._enter(request, next(route for route in routes if route.suits(request.headers)))

        return enter

    async def _enter(self, request: web.Request, route: Route) -> web.StreamResponse:
        refusal: CloseConnection | None = None
        settings = self._settings
        try:
            admitted = self.admit(request, route.parameters)
            with self.handshake():
                settings, answer = await self.begin(request, admitted)
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
            timeout=_CLOSE_TIMEOUT_S,
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
        self._open.add(socket)
        try:
            async with self._seats[route.dialect] if route.exclusive else contextlib.nullcontext():
                engine = self.engine(settings, route.config)
                opening = SessionRequest(request.query, self._stored_sessions, self.expires_at(settings))
                # A protocol may load its codec.
                protocol = await asyncio.to_thread(route.protocol, engine, opening)
                await self.hold(SocketChannel(socket, framing, stream, binary=route.binary), protocol)
        finally:
            self._open.discard(socket)
            if not self._open and not gc.isenabled():
                gc.collect()
        return socket

    def _packed(self, protocol: ServerProtocol) -> WireReply | None:
        engine = protocol.engine
        settings, codec = engine.settings, engine.config.output_codec
        reply = self._responder.fixed(settings)
        if reply is None:
            return None
        tone = (settings.reply_ms, settings.reply_pause_ms, settings.lead_silence_ms)
        key = (type(protocol), codec, settings.faults, *tone, engine.chunk_ms, engine.config.frame_ms)
        known = self._fixed_replies.get(key)
        if known is None:
            known = self._fixed_replies[key] = packer(protocol, codec).pack(reply)
            for oldest in list(self._fixed_replies)[:-_FIXED_REPLIES]:
                self._fixed_replies.pop(oldest, None)
        return known

    def _keep(self, turn: TrueTurn | TrueUtterance) -> None:
        if self._truth is None:
            return
        if isinstance(turn, TrueUtterance):
            self._truth.put_utterance(turn)
            return
        lag_ns: int | None = None
        if turn.voice_end_ns is not None:
            until_ns = turn.voice_end_ns + (turn.voice_to_voice_ns or turn.first_byte_ns or 0)
            reading = self.probe.between(turn.voice_end_ns - _LAG_BEFORE_VOICE_END_NS, until_ns)
            lag_ns = max(reading.lag_ns.tolist(), default=None)
        self._truth.put(turn, lag_ns)


async def serve(
    endpoint: Endpoint,
    host: str,
    port: int,
    announce: Callable[[int], None],
    *,
    until_end_of: int | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        endpoint: What to serve.
        host: Address to bind.
        port: Port to bind; 0 picks a free one.
        announce: Called with the port once the server accepts connections.
        until_end_of: Also stop at the end of this file descriptor: a pipe that closes when the parent dies.

    Raises:
        LiveEvalError: The address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_end_of is not None:

        def read(descriptor: int = until_end_of) -> None:
            if not os.read(descriptor, 4096):
                loop.remove_reader(descriptor)
                stop.set()

        loop.add_reader(until_end_of, read)
    runner = web.AppRunner(endpoint.application(), access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)
    await runner.setup()
    try:
        site = StampedSite(
            runner, host, port, endpoint.clock, endpoint.connection_faults, connections=endpoint.connections
        )
        try:
            await site.start()
        except OSError as error:
            raise LiveEvalError(f"cannot listen on {host} port {port}: {error}") from None
        async with asyncio.TaskGroup() as tasks:
            assert runner.server is not None
            helpers = [
                tasks.create_task(job)
                for job in (endpoint.probe.run(), endpoint.connections.watch(runner.server))
            ]
            announce(int(runner.addresses[0][1]))
            await stop.wait()
            for helper in helpers:
                helper.cancel()
    finally:
        await runner.cleanup()
