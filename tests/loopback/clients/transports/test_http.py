"""The HTTP transport against real servers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trustme
from aiohttp import web

from live_eval.clients.transports.http import EventStream, HttpTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial, Message
from live_eval.errors import ConnectError, FailureKind, TransportClosedError
from tests.support.serving import listening

KEY = "sk-test-5e4f1b"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}
MOST_BYTES = 16 << 20


def dial(port: int, scheme: str = "http") -> Dial:
    return Dial(
        f"{scheme}://127.0.0.1:{port}/v1/chat/completions?key={KEY}",
        {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )


@contextlib.asynccontextmanager
async def endpoint(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    application = web.Application(client_max_size=64 << 20)
    application.router.add_post("/v1/chat/completions", handler)
    async with listening(application, tls=tls) as address:
        yield int(address.partition(":")[2])


@contextlib.asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[int]:
    """Answer a request with these bytes after its headers, and close."""

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(serve_one, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.asynccontextmanager
async def connected(to: Dial, timeout_s: float = 5.0) -> AsyncIterator[HttpTransport]:
    client = HttpTransport(SystemClock())
    await client.connect(to, timeout_s)
    try:
        yield client
    finally:
        await client.close()


async def drain(client: HttpTransport) -> None:
    while True:
        await client.receive()


async def failure(to: Dial) -> TransportClosedError:
    """Return the error of a request that must fail; the error must not contain the key."""
    async with connected(to) as client:
        await client.send("{}")
        with pytest.raises(TransportClosedError) as caught:
            await drain(client)
        again = caught.value
        with pytest.raises(TransportClosedError) as sent:
            await client.send("{}")
        assert sent.value is again
    assert KEY not in str(again)
    return again


async def streaming(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers=STREAM)
    await response.prepare(request)
    return response


async def test_a_body_is_split_at_nul_bytes() -> None:
    sent = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"text":"It')
        await response.write(b'"}\0{"te')
        await sent.wait()
        await response.write(b'xt":"It is"}\0\0rest')
        return response

    async with endpoint(answer) as port, connected(dial(port)) as client:
        await client.send("{}")
        assert (await client.receive()).message == '{"text":"It"}'
        sent.set()
        assert [(await client.receive()).message for _ in range(2)] == ['{"text":"It is"}', "rest"]


async def test_request_and_response() -> None:
    seen = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((await request.text(), request.headers["Authorization"], request.query["key"]))
        return web.json_response({"id": "chatcmpl-1"})

    async with endpoint(answer) as port, connected(dial(port)) as client:
        assert client.track is None
        assert client.setup_ns == {}
        await client.send('{"stream":true}')
        arrival = await client.receive()
        await client.send(b"again")
        for _ in ("end of the first response", "second response"):
            await client.receive()
    assert arrival.message == '{"id": "chatcmpl-1"}'
    assert seen == [('{"stream":true}', f"Bearer {KEY}", KEY), ("again", f"Bearer {KEY}", KEY)]


async def test_events_arrive_one_by_one_each_with_its_stamp() -> None:
    """Each event arrives before the next one is sent, and is stamped between the two."""
    clock = SystemClock()
    taken, sent_ns = asyncio.Event(), []

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await streaming(request)
        for half in (b'data: {"n":', b"1}\n\n"):
            sent_ns.append(clock.now_ns())
            await response.write(half)
        await taken.wait()
        sent_ns.append(clock.now_ns())
        await response.write(b'data: {"n":2}\n\ndata: [DONE]\n\n')
        return response

    async with endpoint(answer) as port, connected(dial(port)) as client:
        await client.send("{}")
        first = await client.receive()
        taken.set()
        rest = [await client.receive() for _ in range(2)]
    assert [first.message, *(arrival.message for arrival in rest)] == ['{"n":1}', '{"n":2}', "[DONE]"]
    assert sent_ns[1] < first.at_ns < sent_ns[2] < rest[0].at_ns
    assert rest[0].at_ns == rest[1].at_ns


async def test_until_close_only_the_end_follows_a_response() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="{}")

    async with endpoint(answer) as port, connected(dial(port)) as client:
        await client.send("{}")
        assert [(await client.receive()).message for _ in range(2)] == ["{}", ""]
        waiting = asyncio.create_task(client.receive())
        done, _ = await asyncio.wait((waiting,), timeout=0.1)
        assert not done
        await client.close(1000, "bye")
        with pytest.raises(TransportClosedError, match="closed by the client: bye"):
            await waiting


async def test_close_cancels_a_request_in_progress() -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await streaming(request)
        begun.set()
        try:
            while True:
                await response.write(b": ping\n\n")
                await asyncio.sleep(0.01)
        except ConnectionError:
            gone.set()
            raise

    async with endpoint(answer) as port, connected(dial(port)) as client:
        await client.send("{}")
        await begun.wait()
        await client.close()
        await client.close()
        async with asyncio.timeout(2):
            await gone.wait()


async def test_binary_data_is_passed_as_bytes() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"\xff\xfe")

    async with endpoint(answer) as port, connected(dial(port)) as client:
        await client.send("{}")
        assert (await client.receive()).message == b"\xff\xfe"


# -- What goes wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_value", FailureKind.ENDPOINT_ERROR),
        (401, "invalid_api_key", FailureKind.AUTHENTICATION),
        (404, "model_not_found", FailureKind.UNKNOWN_MODEL),
        (429, "rate_limit_exceeded", FailureKind.RATE_LIMITED),
        (500, None, FailureKind.SERVER_ERROR),
        (503, None, FailureKind.UNAVAILABLE),
    ],
)
async def test_refusing_statuses(status: int, code: str | None, kind: FailureKind) -> None:
    async def answer(request: web.Request) -> web.Response:
        error = {"message": f"Not with {KEY}.", "type": "some_error", "code": code}
        return web.json_response({"error": error}, status=status, headers={"Retry-After": "7"})

    async with endpoint(answer) as port:
        end = await failure(dial(port))
    assert end.kind is kind
    assert end.retry_after_s == 7
    assert end.message.startswith(
        f"http://127.0.0.1:{port}/v1/chat/completions: expected a response with HTTP"
    )
    assert f"got {status} " in end.message
    assert "Not with ***" in end.message


async def test_a_web_page_is_not_a_response() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="\n<!doctype html><p>Welcome!", content_type="text/html")

    async with endpoint(answer) as port:
        end = await failure(dial(port))
    assert end.kind is FailureKind.HANDSHAKE
    assert end.message.endswith("got a web page: check the base URL")


async def test_a_refusal_with_an_endless_body_is_reported() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=401)
        await response.prepare(request)
        await response.write(b"No.")
        await asyncio.sleep(30)
        return response

    async with endpoint(answer) as port, connected(dial(port), timeout_s=0.2) as client:
        await client.send("{}")
        with pytest.raises(TransportClosedError, match=r"got 401 Unauthorized; body: No\.") as end:
            await client.receive()
    assert end.value.kind is FailureKind.AUTHENTICATION


async def test_a_redirect_is_not_followed() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "/elsewhere?x=1"})

    async with endpoint(answer) as port:
        end = await failure(dial(port))
    assert end.kind is FailureKind.HANDSHAKE
    assert "redirects to /elsewhere; use that" in end.message


async def test_connection_refused() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        end = await failure(dial(free.getsockname()[1]))
    assert end.kind is FailureKind.CONNECTION_REFUSED


async def test_an_untrusted_certificate() -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="{}")

    async with endpoint(answer, tls) as port:
        end = await failure(dial(port, "https"))
    assert end.kind is FailureKind.TLS
    assert "does this machine trust" in end.message


async def test_a_server_without_tls() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="{}")

    async with endpoint(answer) as port:
        end = await failure(dial(port, "https"))
    assert end.kind is FailureKind.TLS
    assert "speak TLS" in end.message


async def test_a_connection_timeout() -> None:
    """The listener's backlog is full, so that the TCP handshake waits."""
    with socket.socket() as listener, contextlib.ExitStack() as fillers:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        async with connected(dial(port), 0.2) as client:
            await client.send("{}")
            with pytest.raises(TransportClosedError) as end:
                await client.receive()
    assert end.value.kind is FailureKind.CONNECT_TIMEOUT
    assert "within 0.2 s" in end.value.message


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"id":',
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'6\r\n{"id":\r\n',
    ],
    ids=["length", "chunked"],
)
async def test_a_truncated_body(answer: bytes) -> None:
    async with raw_server(answer) as port:
        end = await failure(dial(port))
    assert end.kind is FailureKind.CLOSED
    assert end.code is None
    assert (
        f"http://127.0.0.1:{port}/v1/chat/completions: the response was cut off after 6 bytes" in end.reason
    )


async def test_data_before_the_truncation_is_kept() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 100\r\n\r\n"
    async with raw_server(head + b"data: 1\n\ndata: 2") as port, connected(dial(port)) as client:
        await client.send("{}")
        assert (await client.receive()).message == "1"
        with pytest.raises(TransportClosedError, match="cut off after 16 bytes"):
            await client.receive()


@pytest.mark.parametrize("answer", [b"", b"220 mail.example ESMTP\r\n"], ids=["nothing", "no HTTP"])
async def test_invalid_responses(answer: bytes) -> None:
    async with raw_server(answer) as port:
        end = await failure(dial(port))
    assert end.kind in (FailureKind.CONNECT_FAILED, FailureKind.HANDSHAKE)
    assert "expected an HTTP response" in end.message


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_over_the_size_limit(stream: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=STREAM if stream else {})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                await response.write(b"a" * 1_000_000)
        return response

    async with endpoint(answer) as port:
        end = await failure(dial(port))
    assert end.kind is FailureKind.MESSAGE_TOO_BIG
    assert f"expected a response of at most {MOST_BYTES} bytes" in end.message


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http:///x", "ws://127.0.0.1:1/x"])
async def test_an_invalid_address(url: str) -> None:
    with pytest.raises(ConnectError, match="expected a URL such as https://HOST/PATH"):
        await HttpTransport(SystemClock()).connect(Dial(url), 5)


async def test_use_before_connect_is_an_error() -> None:
    client = HttpTransport(SystemClock())
    with pytest.raises(RuntimeError, match="connect"):
        await client.send("{}")
    await client.close()


# -- Event streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stream", "messages"),
    [
        (b"data: 1\n\ndata: 2\n\n", ["1", "2"]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", ["1", "2"]),
        (b"data: 1\r\rdata: 2\r\r", ["1", "2"]),
        (b"\xef\xbb\xbfdata:1\n\n", ["1"]),
        (b": a comment\nevent: delta\nid: 7\nretry: 10\ndata: 1\n\n", ["1"]),
        (b"data: {\ndata:  }\n\n", ["{\n }"]),
        (b"event: ping\n\n\n\n", []),
        (b"data: 1\n\ndata: [DONE]\n", ["1", "[DONE]"]),
        (b"data: 1\n\ndata: [DONE]", ["1", "[DONE]"]),
        (b"data\n\n", [""]),
        (b"", []),
    ],
)
@pytest.mark.parametrize("piece", [1, 2, 3, 1_000])
def test_event_streams(stream: bytes, messages: list[Message], piece: int) -> None:
    events = EventStream()
    came = [data for at in range(0, len(stream), piece) for data in events.push(stream[at : at + piece])]
    assert [data.decode() for data in (*came, *events.finish())] == messages
