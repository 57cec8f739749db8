"""The reference endpoint as one aiohttp application: routes, authority, sessions, and serving them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import logging
import secrets
import signal
import threading
from collections.abc import Callable
from ipaddress import ip_address
from typing import BinaryIO
from urllib.parse import urlsplit

import orjson
from aiohttp import WSCloseCode, WSMsgType, web

from live_eval.clock import Clock, SystemClock
from live_eval.errors import LiveEvalError, UsageError
from live_eval.loop import LoopProbe
from live_eval.reference.answering import Answering
from live_eval.reference.engine import PCM_24K, Engine
from live_eval.reference.hearing import Hearing
from live_eval.reference.link import Link
from live_eval.reference.openai_face import OpenAiFace
from live_eval.reference.reply import WireReply, pack
from live_eval.reference.settings import Fault, ReferenceSettings
from live_eval.reference.truth import TrueTurn, TruthFile
from live_eval.transport import Arrival
from live_eval.types import Secret

__all__ = ["MODEL", "Endpoint", "is_loopback", "serve"]

MODEL = "live-eval-reference"
"""The model's name where the client names none."""

_log = logging.getLogger(__name__)

# An append of 15 MiB in base64, and its envelope.
_MAX_MESSAGE_BYTES = 21 * 1024 * 1024
_LAG_BEFORE_VOICE_END_NS = 200_000_000
_CLOSE_TIMEOUT_S = 2.0


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Endpoint:
    """What all sessions share.

    Args:
        settings: How sessions go, unless their URL says otherwise.
        hearing: The models that listen; closed with the application.
        answering: Who answers; closed with the application.
        token: What clients must present as a bearer token, or None to take any.
        truth: Where the truth goes, or None.
        clock: The clock.
    """

    def __init__(
        self,
        settings: ReferenceSettings,
        hearing: Hearing,
        answering: Answering,
        *,
        token: Secret | None = None,
        truth: TruthFile | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._hearing = hearing
        self._answering = answering
        self._token = token
        self._truth = truth
        self._clock = clock or SystemClock()
        self._probe = LoopProbe(self._clock)
        self._open: set[web.WebSocketResponse[bool]] = set()

    def application(self) -> web.Application:
        """Return the application, to be served or tested."""
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/v1/realtime", self._realtime)
        app.on_shutdown.append(self._close_all)
        app.on_cleanup.append(self._let_go)
        return app

    async def probe(self) -> None:
        """Measure until cancelled how late the event loop is: the error bar of the truth."""
        await self._probe.run()

    async def _close_all(self, app: web.Application) -> None:
        for socket in tuple(self._open):
            await socket.close(code=WSCloseCode.GOING_AWAY, message=b"the endpoint stops")

    async def _let_go(self, app: web.Application) -> None:
        await self._answering.close()
        await self._hearing.close()

    async def _health(self, request: web.Request) -> web.Response:
        body = {"status": "ok", "sessions": len(self._open), "calibrate": self._settings.calibrate}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    async def _realtime(self, request: web.Request) -> web.StreamResponse:
        refusal = self._without_authority(request)
        if refusal is not None:
            return refusal
        query = {key: value for key, value in request.query.items() if key != "model"}
        try:
            settings = self._settings.overridden(query)
        except UsageError as error:
            return _refusal(400, "invalid_request_error", "invalid_value", str(error))
        if settings.fault is Fault.REFUSE_401:
            return _refusal(401, "invalid_request_error", "invalid_api_key", "Refused on purpose.")
        if settings.fault is Fault.REFUSE_429:
            return _refusal(429, "requests", "rate_limit_exceeded", "Refused on purpose.", retry_after_s=1)
        socket: web.WebSocketResponse[bool] = web.WebSocketResponse(
            compress=False,
            max_msg_size=_MAX_MESSAGE_BYTES,
            protocols=("realtime",),
            timeout=_CLOSE_TIMEOUT_S,
        )
        if not socket.can_prepare(request).ok:
            return _refusal(
                426, "invalid_request_error", "upgrade_required", "Expected a WebSocket handshake."
            )
        fixed = await asyncio.to_thread(self._packed, settings)
        await socket.prepare(request)
        self._open.add(socket)
        try:
            await self._hold(socket, settings, request.query.get("model") or MODEL, fixed)
        finally:
            self._open.discard(socket)
            if not self._open and not gc.isenabled():
                gc.collect()
        return socket

    def _packed(self, settings: ReferenceSettings) -> WireReply | None:
        reply = self._answering.fixed(settings)
        if reply is None:
            return None
        return pack(
            reply,
            codec=PCM_24K,
            lead_silence_ms=settings.lead_silence_ms,
            chunk_ms=settings.chunk_ms,
            encode=OpenAiFace.encode,
        )

    async def _hold(
        self,
        socket: web.WebSocketResponse[bool],
        settings: ReferenceSettings,
        model: str,
        fixed: WireReply | None,
    ) -> None:
        session_id = f"sess_{secrets.token_hex(8)}"
        engine = Engine(session_id, settings, waits_for_words=self._answering.waits_for_words)
        expires_at = self._clock.wall_ns() // 1_000_000_000 + settings.session_limit_s
        face = OpenAiFace(engine, model, expires_at)
        channel = _SocketChannel(socket, self._clock)
        link = Link(channel, face, self._hearing, self._answering, fixed, self._clock, self._keep)
        try:
            await link.run()
        except Exception:
            _log.exception("session %s ended by a fault of this endpoint", session_id)
            await socket.close(code=WSCloseCode.INTERNAL_ERROR, message=b"internal error")

    def _keep(self, turn: TrueTurn) -> None:
        if self._truth is None:
            return
        lag_ns: int | None = None
        if turn.voice_end_ns is not None:
            until_ns = turn.voice_end_ns + (turn.voice_to_voice_ns or turn.first_byte_ns or 0)
            reading = self._probe.between(turn.voice_end_ns - _LAG_BEFORE_VOICE_END_NS, until_ns)
            lag_ns = max(reading.lag_ns.tolist(), default=None)
        self._truth.put(turn, lag_ns)

    def _without_authority(self, request: web.Request) -> web.Response | None:
        """Return the refusal of a client that has no business here, or None."""
        if self._token is not None:
            scheme, _, given = request.headers.get("Authorization", "").partition(" ")
            wanted = self._token.reveal().encode()
            if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), wanted):
                return None
            return _refusal(401, "invalid_request_error", "invalid_api_key", "Incorrect bearer token.")
        # A page from elsewhere, open in this machine's browser, must not talk to a server without a token.
        origin = request.headers.get("Origin")
        if origin is not None and not _is_local_page(origin):
            return _refusal(403, "invalid_request_error", "origin", "Pages from elsewhere need a token.")
        return None


class _SocketChannel:
    """A WebSocket as the link sees it: each message stamped as soon as it was received."""

    def __init__(self, socket: web.WebSocketResponse[bool], clock: Clock) -> None:
        self._socket = socket
        self._clock = clock

    async def receive(self) -> Arrival | None:
        message = await self._socket.receive()
        at_ns = self._clock.now_ns()
        if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            return Arrival(message.data, at_ns)
        return None

    async def send(self, message: bytes) -> None:
        # The connection's end is learnt by `receive`; what cannot be sent any more has no addressee.
        with contextlib.suppress(ConnectionError):
            await self._socket.send_frame(message, WSMsgType.TEXT)

    async def close(self, code: int, reason: str) -> None:
        await self._socket.close(code=code, message=reason.encode())


def _is_local_page(origin: str) -> bool:
    try:
        return is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        return False


def _refusal(
    status: int, kind: str, code: str, message: str, retry_after_s: int | None = None
) -> web.Response:
    body = {"error": {"type": kind, "code": code, "message": message, "param": None}}
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(
        status=status, body=orjson.dumps(body), content_type="application/json", headers=headers
    )


async def serve(
    endpoint: Endpoint,
    host: str,
    port: int,
    announce: Callable[[int], None],
    *,
    until_end_of: BinaryIO | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        endpoint: What to serve.
        host: Address to bind.
        port: Port to bind; 0 for any that is free.
        announce: Called with the port once connections are accepted.
        until_end_of: Stop also when this stream ends: a parent's pipe, which closes when the parent dies.

    Raises:
        LiveEvalError: The address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until_end_of is not None:
        stream = until_end_of

        def wait_for_end() -> None:
            while stream.read(4096):
                pass
            with contextlib.suppress(RuntimeError):  # the loop has ended before the stream
                loop.call_soon_threadsafe(stop.set)

        threading.Thread(target=wait_for_end, name="parent", daemon=True).start()
    runner = web.AppRunner(endpoint.application(), access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise LiveEvalError(f"cannot listen on {host} port {port}: {error}") from None
        async with asyncio.TaskGroup() as tasks:
            probe = tasks.create_task(endpoint.probe())
            announce(int(runner.addresses[0][1]))
            await stop.wait()
            probe.cancel()
    finally:
        await runner.cleanup()
