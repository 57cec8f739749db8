"""Messages of a WebSocket connection: limits, fragments, stamps and pings."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from live_eval.clients.transports.websocket import WebSocketTransport
from live_eval.clock import SystemClock
from live_eval.errors import FailureKind, TransportClosedError
from live_eval.types import StampKind
from tests.loopback.clients.transports.websocket_servers import (
    burst,
    dial,
    echo,
    endpoint,
    raw_server,
    transport,
)
from tests.support.busy_loop import hold_up

KEY = "sk-test-5e4f1b"


Handler = Callable[[ServerConnection], Awaitable[None]]


RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


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


@contextlib.contextmanager
def sending_thread(tls: ssl.SSLContext | None) -> Iterator[tuple[int, list[int]]]:
    """Serve one client from a thread: one message after 50 ms. Yield the port and the send time."""
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


@pytest.mark.skipif(sys.platform != "linux", reason="kernel timestamps require Linux")
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
