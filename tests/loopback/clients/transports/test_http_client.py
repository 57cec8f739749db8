"""Impaired requests against real servers: a chat endpoint's answers, and a WebRTC endpoint's signalling."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
import uvloop
from aiohttp import web

from live_eval.clients.transports._http_client import request_url
from live_eval.clients.transports.http import HttpTransport
from live_eval.clients.transports.webrtc import WebRtcTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial, SdpBody, Signalling
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from live_eval.impair import parse
from tests.support.rtc_peer import Peer, endpoint
from tests.support.serving import listening

PIECES = 10
PIECE = "x" * 490


async def tell(request: web.Request) -> web.StreamResponse:
    """Answer with ten events of 500 bytes, one every 10 ms."""
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        for _ in range(PIECES):
            await response.write(f"data: {PIECE}\n\n".encode())
            await asyncio.sleep(0.01)
    return response


@contextlib.asynccontextmanager
async def telling(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    application = web.Application(client_max_size=1 << 20)
    application.router.add_post("/v1/chat", tell)
    async with listening(application, tls=tls) as address:
        yield int(address.partition(":")[2])


async def asked(url: str, spec: str) -> tuple[int, float, TransportClosedError | None]:
    """Return the number of events, the time of the last one in seconds, and the request's error."""
    clock = SystemClock()
    client = HttpTransport(clock, impairment=parse(spec))
    await client.connect(Dial(url), 5)
    heard, began_ns, failed = 0, clock.now_ns(), None
    try:
        async with asyncio.timeout(5):
            await client.send("x" * 20_000)
            while heard < PIECES:
                await client.receive()
                heard += 1
    except TransportClosedError as closed:
        failed = closed
    lasted_s = (clock.now_ns() - began_ns) / 1e9
    async with asyncio.timeout(1):  # less than a slow close takes
        await client.close()
    return heard, lasted_s, failed


@pytest.mark.parametrize(
    ("spec", "least_s"),
    [
        ("delay=150ms", 0.3),
        ("delay=100ms,jitter=10ms", 0.15),
        ("down.bandwidth=200kbps", 0.2),
        ("down.chunk=100B,down.gap=5ms", 0.25),
        ("slow_close=30s", 0.09),
    ],
)
async def test_a_response_over_an_impaired_connection_is_late_but_complete(spec: str, least_s: float) -> None:
    async with telling() as port:
        heard, lasted_s, failed = await asked(f"http://127.0.0.1:{port}/v1/chat", spec)
    assert (heard, failed) == (PIECES, None)
    assert lasted_s >= least_s


@pytest.mark.parametrize(
    ("spec", "kind", "most"),
    [
        ("down.limit=2kB", FailureKind.CLOSED, 4),
        ("up.limit=2kB", FailureKind.CONNECT_FAILED, 0),
        ("timeout=100ms", FailureKind.CONNECT_FAILED, 0),
        ("reset=50ms", FailureKind.CLOSED, 7),
        ("reset=0ms", FailureKind.CONNECT_FAILED, 0),
    ],
)
async def test_a_request_over_a_broken_connection_fails(spec: str, kind: FailureKind, most: int) -> None:
    async with telling() as port:
        heard, lasted_s, failed = await asked(f"http://127.0.0.1:{port}/v1/chat", spec)
    assert failed is not None
    assert failed.kind is kind
    assert heard <= most
    assert lasted_s < 2


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_behind_tls_the_name_stays_that_of_the_endpoint(
    loop: type[asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, trusting = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(trusting)
    monkeypatch.setattr("live_eval.clients.transports._http_client.system_tls", lambda: trusting)
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(theirs)
    named: list[str | None] = []
    theirs.sni_callback = lambda _socket, name, _context: named.append(name)

    async def main() -> None:
        async with telling(theirs) as port:
            url = f"https://localhost:{port}/v1/chat"
            late, reset = await asyncio.gather(
                asked(url, "delay=150ms,slow_close=9s"), asked(url, "reset=50ms")
            )
        assert late[0] == PIECES
        assert late[1] >= 0.3
        assert reset[2] is not None

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert set(named) == {"localhost"}


CHANNEL = Signalling(SdpBody.JSON, SdpBody.JSON, fields={"webrtc_id": "w-1"}, channel="events")


@pytest.mark.parametrize("spec", ["down.limit=100B", "timeout=100ms", "reset=0ms"])
async def test_signalling_over_a_broken_connection_fails(spec: str) -> None:
    async with endpoint(Peer()) as url:
        client = WebRtcTransport(SystemClock(), impairment=parse(spec))
        with pytest.raises(ConnectError) as refused:
            await client.connect(Dial(url, signalling=CHANNEL), 5)
    assert refused.value.kind is FailureKind.CONNECT_FAILED


async def test_signalling_in_pieces_takes_longer_and_succeeds() -> None:
    async with endpoint(Peer()) as url:
        client = WebRtcTransport(SystemClock(), impairment=parse("up.chunk=200B,up.gap=10ms,slow_close=30s"))
        await client.connect(Dial(url, signalling=CHANNEL), 5)
        await client.close()
    assert client.setup_ns["answer"] >= 50_000_000


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
def test_a_key_replaces_the_login_of_a_url(name: str) -> None:
    url = "https://me:hush@host:8443/v1?signed=a%2Fb"
    assert request_url(Dial(url)) == url
    assert request_url(Dial(url, {name: "Bearer k"})) == "https://host:8443/v1?signed=a%2Fb"
