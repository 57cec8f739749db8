"""The WebSocket transport against real servers on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import logging
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from email.utils import formatdate
from http import HTTPStatus

import pytest
import trustme
import uvloop
from websockets.asyncio.client import connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from live_eval.clients.transports._http_errors import system_tls
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.types import StampKind
from tests.support.busy_loop import hold_up

KEY = "sk-test-5e4f1b"
Handler = Callable[[ServerConnection], Awaitable[None]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def dial(port: int, scheme: str = "ws", host: str = "127.0.0.1") -> Dial:
    return Dial(
        f"{scheme}://{host}:{port}/v1/realtime?model=m-1&key={KEY}",
        headers={"Authorization": f"Bearer {KEY}"},
    )


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


def transport(**settings: float | None) -> WebSocketTransport:
    return WebSocketTransport(SystemClock(), **settings)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def endpoint(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async with serve(handler, "127.0.0.1", 0, ssl=tls, compression=None, max_size=None) as server:
        yield port_of(server)


@contextlib.asynccontextmanager
async def refusing(response: Response) -> AsyncIterator[int]:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return response

    async with serve(idle, "127.0.0.1", 0, process_request=refuse) as server:
        yield port_of(server)


@contextlib.asynccontextmanager
async def raw_server(handler: RawHandler) -> AsyncIterator[int]:
    served: set[asyncio.Task[None]] = set()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await handler(reader, writer)
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(serve_one, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*served)


async def idle(connection: ServerConnection) -> None:
    await connection.wait_closed()


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


def answer(status: HTTPStatus, body: str, **headers: str) -> Response:
    fields = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    fields["Content-Length"] = str(len(body.encode()))
    return Response(status.value, status.phrase, fields, body.encode())


async def refusal(to: Dial, timeout_s: float = 5.0) -> ConnectError:
    """Return the error of a connection that must fail; the error must not contain the key."""
    client = transport()
    with pytest.raises(ConnectError) as caught:
        await client.connect(to, timeout_s)
    assert KEY not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    await client.close()
    return caught.value


async def test_text_and_binary_go_both_ways_in_order() -> None:
    async with endpoint(echo) as port:
        client = transport()
        await client.connect(dial(port), 5)
        messages: list[str | bytes] = ["eins", b"\x00\x01", "drei", ""]
        for message in messages:
            await client.send(message)
        arrivals = [await client.receive() for _ in messages]
        await client.close()
    assert [arrival.message for arrival in arrivals] == messages
    stamps = [arrival.at_ns for arrival in arrivals]
    assert stamps == sorted(stamps)
    assert stamps[-1] <= time.monotonic_ns()


async def test_headers_and_subprotocol_reach_the_server() -> None:
    seen: list[str | None] = []

    async def note(connection: ServerConnection) -> None:
        assert connection.request is not None
        seen.extend((connection.request.headers["Authorization"], connection.subprotocol))

    async with serve(note, "127.0.0.1", 0, subprotocols=["realtime"]) as server:  # type: ignore[list-item]
        port = port_of(server)
        client = transport()
        await client.connect(Dial(dial(port).url, dial(port).headers, ("realtime",)), 5)
        with pytest.raises(TransportClosedError):
            await client.receive()
        await client.close()
    assert seen == [f"Bearer {KEY}", "realtime"]


@pytest.mark.parametrize("status", [HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN])
async def test_a_refused_key_is_an_authentication_failure(status: HTTPStatus) -> None:
    body = (
        f'{{"error": {{"message": "Incorrect API key: {KEY} (sk-te***1b)",\n  "code": "invalid_api_key"}}}}'
    )
    async with refusing(answer(status, body)) as port:
        error = await refusal(dial(port))
    assert error.kind is FailureKind.AUTHENTICATION
    assert str(status.value) in error.message
    assert "Incorrect API key: ***" in error.message
    assert "sk-te" not in error.message
    assert "invalid_api_key" in error.message
    assert f"ws://127.0.0.1:{port}/v1/realtime" in error.message


@pytest.mark.parametrize("as_date", [False, True])
async def test_a_rate_limit_has_a_retry_time(as_date: bool) -> None:
    after = formatdate(time.time() + 90, usegmt=True) if as_date else "90"
    async with refusing(answer(HTTPStatus.TOO_MANY_REQUESTS, "slow down", Retry_After=after)) as port:
        error = await refusal(dial(port))
    assert error.kind is FailureKind.RATE_LIMITED
    assert error.retry_after_s == pytest.approx(90, abs=2)


@pytest.mark.parametrize("value", ["soon", "nan", "inf"])
async def test_an_invalid_retry_after_is_ignored(value: str) -> None:
    async with refusing(answer(HTTPStatus.TOO_MANY_REQUESTS, "", Retry_After=value)) as port:
        error = await refusal(dial(port))
    assert error.kind is FailureKind.RATE_LIMITED
    assert error.retry_after_s is None


async def test_other_statuses_and_long_bodies() -> None:
    async with refusing(answer(HTTPStatus.INTERNAL_SERVER_ERROR, "overloaded " * 1000)) as port:
        error = await refusal(dial(port))
    assert error.kind is FailureKind.SERVER_ERROR
    assert "500" in error.message
    assert "overloaded overloaded" in error.message
    assert len(error.message) < 600


async def test_redirects_are_not_followed() -> None:
    reached = asyncio.Event()

    async def trap(connection: ServerConnection) -> None:
        reached.set()

    async with endpoint(trap) as elsewhere:
        target = f"ws://127.0.0.1:{elsewhere}/v2?token=secret"
        async with refusing(answer(HTTPStatus.TEMPORARY_REDIRECT, "", Location=target)) as port:
            error = await refusal(dial(port))
    assert error.kind is FailureKind.HANDSHAKE
    assert f"redirects to ws://127.0.0.1:{elsewhere}/v2;" in error.message
    assert "secret" not in error.message
    assert not reached.is_set()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_connection_refused(host: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        error = await refusal(dial(held.getsockname()[1], host=host))
    assert error.kind is FailureKind.CONNECTION_REFUSED


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"", FailureKind.CONNECT_FAILED),  # as from an endpoint that restarts
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", FailureKind.TLS),
    ],
    ids=["closes", "answers"],
)
async def test_a_plain_tcp_server_for_a_tls_url(said: bytes, kind: FailureKind) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(said)

    async with raw_server(plain) as port:
        error = await refusal(dial(port, "wss"))
    assert error.kind is kind
    assert "does the endpoint speak TLS" in error.message


def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_an_untrusted_certificate() -> None:
    async with endpoint(idle, tls=server_tls(trustme.CA())) as port:
        error = await refusal(dial(port, "wss"))
    assert error.kind is FailureKind.TLS
    assert "certificate" in error.message


@pytest.mark.parametrize("said", [b"", b"hello, who is it?\r\n"], ids=["closes", "speaks first"])
async def test_a_tls_server_without_websockets(said: bytes) -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(other, "127.0.0.1", 0, ssl=server_tls(authority)) as server:
        client = WebSocketTransport(SystemClock(), tls=trusting)
        with pytest.raises(ConnectError) as caught:
            await client.connect(dial(server.sockets[0].getsockname()[1], "wss"), 2)
        assert caught.value.kind in (FailureKind.CONNECT_FAILED, FailureKind.HANDSHAKE, FailureKind.TLS)
        assert "no connection within" not in str(caught.value)
        await client.close()


async def test_tls_with_a_trusted_certificate() -> None:
    authority = trustme.CA()
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with endpoint(echo, tls=server_tls(authority)) as port:
        client = WebSocketTransport(SystemClock(), tls=trusting)
        await client.connect(dial(port, "wss"), 5)
        await client.send("hello")
        assert (await client.receive()).message == "hello"
        await client.close()


@pytest.mark.parametrize(("scheme", "loads"), [("wss", True), ("ws", False)])
async def test_the_trust_store_is_loaded_before_dialling(scheme: str, loads: bool) -> None:
    system_tls.cache_clear()
    await WebSocketTransport(SystemClock()).load(dial(1, scheme))
    assert system_tls.cache_info().currsize == loads


async def test_an_endpoint_that_does_not_answer_the_handshake() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(silent) as port:
        error = await refusal(dial(port), timeout_s=0.2)
    assert error.kind is FailureKind.CONNECT_TIMEOUT
    assert "0.2 s" in error.message


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", FailureKind.HANDSHAKE, "200 OK"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", FailureKind.HANDSHAKE, "404 Not Found"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", FailureKind.HANDSHAKE, "WebSocket handshake"),
        (b"", FailureKind.CONNECT_FAILED, "but the connection closed while reading HTTP status line"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: no\r\n\r\n",
            FailureKind.HANDSHAKE,
            "Sec-WebSocket-Accept",
        ),
    ],
    ids=["http", "not-found", "not-http", "closes", "wrong-accept"],
)
async def test_not_a_websocket(said: bytes, kind: FailureKind, words: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()

    async with raw_server(speak) as port:
        error = await refusal(dial(port))
    assert error.kind is kind
    assert words in error.message


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://127.0.0.1/x", "'ftp'"),
        ("127.0.0.1:80/v1", "wss://HOST/PATH"),
        ("ws:///v1", "wss://HOST/PATH"),
        ("ws://[::1/v1", "cannot be parsed"),
        ("ws://127.0.0.1:99999/v1", "cannot be parsed"),
    ],
)
async def test_bad_urls(url: str, words: str) -> None:
    error = await refusal(Dial(f"{url}?key={KEY}"))
    assert error.kind is FailureKind.CONNECT_FAILED
    assert words in error.message


async def test_a_key_with_a_line_break_never_leaves() -> None:
    async with endpoint(idle) as port:
        error = await refusal(Dial(dial(port).url, {"Authorization": f"Bearer {KEY}\nX-Other: 1"}))
    assert error.kind is FailureKind.AUTHENTICATION
    assert "'Authorization'" in error.message


async def test_a_host_that_does_not_exist() -> None:
    error = await refusal(dial(1, host="no-such-host.invalid"))
    assert error.kind is FailureKind.CONNECT_FAILED
    assert "ws://no-such-host.invalid:1/v1/realtime" in error.message


async def test_loopback_does_not_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "ws_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://user:pw-1@127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with endpoint(echo) as port:
        client = transport()
        await client.connect(dial(port), 5)
        await client.close()
    error = await refusal(dial(80, host="endpoint.invalid"))
    assert error.kind in (FailureKind.CONNECTION_REFUSED, FailureKind.CONNECT_FAILED)
    assert "pw-1" not in error.message


async def test_the_key_is_not_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with endpoint(echo) as port:
        client = transport()
        await client.connect(dial(port), 5)
        await client.send("hello")
        await client.receive()
        await client.close()
    ours = [record for record in caplog.records if record.name.startswith("clients")]
    assert all(KEY not in record.getMessage() for record in ours)
    assert all(record.levelno > logging.DEBUG for record in ours)


async def test_buffered_messages_are_returned_before_the_close() -> None:
    async def say_and_leave(connection: ServerConnection) -> None:
        await connection.send("one")
        await connection.send("two")
        await connection.close(4000, f"invalid_request_error.beta_api_shape_disabled {KEY}")

    async with endpoint(say_and_leave) as port:
        client = transport()
        await client.connect(dial(port), 5)
        await asyncio.sleep(0.05)
        assert [(await client.receive()).message for _ in range(2)] == ["one", "two"]
        for _ in range(2):
            with pytest.raises(TransportClosedError) as end:
                await client.receive()
            assert end.value.code == 4000
            assert end.value.reason == "invalid_request_error.beta_api_shape_disabled ***"
        with pytest.raises(TransportClosedError):
            await client.send("too late")
        await client.close()


async def test_a_connection_lost_within_a_message() -> None:
    async def die(connection: ServerConnection) -> None:
        await connection.send("whole")
        connection.transport.write(b"\x81\x7e\x10\x00" + b"half of four kilobytes")
        await asyncio.sleep(0.05)
        connection.transport.abort()

    async with endpoint(die) as port:
        client = transport()
        await client.connect(dial(port), 5)
        assert (await client.receive()).message == "whole"
        with pytest.raises(TransportClosedError) as end:
            await client.receive()
        assert end.value.code is None
        assert "lost" in end.value.reason
        assert time.monotonic_ns() - end.value.at_ns < 1e9
        await client.close()


async def test_invalid_utf8_is_a_protocol_error() -> None:
    async def garble(connection: ServerConnection) -> None:
        connection.transport.write(b"\x81\x02\xff\xfe")
        await connection.wait_closed()

    async with endpoint(garble) as port:
        client = transport()
        await client.connect(dial(port), 5)
        with pytest.raises(TransportClosedError) as end:
            await client.receive()
        assert end.value.kind is FailureKind.MALFORMED_MESSAGE
        assert end.value.code == 1007
        assert "RFC 6455" in end.value.reason
        await client.close()


async def test_a_message_of_16_mib() -> None:
    size = 16 << 20
    async with endpoint(echo) as port:
        client = transport()
        await client.connect(dial(port), 5)
        await client.send("a" * size)
        arrival = await client.receive()
        assert isinstance(arrival.message, str)
        assert len(arrival.message) == size
        await client.close()


@pytest.mark.parametrize("pieces", [1, 30])
async def test_a_message_over_the_limit_is_reported(pieces: int) -> None:
    """Earlier messages are kept; the close frame gives the reason."""
    told = []

    async def talk(connection: ServerConnection) -> None:
        await connection.send("before")
        with contextlib.suppress(ConnectionClosed):
            await connection.send("a" * (30_000_000 // pieces) for _ in range(pieces))
        await connection.wait_closed()
        told.append(connection.close_code)

    async with endpoint(talk) as port:
        client = transport()
        await client.connect(dial(port), 5)
        assert (await client.receive()).message == "before"
        with pytest.raises(TransportClosedError) as end:
            await client.receive()
        await client.close()
    assert end.value.kind is FailureKind.MESSAGE_TOO_BIG
    assert end.value.message.startswith(
        f"ws://127.0.0.1:{port}/v1/realtime: expected messages of at most 16777216"
    )
    assert ("1000000 bytes after reading" if pieces > 1 else "30000000 bytes") in end.value.message
    assert KEY not in end.value.message
    assert told == [1009]


async def test_a_fragmented_message_has_the_stamp_of_its_last_fragment() -> None:
    async def fragments() -> AsyncIterator[str]:
        yield "first "
        await asyncio.sleep(0.05)
        yield "last"

    async def say(connection: ServerConnection) -> None:
        await connection.send("before")
        await connection.send(fragments())
        await connection.ping()
        await connection.send("after")
        await connection.wait_closed()

    async with endpoint(say) as port:
        client = transport()
        await client.connect(dial(port), 5)
        before, whole, after = [await client.receive() for _ in range(3)]
        await client.close()
    assert [before.message, whole.message, after.message] == ["before", "first last", "after"]
    assert whole.at_ns - before.at_ns > 40e6
    assert after.at_ns >= whole.at_ns


async def test_a_slow_pong_does_not_end_the_session() -> None:
    async def deaf(connection: ServerConnection) -> None:
        connection.transport.pause_reading()
        with contextlib.suppress(ConnectionClosed):
            for number in range(10):
                await asyncio.sleep(0.03)
                await connection.send(str(number))
        connection.transport.resume_reading()
        await connection.wait_closed()

    async with endpoint(deaf) as port:
        async with connect(f"ws://127.0.0.1:{port}", ping_interval=0.01, ping_timeout=0.05) as impatient:
            with pytest.raises(ConnectionClosed, match="keepalive ping timeout"):
                [await impatient.recv() for _ in range(10)]
        client = transport(ping_interval_s=0.01)
        await client.connect(dial(port), 5)
        assert [(await client.receive()).message for _ in range(10)] == [str(n) for n in range(10)]
        await client.send("still there")
        await client.close()


@pytest.mark.parametrize(
    ("interval_s", "keepalive", "pings"), [(0.01, True, True), (None, True, False), (0.01, False, False)]
)
async def test_pings_can_be_disabled(interval_s: float | None, keepalive: bool, pings: bool) -> None:
    received = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(handshake(await reader.readuntil(b"\r\n\r\n")))
        while data := await reader.read(1024):
            received.extend(data)

    async with raw_server(listen) as port:
        client = transport(ping_interval_s=interval_s, close_timeout_s=0.1)
        await client.connect(replace(dial(port), keepalive=keepalive), 5)
        await asyncio.sleep(0.1)
        assert (b"\x89\x80" in received) is pings
        await client.close()


async def burst(messages: int, handling_s: float) -> tuple[list[int], int, int]:
    """Return the stamps of a burst, when its first message was returned, and when all were handled."""

    async def shoot(connection: ServerConnection) -> None:
        frame = b"\x81\x7e\x04\x00" + b"x" * 1024
        connection.transport.write(frame * messages)
        await connection.wait_closed()

    async with endpoint(shoot) as port:
        client = transport()
        await client.connect(dial(port), 5)
        stamps, first_ns = [], 0
        for _ in range(messages):
            stamps.append((await client.receive()).at_ns)
            first_ns = first_ns or time.monotonic_ns()
            await asyncio.sleep(handling_s)
        handled_ns = time.monotonic_ns()
        await client.close()
    return stamps, first_ns, handled_ns


async def test_handling_a_burst_does_not_delay_its_stamps() -> None:
    stamps, first_ns, handled_ns = await burst(messages=50, handling_s=0.004)
    assert stamps == sorted(stamps)
    assert handled_ns - first_ns > 190e6
    assert stamps[-1] - first_ns < 50e6


async def test_cancelling_receive_loses_nothing() -> None:
    async def count(connection: ServerConnection) -> None:
        for number in range(40):
            await connection.send(str(number))
            await asyncio.sleep(0.002)
        await connection.wait_closed()

    async with endpoint(count) as port:
        client = transport()
        await client.connect(dial(port), 5)
        came: list[str | bytes] = []
        cancelled = 0
        while len(came) < 40:
            try:
                async with asyncio.timeout(0.001):
                    came.append((await client.receive()).message)
            except TimeoutError:
                cancelled += 1
        await client.close()
    assert came == [str(number) for number in range(40)]
    assert cancelled > 5


async def test_the_close_reason_is_read_after_a_failed_write() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(handshake(await reader.readuntil(b"\r\n\r\n")))
        writer.write(b"\x81\x05quota" + b"\x88\x07" + (4008).to_bytes(2) + b"spent")
        await writer.drain()
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()  # resets the connection

    async with raw_server(refuse) as port:
        client = transport()
        await client.connect(dial(port), 5)
        sending = client.prepare("too late")
        hold_up(0.1)  # everything has arrived, but nothing was read
        sending()
        assert (await client.receive()).message == "quota"
        with pytest.raises(TransportClosedError) as caught:
            await client.receive()
        await client.close()
    assert (caught.value.code, caught.value.reason) == (4008, "spent")


async def test_a_missing_client_certificate_is_a_tls_failure() -> None:
    authority = trustme.CA()
    serving, trusting = server_tls(authority), ssl.create_default_context()
    serving.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(serving)
    authority.configure_trust(trusting)

    def refuse() -> None:
        raw, _ = listening.accept()
        with raw, contextlib.suppress(ssl.SSLError):
            serving.wrap_socket(raw, server_side=True)  # sends an alert, once the client's handshake is done

    with socket.create_server(("127.0.0.1", 0)) as listening:
        refusing = asyncio.create_task(asyncio.to_thread(refuse))
        client = WebSocketTransport(SystemClock(), tls=trusting)
        with pytest.raises(ConnectError, match="CERTIFICATE_REQUIRED") as caught:
            await client.connect(dial(listening.getsockname()[1], "wss"), 5)
        await client.close()
        await refusing
    assert caught.value.kind is FailureKind.TLS


@contextlib.contextmanager
def sending_thread(tls: ssl.SSLContext | None) -> Iterator[tuple[int, list[int]]]:
    """Serve one client from a thread: one message after 50 ms. Yield the port and when it was sent."""
    sent_ns: list[int] = []

    def serve_one() -> None:
        raw, _ = listening.accept()
        with tls.wrap_socket(raw, server_side=True) if tls is not None else raw as sock:
            request = b""
            while b"\r\n\r\n" not in request:
                request += sock.recv(1024)
            sock.sendall(handshake(request))
            time.sleep(0.05)
            sent_ns.append(time.monotonic_ns())
            sock.sendall(b"\x81\x7e\x04\x00" + b"x" * 1024)
            sock.recv(1024)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve_one)
        thread.start()
        yield listening.getsockname()[1], sent_ns
        thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux stamps what arrives")
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_busy_loop_does_not_move_the_stamps(encrypted: bool) -> None:
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)

    async def converse(port: int) -> tuple[int, StampKind]:
        client = WebSocketTransport(SystemClock(), tls=trusting)
        assert (client.stamp_error_ns, client.clock_steps) == (0, 0)
        await client.connect(dial(port, "wss" if encrypted else "ws"), 5)
        hold_up(0.25)
        at_ns = (await client.receive()).at_ns
        await client.close()
        assert 0 < client.stamp_error_ns < 50e6
        assert client.clock_steps == 0
        return at_ns, client.stamps

    with sending_thread(serving if encrypted else None) as (port, sent_ns):
        at_ns, kind = asyncio.run(converse(port))
    assert kind is StampKind.KERNEL
    assert 0 < at_ns - sent_ns[0] < 100e6


async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
    sink.close()


@contextlib.asynccontextmanager
async def proxy(target: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run an HTTP proxy that connects every host to `target`; yield its port and the requests."""
    requests: list[bytes] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        if b"refuse.test" in requests[-1]:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        up, down = await asyncio.open_connection("127.0.0.1", target)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copied(reader, down), copied(up, writer))

    async with await asyncio.start_server(forward, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1], requests


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, encrypted: bool) -> None:
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("model.test").configure_cert(serving)
    authority.configure_trust(trusting)
    scheme = "wss" if encrypted else "ws"
    async with endpoint(echo, serving if encrypted else None) as target, proxy(target) as (port, requests):
        monkeypatch.setenv(f"{'https' if encrypted else 'http'}_proxy", f"http://me:word@127.0.0.1:{port}")
        client = WebSocketTransport(SystemClock(), tls=trusting)
        await client.connect(dial(443, scheme, "model.test"), 5)
        await client.send("through")
        assert (await client.receive()).message == "through"
        assert next(iter(client.setup_ns)) == "proxy"
        await client.close()
        assert requests[0].startswith(b"CONNECT model.test:443 ")
        error = await refusal(dial(443, scheme, "refuse.test"))
    assert error.kind is FailureKind.CONNECT_FAILED
    assert "proxy" in error.message
    assert "403" in error.message


@contextlib.asynccontextmanager
async def socks_proxy(target: int) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Run a SOCKS5 proxy (RFC 1928, 1929) for ``me:word``; yield its port and the hosts asked for."""
    hosts: list[bytes] = []

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        assert 2 in await reader.readexactly(methods)
        writer.write(b"\x05\x02")  # requires a name and a password
        _, size = await reader.readexactly(2)
        name = await reader.readexactly(size)
        word = await reader.readexactly(*await reader.readexactly(1))
        if (name, word) != (b"me", b"word"):
            writer.write(b"\x01\x01")
            writer.close()
            return
        writer.write(b"\x01\x00")
        assert await reader.readexactly(4) == b"\x05\x01\x00\x03"  # connect to a host by its name
        hosts.append(await reader.readexactly(*await reader.readexactly(1)))
        await reader.readexactly(2)
        refused = hosts[-1] == b"refuse.test"
        writer.write(b"\x05" + (b"\x02" if refused else b"\x00") + b"\x00\x01" + bytes(6))
        if refused:
            writer.close()
            return
        up, down = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(copied(reader, down), copied(up, writer))

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], hosts


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_socks_proxy_of_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("model.test").configure_cert(serving)
    authority.configure_trust(trusting)
    scheme = "wss" if encrypted else "ws"
    async with endpoint(echo, serving if encrypted else None) as target, socks_proxy(target) as (port, hosts):
        monkeypatch.setenv("socks_proxy", f"socks5h://me:word@127.0.0.1:{port}")
        client = WebSocketTransport(SystemClock(), tls=trusting)
        await client.connect(dial(443, scheme, "model.test"), 5)
        await client.send("through")
        assert (await client.receive()).message == "through"
        assert next(iter(client.setup_ns)) == "proxy"
        if sys.platform == "linux":
            assert client.stamps is StampKind.KERNEL
        await client.close()
        assert hosts == [b"model.test"]
        error = await refusal(dial(443, scheme, "refuse.test"))
        assert error.kind is FailureKind.CONNECT_FAILED
        assert "the proxy of the environment failed" in error.message
        assert "not allowed" in error.message
        monkeypatch.setenv("socks_proxy", f"socks5h://me:wrong-pw-1@127.0.0.1:{port}")
        error = await refusal(dial(443, scheme, "model.test"))
        assert error.kind is FailureKind.CONNECT_FAILED
        assert "authentication" in error.message
        assert "wrong-pw-1" not in error.message


async def test_small_messages_are_sent_at_once() -> None:
    async with endpoint(echo) as port:
        client = transport()
        await client.connect(dial(port), 5)
        assert client._connection is not None
        raw = client._connection._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await client.close()


def test_uvloop_too() -> None:
    async def converse() -> None:
        stamps, first_ns, handled_ns = await burst(messages=50, handling_s=0.004)
        assert stamps[-1] - first_ns < 50e6 < handled_ns - first_ns
        await test_small_messages_are_sent_at_once()
        await test_connection_refused("127.0.0.1")
        await test_a_plain_tcp_server_for_a_tls_url(b"", FailureKind.CONNECT_FAILED)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(converse())


async def test_close_is_bounded_without_a_response() -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(handshake(request))
        await gone.wait()

    gone = asyncio.Event()
    async with raw_server(ignore) as port:
        client = transport(close_timeout_s=0.2)
        await client.connect(dial(port), 5)
        sending = asyncio.create_task(flood(client))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await client.close(1000, "é" * 200)
        assert time.monotonic() - began < 1.5
        await client.close()
        await sending
        gone.set()


async def flood(client: WebSocketTransport) -> None:
    """Send until the connection is lost; the peer reads nothing, so the buffers fill."""
    with contextlib.suppress(TransportClosedError):
        while True:
            await client.send("x" * 1_000_000)


def handshake(request: bytes) -> bytes:
    key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


@pytest.mark.parametrize("code", [1000, 1005, 99999])
async def test_close_never_raises(code: int) -> None:
    async with endpoint(echo) as port:
        client = transport()
        await client.close(code)
        await client.connect(dial(port), 5)
        await client.close(code)
        await client.close(code)
        with pytest.raises(TransportClosedError):
            await client.receive()


async def test_use_before_connect_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="connect"):
        await transport().receive()
