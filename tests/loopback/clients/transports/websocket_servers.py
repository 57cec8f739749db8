"""WebSocket servers, and connections to them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.server import Server, ServerConnection, serve

from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.dialect import Dial
from live_eval.errors import ConnectError

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


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


async def refusal(to: Dial, timeout_s: float = 5.0) -> ConnectError:
    """Return the error of a connection that must fail; the error must not contain the key."""
    client = transport()
    with pytest.raises(ConnectError) as caught:
        await client.connect(to, timeout_s)
    assert KEY not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    await client.close()
    return caught.value


async def burst(messages: int, handling_s: float) -> tuple[list[int], int, int]:
    """Return a burst's stamps, the time of its first message's return, and the time all were handled."""

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
