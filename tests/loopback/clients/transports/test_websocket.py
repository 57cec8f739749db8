"""WebSocket connections: handshakes, refusals and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus

import pytest
import trustme
import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from live_eval.clients.transports._http_errors import system_tls
from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from tests.loopback.clients.transports.websocket_servers import (
    burst,
    dial,
    echo,
    endpoint,
    port_of,
    raw_server,
    refusal,
    transport,
)

KEY = "sk-test-5e4f1b"


Handler = Callable[[ServerConnection], Awaitable[None]]


RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def refusing(response: Response) -> AsyncIterator[int]:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return response

    async with serve(idle, "127.0.0.1", 0, process_request=refuse) as server:
        yield port_of(server)


async def idle(connection: ServerConnection) -> None:
    await connection.wait_closed()


def answer(status: HTTPStatus, body: str, **headers: str) -> Response:
    fields = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    fields["Content-Length"] = str(len(body.encode()))
    return Response(status.value, status.phrase, fields, body.encode())


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
        ("ws://[::1/v1", "cannot parse"),
        ("ws://127.0.0.1:99999/v1", "cannot parse"),
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
