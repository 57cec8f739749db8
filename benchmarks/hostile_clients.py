"""Hostile clients: memory and responsiveness of our servers under each attack.

The servers are `live-eval endpoint --calibrate`, `live-eval studio`, and the proxy of `live-eval impair`, in
a new process for each attack. An attack lasts `SECONDS`, or until all 100,000 connections are made. The
output for each attack contains the number of the client's operations, the increase of the server's peak
resident memory over its value at start, and the response time for another client during the attack. Requests
that must be rejected but were not are counted as admitted.

``python benchmarks/hostile_clients.py studio.half_open`` runs a single attack; ``--list`` lists all.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import _benchmark
from _client_attacks import (
    ANYWHERE,
    Attack,
    Attacker,
    connection_attempts,
    forget,
    handshake,
    message,
    path_escape,
    text,
)
from _peak_memory import peak_mb
from websockets.frames import Frame, Opcode

from live_eval.reference.server.process import ReferenceProcess

AIM_MB = 400
"""Maximum memory growth since the start."""
SECONDS = 12.0
MOST_S = 300.0  # for attacks of fixed size
ANSWER_S = 10.0
MIB = 1 << 20
MASKED = 0x80
PATH = "/v1/realtime?model=m"


# -- Endpoint sessions ------------------------------------------------------------------------------------


async def refused_handshakes(attacker: Attacker) -> None:
    """Request sessions at unknown paths, and disconnect."""
    while True:
        with contextlib.suppress(OSError):
            _, writer = await attacker.connect()
            await attacker.send(writer, handshake("/v1/../../etc/passwd"))
            writer.transport.abort()


async def many_sessions(attacker: Attacker) -> None:
    """Open as many sessions as the server allows."""
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
    """Send invalid messages, and never read the errors."""
    await attacker.again(message(type="x" * 1_000) * 100, reads=False)


async def unread_replies(attacker: Attacker) -> None:
    """Request replies, and never read them."""
    await attacker.again(message(type="response.create") + message(type="response.cancel"), reads=False)


async def endless_audio(attacker: Attacker) -> None:
    """Send audio without ever committing it."""
    sound = base64.b64encode(bytes(48_000 * 100)).decode()
    manual = message(
        type="session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    )
    await attacker.again(manual + message(type="input_audio_buffer.append", audio=sound))


async def endless_commits(attacker: Attacker) -> None:
    """Commit sequential turns without requesting a reply."""
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
    """Send sequential valid offers, and never connect."""
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


async def slow_offers(attacker: Attacker) -> None:
    """Start a thousand offers without sending their bodies."""
    held = []
    head = b"POST /v1/realtime/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/sdp\r\n"
    head += b"Content-Length: 999\r\n\r\n"
    for _ in range(1_000):
        _, writer = await attacker.connect()
        held.append(writer)
        await attacker.send(writer, head)
    await asyncio.sleep(SECONDS)


# -- The proxy -------------------------------------------------------------------------------------------


async def endless_answers(attacker: Attacker) -> None:
    """Request endless responses of the endpoint behind the proxy, and never read them."""
    held = []
    while True:
        _, writer = await attacker.connect()
        await attacker.send(writer, attacker.request.replace(b" / ", b" /endless ") + b"\r\n")
        held.append(writer)
        await asyncio.sleep(0.05)
        if len(held) > 100:
            held.pop(0).transport.abort()


async def unsent_requests(attacker: Attacker) -> None:
    """Send an endless body that the endpoint behind the proxy never reads."""

    async def send() -> None:
        _, writer = await attacker.connect()
        writer.write(attacker.request.replace(b" / ", b" /deaf ") + b"\r\n")
        with contextlib.suppress(OSError):
            while True:
                await attacker.send(writer, b"x" * MIB)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(100):
            tasks.create_task(send())


@contextlib.asynccontextmanager
async def behind_the_proxy() -> AsyncIterator[int]:
    """Serve an endpoint that responds to every request, sometimes endlessly; yield its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            while b" /endless " in head:
                writer.write(bytes(MIB))
                await writer.drain()
            if b" /deaf " in head:
                await asyncio.sleep(MOST_S)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(met, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for task in tasks:
            task.cancel()


# -- The servers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A server under attack.

    Args:
        process_id: Process ID.
        port: Port of the server.
        request: Head of a request to which the server responds with status 200, without the empty line.
        probe: Head of a request that the server must reject from other hosts and origins.
    """

    process_id: int
    port: int
    request: bytes
    probe: bytes


@contextlib.asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[tuple[int, str]]:
    """Run a live-eval command; yield its process ID and the first line of its output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "live_eval", *arguments), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process.pid, (await process.stdout.readline()).decode()
    finally:
        process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def endpoint(folder: Path) -> AsyncIterator[Server]:
    async with ReferenceProcess(log_folder=folder, calibrate=True) as process:
        port = urlsplit(process.origin).port
        assert port is not None
        head = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        yield Server(process.process_id, port, head, handshake(PATH).removesuffix(b"\r\n"))


@contextlib.asynccontextmanager
async def studio(folder: Path) -> AsyncIterator[Server]:
    async with command("studio", str(folder), "--no-browser", "--port", "0") as (process_id, line):
        link = urlsplit(line.partition(" ")[2].strip())
        assert link.port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(f"GET /?{link.query} HTTP/1.1\r\nHost: {link.netloc}\r\n\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        cookie = SimpleCookie(answer.decode().partition("Set-Cookie: ")[2].partition("\r\n")[0])
        (name, value), *_ = ((name, found.value) for name, found in cookie.items())
        head = f"GET /api/runs HTTP/1.1\r\nHost: {link.netloc}\r\nCookie: {name}={value}\r\n".encode()
        yield Server(process_id, link.port, head, head)


@contextlib.asynccontextmanager
async def proxy(folder: Path) -> AsyncIterator[Server]:
    head = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    async with behind_the_proxy() as behind:
        to = ("--to", f"http://127.0.0.1:{behind}", "--listen", "0", "--json")
        async with command("impair", "delay=1ms", *to) as (process_id, line):
            port = urlsplit(json.loads(line)["url"]).port
            assert port is not None
            yield Server(process_id, port, head, head)


SESSIONS: tuple[Attack, ...] = (
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
    slow_offers,
)
SERVERS: dict[Callable[[Path], contextlib.AbstractAsyncContextManager[Server]], tuple[Attack, ...]] = {
    endpoint: (*ANYWHERE, *SESSIONS),
    studio: ANYWHERE,
    proxy: (*(each for each in ANYWHERE if each is not path_escape), endless_answers, unsent_requests),
}
KNOWN = {
    f"{server.__name__}.{attack.__name__}": (server, attack)
    for server, attacks in SERVERS.items()
    for attack in attacks
}


async def waited_s(server: Server) -> float | None:
    """Return the response time for another client; None if there is no response."""
    began_s = time.monotonic()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(server.request + b"Connection: close\r\n\r\n")
            answer = await reader.read(100)
            writer.close()
            if b" 200 " in answer:
                return time.monotonic() - began_s
    return None


async def under(server: Server, attack: Attack) -> tuple[Attacker, float, float | None]:
    """Run an attack; return the attacker, the server's memory, and another client's response time."""
    before_mb = peak_mb(server.process_id)
    attacker = Attacker(server.port, server.request, server.probe)
    task = asyncio.create_task(attack(attacker))
    await asyncio.sleep(SECONDS / 2)
    waiting_s = await waited_s(server)
    await asyncio.wait((task,), timeout=MOST_S if attack is connection_attempts else SECONDS / 2)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, OSError, EOFError):
        await task
    return attacker, peak_mb(server.process_id) - before_mb, waiting_s


async def main(names: list[str]) -> None:
    worst_mb, unanswered, admitted = 0.0, 0, 0
    for name in names or KNOWN:
        serve, attack = KNOWN[name]
        with TemporaryDirectory() as folder:
            async with serve(Path(folder)) as server:
                attacker, beyond_mb, waiting_s = await under(server, attack)
        worst_mb = max(worst_mb, beyond_mb)
        unanswered += waiting_s is None
        admitted += attacker.admitted
        said = "no answer" if waiting_s is None else f"{1_000 * waiting_s:7.0f} ms"
        print(f"{name:30} {attacker.count:9} times  +{beyond_mb:6.0f} MB  {said}", flush=True)
    print(
        f"hostile clients: at most {worst_mb:.0f} MB beyond the start, aim {AIM_MB}; "
        f"unanswered: {unanswered}, admitted: {admitted}, aim 0"
    )


if __name__ == "__main__":
    parser = _benchmark.parser(__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="SERVER.ATTACK; all of them if none is named"
    )
    parser.add_argument("--list", action="store_true", help="list the clients")
    chosen = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if chosen.list:
        print("\n".join(KNOWN))
    else:
        asyncio.run(main(chosen.names))
