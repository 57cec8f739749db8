"""The session over a transport with a media track, with a fake clock."""

import asyncio
import functools
from collections.abc import Mapping, Sequence

from live_eval.audio import Codec, CodecName
from live_eval.audio.rtp import MediaStats, RtpPacket
from live_eval.cassettes import WireRecord
from live_eval.clock import Clock
from live_eval.dialect import Dial, Message, Output, PlaybackStarted, PlaybackStopped, SdpBody, Signalling
from live_eval.errors import FailureKind, TransportClosedError
from live_eval.session import Session
from live_eval.session.event_loop import ProbeReading
from live_eval.session.timeline import Timeline
from live_eval.session.turn import Turn
from live_eval.testing.fake_clock import FakeClock
from live_eval.transport import Arrival
from live_eval.types import Modality, TurnMode
from tests.unit.session.toy import FRAME, LIMITS, MS, TURN, ToyDialect

OPUS = Codec(CodecName.OPUS, 48_000)


class MemoryTrack:
    """A track that stores the user's frames, and signals the first one."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.began = asyncio.Event()

    def send(self, pcm: bytes, skipped: int = 0) -> None:
        self.frames.append(pcm)
        self.began.set()

    async def stats(self) -> MediaStats:
        return MediaStats(sent_packets=len(self.frames), sent_lost=1, round_trip_ns=3 * MS)


class TrackTransport:
    """A transport with a track; the endpoint replies 1.5 s after the first frame, or disconnects."""

    def __init__(self, clock: Clock, end: TransportClosedError | None = None) -> None:
        self._clock = clock
        self._end = end
        self._arrivals: asyncio.Queue[Arrival | RtpPacket | TransportClosedError] = asyncio.Queue()
        self._endpoint: asyncio.Task[None] | None = None
        self.track = MemoryTrack()
        self.messages: list[Message] = []

    @property
    def setup_ns(self) -> Mapping[str, int]:
        return {"offer": 5 * MS, "ice": 30 * MS}

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        self._tell("ready")
        self._endpoint = asyncio.create_task(self._reply())

    async def _reply(self) -> None:
        await self.track.began.wait()
        begin_ns = self._clock.now_ns() + 1_500 * MS
        await self._clock.sleep_until(begin_ns)
        if self._end is not None:
            self._arrivals.put_nowait(self._end)
            return
        self._tell("begin", "play", "end")
        for number in range(10):
            await self._clock.sleep_until(begin_ns + number * 20 * MS)
            if number != 4:
                payload = bytes([1 << 3, number])
                self._arrivals.put_nowait(
                    RtpPacket(self._clock.now_ns(), number, number * 960, payload, OPUS)
                )
        self._tell("stop")

    def _tell(self, *messages: Message) -> None:
        for message in messages:
            self._arrivals.put_nowait(Arrival(message, self._clock.now_ns()))

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    async def receive(self) -> Arrival | RtpPacket:
        arrival = await self._arrivals.get()
        if isinstance(arrival, TransportClosedError):
            raise arrival
        return arrival

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if self._endpoint is not None:
            self._endpoint.cancel()


class TrackDialect(ToyDialect):
    """A dialect that fails if it receives a frame, since frames belong to the track."""

    def dial(self) -> Dial:
        return Dial("http://memory", signalling=Signalling(SdpBody.SDP, SdpBody.SDP))

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        raise AssertionError("a frame reached the dialect")

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        playback: dict[Message, Output] = {"play": PlaybackStarted("r"), "stop": PlaybackStopped("r")}
        return [playback[message]] if message in playback else super().received(message, at_ns)


async def test_frames_go_to_the_track_and_packets_become_the_reply() -> None:
    clock = FakeClock(start_ns=0)
    transport = TrackTransport(clock)
    session = Session(
        TrackDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS
    )
    (capture,) = await session.converse([TURN])
    assert capture.failure is None
    assert transport.messages == ["hello", "bye"]
    assert transport.track.frames[:50] == [FRAME] * 50
    assert len(transport.track.frames) == len(capture.trace.frame_sent_ns) > 50
    (response,) = capture.wire
    assert len(response.chunks) == 9
    assert response.concealed == (0, 0, 0, 0, 960, 0, 0, 0, 0)
    assert capture.media is not None
    assert (capture.media.packets, capture.media.lost) == (9, 1)
    assert (capture.media.sent_lost, capture.media.round_trip_ns) == (1, 3 * MS)
    assert capture.trace.setup_ns == {"offer": 5 * MS, "ice": 30 * MS}
    assert not capture.trace.continuous


async def test_the_transports_reason_for_the_end_is_the_failure() -> None:
    clock = FakeClock(start_ns=0)
    end = TransportClosedError(
        None, "the data channel closed", 7, kind=FailureKind.CHANNEL_CLOSED, retry_after_s=4.0
    )
    session = Session(
        TrackDialect(),
        lambda _: TrackTransport(clock, end),
        clock,
        turn_mode=TurnMode.SERVER_VAD,
        limits=LIMITS,
    )
    (capture,) = await session.converse([TURN])
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.CHANNEL_CLOSED
    assert capture.failure.message == "the data channel closed"
    assert capture.retry_after_s == 4.0


def test_packets_lost_between_two_turns_count_in_the_second() -> None:
    new_turn = functools.partial(Turn, LIMITS, Modality.AUDIO)
    timeline = Timeline(WireRecord(keeps=False), new_turn, listens=False)
    timeline.on_track = True
    timeline.start(0, 0)
    for number in (0, 1, 2):
        timeline.packet_received(RtpPacket(number * 20 * MS, number, number * 960, bytes([1 << 3, 1]), OPUS))
    timeline.next_turn(60 * MS, ProbeReading(), None)
    for number in (5, 6):
        timeline.packet_received(RtpPacket(number * 20 * MS, number, number * 960, bytes([1 << 3, 1]), OPUS))
    lost = [turn.media.lost for turn in timeline.turns if turn.media is not None]
    assert lost == [0, 2]
