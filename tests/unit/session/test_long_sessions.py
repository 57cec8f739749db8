"""Long sessions: their memory does not grow with their length."""

import asyncio
import functools
import tracemalloc
from collections.abc import Callable, Mapping, Sequence

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import RtpPacket, RtpTrack
from live_eval.cassettes import WireRecord
from live_eval.dialect import (
    Dial,
    Message,
    Output,
    ReplyAudio,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
)
from live_eval.errors import TransportClosedError
from live_eval.session import Playback, Session, Utterance
from live_eval.session.capture import LoggedMessage, TurnCapture
from live_eval.session.limits import SessionLimits
from live_eval.session.log import MOST_FRAMES
from live_eval.session.timeline import Timeline
from live_eval.session.turn import Turn
from live_eval.testing.fake_clock import FakeClock
from live_eval.timing import ResponseStatus
from live_eval.transport import Arrival
from live_eval.types import Modality, SpeechBoundaries, TurnMode
from tests.unit.session.toy import ToyDialect

MS = 1_000_000
HOUR_TURNS = 360
GROWTH_BYTES_PER_HOUR = 200_000
FRAME = bytes([1, 0]) * 2_400
UTTERANCE = Utterance(
    frames=[FRAME] * 30,
    frame_ns=100 * MS,
    boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=3_000 * MS),
)


class Sink:
    """A `Transport` on which nothing arrives."""

    track = None
    setup_ns: Mapping[str, int] = {}

    def __init__(self) -> None:
        self._closed = asyncio.Event()

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        pass

    async def send(self, message: Message) -> None:
        pass

    async def receive(self) -> Arrival:
        await self._closed.wait()
        raise TransportClosedError(1000, "", 0)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self._closed.set()


class Answering(ToyDialect):
    """An endpoint that answers each utterance after half a second with six seconds of audio."""

    def __init__(self) -> None:
        super().__init__()
        self._spoken = self._replies = 0

    def opened(self, at_ns: int) -> Sequence[Output]:
        return [SessionReady("s")]

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        self._spoken += pcm == FRAME
        if pcm == FRAME or self._spoken != len(UTTERANCE.frames) * (self._replies + 1):
            return [Send(pcm)]
        self._replies += 1
        name, codec = f"r{self._replies}", Codec(CodecName.PCM16, 24_000)
        audio = [ReplyAudio(name, bytes(4_800), codec) for _ in range(60)]
        return [ResponseStarted(name), *audio, ResponseDone(name, ResponseStatus.COMPLETED)]


@pytest.mark.parametrize("turns", [HOUR_TURNS // 6, pytest.param(HOUR_TURNS, marks=pytest.mark.slow)])
async def test_memory_does_not_grow_with_the_number_of_turns(turns: int) -> None:
    clock = FakeClock(start_ns=0, quiet_cycles=3)
    session = Session(
        Answering(),
        lambda _: Sink(),
        clock,
        turn_mode=TurnMode.SERVER_VAD,
        limits=SessionLimits(reply_s=5, linger_s=0.2),
    )
    memory: list[int] = []
    failures = []

    def on_turn(capture: TurnCapture, log: Callable[[], Sequence[LoggedMessage]]) -> None:
        failures.append(capture.failure)
        memory.append(tracemalloc.get_traced_memory()[0])

    tracemalloc.start()
    try:
        kept = await session.run(Playback([UTTERANCE] * turns, 600 * MS), on_turn=on_turn)
    finally:
        tracemalloc.stop()
    assert kept == []
    assert failures == [None] * turns
    hours = turns / HOUR_TURNS
    assert clock.now_ns() > hours * 3_600_000 * MS * 0.95
    growth = max(memory[turns // 2 :]) - max(memory[20 : turns // 2])
    assert growth < GROWTH_BYTES_PER_HOUR * hours / 2


async def test_the_frame_times_and_messages_of_one_long_turn_are_bounded() -> None:
    new_turn = functools.partial(Turn, SessionLimits(), Modality.AUDIO)
    timeline = Timeline(WireRecord(keeps=False), new_turn, listens=False)
    timeline.start(0, 0)
    for frame in range(180_000):
        timeline.frame_sent(frame, frame)
    turn = timeline.current
    assert turn.frames.number == 180_000
    assert len(turn.frames.sent_ns) == len(turn.frames.deadline_ns) <= MOST_FRAMES
    assert turn.frames.sent_ns[-1] == 179_999, "while nobody speaks, the latest are kept"
    for _ in range(100):
        timeline.message_received("x" * 1_000_000, 0)
    assert sum(len(message) for _, _, message in turn.log.messages) <= 65_000_000
    assert turn.log.received == 100


def test_a_track_keeps_recent_packets_only() -> None:
    track = RtpTrack()
    codec = Codec(CodecName.PCMU, 8_000)
    for number in range(20_000):
        packet = RtpPacket(
            at_ns=number * 20 * MS,
            ssrc=1,
            sequence=number % 65_536,
            timestamp=number * 160,
            payload=b"\0" * 160,
            codec=codec,
        )
        track.push(packet, 160)
    assert track.stats.packets == 20_000
    assert track.stats.doubled == track.stats.lost == 0
    assert len(track._seen) <= 6_000
