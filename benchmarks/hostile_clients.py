"""Hostile clients: how much memory the reference endpoint holds under each, and whether it still answers.

The endpoint is a process of its own (`live-eval endpoint --calibrate`), a new one for each attack, which
lasts `SECONDS`. Printed for each: how often the client did what it does, the peak of the endpoint's resident
memory beyond that at its start, and how long another client waits for `/healthz` in the middle of the attack.

``python benchmarks/hostile_clients.py half_open`` runs one of them; ``--list`` lists them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import resource
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from _peak_memory import peak_mb
from websockets.frames import Frame, Opcode

from live_eval.reference.server.process import ReferenceProcess

AIM_MB = 400
"""Most memory beyond that at the start."""
SECONDS = 12.0
ANSWER_S = 10.0
MIB = 1 << 20
MASKED = 0x80
PATH = "/v1/realtime?model=m"


class Attacker:
    """A client of the endpoint that counts what it does."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.count = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a TCP connection."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def session(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a session of OpenAI's protocol."""
        reader, writer = await self.connect()
        writer.write(handshake(PATH))
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    async def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Send bytes and count them as one deed."""
        writer.write(data)
        await writer.drain()
        self.count += 1

    async def again(self, data: bytes, *, reads: bool = True) -> None:
        """Send the same bytes in one session after the other, as long as each lasts."""
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
        """Send a request and return the beginning of the answer."""
        reader, writer = await self.connect()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
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
    """Send a header a second on a thousand connections."""
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


async def refused_handshakes(attacker: Attacker) -> None:
    """Ask for sessions of unknown paths, and hang up."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await attacker.connect()
            await attacker.send(writer, handshake("/v1/../../etc/passwd"))
            writer.transport.abort()


async def many_sessions(attacker: Attacker) -> None:
    """Hold as many sessions as it gets."""
    held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    while len(held) < 5_000:
        with contextlib.suppress(OSError, EOFError):
            held.append(await attacker.session())
            attacker.count += 1
    await asyncio.sleep(SECONDS)


# -- Frames --------------------------------------------------------------------------------------------


async def huge_message(attacker: Attacker) -> None:
    await attacker.again(bytes((0x81, MASKED | 127)) + (1 << 30).to_bytes(8) + bytes(4) + b'"' * MIB)


async def endless_fragments(attacker: Attacker) -> None:
    await attacker.again(
        Frame(Opcode.TEXT, b'"' * MIB, fin=False).serialize(mask=True)[:1]
        + (Frame(Opcode.CONT, b'"' * MIB, fin=False).serialize(mask=True)[1:])
    )


async def tiny_fragments(attacker: Attacker) -> None:
    while True:
        reader, writer = await attacker.session()
        reading = asyncio.create_task(forget(reader))
        with contextlib.suppress(OSError):
            writer.write(Frame(Opcode.TEXT, b"x", fin=False).serialize(mask=True))
            piece = Frame(Opcode.CONT, b"x", fin=False).serialize(mask=True) * 1_000
            while not writer.is_closing():
                await attacker.send(writer, piece)
        writer.transport.abort()
        await reading


async def empty_fragments(attacker: Attacker) -> None:
    reader, writer = await attacker.session()
    reading = asyncio.create_task(forget(reader))
    writer.write(Frame(Opcode.TEXT, b"x", fin=False).serialize(mask=True))
    piece = Frame(Opcode.CONT, b"", fin=False).serialize(mask=True) * 1_000
    with contextlib.suppress(OSError):
        while not writer.is_closing():
            await attacker.send(writer, piece)
    await reading


async def deflated(attacker: Attacker) -> None:
    await attacker.again(bytes((0xC1, MASKED | 126, 0xFF, 0xFF)) + bytes(4) + bytes(65_535))


async def ping_flood(attacker: Attacker) -> None:
    await attacker.again(Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 1_000)


async def unread_pongs(attacker: Attacker) -> None:
    await attacker.again(Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 1_000, reads=False)


# -- Messages ------------------------------------------------------------------------------------------


async def unread_errors(attacker: Attacker) -> None:
    """Send nonsense, and never read the complaints."""
    await attacker.again(message(type="x" * 1_000) * 100, reads=False)


async def unread_replies(attacker: Attacker) -> None:
    """Ask for replies, and never read them."""
    await attacker.again(message(type="response.create") + message(type="response.cancel"), reads=False)


async def endless_audio(attacker: Attacker) -> None:
    """Send audio without ever committing it."""
    sound = base64.b64encode(bytes(48_000 * 100)).decode()
    manual = message(
        type="session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    )
    await attacker.again(manual + message(type="input_audio_buffer.append", audio=sound))


async def endless_commits(attacker: Attacker) -> None:
    """Commit one turn after the other, and ask for no reply."""
    sound = base64.b64encode(bytes(48_000)).decode()
    manual = message(
        type="session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    )
    append = message(type="input_audio_buffer.append", audio=sound) + message(
        type="input_audio_buffer.commit"
    )
    await attacker.again(manual + append * 10)


async def deep_json(attacker: Attacker) -> None:
    await attacker.again(text(b'{"type":' + b"[" * 200_000 + b"]" * 200_000 + b"}"))


async def many_values(attacker: Attacker) -> None:
    await attacker.again(text(b'{"type":"session.update","x":[' + b"{}," * 6_000 + b"0]}"))


async def many_updates(attacker: Attacker) -> None:
    await attacker.again(
        message(type="session.update", session={"type": "realtime", "instructions": "x" * 1_000}) * 100
    )


async def many_items(attacker: Attacker) -> None:
    content = [{"type": "input_text", "text": "x" * 100_000}]
    item = {"type": "message", "role": "user", "content": content}
    await attacker.again(message(type="conversation.item.create", item=item))


# -- Signalling ----------------------------------------------------------------------------------------


async def huge_offer(attacker: Attacker) -> None:
    while True:
        await attacker.post("/v1/realtime/calls", "application/sdp", b"v=0\r\n" + b"a=x:y\r\n" * 8_000_000)


async def long_offer(attacker: Attacker) -> None:
    line = b"a=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\n"
    while True:
        await attacker.post(
            "/v1/realtime/calls", "application/sdp", b"v=0\r\nm=audio 9 x 1\r\n" + line * 5_000
        )


async def many_offers(attacker: Attacker) -> None:
    """Send one good offer after the other, and never connect."""
    from aiortc import RTCPeerConnection

    peer = RTCPeerConnection()
    peer.addTransceiver("audio")
    peer.createDataChannel("oai-events")
    await peer.setLocalDescription(await peer.createOffer())
    offer = peer.localDescription.sdp.encode()
    await peer.close()
    while True:
        await attacker.post("/v1/realtime/calls", "application/sdp", offer)


async def many_secrets(attacker: Attacker) -> None:
    body = json.dumps({"session": {"type": "realtime", "instructions": "x" * 60_000}}).encode()
    while True:
        await attacker.post("/v1/realtime/client_secrets", "application/json", body)


async def slow_body(attacker: Attacker) -> None:
    """Begin a thousand requests, and never send their bodies."""
    held = []
    head = b"POST /v1/realtime/calls HTTP/1.1\r\nHost: x\r\nContent-Type: application/sdp\r\n"
    head += b"Content-Length: 999\r\n\r\n"
    for _ in range(1_000):
        _, writer = await attacker.connect()
        held.append(writer)
        await attacker.send(writer, head)
    await asyncio.sleep(SECONDS)


ATTACKS: tuple[Attack, ...] = (
    half_open,
    slow_headers,
    long_headers,
    refused_handshakes,
    many_sessions,
    huge_message,
    endless_fragments,
    tiny_fragments,
    empty_fragments,
    deflated,
    ping_flood,
    unread_pongs,
    unread_errors,
    unread_replies,
    endless_audio,
    endless_commits,
    deep_json,
    many_values,
    many_updates,
    many_items,
    huge_offer,
    long_offer,
    many_offers,
    many_secrets,
    slow_body,
)


async def waited_s(port: int) -> float | None:
    """Return how long another client waits for an answer; None if it waits in vain."""
    began_s = time.monotonic()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            answer = await reader.read(100)
            writer.close()
            if b" 200 " in answer:
                return time.monotonic() - began_s
    return None


async def under(attack: Attack, folder: Path) -> tuple[int, float, float | None]:
    """Return how often an attack did what it does, the endpoint's memory, and how long another waited."""
    async with ReferenceProcess(log_folder=folder, calibrate=True) as process:
        port = urlsplit(process.origin).port
        assert port is not None
        before_mb = peak_mb(process.process_id)
        attacker = Attacker(port)
        task = asyncio.create_task(attack(attacker))
        await asyncio.sleep(SECONDS / 2)
        waiting_s = await waited_s(port)
        await asyncio.wait((task,), timeout=SECONDS / 2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError, EOFError):
            await task
        return attacker.count, peak_mb(process.process_id) - before_mb, waiting_s


async def main(names: list[str]) -> None:
    known = {attack.__name__: attack for attack in ATTACKS}
    worst_mb, unanswered = 0.0, 0
    for attack in [known[name] for name in names] or ATTACKS:
        with TemporaryDirectory() as folder:
            count, beyond_mb, waiting_s = await under(attack, Path(folder))
        worst_mb = max(worst_mb, beyond_mb)
        unanswered += waiting_s is None
        said = "no answer" if waiting_s is None else f"{1_000 * waiting_s:7.0f} ms"
        print(f"{attack.__name__:20} {count:9} times  +{beyond_mb:6.0f} MB  {said}", flush=True)
    print(
        f"hostile clients: at most {worst_mb:.0f} MB beyond the start, aim {AIM_MB}; "
        f"unanswered: {unanswered}, aim 0"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="the clients; all of them if none is named")
    parser.add_argument("--list", action="store_true", help="list the clients")
    chosen = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if chosen.list:
        print("\n".join(attack.__name__ for attack in ATTACKS))
    else:
        asyncio.run(main(chosen.names))
