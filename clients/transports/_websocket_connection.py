"""Run `websockets`' protocol over a stream and timestamp the last byte of each message."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import struct
from collections import deque
from collections.abc import Mapping

from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, WebSocketException
from websockets.frames import (  # type: ignore[attr-defined]  # its apply_mask uses C if available
    DATA_OPCODES,
    Frame,
    Opcode,
    apply_mask,
)
from websockets.http11 import USER_AGENT
from websockets.protocol import State

from live_eval.clock import Clock
from live_eval.dialect import Message
from live_eval.sockets.framing import WebSocketFraming
from live_eval.sockets.stream import StreamTransport
from live_eval.transport import Arrival
from live_eval.types import StampKind

_NOT_UTF8 = 1007  # RFC 6455, 7.4.1
_MOST_WAITING_BYTES = 32 << 20  # queued for the session; more data stays in the kernel
_MESSAGE_OBJECT_BYTES = 200
_MOST_UNSENT_BYTES = 1 << 16  # pongs are dropped above this size
_TEXT, _BINARY = 0x81, 0x82  # the first byte of a frame that contains a complete message: RFC 6455, 5.2
_HEAD = struct.Struct("!BBH").pack
_MASKS_BYTES = 256


class WebSocketConnection(asyncio.Protocol):
    """Connect `websockets`' protocol to a stream."""

    def __init__(self, websocket: ClientProtocol, clock: Clock, close_timeout_s: float) -> None:
        self._websocket = websocket
        self._clock = clock
        self._close_timeout_s = close_timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: StreamTransport  # set by `connection_made`
        self._opening: asyncio.Future[None] = self._loop.create_future()
        self.drained = asyncio.Event()
        """Set unless too much data is waiting to be sent."""
        self.drained.set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._masks = b""  # random bytes for the next frames
        self._pieces: list[bytes | bytearray | memoryview] = []
        self._is_text = False
        self._framing = WebSocketFraming(after_head=True)
        self._beginning = b""  # beginning of a frame whose length is not yet known
        self._rest = 0  # bytes of a frame that have not arrived
        self._between_frames = False
        self._arrivals: deque[Arrival | None] = deque()  # None at the end of the connection
        self._waiting_bytes = 0  # total size of the arrivals
        self._held_up = False  # reading is paused because too much data is queued
        self._awaited: asyncio.Future[None] | None = None
        self._leaving = False  # we began the closing handshake without an error
        self.over = asyncio.Event()
        self.stamps = StampKind.KERNEL
        self.ended_ns: int | None = None
        self.error: Exception | None = None

    @property
    def end(self) -> ConnectionClosed:
        """How the connection ended."""
        closing = self._websocket
        if closing.state is State.CLOSED:
            return closing.close_exc
        return ConnectionClosedError(closing.close_rcvd, closing.close_sent, closing.close_rcvd_then_sent)

    async def shake_hands(self, headers: Mapping[str, str]) -> None:
        """Perform the WebSocket opening handshake.

        Raises:
            InvalidHandshake: The response rejects the handshake.
            ssl.SSLError: TLS closed the connection; an alert may arrive after the TLS handshake.
        """
        request = self._websocket.connect()
        request.headers.update(headers)
        request.headers.setdefault("User-Agent", USER_AGENT)
        self._websocket.send_request(request)
        self._flush()
        await self._opening
        if isinstance(self.error, ssl.SSLError):
            raise self.error
        if self._websocket.handshake_exc is not None:
            raise self._websocket.handshake_exc

    def keep_alive(self, interval_s: float) -> None:
        """Send a ping every `interval_s` seconds without waiting for pongs."""

        def ping() -> None:
            if self._websocket.state is State.OPEN:
                self._websocket.send_ping(b"")
                self._flush()
                self.keep_alive(interval_s)

        self._timers["ping"] = self._loop.call_later(interval_s, ping)

    def frame(self, message: Message) -> bytes:
        """Encode a message."""
        text = isinstance(message, str)
        data = message.encode() if isinstance(message, str) else message
        if not 125 < len(data) < 65_536:
            return Frame(Opcode.TEXT if text else Opcode.BINARY, data).serialize(mask=True)
        # This runs for every frame, and the library's encoder takes three times as long, because it requests
        # each mask from the system.
        if not self._masks:
            self._masks = os.urandom(_MASKS_BYTES)
        mask, self._masks = self._masks[:4], self._masks[4:]
        return b"".join(
            (_HEAD(_TEXT if text else _BINARY, 0x80 | 126, len(data)), mask, apply_mask(data, mask))
        )

    def write(self, frame: bytes) -> bool:
        """Send the bytes of a message, and return whether the connection was still open."""
        if self._websocket.state is not State.OPEN:
            return False
        self._transport.write(frame)
        return True

    def say_goodbye(self, code: int, reason: str) -> None:
        """Begin the closing handshake unless it has already begun."""
        with contextlib.suppress(WebSocketException):
            if self._websocket.state is State.OPEN:
                self._leaving = True
                self._websocket.send_close(code, reason)
                self._flush()

    def abort(self) -> None:
        """Close immediately."""
        self._transport.abort()

    async def arrival(self) -> Arrival | None:
        """Wait for the next message; return None once the connection has ended. Only one task may wait."""
        while not self._arrivals:
            self._awaited = self._loop.create_future()
            await self._awaited
        arrival = self._arrivals[0]
        if arrival is not None:
            self._arrivals.popleft()
            self._waiting_bytes -= _held_bytes(arrival)
            if self._held_up and self._waiting_bytes < _MOST_WAITING_BYTES // 2:
                self._held_up = False
                self._transport.resume_reading()
        return arrival

    # -- Transport callbacks -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the stream."""
        assert isinstance(transport, StreamTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse data that contains the end of at most one message."""
        # The library's parser is slow (nested generators), so complete single-frame messages bypass it.
        if (
            self._between_frames
            and (start := _whole_message(data))
            and not self._pieces
            and self._websocket.state is State.OPEN
        ):
            try:
                self._arrived(data[start:].decode() if data[0] == _TEXT else data[start:])
                return
            except UnicodeDecodeError:
                pass
        self._websocket.receive_data(data)
        self._follow(data)
        self._handle_events()

    def eof_received(self) -> None:
        """Handle the end of the endpoint's data."""
        self._websocket.receive_eof()
        self._handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self.ended_ns = self._clock.now_ns() if self.ended_ns is None else self.ended_ns
        self.error = exc
        for timer in self._timers.values():
            timer.cancel()
        if self._websocket.state is not State.CLOSED:
            self._websocket.receive_eof()
        if not self._opening.done():
            self._opening.set_result(None)
        self.drained.set()
        self._put(None)
        self.over.set()

    def pause_writing(self) -> None:
        """Clear `drained`."""
        self.drained.clear()

    def resume_writing(self) -> None:
        """Set `drained` again."""
        self.drained.set()

    def _follow(self, data: bytes) -> None:
        """Track the frame boundaries in the data that the library parses."""
        data, at = self._beginning + data, self._rest
        while at < len(data) and (size := self._framing.size(data[at : at + self._framing.look])):
            at += size
        self._beginning, self._rest = data[at:], max(0, at - len(data))
        self._between_frames = not (self._beginning or self._rest)

    def _handle_events(self) -> None:
        for event in self._websocket.events_received():
            if isinstance(event, Frame):
                if event.opcode in DATA_OPCODES:
                    self._take(event)
            elif not self._opening.done():
                self._opening.set_result(None)
        if self._websocket.handshake_exc is not None and not self._opening.done():
            self._opening.set_result(None)
        self._flush()
        if self._websocket.close_expected() and "close" not in self._timers:
            self._timers["close"] = self._loop.call_later(self._close_timeout_s, self._transport.abort)
        if self._is_closed and self.ended_ns is None:
            self.ended_ns = self._transport.stamp.at_ns
            self._put(None)  # do not wait for the end of the TCP connection

    @property
    def _is_closed(self) -> bool:
        """Whether later data is ignored, because the endpoint began to close or violated the protocol."""
        closing = self._websocket
        return closing.close_rcvd is not None or (closing.close_sent is not None and not self._leaving)

    def _take(self, frame: Frame) -> None:
        """Add a frame to a message, which its final frame completes."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._pieces.append(frame.data)
        if frame.fin:
            data = b"".join(self._pieces)
            self._pieces.clear()
            try:
                self._arrived(data.decode() if self._is_text else data)
            except UnicodeDecodeError as error:
                self._websocket.fail(_NOT_UTF8, f"{error.reason} at position {error.start}")

    def _arrived(self, message: Message) -> None:
        stamp = self._transport.stamp
        if stamp.kind is StampKind.USER:
            self.stamps = StampKind.USER
        arrival = Arrival(message, stamp.at_ns)
        self._waiting_bytes += _held_bytes(arrival)
        if self._waiting_bytes > _MOST_WAITING_BYTES and not self._held_up:
            self._held_up = True
            self._transport.pause_reading()
        self._put(arrival)

    def _put(self, arrival: Arrival | None) -> None:
        self._arrivals.append(arrival)
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def _flush(self) -> None:
        for data in self._websocket.data_to_send():
            if data:
                # RFC 6455, 5.5.3, allows us to omit a pong.
                is_pong = data[0] & 0x0F == Opcode.PONG
                if not (is_pong and self._transport.get_write_buffer_size() > _MOST_UNSENT_BYTES):
                    self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()


def _held_bytes(arrival: Arrival) -> int:
    """Return the approximate memory use of an arrival."""
    return len(arrival.message) + _MESSAGE_OBJECT_BYTES


def _whole_message(data: bytes) -> int:
    """Return the payload offset if `data` is a single frame with a complete message, else 0.

    Frames that the library must check also return 0: masked, compressed or possibly over a size limit.
    """
    if len(data) < 2 or (data[0] != _TEXT and data[0] != _BINARY):
        return 0
    length, start = data[1], 2
    if length == 126:
        length, start = int.from_bytes(data[2:4]), 4
    elif length > 126:
        return 0
    return start if len(data) == start + length else 0
