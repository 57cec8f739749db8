"""Send and receive WebSocket messages, with kernel timestamps, using `websockets`' protocol.

A busy process reads late, and may read several messages at once. Each message is therefore stamped with
the kernel's timestamp of its last byte, and no read extends past the end of a message (`live_eval.sockets`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

import aiohappyeyeballs
from websockets.asyncio.client import HTTPProxyConnection, connect_socks_proxy
from websockets.client import ClientProtocol
from websockets.exceptions import (
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
    WebSocketException,
)
from websockets.http11 import USER_AGENT
from websockets.proxy import Proxy, get_proxy, parse_proxy
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI, parse_uri

from live_eval.clients.transports._http_errors import Address, system_tls
from live_eval.clients.transports._lookup import look_up
from live_eval.clients.transports._stamping import StampingTransport
from live_eval.clients.transports._websocket_connection import WebSocketConnection
from live_eval.clock import Clock
from live_eval.dialect import Dial, Message
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.http.hosts import is_loopback
from live_eval.impair import Impairment
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.impaired import ImpairedStream
from live_eval.sockets.stream import StampedTransport, StreamTransport, encrypted
from live_eval.transport import Arrival
from live_eval.types import StampKind

__all__ = ["WebSocketTransport"]

_REASON_BYTES = 123  # RFC 6455, 5.5: control frames have up to 125 bytes, two of which are the close code
_MESSAGE_BYTES = 16 << 20  # four minutes of base64 PCM at 24 kHz; the library's default of 1 MiB is too small
_TOO_BIG = 1009
_NOT_ALLOWED = (1002, 1007)  # RFC 6455, 7.4.1: protocol violation, or data that is not UTF-8.
_NO_CODE = (1005, 1006)  # RFC 6455, 7.4.1: a close frame without a code, and no close frame at all.
_NEXT_ADDRESS_S = 0.25  # RFC 8305, 5

# At DEBUG, `websockets` logs the handshake headers, including the key.
_LOGGER = logging.getLogger("live_eval.clients.transports.websocket.wire")
_LOGGER.setLevel(logging.INFO)


class WebSocketTransport(StampingTransport):
    """A `Transport` over a WebSocket connection to an endpoint.

    Messages may be up to 16 MiB. Redirects are not followed, since the headers contain the key. A proxy from
    the environment is used, except for loopback addresses.

    The steps in `setup_ns` are ``dns`` (name resolution), ``tcp``, ``tls`` (with TLS) and ``http`` (the
    WebSocket handshake); through a proxy, ``proxy`` replaces the first two. ``webhook`` is the request of a
    `Lookup`.

    Args:
        clock: Clock for arrivals without a kernel timestamp.
        ping_interval_s: Seconds between keepalive pings, or None for no pings. A late or missing pong does
            not end the connection: some services take 8 to 30 s to respond while they speak.
        close_timeout_s: Seconds that `close` waits for the endpoint's close frame.
        tls: TLS settings; the system's trust store by default.
        impairment: Impairment of the bytes inside TCP and TLS, including the handshake; or None.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        ping_interval_s: float | None = 20.0,
        close_timeout_s: float = 2.0,
        tls: ssl.SSLContext | None = None,
        impairment: Impairment | None = None,
    ) -> None:
        super().__init__(clock)
        self._ping_interval_s = ping_interval_s
        self._close_timeout_s = close_timeout_s
        self._tls = tls
        self._impairment = impairment
        self._connection: WebSocketConnection | None = None
        self._address: Address | None = None

    @property
    def track(self) -> None:
        """Always None: audio is sent in messages."""

    @property
    def stamps(self) -> StampKind:
        """Whether arrival timestamps come from the kernel or from this process."""
        return self._connection.stamps if self._connection is not None else StampKind.USER

    async def load(self, dial: Dial) -> None:
        """Load the system's trust store if `dial` uses TLS."""
        if self._tls is None:
            await super().load(dial)

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection: name resolution, TCP, TLS and the WebSocket handshake.

        Args:
            dial: URL and headers of the connection.
            timeout_s: Timeout of the whole setup, in seconds.

        Raises:
            ConnectError: The connection could not be opened. The message contains the host and path, but no
                query, header or secret.
        """
        schemes = ("wss", "ws") if dial.lookup is None else ("https", "http")
        address = self._address = Address(dial, schemes)
        try:
            async with asyncio.timeout(timeout_s):
                if dial.lookup is not None:
                    self._step_ns = self._clock.now_ns()
                    dial = await look_up(dial, self._clock, timeout_s)
                    address = self._address = Address(dial, ("wss", "ws"))
                    self._stepped("webhook")
                self._connection = await self._open(dial, address)
        except (WebSocketException, OSError, ValueError, ImportError) as error:
            raise self._refused(error, address, timeout_s) from None

    async def send(self, message: Message) -> None:
        """Send a message: `str` as a text frame, `bytes` as a binary frame.

        Raises:
            TransportClosedError: The connection has ended.
        """
        connection = self._opened()
        if not connection.write(connection.frame(message)):
            raise self._ended(connection)
        await connection.drained.wait()

    def prepare(self, message: Message) -> Callable[[], bool]:
        """Encode a message and return a function that sends it if the connection is still open."""
        connection = self._opened()
        return functools.partial(connection.write, connection.frame(message))

    def drained(self) -> Awaitable[object]:
        """Wait until the connection accepts more data."""
        return self._opened().drained.wait()

    async def receive(self) -> Arrival:
        """Wait for the next message; its timestamp is the arrival of its last byte.

        Raises:
            TransportClosedError: The connection has ended and all messages have been returned.
        """
        connection = self._opened()
        arrival = await connection.arrival()
        if arrival is None:
            raise self._ended(connection)
        return arrival

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection; do nothing if it has already ended. Never raises, never hangs."""
        connection = self._connection
        if connection is None:
            return
        connection.say_goodbye(code, reason.encode()[:_REASON_BYTES].decode(errors="ignore"))
        try:
            async with asyncio.timeout(self._close_timeout_s):
                await connection.over.wait()
        except TimeoutError:
            pass
        finally:
            connection.abort()

    # -- Opening -----------------------------------------------------------------------------------------

    async def _open(self, dial: Dial, address: Address) -> WebSocketConnection:
        uri = parse_uri(dial.url)
        names = [Subprotocol(name) for name in dial.subprotocols] or None
        protocol = ClientProtocol(uri, subprotocols=names, max_size=_MESSAGE_BYTES, logger=_LOGGER)
        tls = (self._tls or await asyncio.to_thread(system_tls)) if address.secure else None
        self._step_ns = self._clock.now_ns()
        lowest = await self._reach(uri, None if is_loopback(address.host) else get_proxy(uri))
        connection = WebSocketConnection(protocol, self._clock, self._close_timeout_s)
        upper: asyncio.Protocol = connection
        if self._impairment is not None:
            upper = ImpairedStream(connection, self._impairment, self._clock)
        try:
            if tls is not None:
                await encrypted(lowest, tls, uri.host, upper)
                self._stepped("tls")
            else:
                lowest.set_protocol(upper)
                upper.connection_made(lowest)
                if isinstance(lowest, StampedTransport):
                    lowest.framing = WebSocketFraming(after_head=True)
            await connection.shake_hands(dial.headers)
            self._stepped("http")
        except BaseException:
            lowest.abort()
            raise
        if dial.keepalive and self._ping_interval_s is not None:
            connection.keep_alive(self._ping_interval_s)
        return connection

    async def _reach(self, uri: WebSocketURI, proxy_url: str | None) -> StreamTransport:
        """Return a byte stream to the endpoint's port."""
        if proxy_url is None:
            return await self._tcp(uri.host, uri.port, asyncio.Protocol())
        proxy, began_ns = parse_proxy(proxy_url), self._step_ns
        if proxy.scheme.startswith("socks"):
            sock = await connect_socks_proxy(proxy, uri)
            transport: StreamTransport = StampedTransport(sock, self._stamps, asyncio.Protocol())
        else:
            transport = await self._tunnel(uri, proxy)
        self._setup_ns.clear()
        self._step_ns = began_ns
        self._stepped("proxy")
        return transport

    async def _tunnel(self, uri: WebSocketURI, proxy: Proxy) -> StreamTransport:
        """Return a byte stream through an HTTP proxy."""
        ask = HTTPProxyConnection(uri, proxy, USER_AGENT)
        if proxy.scheme == "https":
            lower = await self._tcp(proxy.host, proxy.port, asyncio.Protocol())
            transport: StreamTransport = await encrypted(
                lower, await asyncio.to_thread(system_tls), proxy.host, ask
            )
        else:
            transport = await self._tcp(proxy.host, proxy.port, ask)
        try:
            await ask.response
        except BaseException:
            transport.abort()
            raise
        return transport

    async def _tcp(self, host: str, port: int, protocol: asyncio.Protocol) -> StampedTransport:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        self._stepped("dns")
        sock = await aiohappyeyeballs.start_connection(
            found, happy_eyeballs_delay=_NEXT_ADDRESS_S, interleave=1
        )
        self._stepped("tcp")
        return StampedTransport(sock, self._stamps, protocol)

    # -- Failures ----------------------------------------------------------------------------------------

    def _opened(self) -> WebSocketConnection:
        if self._connection is None:
            raise RuntimeError("the transport is not connected: await connect() first")
        return self._connection

    def _ended(self, connection: WebSocketConnection) -> TransportClosedError:
        error = connection.end
        at_ns = connection.ended_ns if connection.ended_ns is not None else self._clock.now_ns()
        where = f"{self._address.where}: " if self._address is not None else ""
        if error.sent is not None and error.sent.code == _TOO_BIG and not error.rcvd_then_sent:
            text = f"{where}expected messages of at most {_MESSAGE_BYTES} bytes, got a {error.sent.reason}"
            return TransportClosedError(_TOO_BIG, text, at_ns, kind=FailureKind.MESSAGE_TOO_BIG)
        if error.sent is not None and error.sent.code in _NOT_ALLOWED and not error.rcvd_then_sent:
            text = f"{where}expected frames that comply with RFC 6455: {error.sent.reason}"
            kind = FailureKind.MALFORMED_MESSAGE
            return TransportClosedError(error.sent.code, self._redact(text), at_ns, kind=kind)
        if error.rcvd is not None:
            code = None if error.rcvd.code in _NO_CODE else error.rcvd.code
            return TransportClosedError(code, self._redact(error.rcvd.reason), at_ns)
        if error.sent is not None:
            why = f": {error.sent.reason}" if error.sent.reason else ""
            return TransportClosedError(error.sent.code, self._redact(f"closed by the client{why}"), at_ns)
        cause = f": {connection.error}" if connection.error is not None else ""
        return TransportClosedError(None, self._redact(f"the connection was lost{cause}"), at_ns)

    def _refused(self, error: Exception, address: Address, timeout_s: float) -> ConnectError:
        if isinstance(error, InvalidStatus):
            response = error.response
            return address.refused(
                response.status_code,
                response.reason_phrase,
                response.headers,
                bytes(response.body or b""),
                expected="HTTP status 101 (a WebSocket)",
                otherwise=FailureKind.HANDSHAKE,
                wall_ns=self._clock.wall_ns(),
            )
        if isinstance(error, OSError):
            return address.unreachable(error, timeout_s)
        if isinstance(error, ProxyError | InvalidProxy | ImportError):
            cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
            kind, why = FailureKind.CONNECT_FAILED, f"the proxy from the environment failed: {error}{cause}"
        elif isinstance(error, InvalidHandshake) and isinstance(error.__cause__, EOFError):
            kind = FailureKind.CONNECT_FAILED
            why = f"expected a response to the WebSocket handshake, but the {error.__cause__}"
        elif isinstance(error, InvalidHandshake):
            cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
            kind, why = FailureKind.HANDSHAKE, f"expected a WebSocket handshake: {error}{cause}"
        elif isinstance(error, InvalidURI):
            kind, why = FailureKind.CONNECT_FAILED, f"expected a WebSocket URL: {error.msg}"
        else:
            kind, why = FailureKind.CONNECT_FAILED, f"{type(error).__name__}: {error}"
        return address.failure(kind, why)

    def _redact(self, text: str) -> str:
        """Return `text` without secrets."""
        return self._address.hide(text) if self._address is not None else text
