"""However a stream is split, a connection yields the same as `websockets`; most frames bypass it."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import (
    ClientPerMessageDeflateFactory,
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from live_eval.clients.transports._websocket_connection import WebSocketConnection
from live_eval.sockets.stamps import Stamp
from live_eval.sockets.stream import StreamTransport
from live_eval.testing.fake_clock import FakeClock
from live_eval.transport import Arrival
from live_eval.types import StampKind

MOST_BYTES = 70_000


class Wire(StreamTransport):
    """Stores written bytes; each received piece has a separate timestamp."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.unsent = 0
        self.reading = True
        self.stamp = Stamp(0, StampKind.KERNEL)

    def write(self, data: Any) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        pass


class ByLibraryAlone(WebSocketConnection):
    """A connection that parses everything with `websockets`."""

    def data_received(self, data: bytes) -> None:
        self._websocket.receive_data(data)
        self._handle_events()


class Parsing(ClientProtocol):
    """A connection that counts the bytes that `websockets` parses."""

    parsed = 0

    def receive_data(self, data: bytes | bytearray) -> None:
        self.parsed += len(data)
        super().receive_data(data)


async def opened(
    kind: type[WebSocketConnection] = WebSocketConnection, *, compressed: bool = False
) -> tuple[WebSocketConnection, Parsing, Wire]:
    """Return a connection after its handshake."""
    protocol = Parsing(
        parse_uri("ws://endpoint.test/v1"),
        extensions=[ClientPerMessageDeflateFactory()] if compressed else None,
        max_size=MOST_BYTES,
    )
    connection, wire = kind(protocol, FakeClock(), 1.0), Wire()
    connection.connection_made(wire)
    shaking = asyncio.create_task(connection.shake_hands({}))
    await asyncio.sleep(0)
    server = ServerProtocol(extensions=[ServerPerMessageDeflateFactory()] if compressed else None)
    server.receive_data(bytes(wire.written))
    (request,) = server.events_received()
    assert isinstance(request, Request)
    server.send_response(server.accept(request))
    connection.data_received(b"".join(server.data_to_send()))
    await shaking
    wire.written.clear()
    protocol.parsed = 0
    return connection, protocol, wire


async def outcome(connection: WebSocketConnection, wire: Wire) -> tuple[Any, ...]:
    """End the connection; return its messages, its outcome, and the bytes that it sent."""
    connection.connection_lost(None)
    messages = []
    while (arrival := await connection.arrival()) is not None:
        messages.append(arrival.message)
    end = connection.end
    return messages, type(end), end.rcvd, end.sent, end.rcvd_then_sent, bytes(wire.written)


def on_the_wire(opcode: Opcode, data: bytes, final: bool, mask: bool) -> bytes:
    """Return a frame, possibly an invalid one."""
    frame = Frame(Opcode.BINARY, data, final).serialize(mask=mask)
    return bytes([frame[0] & 0xF0 | opcode]) + frame[1:]


payloads = st.one_of(
    st.text(max_size=3).map(str.encode),
    st.integers(124, 1_400).map(lambda size: b"x" * size),
    st.sampled_from([b"\x81\x01a", b"\xff", b"y" * 65_535, b"y" * 65_536, b"y" * (MOST_BYTES + 1)]),
)
kinds = st.sampled_from([Opcode.TEXT, Opcode.BINARY])
controls = st.sampled_from([on_the_wire(opcode, b"?", True, False) for opcode in (Opcode.PING, Opcode.PONG)])
messages = st.builds(on_the_wire, kinds, payloads, st.just(True), st.just(False))
fragments = st.builds(
    lambda kind, data, at, control: [
        on_the_wire(kind, data[:at], False, False),
        control,
        on_the_wire(Opcode.CONT, data[at:], True, False),
    ],
    kinds,
    payloads,
    st.integers(0, 3),
    controls,
)
wrong = st.sampled_from(
    [
        on_the_wire(Opcode.TEXT, b"first", False, False),  # usually, no fragment follows
        on_the_wire(Opcode.CONT, b"last", True, False),
        on_the_wire(Opcode.TEXT, b"masked", True, True),
        on_the_wire(Opcode.PING, b"x" * 126, True, False),
        on_the_wire(Opcode.PING, b"", False, False),
        b"\x81\x7f" + bytes(127),  # an empty message, and bytes that are not a frame
    ]
)
streams = st.lists(
    st.one_of(messages.map(lambda frame: [frame]), fragments, st.one_of(controls, wrong).map(lambda f: [f])),
    min_size=2,
    max_size=6,
).map(lambda parts: list(itertools.chain.from_iterable(parts)))
ends = st.sampled_from(
    [
        b"",
        *(on_the_wire(Opcode.CLOSE, data, True, False) for data in (b"", b"\x03", b"\x0f\xa0bye")),
        b"\x81",  # the connection breaks within a frame
        b"\xc1\x01a",  # reserved bits
        b"\x83\x00",  # an unknown opcode
        b"\x82\x7e\x00\x01z",  # a length that would fit into a shorter header
    ]
)


def cut(stream: list[bytes], cuts: list[int]) -> list[bytes]:
    """Split the stream: 0 ends a piece after each frame, 2 also after 2 bytes of it, -2 only there."""
    pieces, rest = [], b""
    for frame, at in zip(stream, itertools.cycle(cuts), strict=False):
        if at:
            pieces.append(rest + frame[: abs(at)])
            rest = frame[abs(at) :]
        else:
            rest += frame
        if at >= 0:
            pieces.append(rest)
            rest = b""
    return [piece for piece in (*pieces, rest) if piece]


@settings(max_examples=200)
@given(
    stream=streams,
    end=ends,
    cuts=st.lists(st.sampled_from([0, 0, 0, 1, -1, 2, 2, -3, 4, 1_000, -1_000]), min_size=1, max_size=5),
    goodbye=st.none() | st.integers(0, 4),
)
def test_any_frames_in_any_pieces_are_parsed_as_by_the_library(
    stream: list[bytes], end: bytes, cuts: list[int], goodbye: int
) -> None:
    async def both() -> None:
        outcomes = []
        for kind in (WebSocketConnection, ByLibraryAlone):
            connection, _, wire = await opened(kind)
            for number, piece in enumerate(cut([*stream, end], cuts)):
                if number == goodbye:  # messages after our close frame count too
                    connection.say_goodbye(1000, "done")
                connection.data_received(piece)
            outcomes.append(await outcome(connection, wire))
        assert outcomes[0] == outcomes[1]

    with mock.patch("websockets.frames.secrets.token_bytes", lambda size: bytes(size)):
        asyncio.run(both())


async def test_a_frame_that_is_a_whole_message_never_reaches_the_library() -> None:
    connection, protocol, wire = await opened()
    for number, size in enumerate((0, 1, 125, 126, 65_535)):
        wire.stamp = Stamp(number, StampKind.KERNEL)
        connection.data_received(on_the_wire(Opcode.TEXT, b"x" * size, True, False))
        assert await connection.arrival() == Arrival("x" * size, number)
    assert protocol.parsed == 0


async def test_simple_frames_bypass_the_library_again_after_complex_ones() -> None:
    connection, protocol, _ = await opened()
    simple = on_the_wire(Opcode.TEXT, b"simple", True, False)
    ping = on_the_wire(Opcode.PING, b"?", True, False)
    fragments = on_the_wire(Opcode.TEXT, b"in ", False, False) + on_the_wire(Opcode.CONT, b"two", True, False)
    for data in (simple, ping, simple, fragments[:7], fragments[7:], simple):
        connection.data_received(data)
    assert [(await connection.arrival()).message for _ in range(4)] == ["simple"] * 2 + ["in two", "simple"]  # type: ignore[union-attr]
    assert protocol.parsed == len(ping) + len(fragments)


async def test_reading_pauses_while_too_many_arrivals_are_queued() -> None:
    connection, _, wire = await opened()
    message = on_the_wire(Opcode.TEXT, b"x" * 65_000, True, False)
    sent = 0
    while wire.reading:
        connection.data_received(message)
        sent += 1
    assert 30 < sent * 65_000 / 2**20 < 34
    taken = 0
    while not wire.reading:
        await connection.arrival()
        taken += 1
    assert 15 < taken * 65_000 / 2**20 < 18


async def test_pings_get_no_pong_while_the_endpoint_reads_nothing() -> None:
    connection, _, wire = await opened()
    ping = on_the_wire(Opcode.PING, b"?", True, False)
    connection.data_received(ping)
    answered = len(wire.written)
    assert answered
    wire.unsent = 1 << 20
    connection.data_received(ping * 1_000)
    assert len(wire.written) == answered
    wire.unsent = 0
    connection.data_received(ping)
    assert len(wire.written) == 2 * answered


async def test_compressed_messages_reach_the_library() -> None:
    connection, protocol, _ = await opened(compressed=True)
    (deflate,) = protocol.extensions
    sent = Frame(Opcode.TEXT, b"long " * 20).serialize(
        mask=False, extensions=[PerMessageDeflate(False, False, 15, 15)]
    )
    connection.data_received(sent)
    assert (await connection.arrival()).message == "long " * 20  # type: ignore[union-attr]
    assert protocol.parsed == len(sent)
    assert deflate.name == "permessage-deflate"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (b"\xc1\x01a", 1002),  # compressed without negotiation
        (b"\x83\x00", 1002),
        (b"\x81\x01\xff", 1007),
        (b"\x82\x7f" + (MOST_BYTES + 1).to_bytes(8), 1009),
    ],
)
async def test_a_connection_that_we_fail_ends_at_once(wrong: bytes, code: int) -> None:
    """The endpoint may continue to send before it closes; these messages are ignored."""
    connection, _, _ = await opened()
    connection.data_received(on_the_wire(Opcode.TEXT, b"good", True, False))
    connection.data_received(wrong)
    assert await connection.arrival() == Arrival("good", 0)
    assert await connection.arrival() is None
    assert connection.end.sent is not None
    assert connection.end.sent.code == code
    connection.data_received(on_the_wire(Opcode.TEXT, b"more", True, False))
    assert await connection.arrival() is None


@pytest.mark.parametrize("first", ["we", "the endpoint"])
async def test_a_final_message_ends_the_connection_even_during_a_long_stream(first: str) -> None:
    connection, _, wire = await opened()
    if first == "we":
        connection.say_goodbye(1000, "done")
        connection.data_received(on_the_wire(Opcode.TEXT, b"late", True, False))
        assert await connection.arrival() == Arrival("late", 0)
    wire.stamp = Stamp(7, StampKind.KERNEL)
    connection.data_received(on_the_wire(Opcode.CLOSE, b"\x03\xe8", True, False))
    assert await connection.arrival() is None
    assert connection.ended_ns == 7
    connection.connection_lost(None)
    assert await connection.arrival() is None
    assert connection.ended_ns == 7
    assert connection.end.rcvd is not None
    assert connection.end.rcvd.code == 1000


@pytest.mark.parametrize("size", [0, 125, 126, 1_338, 65_535, 65_536])
@pytest.mark.parametrize("kind", [str, bytes])
async def test_the_library_reads_each_frame_that_is_sent(kind: type[str | bytes], size: int) -> None:
    connection, _, _ = await opened()
    message = "x" * size if kind is str else b"x" * size
    frames = [connection.frame(message) for _ in range(130)]  # more than one request for masks
    server = ServerProtocol(state=State.OPEN)
    for frame in frames:
        server.receive_data(frame)
    expected = Opcode.TEXT if kind is str else Opcode.BINARY
    received = [event for event in server.events_received() if isinstance(event, Frame)]
    assert [(event.opcode, bytes(event.data)) for event in received] == [(expected, b"x" * size)] * 130
    assert len(set(frames)) == 130, "each frame has a mask of its own"
