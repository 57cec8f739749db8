"""The output audio buffer: its packets, their times, and its reports."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from live_eval.reference.engine.events import AudioPiece, ServerResponse, TrackPlayback
from live_eval.reference.protocols.webrtc import TRACK
from live_eval.reference.server.output_buffer import ReplyPlayer, silence
from live_eval.reference.settings import IdleRtp
from live_eval.testing.fake_clock import FakeClock

MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet that was sent.

    Args:
        at_ms: When, since the start.
        timestamp: Its RTP timestamp.
        data: The payload.
    """

    at_ms: int
    timestamp: int
    data: bytes


@dataclass
class Stage:
    """A player, and its packets and reports in order."""

    clock: FakeClock
    start_ns: int
    deed: list[object] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def say(self, packet: bytes, timestamp: int) -> int:
        await self.gate.wait()
        self.deed.append(Packet((self.clock.now_ns() - self.start_ns) // MS, timestamp, packet))
        return self.clock.now_ns()

    async def hear(self) -> None:
        raise AssertionError("a player only speaks")

    async def tell(self, playback: TrackPlayback) -> None:
        self.deed.append(f"{playback.state} {playback.response.response_id} {playback.played_ms}")

    def left(self, piece: AudioPiece, at_ns: int) -> None:
        self.deed.append((piece.payload, (at_ns - self.start_ns) // MS))

    @property
    def told(self) -> list[str]:
        return [deed for deed in self.deed if isinstance(deed, str)]

    @property
    def packets(self) -> list[Packet]:
        return [deed for deed in self.deed if isinstance(deed, Packet)]

    async def until(self, at_ms: int) -> None:
        await self.clock.sleep_until(self.start_ns + at_ms * MS)


@asynccontextmanager
async def playing(idle: IdleRtp) -> AsyncIterator[tuple[Stage, ReplyPlayer]]:
    clock = FakeClock()
    stage = Stage(clock, clock.now_ns())
    stage.gate.set()
    player = ReplyPlayer(stage, clock, idle, notify=stage.tell, packet_sent=stage.left)
    task = asyncio.create_task(player.run())
    try:
        yield stage, player
    finally:
        task.cancel()


def response(name: str) -> ServerResponse:
    return ServerResponse(name, f"item_{name}", True, TRACK.output_codec, None, "")


def piece(of: ServerResponse, payload: bytes) -> AudioPiece:
    return AudioPiece(of, payload, 960, 48_000, 0, "constructed")


async def test_a_reply_replaces_silence_on_the_same_packet_grid() -> None:
    answer = response("a")
    async with playing(IdleRtp.SILENCE) as (stage, player):
        await stage.until(47)
        await player.push(piece(answer, b"1"))
        await player.push(piece(answer, b"2"))
        player.ended(answer)
        await stage.until(125)
    assert stage.packets == [
        Packet(0, 0, silence()),
        Packet(20, 960, silence()),
        Packet(40, 1920, silence()),
        Packet(60, 2880, b"1"),
        Packet(80, 3840, b"2"),
        Packet(100, 4800, silence()),
        Packet(120, 5760, silence()),
    ]
    assert stage.told == ["started a 0", "stopped a 40"]
    assert stage.deed.index("started a 0") == 3  # before its first packet, and at once
    assert stage.deed.index("stopped a 40") == stage.deed.index(Packet(100, 4800, silence())) - 1
    assert [deed for deed in stage.deed if isinstance(deed, tuple)] == [(b"1", 60), (b"2", 80)]


async def test_without_idle_packets_a_reply_is_sent_at_once() -> None:
    first, second = response("a"), response("b")
    async with playing(IdleRtp.NONE) as (stage, player):
        for start_ms, each in ((47, first), (307, second)):
            await stage.until(start_ms)
            await player.push(piece(each, b"1"))
            await player.push(piece(each, b"2"))
            player.ended(each)
        await stage.until(400)
    assert stage.packets == [
        Packet(47, 47 * 48, b"1"),
        Packet(67, 67 * 48, b"2"),
        Packet(307, 307 * 48, b"1"),
        Packet(327, 327 * 48, b"2"),
    ]
    assert stage.told == ["started a 0", "stopped a 40", "started b 0", "stopped b 40"]


async def test_pieces_pushed_separately_are_one_reply() -> None:
    answer = response("a")
    async with playing(IdleRtp.NONE) as (stage, player):
        for start_ms in (10, 30, 55, 70):
            await stage.until(start_ms)
            await player.push(piece(answer, b"x"))
        await stage.until(200)
        assert stage.told == ["started a 0"]
        player.ended(answer)
        await stage.until(300)
    assert [(packet.at_ms, packet.timestamp // 48) for packet in stage.packets] == [
        (10, 10),
        (30, 30),
        (55, 50),  # late, but its position directly follows the previous one
        (70, 70),
    ]
    assert stage.told == ["started a 0", "stopped a 80"]


async def test_the_next_reply_waits_for_the_current_one() -> None:
    first, second = response("a"), response("b")
    async with playing(IdleRtp.SILENCE) as (stage, player):
        await stage.until(5)
        for each in (first, second):
            await player.push(piece(each, each.response_id.encode()))
            player.ended(each)
        await stage.until(90)
    assert stage.told == ["started a 0", "stopped a 20", "started b 0", "stopped b 20"]
    assert [packet.data for packet in stage.packets[1:4]] == [b"a", b"b", silence()]


async def test_cleared_packets_are_never_sent() -> None:
    playing_now, waiting, later = response("a"), response("b"), response("c")
    async with playing(IdleRtp.SILENCE) as (stage, player):
        await stage.until(5)
        for each in (playing_now, playing_now, playing_now, waiting):
            assert await player.push(piece(each, b"x"))
        await stage.until(50)
        cleared = player.clear()
        assert not await player.push(piece(playing_now, b"x"))
        player.ended(playing_now)
        assert player.clear() == []
        await player.push(piece(later, b"c"))
        player.ended(later)
        await stage.until(130)
    assert [(each.response.response_id, each.state.value, each.played_ms) for each in cleared] == [
        ("a", "cleared", 40),
        ("b", "cleared", 0),
    ]
    assert stage.told == ["started a 0", "started c 0", "stopped c 20"]
    assert [packet.data for packet in stage.packets] == [
        *(silence(), b"x", b"x", b"c", silence(), silence(), silence())
    ]


async def test_late_packets_are_sent_without_a_gap() -> None:
    answer = response("a")
    async with playing(IdleRtp.SILENCE) as (stage, player):
        await stage.until(25)
        stage.clock.advance(70 * MS)
        await player.push(piece(answer, b"1"))
        await stage.until(165)
    assert [packet.timestamp for packet in stage.packets] == [k * 960 for k in range(9)]
    assert [packet.at_ms for packet in stage.packets] == [0, 20, 95, 95, 95, 100, 120, 140, 160]
    assert stage.packets[2].data == b"1"


async def test_a_reply_is_announced_after_the_packet_in_progress() -> None:
    answer = response("a")
    async with playing(IdleRtp.SILENCE) as (stage, player):
        await stage.until(30)
        stage.gate.clear()
        await stage.until(45)
        await player.push(piece(answer, b"1"))
        assert stage.told == []
        stage.gate.set()
        await stage.until(65)
    said = [deed.data if isinstance(deed, Packet) else deed for deed in stage.deed]
    assert said == [silence(), silence(), silence(), "started a 0", b"1", (b"1", 60)]
