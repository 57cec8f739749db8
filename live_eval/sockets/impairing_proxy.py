"""A proxy on this machine that damages the traffic between any client and one HTTP or WebSocket endpoint.

The client uses the proxy's address in place of the endpoint's. The proxy connects to the endpoint, over TLS
where its URL says so, and asks in the endpoint's own name: it replaces the header ``Host`` of a connection's
request, and passes on all else as it is. A connection carries one request, or one WebSocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import ssl
from http import HTTPStatus
from typing import Self
from urllib.parse import urlsplit

from live_eval.clock import Clock
from live_eval.errors import LiveEvalError, UsageError
from live_eval.impair import Impairment
from live_eval.sockets.hosts import is_local_page, is_rebound
from live_eval.sockets.http_connections import MOST_HEADER_S
from live_eval.sockets.impaired import ImpairedStream
from live_eval.sockets.resets import reset_on_close

__all__ = ["ImpairingProxy"]

_HOST = "127.0.0.1"
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_TLS = ("https", "wss")
_HEAD_ENDS = b"\r\n\r\n"
_MOST_HEAD_BYTES = 64 << 10
_PIECE_BYTES = 64 << 10
_WINDOW_BYTES = 512 << 10
_MOST_CONNECTIONS = 256
_MOST_ASKING = 384  # without a whole request; together, fewer files than a process may usually open
_BACKLOG = 128  # who is accepted at once does not displace all who were before
_CONNECT_S = 30.0
_CLOSE_S = 30.0
_REFUSE_S = 2.0
_REQUEST = re.compile(rb"[A-Z]+ /\S* HTTP/1\.[01]")
_HEADER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n]*\Z")
_OF_THE_CONNECTION = (b"connection", b"keep-alive", b"upgrade", b"http2-settings")

_log = logging.getLogger(__name__)


class ImpairingProxy:
    """Listens on this machine's own address while it is entered.

    Args:
        url: The endpoint: scheme, host and port, without a path.
        impairment: What is done to the traffic of each connection, from when the endpoint has accepted it.
        clock: Delivers what is late.
        port: Port to bind; 0 picks a free one.
        tls: TLS settings towards the endpoint; the system's trust store by default.

    Raises:
        UsageError: The URL is not an endpoint's, or the impairment is not one of a stream's traffic.
    """

    def __init__(
        self,
        url: str,
        impairment: Impairment,
        clock: Clock,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._secure, self._host, self._to_port = _endpoint(url)
        self._tls = (tls or ssl.create_default_context()) if self._secure else None
        impairment.check_transport("http")
        if impairment.on_audio:
            raise UsageError(f"a proxy damages traffic, but {impairment} damages the user's sound too")
        self._impairment = impairment
        self._clock = clock
        self._port = port
        self._count = 0
        self._asking: dict[asyncio.Task[None], None] = {}  # those without a whole request, the oldest first
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def origin(self) -> str:
        """Its URL for clients."""
        assert self._server is not None
        return f"http://{_HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            LiveEvalError: The port cannot be bound.
        """
        try:
            self._server = await asyncio.start_server(
                self._met, _HOST, self._port, limit=_MOST_HEAD_BYTES, backlog=_BACKLOG
            )
        except OSError as error:
            raise LiveEvalError(f"cannot listen on {_HOST} port {self._port}: {error.strerror}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Listen no more, and end all connections."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client; never raises."""
        if len(self._asking) >= _MOST_ASKING:
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
            if len(self._tasks) - len(self._asking) > _MOST_CONNECTIONS:
                raise _RefusedError(503, f"expected at most {_MOST_CONNECTIONS} connections at a time")
            await self._pass_on(_rewritten(head, self._authority), reader, writer, name)
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
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str
    ) -> None:
        """Pass a request on, and whatever follows in either direction, until the endpoint hangs up."""
        loop = asyncio.get_running_loop()
        theirs = asyncio.StreamReader(_PIECE_BYTES)
        protocol = asyncio.StreamReaderProtocol(theirs)
        impairment = self._impairment.for_session(name)
        stream = ImpairedStream(protocol, impairment, self._clock, window_bytes=_WINDOW_BYTES)
        try:
            async with asyncio.timeout(_CONNECT_S):
                await loop.create_connection(lambda: stream, self._host, self._to_port, ssl=self._tls)
        except OSError as error:
            why = f"{self._authority} cannot be reached: {str(error) or type(error).__name__}"
            raise _RefusedError(502, why) from None
        to_endpoint = asyncio.StreamWriter(stream, protocol, theirs, loop)
        to_endpoint.write(head)
        sending = asyncio.create_task(_send(reader, to_endpoint))
        try:
            await _copy(theirs, writer)
            writer.close()
            async with asyncio.timeout(_CLOSE_S):
                await writer.wait_closed()
        finally:
            sending.cancel()
            await asyncio.wait((sending,))
            stream.abort()


class _RefusedError(Exception):
    """A request is answered by the proxy itself, with a status and a sentence."""

    def __init__(self, status: HTTPStatus | int, why: str) -> None:
        super().__init__(why)
        self.status = HTTPStatus(status)


def _endpoint(url: str) -> tuple[bool, str, int]:
    """Return whether an endpoint speaks TLS, its host and its port."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        port, parts = None, urlsplit("")
    if parts.scheme not in _PORTS or not parts.hostname or parts.path not in ("", "/") or "@" in parts.netloc:
        shown = url.rpartition("@")[2]
        raise UsageError(f"expected a URL like https://HOST or ws://HOST:PORT, without a path, not {shown!r}")
    return parts.scheme in _TLS, parts.hostname, port or _PORTS[parts.scheme]


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Read the head of a request."""
    try:
        async with asyncio.timeout(MOST_HEADER_S):
            return await reader.readuntil(_HEAD_ENDS)
    except TimeoutError:
        raise _RefusedError(408, f"expected a request within {MOST_HEADER_S:g} s") from None
    except asyncio.LimitOverrunError:
        raise _RefusedError(431, f"expected headers of at most {_MOST_HEAD_BYTES} bytes") from None


def _rewritten(head: bytes, authority: str) -> bytes:
    """Return a request's head in the endpoint's name; unless for a WebSocket, it ends its connection."""
    request, *lines = head.removesuffix(_HEAD_ENDS).split(b"\r\n")
    fields = [
        (name.lower(), value.strip(), line) for line in lines for name, _, value in [line.partition(b":")]
    ]
    if not _REQUEST.fullmatch(request) or not all(_HEADER.match(line) for line in lines):
        raise _RefusedError(400, "expected an HTTP request: use this address as the base URL, without TLS")
    hosts = [value.decode("latin-1") for name, value, _ in fields if name == b"host"]
    if len(hosts) != 1 or is_rebound(hosts[0]):
        raise _RefusedError(403, "expected localhost or an IP address as the host")
    if any(name == b"origin" and not is_local_page(value.decode("latin-1")) for name, value, _ in fields):
        raise _RefusedError(403, "web pages from other origins may not use this proxy")
    is_websocket = [value.lower() for name, value, _ in fields if name == b"upgrade"] == [b"websocket"]
    dropped = (b"host",) if is_websocket else (b"host", *_OF_THE_CONNECTION)
    kept = [line for name, _, line in fields if name not in dropped]
    ends = () if is_websocket else (b"Connection: close",)
    return b"\r\n".join((request, b"Host: " + authority.encode(), *kept, *ends)) + _HEAD_ENDS


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: _RefusedError) -> None:
    """Answer a request, and let the client read the answer before the connection is closed."""
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


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy what the client sends, and hang up once it has."""
    with contextlib.suppress(OSError):
        await _copy(reader, writer)
    writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy what comes until it ends."""
    while data := await reader.read(_PIECE_BYTES):
        writer.write(data)
        await writer.drain()
