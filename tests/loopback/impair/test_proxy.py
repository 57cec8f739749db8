"""The impairing proxy between unaware clients and real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest
import trustme
from aiohttp import WSMsgType, web
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.clock import SystemClock
from live_eval.errors import UsageError
from live_eval.impair import parse
from live_eval.impair.proxy import ImpairingProxy
from tests.support.serving import listening


async def echo(request: web.Request) -> web.StreamResponse:
    """Echo a body, or the messages of a WebSocket, with the requested host."""
    if request.headers.get("Upgrade") == "websocket":
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await socket.send_str(message.data)
        return socket
    upgrades = ", ".join(name for name in ("Upgrade", "HTTP2-Settings") if name in request.headers)
    headers = {"X-Host": request.headers["Host"], "X-Upgrades": upgrades}
    return web.Response(body=await request.read(), headers=headers)


@contextlib.asynccontextmanager
async def proxied(
    spec: str, *, tls: bool = False, **limits: int
) -> AsyncIterator[tuple[ImpairingProxy, str]]:
    """A proxy of an echoing server, and the server's own host and port."""
    application = web.Application(client_max_size=8 << 20)
    application.router.add_route("*", "/v1/echo", echo)
    theirs = ours = None
    if tls:
        authority, theirs, ours = (
            trustme.CA(),
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            ssl.create_default_context(),
        )
        authority.issue_cert("localhost").configure_cert(theirs)
        authority.configure_trust(ours)
    async with listening(application, tls=theirs) as address:
        port = address.partition(":")[2]
        url = f"https://localhost:{port}" if tls else f"ws://{address}"
        async with ImpairingProxy(url, parse(spec), SystemClock(), tls=ours, **limits) as proxy:
            yield proxy, url.partition("//")[2]


@pytest.mark.parametrize("tls", [False, True])
async def test_a_request_passes_late_and_in_the_endpoints_name(tls: bool) -> None:
    clock = SystemClock()
    async with proxied("delay=100ms", tls=tls) as (proxy, authority), aiohttp.ClientSession() as client:
        for body in (b"", b"x" * 1_000_000):  # the second one is a connection of its own
            began_ns = clock.now_ns()
            async with client.post(f"{proxy.origin}/v1/echo", data=body) as answer:
                assert await answer.read() == body
                assert answer.headers["X-Host"] == authority
            assert clock.now_ns() - began_ns >= 200_000_000


@pytest.mark.parametrize("tls", [False, True])
async def test_a_websocket_passes_late(tls: bool) -> None:
    clock = SystemClock()
    async with (
        proxied("delay=50ms", tls=tls) as (proxy, _),
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{proxy.origin}/v1/echo") as socket,
    ):
        for text in ("one", "two"):
            began_ns = clock.now_ns()
            await socket.send_str(text)
            assert await socket.receive_str() == text
            assert clock.now_ns() - began_ns >= 100_000_000


@pytest.mark.parametrize("spec", ["down.limit=100B", "timeout=100ms", "reset=0ms", "up.limit=50B"])
async def test_a_broken_connection_reaches_the_client(spec: str) -> None:
    async with proxied(spec) as (proxy, _), aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):
            async with asyncio.timeout(5), client.get(f"{proxy.origin}/v1/echo") as answer:
                await answer.read()


async def test_a_slow_connection_applies_backpressure_without_buffering() -> None:
    async with proxied("bandwidth=80kbps") as (proxy, _):
        host, port = proxy.origin.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        sent = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while True:
                    writer.write(bytes(1 << 16))
                    await writer.drain()
                    sent += 1 << 16
        assert sent < 20 << 20  # the buffers of the sockets and the proxy
        writer.transport.abort()


async def said(proxy: ImpairingProxy, request: bytes) -> bytes:
    host, port = proxy.origin.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    return answer


REQUEST = b"GET /v1/echo HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (REQUEST.replace(b"localhost", b"evil.example") + b"\r\n", b"403"),
        (b"GET /v1/echo HTTP/1.1\r\n\r\n", b"403"),
        (REQUEST + b"Host: localhost\r\n\r\n", b"403"),
        (REQUEST + b"Origin: http://evil.example\r\n\r\n", b"403"),
        (REQUEST + b"Origin: http://localhost:3000\r\n\r\n", b"200"),
        (b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example\r\n\r\n", b"400"),
        (b"GET http://api.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (REQUEST + b" folded\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"),
        (REQUEST + b"X: " + b"x" * 70_000 + b"\r\n\r\n", b"431"),
    ],
)
async def test_requests_that_a_proxy_must_not_pass_on_are_refused(request_: bytes, status: bytes) -> None:
    async with proxied("delay=1ms") as (proxy, _):
        answer = await said(proxy, request_)
    assert answer.split()[1] == status


async def test_an_unreachable_endpoint_is_reported() -> None:
    async with ImpairingProxy("http://127.0.0.1:9", parse("delay=1ms"), SystemClock()) as proxy:
        answer = await said(proxy, REQUEST + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"cannot reach 127.0.0.1:9" in answer


async def test_an_endpoint_that_times_out_is_reported() -> None:
    async with proxied("delay=1ms", connect_s=0) as (proxy, _):
        answer = await said(proxy, REQUEST + b"\r\n")
    assert answer.rstrip().endswith(b": TimeoutError")


async def test_only_a_websocket_is_upgraded() -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    async with proxied("delay=1ms") as (proxy, _):
        answer = await said(proxy, REQUEST + upgrade)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"X-Upgrades: \r\n" in answer


@contextlib.asynccontextmanager
async def recording(answer: bytes) -> AsyncIterator[tuple[ImpairingProxy, bytearray]]:
    """A proxy of an endpoint that answers each head and never closes, and what the endpoint received."""
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered = 0
        while data := await reader.read(1 << 16):
            received.extend(data)
            heads = received.count(b"\r\n\r\n")
            writer.write(answer * (heads - answered))
            answered = heads
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ImpairingProxy(f"http://127.0.0.1:{port}", parse("delay=1ms"), SystemClock()) as proxy:
        yield proxy, received


async def answered_twice(proxy: ImpairingProxy, first: bytes, second: bytes) -> bytes:
    """Send a request, and another one after the first response; return the bytes that the client reads."""
    host, port = proxy.origin.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(first)
    async with asyncio.timeout(5):
        answer = await reader.read(1 << 16)
        writer.write(second)
        await asyncio.sleep(0.05)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return answer


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
SECOND = b"GET /second HTTP/1.1\r\nHost: evil.example\r\n\r\n"
POST = b"POST /first HTTP/1.1\r\nHost: localhost\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"


@pytest.mark.parametrize(
    "first",
    [
        REQUEST + b"\r\n",
        REQUEST + b"Connection: keep-alive\r\n\r\n",
        POST + b"Content-Length: 5\r\n\r\nhello",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
        POST + b"Content-Length: 0\r\n\r\n",
        POST + b"Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
        REQUEST + UPGRADE + b"\r\n",  # a false upgrade: without a key
        REQUEST + b"Connection: keep-alive\r\nUpgrade: websocket\r\n" + KEY + b"\r\n",
        REQUEST + UPGRADE + b"Sec-WebSocket-Key: short\r\n\r\n",
        POST + UPGRADE + KEY + b"Content-Length: 5\r\n\r\nhello",
        REQUEST + UPGRADE + KEY + b"\r\n",  # a true one, which the endpoint does not accept
        REQUEST.replace(b"1.1", b"1.0") + UPGRADE + KEY + b"\r\n",
    ],
)
async def test_a_connection_carries_one_request(first: bytes) -> None:
    for pipelined in (True, False):
        async with recording(OK) as (proxy, received):
            sent = (first + SECOND, b"") if pipelined else (first, SECOND)
            answer = await answered_twice(proxy, *sent)
        assert received.count(b"HTTP/1.1\r\n") <= 1, received
        assert b"second" not in received
        assert b"evil" not in received
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"\r\nConnection: close\r\n" in answer
        assert b"keep-alive" not in answer


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"Content-Length: +5\r\n\r\n",
        b"Content-Length: 5, 5\r\n\r\n",
        b"Content-Length: 0x5\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: \xd9\xa5\r\n\r\n",
        b"Content-Length:\r\n\r\n",
        b"Content-Length : 5\r\n\r\n",
        b"Transfer-Encoding : chunked\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n",
        b"Transfer-Encoding: \x0bchunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"X: a\nTransfer-Encoding: chunked\r\n\r\n",
        b"X: a\rTransfer-Encoding: chunked\r\n\r\n",
        b"X: a\0b\r\n\r\n",
        b"X:" + b" " * 60_000 + b"\0\r\n\r\n",  # without waiting for a timeout
        b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5;a\n\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nhello\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n GET\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n5;" + b"x" * 9_000 + b"\r\n",
    ],
)
async def test_a_request_whose_end_is_unclear_is_refused(headers: bytes) -> None:
    async with recording(b"") as (proxy, received):
        answer = await said(proxy, POST + headers + SECOND)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"second" not in received


async def test_a_websocket_opens_once_the_endpoint_has_accepted_it() -> None:
    frames = b"\x81\x02hi"
    switching = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    async with recording(b"HTTP/1.1 103 Early Hints\r\n\r\n" + switching) as (proxy, received):
        host, port = proxy.origin.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(REQUEST + UPGRADE + KEY + b"\r\n" + frames)
        async with asyncio.timeout(5):
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"\r\n\r\n") == switching
            writer.write(frames)
            writer.write_eof()
            await reader.read()
        writer.close()
        assert received.endswith(b"\r\n\r\n" + frames * 2)


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\nmore", b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ),
        (b"no HTTP at all\r\n\r\n", b"no HTTP at all\r\n\r\n"),
        (b"\0" * 200_000, b"\0" * 200_000),
    ],
)
async def test_a_response_is_forwarded_to_its_end(answer: bytes, passed: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, ImpairingProxy(f"http://127.0.0.1:{port}", parse("delay=1ms"), SystemClock()) as proxy:
        assert await said(proxy, REQUEST + b"\r\n") == passed


async def test_idle_connections_are_displaced() -> None:
    async with proxied("delay=1ms", most_asking=3) as (proxy, _):
        host, port = proxy.origin.removeprefix("http://").split(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(5)]
        assert (await said(proxy, REQUEST + b"\r\n")).split()[1] == b"200"
        async with asyncio.timeout(5):
            assert await silent[0][0].read() == b""
        for _, writer in silent:
            writer.close()


async def test_connections_beyond_the_limit_are_refused() -> None:
    async with (
        proxied("delay=1ms", most_connections=1) as (proxy, _),
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{proxy.origin}/v1/echo"),
    ):
        assert (await said(proxy, REQUEST + b"\r\n")).split()[1] == b"503"


@pytest.mark.parametrize(
    ("url", "spec", "said"),
    [
        ("ftp://x", "delay=1ms", "expected a URL such as"),
        ("http://me:hush@x", "delay=1ms", "--to 'x': expected a URL"),
        ("http://x/v1", "delay=1ms", "without a path"),
        ("http://x:99999", "delay=1ms", "expected a URL such as"),
        ("http://x", "loss=5%", "TCP repairs"),
        ("http://x", "delay=1ms,noise=10dB", "user's audio"),
    ],
)
def test_invalid_proxy_settings_are_refused(url: str, spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ImpairingProxy(url, parse(spec), SystemClock())


@pytest.mark.slow
async def test_the_command_serves_until_it_is_terminated() -> None:
    application = web.Application()
    application.router.add_route("*", "/v1/echo", echo)
    async with listening(application) as address:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "live_eval", "impair", "delay=1ms", "--to", f"http://{address}"),
            *("--listen", "0", "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        printed = json.loads(await process.stdout.readline())
        async with aiohttp.ClientSession() as client, client.get(f"{printed['url']}/v1/echo") as answer:
            assert answer.headers["X-Host"] == address
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert printed["spec"] == "delay=1ms"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--list", "--to", "http://x"],
        ["delay=1ms", "--listen", "0"],
        ["--to", "http://x"],
        ["noise=3dB", "--to", "http://x"],
    ],
)
def test_contradictory_arguments_of_the_command_are_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(cli, ["impair", *arguments]).exit_code != 0
