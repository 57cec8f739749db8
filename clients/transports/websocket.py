"""WebSocket transport: `websockets`' protocol over a socket whose reads the kernel stamps.

A busy process reads late, and several messages at a time. So a message carries the kernel's stamp of its last
byte, and no read goes past the end of a message (`live_eval.sockets`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Callable, Mapping

import aiohappyeyeballs
from websockets.asyncio.client import HTTPProxyConnection, connect_socks_proxy
from websockets.client import ClientProtocol
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
    WebSocketException,
)
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.http11 import USER_AGENT
from websockets.protocol import State
from websockets.proxy import Proxy, get_proxy, parse_proxy
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI, parse_uri

from live_eval.clients.transports._http_errors import Address, is_loopback, system_tls
from live_eval.clock import Clock
from live_eval.dialect import Dial, Message
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.stamps import ArrivalStamps
from live_eval.sockets.stream import StampedTransport, StreamTransport, encrypted
from live_eval.transport import Arrival
from live_eval.types import StampKind

__all__ = ["WebSocketTransport"]

_REASON_BYTES = 123  # RFC 6455, 5.5: a control frame carries 125 bytes, two of which are the code.
_MESSAGE_BYTES = 16 << 20  # four minutes of PCM at 24 kHz in base64; the library's 1 MiB is too little
_TOO_BIG = 1009
_NOT_UTF8 = 1007
_NO_CODE = (1005, 1006)  # RFC 6455, 7.4.1: a close frame without a code, and no close frame at all.
_NEXT_ADDRESS_S = 0.25  # RFC 8305, 5

# At DEBUG, `websockets` logs the headers of the handshake, the key among them.
_LOGGER = logging.getLogger("live_eval.clients.transports.websocket.wire")
_LOGGER.setLevel(logging.INFO)


class WebSocketTransport:
    """A WebSocket connection to an endpoint; a `Transport`.

    Messages may be 16 MiB long. Reading is never paused. Redirects are not followed, since the headers hold
    the key. A proxy of the environment is used, but not for addresses of this machine.

    `setup_ns` names the steps: ``dns`` (name resolution), ``tcp``, ``tls`` (where there is TLS) and ``http``
    (the WebSocket's handshake); through a proxy ``proxy`` stands for the first two.

    Args:
        clock: Stamps arrivals where the kernel does not.
        ping_interval_s: Seconds between keepalive pings, or None for no pings. A pong that is late or missing
            does not end the connection: some services take 8 to 30 s to answer while they speak.
        close_timeout_s: How long `close` waits for the endpoint's half of the closing handshake.
        tls: TLS settings; the system's trust store by default.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        ping_interval_s: float | None = 20.0,
        close_timeout_s: float = 2.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._clock = clock
        self._ping_interval_s = ping_interval_s
        self._close_timeout_s = close_timeout_s
        self._tls = tls
        self._stamps = ArrivalStamps(clock)
        self._setup_ns: dict[str, int] = {}
        self._step_ns = 0
        self._connection: _Connection | None = None
        self._address: Address | None = None

    @property
    def track(self) -> None:
        """None: audio travels in messages."""

    @property
    def setup_ns(self) -> Mapping[str, int]:
        """The duration of each step of the setup, by name."""
        return self._setup_ns

    @property
    def stamps(self) -> StampKind:
        """Who stamped what has arrived so far."""
        return self._connection.stamps if self._connection is not None else StampKind.USER

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        """Open the connection: name resolution, TCP, TLS and the WebSocket handshake.

        Args:
            dial: Where to connect, and with which headers.
            timeout_s: Seconds for the whole setup.

        Raises:
            ConnectError: It could not be opened. The message names host and path, but shows no query, header
                or secret.
        """
        address = self._address = Address(dial, ("wss", "ws"))
        try:
            async with asyncio.timeout(timeout_s):
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
        await connection.drained()

    def prepare(self, message: Message) -> Callable[[], bool]:
        """Encode a message; return what sends it, and returns whether the connection was still open."""
        connection = self._opened()
        return functools.partial(connection.write, connection.frame(message))

    async def drained(self) -> None:
        """Wait while the network takes no more."""
        await self._opened().drained()

    async def receive(self) -> Arrival:
        """Wait for the next message.

        Returns:
            The message, with the stamp of its last byte.

        Raises:
            TransportClosedError: The connection has ended and all messages have been returned.
        """
        connection = self._opened()
        arrival = await connection.arrivals.get()
        if arrival is None:
            connection.arrivals.put_nowait(None)
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

    async def _open(self, dial: Dial, address: Address) -> _Connection:
        uri = parse_uri(dial.url)
        names = [Subprotocol(name) for name in dial.subprotocols] or None
        protocol = ClientProtocol(uri, subprotocols=names, max_size=_MESSAGE_BYTES, logger=_LOGGER)
        tls = (self._tls or await asyncio.to_thread(system_tls)) if address.secure else None
        self._step_ns = self._clock.now_ns()
        lowest = await self._reach(uri, None if is_loopback(address.host) else get_proxy(uri))
        connection = _Connection(protocol, self._clock, self._close_timeout_s)
        transport: StreamTransport = lowest
        try:
            if tls is not None:
                transport = await encrypted(lowest, tls, uri.host, connection)
                self._stepped("tls")
            else:
                lowest.set_protocol(connection)
                if isinstance(lowest, StampedTransport):
                    lowest.framing = WebSocketFraming(after_head=True)
            await connection.shake_hands(transport, dial.headers)
            self._stepped("http")
        except BaseException:
            lowest.abort()
            raise
        if dial.keepalive and self._ping_interval_s is not None:
            connection.keep_alive(self._ping_interval_s)
        return connection

    async def _reach(self, uri: WebSocketURI, proxy_url: str | None) -> StreamTransport:
        """Return a stream of bytes to the endpoint's port."""
        if proxy_url is None:
            return await self._tcp(uri.host, uri.port, asyncio.Protocol())
        proxy = parse_proxy(proxy_url)
        if proxy.scheme.startswith("socks"):
            sock = await connect_socks_proxy(proxy, uri)
            transport: StreamTransport = StampedTransport(sock, self._stamps, asyncio.Protocol())
        else:
            transport = await self._tunnel(uri, proxy)
        self._setup_ns.clear()
        self._stepped("proxy")
        return transport

    async def _tunnel(self, uri: WebSocketURI, proxy: Proxy) -> StreamTransport:
        """Return a tunnel through an HTTP proxy."""
        ask = HTTPProxyConnection(uri, proxy, USER_AGENT)
        if proxy.scheme == "https":
            lower = await self._tcp(proxy.host, proxy.port, asyncio.Protocol())
            transport: StreamTransport = await encrypted(lower, system_tls(), proxy.host, ask)
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

    def _stepped(self, step: str) -> None:
        """Note that a step of the setup is done."""
        now_ns = self._clock.now_ns()
        self._setup_ns[step] = now_ns - self._step_ns
        self._step_ns = now_ns

    # -- Failures ----------------------------------------------------------------------------------------

    def _opened(self) -> _Connection:
        if self._connection is None:
            raise RuntimeError("the transport is not connected: await connect() first")
        return self._connection

    def _ended(self, connection: _Connection) -> TransportClosedError:
        error = connection.end
        at_ns = connection.ended_ns if connection.ended_ns is not None else self._clock.now_ns()
        if error.sent is not None and error.sent.code == _TOO_BIG and not error.rcvd_then_sent:
            where = f"{self._address.where}: " if self._address is not None else ""
            text = f"{where}expected messages of at most {_MESSAGE_BYTES} bytes, but a {error.sent.reason}"
            return TransportClosedError(_TOO_BIG, text, at_ns, kind=FailureKind.MESSAGE_TOO_BIG)
        if error.rcvd is not None:
            code = None if error.rcvd.code in _NO_CODE else error.rcvd.code
            return TransportClosedError(code, self._redact(error.rcvd.reason), at_ns)
        if error.sent is not None:
            return TransportClosedError(
                error.sent.code, self._redact(f"closed from our side: {error.sent.reason}"), at_ns
            )
        cause = f": {connection.error}" if connection.error is not None else ""
        return TransportClosedError(None, self._redact(f"the connection was lost{cause}"), at_ns)

    def _refused(self, error: Exception, address: Address, timeout_s: float) -> ConnectError:
        """Return why the connection could not be opened."""
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
            kind, why = FailureKind.CONNECT_FAILED, f"the proxy of the environment failed: {error}"
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


class _Connection(asyncio.Protocol):
    """Joins `websockets`' protocol to a stream."""

    def __init__(self, websocket: ClientProtocol, clock: Clock, close_timeout_s: float) -> None:
        self._websocket = websocket
        self._clock = clock
        self._close_timeout_s = close_timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: StreamTransport  # from `shake_hands` on
        self._opening: asyncio.Future[None] = self._loop.create_future()
        self._drained = asyncio.Event()
        self._drained.set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._is_text = False
        self.arrivals: asyncio.Queue[Arrival | None] = asyncio.Queue()
        """The messages, and None at the end of the connection."""
        self.over = asyncio.Event()
        self.stamps = StampKind.KERNEL
        self.ended_ns: int | None = None
        self.error: Exception | None = None

    @property
    def end(self) -> ConnectionClosed:
        """How the connection ended."""
        closing = self._websocket
        if closing.state is State.CLOSED:
            return closing.close_exc
        return ConnectionClosedError(closing.close_rcvd, closing.close_sent, closing.close_rcvd_then_sent)

    async def shake_hands(self, transport: StreamTransport, headers: Mapping[str, str]) -> None:
        """Ask for a WebSocket and wait for the answer.

        Raises:
            InvalidHandshake: It is not one.
        """
        self._transport = transport
        request = self._websocket.connect()
        request.headers.update(headers)
        request.headers.setdefault("User-Agent", USER_AGENT)
        self._websocket.send_request(request)
        self._flush()
        await self._opening
        if self._websocket.handshake_exc is not None:
            raise self._websocket.handshake_exc

    def keep_alive(self, interval_s: float) -> None:
        """Send pings; pongs are not awaited."""

        def ping() -> None:
            if self._websocket.state is State.OPEN:
                self._websocket.send_ping(b"")
                self._flush()
                self.keep_alive(interval_s)

        self._timers["ping"] = self._loop.call_later(interval_s, ping)

    def frame(self, message: Message) -> bytes:
        """Return the bytes of a message."""
        if isinstance(message, str):
            return Frame(Opcode.TEXT, message.encode()).serialize(mask=True)
        return Frame(Opcode.BINARY, message).serialize(mask=True)

    def write(self, frame: bytes) -> bool:
        """Send the bytes of a message; return whether the connection was still open."""
        if self._websocket.state is not State.OPEN:
            return False
        self._transport.write(frame)
        return True

    async def drained(self) -> None:
        """Wait while too much waits to be sent."""
        await self._drained.wait()

    def say_goodbye(self, code: int, reason: str) -> None:
        """Begin the closing handshake, unless it has begun."""
        with contextlib.suppress(WebSocketException):
            if self._websocket.state is State.OPEN:
                self._websocket.send_close(code, reason)
                self._flush()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # -- What the transport reports ----------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; it holds the end of one message at most."""
        self._websocket.receive_data(data)
        self._handle_events()

    def eof_received(self) -> None:
        """Handle the end of what the endpoint sends."""
        self._websocket.receive_eof()
        self._handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self.ended_ns, self.error = self._clock.now_ns(), exc
        for timer in self._timers.values():
            timer.cancel()
        if self._websocket.state is not State.CLOSED:
            self._websocket.receive_eof()
        if not self._opening.done():
            self._opening.set_result(None)
        self._drained.set()
        self.arrivals.put_nowait(None)
        self.over.set()

    def pause_writing(self) -> None:
        """Hold up `drained`."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """Let `drained` go on."""
        self._drained.set()

    def _handle_events(self) -> None:
        for event in self._websocket.events_received():
            if isinstance(event, Frame):
                if event.opcode in DATA_OPCODES:
                    self._take(event)
            elif not self._opening.done():
                self._opening.set_result(None)
        if self._websocket.handshake_exc is not None and not self._opening.done():
            self._opening.set_result(None)
        self._flush()
        if self._websocket.close_expected() and "close" not in self._timers:
            self._timers["close"] = self._loop.call_later(self._close_timeout_s, self._transport.abort)

    def _take(self, frame: Frame) -> None:
        """Take a frame of a message; the last one completes it."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._pieces.append(frame.data)
        if not frame.fin:
            return
        data = b"".join(self._pieces)
        self._pieces.clear()
        stamp = self._transport.stamp
        if stamp.kind is StampKind.USER:
            self.stamps = StampKind.USER
        try:
            message = data.decode() if self._is_text else data
        except UnicodeDecodeError as error:
            self._websocket.fail(_NOT_UTF8, f"{error.reason} at position {error.start}")
            return
        self.arrivals.put_nowait(Arrival(message, stamp.at_ns))

    def _flush(self) -> None:
        for data in self._websocket.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()
