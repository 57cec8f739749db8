"""Serve the reference endpoint as an aiohttp application with WebSocket routes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import orjson
from aiohttp import WSCloseCode, web

from live_eval.http.connections import Connections
from live_eval.http.connections import serve as serve_application
from live_eval.reference.engine.engine import Engine, EngineConfig
from live_eval.reference.engine.events import CloseConnection
from live_eval.reference.faults.catalogue import FaultLayer
from live_eval.reference.faults.handshake import ConnectionFaults
from live_eval.reference.protocols.assemblyai import ASSEMBLYAI_CONFIG, AssemblyAiProtocol
from live_eval.reference.protocols.deepgram import DEEPGRAM_CONFIG, DeepgramProtocol
from live_eval.reference.protocols.elevenlabs import (
    ELEVENLABS_CONFIG,
    ELEVENLABS_PARAMETERS,
    ElevenLabsProtocol,
)
from live_eval.reference.protocols.gemini import GEMINI_CONFIG, GEMINI_REFUSALS, GeminiProtocol, SessionStore
from live_eval.reference.protocols.moshi import (
    MOSHI_CONFIG,
    MOSHI_PARAMETERS,
    MOST_FRAME_BYTES,
    MoshiProtocol,
)
from live_eval.reference.protocols.openai import OpenAiProtocol
from live_eval.reference.protocols.openai_beta import OpenAiBetaProtocol
from live_eval.reference.protocols.openai_live import OpenAiLiveProtocol
from live_eval.reference.protocols.openai_session import MODEL
from live_eval.reference.protocols.protocol import (
    MOST_MESSAGE_BYTES,
    MessageError,
    ServerProtocol,
    text_message,
)
from live_eval.reference.protocols.twilio import MOST_MEDIA_BYTES, TWILIO_CONFIG, TwilioProtocol
from live_eval.reference.protocols.ultravox import (
    CALL_PARAMETER,
    ULTRAVOX_CONFIG,
    CallStore,
    UltravoxProtocol,
)
from live_eval.reference.server.authentication import (
    KEY_PARAMETER,
    SIGNATURE_PARAMETER,
    RefusedError,
    refused,
)
from live_eval.reference.server.host import SessionHost
from live_eval.reference.server.requests import ModelWorker
from live_eval.reference.server.rooms import ELEVENLABS_CLAIMS, LiveKitRooms, call_claims
from live_eval.reference.server.signalling import WebRtcSessions
from live_eval.reference.server.site import StampedSite, accept_socket

__all__ = ["ROUTES", "Endpoint", "Route", "SessionRequest", "serve"]


_CONVERSATION = "/v1/convai/conversation"
_CALLS = "/api/calls"
_JOIN = f"{_CALLS}/join"
_JOIN_ROOM = f"{_CALLS}/room"
_MAX_BODY_BYTES = 256 * 1024  # limit for offers and session settings


class SessionRequest(NamedTuple):
    """The request for a session, received before its first message.

    Args:
        query: The URL parameters.
        stored_sessions: Sessions that can be resumed.
        calls: Calls that can be joined.
        expires_at: Expiry time of the session, in seconds since the Unix epoch.
    """

    query: Mapping[str, str]
    stored_sessions: SessionStore
    calls: CallStore
    expires_at: int

    @property
    def model(self) -> str:
        """The requested model."""
        return self.query.get("model") or MODEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A WebSocket route.

    Args:
        dialect: Name of the dialect's client (``--endpoint``).
        path: The path, as an aiohttp pattern.
        protocol: Function that creates the protocol of a session.
        config: Initial settings of the sessions.
        header: Name of a required header, in lower case, and text that its value must contain.
        parameters: URL parameters of the dialect; all others are endpoint settings.
        subprotocols: WebSocket subprotocols that clients may offer.
        binary: Whether the endpoint sends binary messages, except for each `TextMessage`.
        most_bytes: Maximum message size; a longer message closes the connection with code 1009.
        exclusive: Whether sessions run one at a time while other clients wait on an open connection.
        refusals: Close codes, by HTTP status, of refusals sent after the handshake; a refusal with any other
            status rejects the handshake.
    """

    dialect: str
    path: str
    protocol: Callable[[Engine, SessionRequest], ServerProtocol]
    config: EngineConfig = field(default_factory=EngineConfig)
    header: tuple[str, str] | None = None
    parameters: frozenset[str] = frozenset()
    subprotocols: tuple[str, ...] = ()
    binary: bool = False
    most_bytes: int = MOST_MESSAGE_BYTES
    exclusive: bool = False
    refusals: Mapping[int, CloseConnection] = field(default_factory=dict)

    def suits(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request's headers, with case-insensitive names, match this dialect."""
        return self.header is None or self.header[1] in headers.get(self.header[0], "")


ROUTES = (
    Route(
        dialect="openai-beta",
        path="/v1/realtime",
        protocol=lambda engine, opening: OpenAiBetaProtocol(engine, opening.model, opening.expires_at),
        header=("openai-beta", "realtime=v1"),
        parameters=frozenset({"model"}),
        subprotocols=("realtime",),
    ),
    Route(
        dialect="openai",
        path="/v1/realtime",
        protocol=lambda engine, opening: OpenAiProtocol(engine, opening.model, opening.expires_at),
        parameters=frozenset({"model"}),
        subprotocols=("realtime",),
    ),
    Route(
        dialect="gemini-live",
        path="/ws/google.ai.generativelanguage.{version:v1|v1beta|v1alpha}.GenerativeService.BidiGenerateContent",
        protocol=lambda engine, opening: GeminiProtocol(engine, opening.stored_sessions),
        config=GEMINI_CONFIG,
        parameters=frozenset({KEY_PARAMETER, "alt"}),
        binary=True,
        refusals=GEMINI_REFUSALS,
    ),
    Route(
        dialect="openai-live",
        path="/v1/live/sessions",
        protocol=lambda engine, opening: OpenAiLiveProtocol(engine, opening.expires_at),
    ),
    Route(
        dialect="deepgram",
        path="/v1/agent/converse",
        protocol=lambda engine, opening: DeepgramProtocol(engine),
        config=DEEPGRAM_CONFIG,
        binary=True,
    ),
    Route(
        dialect="elevenlabs",
        path=_CONVERSATION,
        protocol=lambda engine, opening: ElevenLabsProtocol(engine),
        config=ELEVENLABS_CONFIG,
        parameters=ELEVENLABS_PARAMETERS,
        subprotocols=("convai",),
    ),
    Route(
        dialect="assemblyai",
        path="/v1/ws",
        protocol=lambda engine, opening: AssemblyAiProtocol(engine),
        config=ASSEMBLYAI_CONFIG,
    ),
    Route(
        dialect="ultravox",
        path=_JOIN,
        protocol=lambda engine, opening: UltravoxProtocol(
            engine, opening.calls.get(opening.query.get(CALL_PARAMETER, ""))
        ),
        config=ULTRAVOX_CONFIG,
        parameters=frozenset({CALL_PARAMETER, SIGNATURE_PARAMETER}),
        binary=True,
    ),
    Route(
        dialect="moshi",
        path="/api/chat",
        protocol=lambda engine, opening: MoshiProtocol(engine),
        config=MOSHI_CONFIG,
        parameters=MOSHI_PARAMETERS,
        binary=True,
        most_bytes=MOST_FRAME_BYTES,
        exclusive=True,
    ),
    Route(
        dialect="twilio",
        path="/media-stream",
        protocol=lambda engine, opening: TwilioProtocol(engine),
        config=TWILIO_CONFIG,
        most_bytes=MOST_MEDIA_BYTES,
    ),
)
"""All routes. Of routes with the same path, the first whose header matches the request is used."""


class Endpoint:
    """Run the reference endpoint application, with its routes and WebSocket sessions.

    All sessions share the host, which is closed with the application.
    """

    def __init__(self, host: SessionHost) -> None:
        self.host = host
        self._stored_sessions = SessionStore()
        self._calls = CallStore()
        self._connection_faults = ConnectionFaults(host.settings.faults, host.schedule)
        self._seats: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._open: set[web.WebSocketResponse[bool]] = set()
        self._webrtc_sessions = WebRtcSessions(host)
        self._rooms = LiveKitRooms(host, self._calls)
        self.connections = Connections(host.clock)

    @property
    def connection_faults(self) -> ConnectionFaults | None:
        """The faults for new connections, or None."""
        return self._connection_faults if self.host.settings.faults.in_layers(FaultLayer.ACCEPT) else None

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[self.connections.middleware])
        app.router.add_get("/healthz", self._health)
        app.router.add_get(f"{_CONVERSATION}/get-signed-url", self._signed_url)
        app.router.add_get(f"{_CONVERSATION}/token", self._room_token)
        app.router.add_post(_CALLS, self._create_call)
        app.router.add_post("/api/agents/{agent}/calls", self._create_call)
        app.router.add_get(_JOIN_ROOM, self._name_room)
        for path, routes in groupby(ROUTES, lambda route: route.path):
            app.router.add_get(path, self._entrance(tuple(routes)))
        self._webrtc_sessions.mount(app)
        self._rooms.mount(app)
        ModelWorker(self.host).mount(app)
        app.on_shutdown.append(self._close_all)
        app.on_cleanup.append(self._close_host)
        return app

    async def _close_all(self, app: web.Application) -> None:
        for socket in tuple(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the endpoint stops")
        await self._webrtc_sessions.close()
        await self._rooms.close()

    async def _close_host(self, app: web.Application) -> None:
        await self.host.close()

    async def _health(self, request: web.Request) -> web.Response:
        body = {"status": "ok", "sessions": self.host.sessions, "calibrate": self.host.settings.calibrate}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    async def _signed_url(self, request: web.Request) -> web.Response:
        """Return the signed URL of a conversation with an ElevenLabs agent."""
        try:
            signature = self.host.signed(request)
        except RefusedError as error:
            return refused(error)
        return web.json_response({"signed_url": _websocket_url(request, _CONVERSATION, signature)})

    async def _room_token(self, request: web.Request) -> web.Response:
        """Return a token for the room of a conversation with an ElevenLabs agent."""
        try:
            return web.json_response({"token": self.host.room_token(request, ELEVENLABS_CLAIMS)})
        except RefusedError as error:
            return refused(error)

    async def _create_call(self, request: web.Request) -> web.Response:
        """Create an Ultravox call, and return the address to join it."""
        try:
            signature = self.host.signed(request)
            call_id = self._calls.create(await request.read())
        except RefusedError as error:
            return refused(error)
        except MessageError as error:
            return refused(RefusedError(400, error.problem.code, error.problem.message))
        call = self._calls.get(call_id)
        path = _JOIN_ROOM if call is not None and call.in_room else _JOIN
        url = _websocket_url(request, path, {CALL_PARAMETER: call_id, **signature})
        return web.json_response({"callId": call_id, "joinUrl": url}, status=201)

    async def _name_room(self, request: web.Request) -> web.StreamResponse:
        """Send the room of an Ultravox call on a WebSocket, which stays open until the client leaves."""
        try:
            token = self.host.room_token(request, call_claims(request.query.get(CALL_PARAMETER, "")))
            channel = await accept_socket(request, most_bytes=_MAX_BODY_BYTES, binary=False)
        except RefusedError as error:
            return refused(error)
        url = request.url.with_scheme("wss" if request.secure else "ws").with_path("/", keep_query=True)
        room = url.without_query_params(CALL_PARAMETER, SIGNATURE_PARAMETER, "apiVersion", "clientVersion")
        self._open.add(channel.socket)
        try:
            await channel.send(text_message({"type": "room_info", "roomUrl": str(room), "token": token}))
            while await channel.receive() is not None:
                pass
        finally:
            self._open.discard(channel.socket)
        return channel.socket

    def _entrance(self, routes: Sequence[Route]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """Return the request handler of a path."""

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
        try:
            channel = await accept_socket(
                request, most_bytes=route.most_bytes, binary=route.binary, subprotocols=route.subprotocols
            )
        except RefusedError as error:
            return refused(error)
        socket = channel.socket
        if refusal is not None:
            await socket.close(code=refusal.code, message=refusal.reason.encode())
            return socket
        self._open.add(socket)
        try:
            with self.host.session():
                async with self._seats[route.dialect] if route.exclusive else contextlib.nullcontext():
                    engine = self.host.engine(settings, route.config)
                    expires_at = self.host.expires_at(settings)
                    opening = SessionRequest(request.query, self._stored_sessions, self._calls, expires_at)
                    # in a thread, because a protocol may load its codec
                    protocol = await asyncio.to_thread(route.protocol, engine, opening)
                    await self.host.run_session(channel, protocol)
        finally:
            self._open.discard(socket)
            if not self._open and not gc.isenabled():
                gc.collect()
        return socket


def _websocket_url(request: web.Request, path: str, query: Mapping[str, str]) -> str:
    """Return the address of another path, with the parameters of the request and of `query`."""
    url = request.url.with_scheme("wss" if request.secure else "ws")
    return str(url.with_path(path, keep_query=True).update_query(query))


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
