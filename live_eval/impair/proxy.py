"""Run a local proxy that impairs the traffic between any client and one HTTP or WebSocket endpoint.

Clients use the proxy's address instead of the endpoint's. The proxy connects to the endpoint, with TLS if the
endpoint's URL requires it, and replaces the request's ``Host`` header. Each connection is used for one
request and its response, or for one WebSocket. No data is forwarded after the end of a request, or before the
endpoint has accepted a WebSocket.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import re
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

from live_eval.clock import Clock
from live_eval.errors import LiveEvalError, UsageError
from live_eval.http.connections import MOST_HEADER_S
from live_eval.http.hosts import is_local_page, is_rebound
from live_eval.http.messages import HEAD_ENDS, Body, FramingError, Head
from live_eval.impair import Impairment
from live_eval.sockets.impaired import ImpairedStream
from live_eval.sockets.resets import reset_on_close

__all__ = ["ImpairingProxy"]

_HOST = "127.0.0.1"
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_TLS = ("https", "wss")
_MOST_HEAD_BYTES = 64 << 10
_PIECE_BYTES = 64 << 10
_WINDOW_BYTES = 512 << 10
_MOST_CONNECTIONS = 256
_MOST_ASKING = 384  # incomplete requests; with all connections, below the usual limit on open files
_BACKLOG = 128  # below _MOST_ASKING, so that a full backlog cannot displace every waiting client
_CONNECT_S = 30.0
_CLOSE_S = 30.0
_REFUSE_S = 2.0
_REQUEST = re.compile(rb"[A-Z]+ /[\x21-\xff]* HTTP/1\.[01]")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: .*)?", re.DOTALL)
_OF_THE_CONNECTION = (b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"http2-settings")
_OF_AN_ANSWER = (b"connection", b"keep-alive", b"proxy-connection")
_WITHOUT_BODY = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_KEY_BYTES = 16

_log = logging.getLogger(__name__)


class ImpairingProxy:
    """A proxy that listens on 127.0.0.1; an async context manager.

    Args:
        url: Endpoint URL: scheme, host and port, without a path.
        impairment: Impairment of each connection's traffic, once the endpoint has accepted the connection.
        port: Port to bind; 0 picks a free port.
        tls: TLS settings for the connection to the endpoint; defaults to the system trust store.
        most_connections: Maximum number of connections with a complete request.
        most_asking: Maximum number of incomplete requests; a further request displaces the oldest.

    Raises:
        UsageError: The URL is not an endpoint URL, or the impairment does not apply to byte streams.
    """

    def __init__(
        self,
        url: str,
        impairment: Impairment,
        clock: Clock,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        connect_s: float = _CONNECT_S,
        most_connections: int = _MOST_CONNECTIONS,
        most_asking: int = _MOST_ASKING,
    ) -> None:
        self._secure, self._host, self._to_port = _endpoint(url)
        self._tls = (tls or ssl.create_default_context()) if self._secure else None
        impairment.check_transport("http")
        if impairment.on_audio:
            raise UsageError(f"the proxy impairs only traffic; {impairment} also impairs the user's audio")
        self._impairment = impairment
        self._clock = clock
        self._port = port
        self._connect_s = connect_s
        self._most_connections = most_connections
        self._most_asking = most_asking
        self._count = 0
        self._asking: dict[asyncio.Task[None], None] = {}  # incomplete requests, oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def origin(self) -> str:
        """The proxy's URL for clients."""
        assert self._server is not None
        return f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        """Listen; raise `LiveEvalError` if the port cannot be bound."""
        try:
            self._server = await asyncio.start_server(
                self._met, _HOST, self._port, limit=_MOST_HEAD_BYTES, backlog=_BACKLOG
            )
        except OSError as error:
            raise LiveEvalError(f"cannot listen on {_HOST} port {self._port}: {error.strerror}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and close all connections."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client. Never raises an error."""
        if len(self._asking) >= self._most_asking:
            oldest = next(iter(self._asking))
            del self._asking[oldest]
            oldest.cancel()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._count += 1
        name = str(self._count)
        try:
            self._asking[task] = None
            try:
                head = await _head(reader)
            finally:
                self._asking.pop(task, None)
            if len(self._tasks) - len(self._asking) > self._most_connections:
                raise _RefusedError(503, f"too many connections: the limit is {self._most_connections}")
            await self._pass_on(_checked(head, self._authority), reader, writer, name)
        except _RefusedError as refusal:
            await _refuse(reader, writer, refusal)
        except ConnectionResetError:
            with contextlib.suppress(OSError):
                reset_on_close(writer.get_extra_info("socket"))
        except (OSError, EOFError, asyncio.CancelledError) as error:
            _log.debug("connection %s ended: %r", name, error)
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    @property
    def _authority(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        usual = _PORTS["https" if self._secure else "http"]
        return host if self._to_port == usual else f"{host}:{self._to_port}"

    async def _pass_on(
        self, request: _Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str
    ) -> None:
        """Forward a request and its response, or a WebSocket, until the endpoint closes the connection."""
        loop = asyncio.get_running_loop()
        theirs = asyncio.StreamReader(_PIECE_BYTES)
        protocol = asyncio.StreamReaderProtocol(theirs)
        impairment = self._impairment.for_session(name)
        stream = ImpairedStream(protocol, impairment, self._clock, window_bytes=_WINDOW_BYTES)
        try:
            async with asyncio.timeout(self._connect_s):
                await loop.create_connection(lambda: stream, self._host, self._to_port, ssl=self._tls)
        except OSError as error:
            why = f"cannot reach {self._authority}: {str(error) or type(error).__name__}"
            raise _RefusedError(502, why) from None
        to_endpoint = asyncio.StreamWriter(stream, protocol, theirs, loop)
        to_endpoint.write(request.head)
        accepted: asyncio.Future[bool] = loop.create_future()
        sending = asyncio.create_task(_send(request, reader, to_endpoint, accepted))
        try:
            answered = await _answer(request, theirs, writer, accepted)
            if not answered and sending.done():
                sending.result()
            writer.close()
            async with asyncio.timeout(_CLOSE_S):
                await writer.wait_closed()
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            stream.abort()


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to forward; `body` is None for WebSocket frames."""

    method: bytes
    head: bytes
    body: Body | None


class _RefusedError(Exception):
    """A reason for the proxy itself to respond to a request, with a status and a message."""

    def __init__(self, status: HTTPStatus | int, why: str) -> None:
        super().__init__(why)
        self.status = HTTPStatus(status)


def _endpoint(url: str) -> tuple[bool, str, int]:
    """Return whether an endpoint uses TLS, its host, and its port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        port, parts = None, urlsplit("")
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or "@" in parts.netloc:
        shown = url.rpartition("@")[2]
        raise UsageError(
            f"--to {shown!r}: expected a URL such as https://HOST or ws://HOST:PORT, without a path"
        )
    return parts.scheme in _TLS, parts.hostname, port or _PORTS[parts.scheme]


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(MOST_HEADER_S):
            return await reader.readuntil(HEAD_ENDS)
    except TimeoutError:
        raise _RefusedError(408, f"no complete request arrived within {MOST_HEADER_S:g} s") from None
    except asyncio.LimitOverrunError:
        raise _RefusedError(431, f"the headers are longer than {_MOST_HEAD_BYTES} bytes") from None


def _checked(data: bytes, authority: str) -> _Request:
    """Rewrite a request for the endpoint, with ``Connection: close`` unless it opens a WebSocket."""
    try:
        head = Head.read(data)
    except FramingError:
        head = None
    if head is None or not _REQUEST.fullmatch(head.line):
        raise _RefusedError(400, "expected an HTTP request: use this address as the base URL, without TLS")
    hosts = [value.decode("latin-1") for value in head.values(b"host")]
    if len(hosts) != 1 or is_rebound(hosts[0]):
        raise _RefusedError(403, "expected localhost or an IP address as the host")
    if not all(is_local_page(value.decode("latin-1")) for value in head.values(b"origin")):
        raise _RefusedError(403, "pages from other origins must not use this proxy")
    try:
        body = Body.after(head) or Body(0)
    except FramingError as error:
        raise _RefusedError(400, str(error)) from None
    method = head.line.partition(b" ")[0]
    is_websocket = _opens_websocket(head, method) and body.ended
    ends = (b"Connection: Upgrade", b"Upgrade: websocket") if is_websocket else (b"Connection: close",)
    written = head.write((b"host", *_OF_THE_CONNECTION), b"Host: " + authority.encode(), *ends)
    return _Request(method, written, None if is_websocket else body)


def _opens_websocket(head: Head, method: bytes) -> bool:
    """Return whether a request is a WebSocket opening handshake (RFC 6455, 4.2.1)."""
    keys = head.values(b"sec-websocket-key")
    try:
        nonce = base64.b64decode(keys[0], validate=True) if len(keys) == 1 else b""
    except binascii.Error:
        return False
    upgrades = [value.lower() for value in head.values(b"upgrade")] == [b"websocket"]
    return (
        method == b"GET"
        and head.version == b"HTTP/1.1"
        and upgrades
        and head.lists(b"connection", b"upgrade")
        and len(nonce) == _KEY_BYTES
    )


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: _RefusedError) -> None:
    """Respond to a request, and give the client time to read the response before closing."""
    body = f"live-eval impair: {refusal}\n".encode()
    head = (
        f"HTTP/1.1 {refusal.status} {refusal.status.phrase}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(OSError, TimeoutError):
        writer.write(head.encode() + body)
        writer.write_eof()
        async with asyncio.timeout(_REFUSE_S):
            while await reader.read(_PIECE_BYTES):
                pass


async def _send(
    request: _Request,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    accepted: asyncio.Future[bool],
) -> None:
    """Forward the rest of a request, or the frames of an accepted WebSocket, until the client closes.

    Raises:
        _RefusedError: The body's framing is invalid; the connection to the endpoint is closed.
    """
    try:
        if request.body is None:
            early = await reader.read(_PIECE_BYTES)
            if early and await accepted:
                writer.write(early)
                await _copy(reader, writer)
        else:
            while not request.body.ended and (data := await reader.read(_PIECE_BYTES)):
                writer.write(request.body.take(data))
                await writer.drain()
        while await reader.read(_PIECE_BYTES):
            pass  # drop further requests, since the response asks the client to close
    except FramingError as error:
        writer.transport.abort()
        raise _RefusedError(400, str(error)) from None
    except OSError as error:
        _log.debug("the client or the endpoint closed the connection: %r", error)
    writer.close()


async def _answer(
    request: _Request,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    accepted: asyncio.Future[bool],
) -> bool:
    """Forward the endpoint's response or a WebSocket's frames; return whether there was a response.

    A response that is not HTTP is forwarded unchanged, since clients may be tested with such endpoints.
    """
    answered = False
    interim = True
    while interim:
        head, data = await _answer_head(reader)
        status = _status(head)
        interim = head is not None and 100 <= status < 200 and status != HTTPStatus.SWITCHING_PROTOCOLS
        is_final = head is not None and status >= 200
        writer.write(head.write(_OF_AN_ANSWER, b"Connection: close") if head and is_final else data)
        await writer.drain()
        answered = answered or bool(data)
    accepted.set_result(request.body is None and status == HTTPStatus.SWITCHING_PROTOCOLS)
    body = _answer_body(head, status, request.method) if head and is_final else None
    while (body is None or not body.ended) and (data := await reader.read(_PIECE_BYTES)):
        try:
            data = data if body is None else body.take(data)
        except FramingError:
            body = None
        writer.write(data)
        await writer.drain()
    if request.body is not None:  # the proxy requested the close, but a test may depend on a slow close
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                while await reader.read(_PIECE_BYTES):
                    pass
    return answered


async def _answer_head(reader: asyncio.StreamReader) -> tuple[Head | None, bytes]:
    """Return the head of a response and its bytes, or None and the bytes read so far if it is not HTTP."""
    try:
        data = await reader.readuntil(HEAD_ENDS)
    except asyncio.IncompleteReadError as error:
        return None, error.partial
    except asyncio.LimitOverrunError:
        return None, b""
    try:
        return Head.read(data), data
    except FramingError:
        return None, data


def _status(head: Head | None) -> int:
    """Return the status of a response, or 0 if the response is not HTTP."""
    line = None if head is None else _STATUS.fullmatch(head.line)
    return 0 if line is None else int(line[1])


def _answer_body(head: Head, status: int, method: bytes) -> Body | None:
    """Return the body of a response, or None if the end of the connection delimits the body."""
    if method == b"HEAD" or status in _WITHOUT_BODY:
        return Body(0)
    try:
        return Body.after(head)
    except FramingError:
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_PIECE_BYTES):
        writer.write(data)
        await writer.drain()
