"""Hostile endpoints, one attack each, and their connection to the harness."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import itertools
import json
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription
from aiortc.rtp import HeaderExtensionsMap, RtpPacket
from websockets.frames import Frame, Opcode
from websockets.utils import accept_key

RATE_HZ = 24_000
MIB = 1 << 20
HEADERS = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

Attack = Callable[["Client"], Coroutine[Any, Any, None]]


class Client:
    """The endpoint's side of a connection to the harness."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.head = b""
        self.body = b""
        self.peer: RTCPeerConnection | None = None
        self._sink: asyncio.Task[None] | None = None

    async def request(self) -> None:
        """Read the head of the request, and its body if present."""
        self.head = await self.reader.readuntil(b"\r\n\r\n")
        for line in self.head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                self.body = await self.reader.readexactly(int(line.partition(b":")[2]))

    async def send(self, data: bytes) -> None:
        """Send bytes as fast as the harness reads them."""
        self.writer.write(data)
        await self.writer.drain()

    async def say(self, kind: str, **fields: object) -> None:
        """Send an OpenAI event."""
        await self.send(text_frame(json.dumps({"type": kind, **fields})))

    async def upgrade(self, extra: str = "") -> None:
        """Accept the WebSocket."""
        key = next(line for line in self.head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key"))
        accept = accept_key(key.partition(b":")[2].strip().decode())
        await self.send(f"{HEADERS}Sec-WebSocket-Accept: {accept}\r\n{extra}\r\n".encode())

    async def session(self) -> None:
        """Accept the WebSocket, run an OpenAI session and wait until a reply is due."""
        await self.upgrade()
        await self.say("session.created", session={"id": "sess_1", "model": "m"})
        await self.until(b"session.update")
        await self.say("session.updated", session={"id": "sess_1", "model": "m"})
        await self.until(b"response.create")
        await self.say("response.created", response={"id": "resp_1", "status": "in_progress", "output": []})

    async def until(self, event: bytes) -> None:
        """Read messages until one of this type arrives."""
        while event not in await self.message():
            pass

    async def message(self) -> bytes:
        """Read a message."""
        _, length = await self.reader.readexactly(2)
        length &= 0x7F
        if length >= 126:
            length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8))
        mask = await self.reader.readexactly(4)
        data = np.frombuffer(await self.reader.readexactly(length), np.uint8)
        return (data ^ np.resize(np.frombuffer(mask, np.uint8), len(data))).tobytes()

    def ignore(self) -> None:
        """Read and discard all remaining messages."""

        async def sink() -> None:
            with contextlib.suppress(OSError):
                while await self.reader.read(MIB):
                    pass

        self._sink = asyncio.create_task(sink())

    async def wait(self) -> None:
        """Wait until the harness disconnects."""
        while await self.reader.read(MIB):
            pass


def text_frame(text: str | bytes) -> bytes:
    """Return a text message."""
    return Frame(Opcode.TEXT, text.encode() if isinstance(text, str) else text).serialize(mask=False)


def about(**fields: object) -> dict[str, object]:
    """Return the fields that identify a reply."""
    return {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0, **fields}


def event(kind: str, **fields: object) -> bytes:
    """Return an OpenAI event as a frame."""
    return text_frame(json.dumps({"type": kind, **fields}))


async def endlessly(client: Client, data: bytes) -> None:
    """Send the same bytes repeatedly."""
    client.ignore()
    while True:
        await client.send(data)


# -- WebSocket: the handshake --------------------------------------------------------------------------


async def ordinary(client: Client) -> None:
    await client.session()
    sound = base64.b64encode((3_000 * np.sin(np.arange(RATE_HZ) / 10)).astype("<i2").tobytes()).decode()
    await client.say("response.output_audio.delta", **about(delta=sound))
    await client.say("response.output_audio.done", **about())
    await client.say("response.output_audio_transcript.done", **about(transcript="Hello."))
    await client.say("response.done", response={"id": "resp_1", "status": "completed", "output": []})
    await client.wait()


async def endless_headers(client: Client) -> None:
    await client.send(HEADERS.encode())
    for number in itertools.count():
        await client.send(
            b"".join(b"X-%d-%d: %s\r\n" % (number, each, b"x" * 1_000) for each in range(1_000))
        )


async def endless_header_line(client: Client) -> None:
    await client.send(HEADERS.encode() + b"X: ")
    await endlessly(client, b"x" * MIB)


async def endless_refusal(client: Client) -> None:
    await client.send(b"HTTP/1.1 401 Unauthorized\r\nRetry-After: " + b"9" * 4_000 + b"\r\n\r\n")
    await endlessly(client, b"no " * MIB)


async def long_refusal(client: Client) -> None:
    head = b"HTTP/1.1 503 Unavailable\r\nContent-Length: %d\r\n\r\n" % (1 << 40)
    await client.send(head)
    await endlessly(client, b"no " * MIB)


async def deflate_unasked(client: Client) -> None:
    await client.upgrade("Sec-WebSocket-Extensions: permessage-deflate\r\n")
    await bombs(client)


# -- WebSocket: frames ---------------------------------------------------------------------------------


def deflated(mib: int) -> bytes:
    """Return this many mebibytes of zeros, deflated, as one message."""
    compress = zlib.compressobj(9, wbits=-15)
    return (compress.compress(bytes(MIB)) + compress.flush(zlib.Z_FULL_FLUSH)) * mib


def gzipped(mib: int) -> bytes:
    """Return this many mebibytes of zeros as a gzip file (RFC 1952)."""
    checksum = 0
    for _ in range(mib):
        checksum = zlib.crc32(bytes(MIB), checksum)
    last_block = b"\x03\x00"
    ends = checksum.to_bytes(4, "little") + (mib * MIB).to_bytes(4, "little")
    return gzip.compress(b"")[:10] + deflated(mib) + last_block + ends


async def bombs(client: Client) -> None:
    data = deflated(128)[:-4]  # as permessage-deflate does: RFC 7692, 7.2.1
    await endlessly(client, bytes((0xC1, 127)) + len(data).to_bytes(8) + data)


async def deflated_frames(client: Client) -> None:
    await client.session()
    await bombs(client)


async def huge_message(client: Client) -> None:
    await client.session()
    await client.send(bytes((0x81, 127)) + (512 * MIB).to_bytes(8))
    await endlessly(client, b'"' * MIB)


async def large_messages(client: Client) -> None:
    await client.session()
    await endlessly(client, text_frame('{"type":"x","y":"' + "z" * (15 * MIB) + '"}'))


async def endless_fragments(client: Client) -> None:
    await client.session()
    await client.send(Frame(Opcode.TEXT, b'{"', fin=False).serialize(mask=False))
    await endlessly(client, Frame(Opcode.CONT, b"x" * MIB, fin=False).serialize(mask=False))


async def tiny_fragments(client: Client) -> None:
    await client.session()
    await client.send(Frame(Opcode.TEXT, b'{"', fin=False).serialize(mask=False))
    await endlessly(client, Frame(Opcode.CONT, b"x", fin=False).serialize(mask=False) * 10_000)


async def empty_fragments(client: Client) -> None:
    await client.session()
    await client.send(Frame(Opcode.TEXT, b'{"', fin=False).serialize(mask=False))
    await endlessly(client, Frame(Opcode.CONT, b"", fin=False).serialize(mask=False) * 10_000)


async def ping_flood(client: Client) -> None:
    await client.session()
    await endlessly(client, Frame(Opcode.PING, b"x" * 125).serialize(mask=False) * 1_000)


async def unread_pongs(client: Client) -> None:
    await client.session()
    ping = Frame(Opcode.PING, b"x" * 125).serialize(mask=False) * 1_000
    while True:  # never reads
        await client.send(ping)


async def never_reads(client: Client) -> None:
    await client.upgrade()
    await client.say("session.created", session={"id": "sess_1", "model": "m"})
    await client.say("session.updated", session={"id": "sess_1", "model": "m"})
    await asyncio.Event().wait()


# -- WebSocket: messages -------------------------------------------------------------------------------


async def deep_json(client: Client) -> None:
    await client.session()
    await endlessly(client, text_frame('{"type":"x","y":' + "[" * 90_000 + "]" * 90_000 + "}"))


async def nested_json(client: Client) -> None:
    await client.session()
    for depth in (200, 400, 480, 900, 1_000, 1_020):
        for kind in ("x", "response.output_audio.delta", "response.done", "session.updated", "error"):
            deep = '{"a":' * depth + "1" + "}" * depth
            await client.send(
                text_frame(f'{{"type":"{kind}","response":{deep},"error":{deep},"session":{deep}}}')
            )
    await client.wait()


async def many_values(client: Client) -> None:
    await client.session()
    await endlessly(client, text_frame('{"type":"x","y":[' + "0," * 99_000 + "0]}"))


async def far_too_many_values(client: Client) -> None:
    await client.session()
    await endlessly(client, text_frame('{"type":"x","y":[' + "{}," * 3_000_000 + "0]}"))


async def endless_text(client: Client) -> None:
    await client.session()
    await endlessly(client, event("response.output_audio_transcript.delta", **about(delta="word " * 10_000)))


async def endless_words(client: Client) -> None:
    await client.session()
    await endlessly(client, event("response.output_audio_transcript.delta", **about(delta="word ")) * 100)


async def endless_sentences(client: Client) -> None:
    await client.session()
    await endlessly(
        client, event("response.output_audio_transcript.done", **about(transcript="word " * 1_000))
    )


async def endless_audio(client: Client) -> None:
    await client.session()
    sound = base64.b64encode(bytes(2 * RATE_HZ)).decode()
    await endlessly(client, event("response.output_audio.delta", **about(delta=sound)))


async def endless_samples(client: Client) -> None:
    await client.session()
    await endlessly(client, event("response.output_audio.delta", **about(delta="AAA=")) * 100)


async def endless_input_transcript(client: Client) -> None:
    await client.session()
    kind = "conversation.item.input_audio_transcription.delta"
    client.ignore()
    for number in itertools.count():
        await client.send(
            b"".join(
                event(kind, item_id=f"item_{number}_{each}", content_index=0, delta="word " * 100)
                for each in range(100)
            )
        )


async def endless_types(client: Client) -> None:
    await client.session()
    client.ignore()
    for number in itertools.count():
        await client.send(b"".join(event(f"new.{number}.{each}." + "x" * 150) for each in range(100)))


async def endless_events(client: Client) -> None:
    await client.session()
    await endlessly(client, event("rate_limits.updated", rate_limits=[]) * 1_000)


async def endless_errors(client: Client) -> None:
    await client.session()
    await endlessly(client, event("error", error={"type": "x", "code": "x", "message": "no " * 1_000}) * 100)


async def endless_speech(client: Client) -> None:
    await client.session()
    await endlessly(client, event("input_audio_buffer.speech_started", audio_start_ms=0, item_id="i") * 100)


async def endless_responses(client: Client) -> None:
    await client.session()
    client.ignore()
    for number in itertools.count():
        await client.send(
            event("response.created", response={"id": f"resp_{number}", "status": "in_progress"})
        )


# -- HTTP ----------------------------------------------------------------------------------------------

SDP = "\r\n".join(
    (
        "v=0",
        "o=- 1 1 IN IP4 0.0.0.0",
        "s=-",
        "t=0 0",
        "a=group:BUNDLE 0 1",
        "m=audio 9 UDP/TLS/RTP/SAVPF 96",
        "c=IN IP4 127.0.0.1",
        "a=sendrecv",
        "a=mid:0",
        "a=rtcp-mux",
        "a=rtpmap:96 opus/48000/2",
        "a=ice-ufrag:abcd",
        "a=ice-pwd:abcdefghijklmnopqrstuv",
        "a=fingerprint:sha-256 " + ":".join(["AB"] * 32),
        "a=setup:active",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "c=IN IP4 127.0.0.1",
        "a=mid:1",
        "a=sctp-port:5000",
        "a=ice-ufrag:abcd",
        "a=ice-pwd:abcdefghijklmnopqrstuv",
        "a=fingerprint:sha-256 " + ":".join(["AB"] * 32),
        "a=setup:active",
        "",
    )
)
OK = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n"


async def chunked(client: Client, kind: str, data: bytes, extra: str = "") -> None:
    await client.send(f"{OK.format(kind)}Transfer-Encoding: chunked\r\n{extra}\r\n".encode())
    await endlessly(client, b"%x\r\n%s\r\n" % (len(data), data))


async def http_endless_answer(client: Client) -> None:
    await chunked(client, "application/json", b'{"x":' * 100_000)


async def http_endless_events(client: Client) -> None:
    await chunked(client, "text/event-stream", b'data: {"choices":[{"delta":{"content":"word "}}]}\n\n' * 100)


async def http_endless_event(client: Client) -> None:
    await chunked(client, "text/event-stream", b"data: x\n" * 10_000)


async def http_endless_line(client: Client) -> None:
    await chunked(client, "text/event-stream", b"x" * 1_000)


async def http_bomb(client: Client) -> None:
    bomb = gzipped(128)
    await chunked(client, "application/json", bomb, "Content-Encoding: gzip\r\n")


async def http_bomb_refusal(client: Client) -> None:
    bomb = gzipped(128)
    head = f"HTTP/1.1 429 No\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    await client.send(head.encode() + bomb)
    await client.wait()


async def http_endless_headers(client: Client) -> None:
    await client.send(OK.format("application/json").encode())
    await endlessly(client, b"X: " + b"x" * 1_000 + b"\r\n")


async def http_trickle(client: Client) -> None:
    await client.send(f"{OK.format('text/event-stream')}\r\n".encode())
    while True:
        await client.send(b":\n")
        await asyncio.sleep(0.2)


async def sdp_endless(client: Client) -> None:
    await client.send(b"HTTP/1.1 201 Created\r\nContent-Type: application/sdp\r\n\r\nv=0\r\n")
    await endlessly(client, b"a=x:y\r\n" * 100_000)


async def sdp_candidates(client: Client) -> None:
    places = ((f"127.0.0.{number % 250 + 1}", 1024 + number) for number in range(14_000))
    lines = (f"a=candidate:{port} 1 udp {port} {host} {port} typ host\r\n" for host, port in places)
    await answer(client, SDP + "".join(lines))


async def sdp_sections(client: Client) -> None:
    section = "m=" + SDP.rpartition("m=")[2]
    await answer(client, SDP + section * 3_000)


async def sdp_codecs(client: Client) -> None:
    line = "a=rtpmap:96 opus/48000/2"
    await answer(client, SDP.replace(line, "\r\n".join([line] * 30_000)))


async def answer(client: Client, sdp: str) -> None:
    head = f"HTTP/1.1 201 Created\r\nContent-Type: application/sdp\r\nContent-Length: {len(sdp)}\r\n\r\n"
    await client.send(head.encode() + sdp.encode())
    await client.wait()


# -- WebRTC --------------------------------------------------------------------------------------------


async def connected(client: Client) -> tuple[RTCPeerConnection, RTCDataChannel]:
    """Answer the offer; return the connection and its data channel, once a reply is due."""
    peer = client.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    found: asyncio.Future[RTCDataChannel] = asyncio.get_running_loop().create_future()
    due = asyncio.Event()

    def adopt(channel: RTCDataChannel) -> None:
        def heard(message: str) -> None:
            if "session.update" in message:
                channel.send(json.dumps({"type": "session.updated", "session": {"id": "sess_1"}}))
            if "response.create" in message:
                due.set()

        channel.on("message", heard)
        channel.send(json.dumps({"type": "session.created", "session": {"id": "sess_1", "model": "m"}}))
        found.set_result(channel)

    peer.on("datachannel", adopt)
    offer = client.body[client.body.find(b"v=0") :].decode()  # the offer may be part of a form
    await peer.setRemoteDescription(RTCSessionDescription(offer.partition("\r\n--")[0] + "\r\n", "offer"))
    for transceiver in peer.getTransceivers():
        transceiver.direction = "sendrecv"
    await peer.setLocalDescription(await peer.createAnswer())
    sdp = peer.localDescription.sdp
    head = f"HTTP/1.1 201 Created\r\nContent-Type: application/sdp\r\nContent-Length: {len(sdp)}\r\n\r\n"
    await client.send(head.encode() + sdp.encode())
    channel = await found
    await due.wait()
    response = {"id": "resp_1", "status": "in_progress", "output": []}
    channel.send(json.dumps({"type": "response.created", "response": response}))
    channel.send(json.dumps({"type": "output_audio_buffer.started", "response_id": "resp_1"}))
    return peer, channel


async def channel_flood(client: Client) -> None:
    _, channel = await connected(client)
    kind = "response.output_audio_transcript.delta"
    delta = json.dumps({"type": kind, **about(delta="word " * 2_000)})
    while channel.readyState == "open":
        if channel.bufferedAmount < MIB:
            channel.send(delta)
        await asyncio.sleep(0)


async def rtp_flood(client: Client) -> None:
    peer, channel = await connected(client)
    (sender,) = peer.getSenders()
    payload_type = int(peer.getTransceivers()[0]._codecs[0].payloadType or 0)
    for number in itertools.count():
        packet = RtpPacket(
            payload_type=payload_type, sequence_number=number % 65_536, timestamp=number * 960 % 2**32, ssrc=7
        )
        packet.payload = b"\xf8" + bytes(200)
        await sender.transport._send_rtp(packet.serialize(HeaderExtensionsMap()))
        if number % 20 == 0:
            await asyncio.sleep(0)
        if channel.readyState != "open":
            return
