"""A hostile client and its attacks on our servers: connections, headers, paths, hosts."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from websockets.frames import Frame, Opcode

from live_eval.sockets.resets import reset_on_close

__all__ = ["ANYWHERE", "Attack", "Attacker", "forget", "handshake", "message", "path_escape", "text"]

MIB = 1 << 20
ATTEMPTS = 100_000
AT_A_TIME = 256


class Attacker:
    """A client that counts its requests.

    Args:
        port: The server's port on this machine.
        request: Head of a request to which the server responds with status 200, without the empty line.
        probe: Head of a request that the server must reject from other hosts and origins.
    """

    def __init__(self, port: int, request: bytes, probe: bytes) -> None:
        self.port = port
        self.request = request
        self.probe = probe
        self.count = 0
        self.admitted = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a TCP connection."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, data: bytes) -> bytes:
        """Send a request on a new connection; return the beginning of the response."""
        reader, writer = await self.connect()
        try:
            await self.send(writer, data)
            return await reader.read(200)
        except OSError:
            return b""
        finally:
            writer.transport.abort()

    async def session(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open an OpenAI session: the probe is its handshake."""
        reader, writer = await self.connect()
        writer.write(self.probe + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    async def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send bytes and count them as one request."""
        writer.write(data)
        await writer.drain()
        self.count += 1

    async def again(self, data: bytes, *, reads: bool = True) -> None:
        """Send the same bytes repeatedly, in sequential sessions."""
        while True:
            reader, writer = await self.session()
            reading = asyncio.create_task(forget(reader)) if reads else None
            with contextlib.suppress(OSError):
                while not writer.is_closing():
                    await self.send(writer, data)
            writer.transport.abort()
            if reading is not None:
                await reading

    async def post(self, path: str, kind: str, body: bytes) -> bytes:
        """Send a request and return the beginning of the response."""
        reader, writer = await self.connect()
        about = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{about}"
        with contextlib.suppress(OSError):
            await self.send(writer, head.encode() + body)
        with contextlib.suppress(OSError):
            return await reader.read(200)
        return b""


Attack = Callable[[Attacker], Coroutine[Any, Any, None]]


async def forget(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(MIB):
            pass


def handshake(path: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
    ).encode()


def message(**fields: object) -> bytes:
    return Frame(Opcode.TEXT, json.dumps(fields).encode()).serialize(mask=True)


def text(data: bytes) -> bytes:
    return Frame(Opcode.TEXT, data).serialize(mask=True)


# -- Connections ---------------------------------------------------------------------------------------


async def half_open(attacker: Attacker) -> None:
    """Connect, send half a request, and wait."""
    held = []
    while True:
        with contextlib.suppress(OSError):
            _, writer = await attacker.connect()
            held.append(writer)
            await attacker.send(writer, b"GET / HTTP/1.1\r\nHost:")
        if len(held) > 3_000:
            held.pop(0).transport.abort()


async def slow_headers(attacker: Attacker) -> None:
    """Send one header per second on a thousand connections."""
    writers = [(await attacker.connect())[1] for _ in range(1_000)]
    for writer in writers:
        writer.write(b"GET / HTTP/1.1\r\n")
    while True:
        for writer in writers:
            with contextlib.suppress(OSError):
                await attacker.send(writer, b"X: y\r\n")
        await asyncio.sleep(1)


async def long_headers(attacker: Attacker) -> None:
    """Send headers without end."""
    while True:
        _, writer = await attacker.connect()
        with contextlib.suppress(OSError):
            writer.write(b"GET / HTTP/1.1\r\n")
            while not writer.is_closing():
                await attacker.send(writer, b"X: " + b"y" * 4_000 + b"\r\n")
        writer.transport.abort()


async def connection_attempts(attacker: Attacker) -> None:
    """Connect 100,000 times, each time with half a request, and disconnect shortly afterwards."""
    loop, numbers = asyncio.get_running_loop(), itertools.count()
    held: deque[socket.socket] = deque()

    async def connect() -> None:
        while (number := next(numbers)) < ATTEMPTS:
            sock = socket.socket()
            sock.setblocking(False)
            reset_on_close(sock)  # so that no port stays in TIME_WAIT
            # One source address has 28,000 ports.
            sock.bind((f"127.0.0.{1 + number % 8}", 0))
            with contextlib.suppress(OSError):
                await loop.sock_connect(sock, ("127.0.0.1", attacker.port))
                sock.send(b"GET / HTTP/1.1\r\nHost:")
                attacker.count += 1
            held.append(sock)
            if len(held) > 5_000:
                held.popleft().close()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_A_TIME):
            tasks.create_task(connect())
    for sock in held:
        sock.close()


async def slow_body(attacker: Attacker) -> None:
    """Start a thousand requests without sending their bodies."""
    held = []
    head = attacker.request.replace(b"GET", b"POST", 1) + b"Content-Length: 999\r\n\r\n"
    for _ in range(1_000):
        with contextlib.suppress(OSError):
            _, writer = await attacker.connect()
            held.append(writer)
            await attacker.send(writer, head)
    await asyncio.sleep(60)


async def endless_body(attacker: Attacker) -> None:
    """Post a gigabyte to a path that expects a small body."""
    head = attacker.request.replace(b"GET", b"POST", 1) + b"Content-Length: 1000000000\r\n\r\n"
    while True:
        reader, writer = await attacker.connect()
        reading = asyncio.create_task(forget(reader))
        with contextlib.suppress(OSError):
            writer.write(head)
            while not writer.is_closing():
                await attacker.send(writer, b"x" * MIB)
        writer.transport.abort()
        await reading


async def unread_answers(attacker: Attacker) -> None:
    """Send sequential requests on fifty connections without reading the responses."""

    async def ask() -> None:
        while True:
            with contextlib.suppress(OSError):
                _, writer = await attacker.connect()
                while not writer.is_closing():
                    await attacker.send(writer, (attacker.request + b"\r\n") * 100)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(50):
            tasks.create_task(ask())


def admitted(answer: bytes) -> bool:
    return answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 101 "))


async def probing(attacker: Attacker, request: bytes) -> None:
    """Repeatedly send a request that must be rejected."""
    assert admitted(await attacker.ask(attacker.probe + b"\r\n"))
    while True:
        attacker.admitted += admitted(await attacker.ask(request + b"\r\n"))
        await asyncio.sleep(0)


async def foreign_host(attacker: Attacker) -> None:
    """Send requests as a page whose host name was rebound to this machine."""
    lines = attacker.probe.split(b"\r\n")
    kept = [line for line in lines if not line.startswith(b"Host:")]
    await probing(attacker, b"\r\n".join([kept[0], b"Host: evil.example", *kept[1:]]))


async def foreign_origin(attacker: Attacker) -> None:
    """Send requests as a page of another site."""
    await probing(attacker, attacker.probe + b"Origin: http://evil.example\r\n")


async def path_escape(attacker: Attacker) -> None:
    """Request files outside the served folders."""
    _, _, headers = attacker.request.partition(b"\r\n")
    paths = (
        "/../../etc/passwd",
        "/static/..%2f..%2fetc/passwd",
        "/static/%2e%2e/security.py",
        "//etc/passwd",
    )
    for path in itertools.cycle(paths):
        answer = await attacker.ask(f"GET {path} HTTP/1.1\r\n".encode() + headers + b"\r\n")
        attacker.admitted += admitted(answer)
        await asyncio.sleep(0)


ANYWHERE: tuple[Attack, ...] = (
    half_open,
    slow_headers,
    long_headers,
    connection_attempts,
    slow_body,
    endless_body,
    unread_answers,
    foreign_host,
    foreign_origin,
    path_escape,
)
"""The attacks on every server."""
