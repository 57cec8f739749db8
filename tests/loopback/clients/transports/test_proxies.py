"""Proxies of the environment."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme
from websockets.asyncio.server import ServerConnection

from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.errors import FailureKind
from live_eval.types import StampKind
from tests.loopback.clients.transports.websocket_servers import dial, echo, endpoint, refusal, transport

KEY = "sk-test-5e4f1b"


Handler = Callable[[ServerConnection], Awaitable[None]]


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
        assert "the proxy from the environment failed" in error.message
        assert "not allowed" in error.message
        monkeypatch.setenv("socks_proxy", f"socks5h://me:wrong-pw-1@127.0.0.1:{port}")
        error = await refusal(dial(443, scheme, "model.test"))
        assert error.kind is FailureKind.CONNECT_FAILED
        assert "authentication" in error.message
        assert "wrong-pw-1" not in error.message
