"""Delayed delivery, over a fake clock and without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from live_eval.impair import parse
from live_eval.sockets.datagrams import StampedDatagram
from live_eval.sockets.impaired import ImpairedDatagrams, ImpairedStream
from live_eval.sockets.stamps import Stamp
from live_eval.sockets.stream import StreamTransport
from live_eval.testing import FakeClock
from live_eval.types import StampKind

MS = 1_000_000
RTP = b"\x80\x6f" + bytes(100)
STUN = b"\x00\x01" + bytes(18)


class Lower(StreamTransport):
    """The stream below, in memory."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self._clock = clock
        self.written: list[tuple[int, bytes]] = []
        self.aborted = self.closed = False
        self.reading = True
        self.stamp = Stamp(clock.now_ns(), StampKind.KERNEL)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append((self._clock.now_ns(), bytes(data)))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Upper(asyncio.Protocol):
    """A protocol that stores received data with the stream's timestamp."""

    def __init__(self) -> None:
        self.got: list[tuple[int, bytes | str]] = []
        self.writing = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, ImpairedStream)
        self.stream = transport

    def data_received(self, data: bytes) -> None:
        self.got.append((self.stream.stamp.at_ns, data))

    def eof_received(self) -> None:
        self.got.append((self.stream.stamp.at_ns, "end"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.got.append((self.stream.stamp.at_ns, "lost"))

    def pause_writing(self) -> None:
        assert self.writing
        self.writing = False

    def resume_writing(self) -> None:
        assert not self.writing
        self.writing = True


def stream(spec: str, window: int | None = None) -> tuple[FakeClock, Lower, ImpairedStream, Upper]:
    clock, upper = FakeClock(0), Upper()
    lower, impaired = Lower(clock), ImpairedStream(upper, parse(spec), clock, window_bytes=window)
    impaired.connection_made(lower)
    return clock, lower, impaired, upper


def arrive(lower: Lower, impaired: ImpairedStream, at_ns: int, data: bytes) -> None:
    lower.stamp = Stamp(at_ns, StampKind.KERNEL)
    impaired.data_received(data)


async def test_every_byte_is_delayed_from_its_own_stamp_including_the_handshake() -> None:
    clock, lower, impaired, upper = stream("delay=80ms")
    impaired.write(b"hello")
    arrive(lower, impaired, 3, b"welcome")
    arrive(lower, impaired, 5 * MS, b"one")
    impaired.eof_received()
    impaired.connection_lost(None)
    await clock.sleep_until(300 * MS)
    assert upper.got == [
        (80 * MS + 3, b"welcome"),
        (85 * MS, b"one"),
        (85 * MS, "end"),
        (85 * MS, "lost"),
    ]
    assert lower.written == []  # it was in transit when the connection ended

    clock, lower, impaired, _ = stream("delay=80ms")
    impaired.write(b"hello")
    await clock.sleep_until(300 * MS)
    assert lower.written == [(80 * MS, b"hello")]


async def test_sent_bytes_leave_in_pieces_and_the_close_follows_the_last() -> None:
    clock, lower, impaired, _ = stream("chunk=4B,gap=10ms")
    impaired.write(b"0123456789")
    assert impaired.get_write_buffer_size() == 6
    impaired.close()
    assert not lower.closed
    await clock.sleep_until(100 * MS)
    assert lower.written == [(0, b"0123"), (10 * MS, b"4567"), (20 * MS, b"89")]
    assert lower.closed


async def test_an_abort_drops_delayed_bytes() -> None:
    clock, lower, impaired, upper = stream("delay=80ms")
    impaired.write(b"bye")
    arrive(lower, impaired, 0, b"too late")
    impaired.abort()
    impaired.connection_lost(None)
    await clock.sleep_until(200 * MS)
    assert lower.aborted
    assert not lower.written
    assert [what for _, what in upper.got] == ["lost"]


async def test_small_pieces_need_one_task() -> None:
    clock, lower, impaired, _ = stream("chunk=1B,gap=1ms")
    before = len(asyncio.all_tasks())
    impaired.write(b"x" * 100_000)
    assert len(asyncio.all_tasks()) <= before + 1
    await clock.sleep_until(50 * MS + 1)
    assert lower.written == [(number * MS, b"x") for number in range(51)]
    assert impaired.get_write_buffer_size() == 100_000 - 51


async def test_the_window_limits_the_bytes_in_transit() -> None:
    clock, lower, impaired, upper = stream("delay=10ms", window=100)
    for at_ms in range(3):
        arrive(lower, impaired, at_ms * MS, bytes(50))
        impaired.write(bytes(50))
    assert not lower.reading
    assert not upper.writing
    impaired.pause_writing()  # the stream below is full too
    await clock.sleep_until(30 * MS)
    assert lower.reading
    assert not upper.writing
    impaired.resume_writing()
    assert upper.writing


async def test_a_paused_protocol_stays_paused_when_the_window_opens() -> None:
    clock, lower, impaired, _ = stream("delay=10ms", window=100)
    arrive(lower, impaired, 0, bytes(200))
    impaired.pause_reading()
    await clock.sleep_until(30 * MS)
    assert not lower.reading
    impaired.resume_reading()
    assert lower.reading


async def test_a_slow_end_arrives_late_before_the_loss_of_the_connection() -> None:
    clock, lower, impaired, upper = stream("down.slow_close=50ms")
    arrive(lower, impaired, 0, b"bye")
    impaired.eof_received()
    impaired.connection_lost(None)
    await clock.sleep_until(40 * MS)
    assert [what for _, what in upper.got] == [b"bye"]
    await clock.sleep_until(60 * MS)
    assert [what for _, what in upper.got] == [b"bye", "end", "lost"]


def datagram(data: bytes, at_ns: int) -> StampedDatagram:
    made = StampedDatagram(data)
    made.stamp = Stamp(at_ns, StampKind.KERNEL)
    return made


async def test_datagrams_are_delayed_but_not_the_setup() -> None:
    clock = FakeClock(0)
    damage = ImpairedDatagrams(parse("up.delay=10ms,down.delay=30ms"), clock)
    log: list[tuple[str, int]] = []

    def leave(name: str) -> Callable[[], None]:
        return lambda: log.append((name, clock.now_ns()))

    damage.send(RTP, leave("before"))
    damage.begin()
    damage.send(RTP, leave("media"))
    damage.send(STUN, leave("check"))
    damage.receive(datagram(RTP, 4 * MS), lambda got: log.append(("heard", got.stamp.at_ns)))
    damage.receive(datagram(STUN, 4 * MS), lambda got: log.append(("answer", got.stamp.at_ns)))
    await clock.sleep_until(100 * MS)
    assert log == [("before", 0), ("check", 0), ("answer", 4 * MS), ("media", 10 * MS), ("heard", 34 * MS)]


@pytest.mark.parametrize(("spec", "copies"), [("loss=100%", 0), ("duplicate=100%", 2)])
async def test_lost_datagrams_never_arrive_and_duplicates_arrive_twice(spec: str, copies: int) -> None:
    damage = ImpairedDatagrams(parse(spec), FakeClock(0))
    damage.begin()
    heard: list[int] = []
    damage.receive(datagram(RTP, 0), lambda got: heard.append(got.stamp.at_ns))
    assert heard == [0] * copies


async def test_closing_drops_delayed_datagrams() -> None:
    clock = FakeClock(0)
    damage = ImpairedDatagrams(parse("delay=10ms"), clock)
    damage.begin()
    left: list[int] = []
    damage.send(RTP, lambda: left.append(1))
    damage.close()
    await clock.sleep_until(50 * MS)
    assert left == []
