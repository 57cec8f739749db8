"""A device's speaker, without a device: an hour in seconds."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.errors import FailureKind
from live_eval.session import Session
from live_eval.session.live_speaker import Live
from live_eval.session.speaker import Frame
from live_eval.session.speech_detector import Span, SpeechDetector
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.memory_transport import memory_pair
from live_eval.types import TurnMode
from tests.unit.session.devices import Device
from tests.unit.session.toy import LIMITS, Heard, ToyDialect, answers, beside, ears

MS = 1_000_000


S = 1_000_000_000


HOUR_S = 3_600


FIVE_MINUTES_S = 300


RATE = 8_000


BLOCK = 160


DELAY_NS = 100 * MS


class Deaf(SpeechDetector):
    """A detector that finds no speech."""

    def push(self, pcm: NDArray[np.int16]) -> list[Span]:
        return []


def counted(begin: int, end: int) -> NDArray[np.int16]:
    """Return samples whose values encode their index."""
    return (np.arange(begin, end) % 30_000).astype(np.int16)


def drive(live: Live, device: Device, seconds: float, *, start_ns: int) -> Iterator[tuple[int, Frame]]:
    """Request a session's frames when due, after pushing the blocks that have arrived by then."""
    blocks = device.arrivals(seconds)
    end, at_ns = next(blocks)
    begin = 0
    while True:
        while at_ns <= start_ns:
            live.push(counted(begin, end), at_ns)
            begin = end
            try:
                end, at_ns = next(blocks)
            except StopIteration:
                return
        frame = live.frame(start_ns, start_ns)
        assert frame is not None
        yield start_ns, frame
        start_ns += live.frame_ns


@pytest.mark.parametrize(
    ("ppm", "seconds"),
    [
        (-200.0, FIVE_MINUTES_S),
        (200.0, FIVE_MINUTES_S),
        *(pytest.param(ppm, HOUR_S, marks=pytest.mark.slow) for ppm in (-200.0, 200.0)),
    ],
)
def test_nothing_is_lost_in_a_long_session(ppm: float, seconds: int) -> None:
    device = Device(ppm)
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=60 * MS, delay_ns=DELAY_NS, detector=Deaf(RATE))
    said, jumps, worst = 0, 0, 0
    last: int | None = None
    size = live._ring.nbytes
    for number, (start_ns, frame) in enumerate(drive(live, device, seconds, start_ns=8 * S)):
        pcm = np.frombuffer(frame.pcm, np.int16)
        assert len(pcm) == 480
        first = live._head - live.stats.sent  # constant, except for dropped samples
        assert first >= 0
        wide = pcm.astype(np.int64)
        steps = (wide - np.append(wide[0] - 1 if last is None else last, wide[:-1])) % 30_000
        jumps += int(np.count_nonzero(steps != 1))
        assert steps.max() <= 2, "no sample is missing but where one is left out"
        last = int(pcm[-1])
        said += len(pcm)
        if number > 100:
            head = live._head - len(pcm)
            worst = max(worst, abs(device.captured_ns(head) + DELAY_NS - start_ns))
    stats = live.stats
    slips = stats.repeated + stats.omitted
    assert stats.underruns == stats.overruns == 0
    assert stats.dropped <= RATE, "only what came before the session asked"
    assert jumps == slips
    assert said == stats.sent + stats.repeated
    assert abs(slips / (seconds * RATE) * 1e6 - 200) < 20
    assert worst < 1.5 * MS
    assert stats.drift_ppm == pytest.approx(ppm, abs=10)
    assert live._ring.nbytes == size
    assert len(live._clock._earliest) <= 60


@pytest.mark.parametrize(("late_ms", "first"), [(160, 801), (700, 801 + 400 * RATE // 1000)])
def test_late_audio_is_counted_and_the_delay_grows(late_ms: int, first: int) -> None:
    """The delay of 60 ms grows by the missing audio up to 300 ms; the rest is dropped in the next pause."""
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=20 * MS, detector=Deaf(RATE))
    live.push(counted(1, 801), 100 * MS)
    end_ns = (100 + late_ms) * MS
    frames = [live.frame(at_ns, at_ns) for at_ns in range(100 * MS, end_ns, 20 * MS)]
    said = b"".join(frame.pcm for frame in frames if frame is not None)
    assert len(said) == 2 * 160 * len(frames)
    assert live.stats.underruns >= 3
    assert live.stats.sent + live.stats.dropped == 800
    live.push(counted(801, 801 + late_ms * RATE // 1000), end_ns)
    frame = live.frame(end_ns, end_ns)
    assert frame is not None
    assert np.frombuffer(frame.pcm, np.int16)[0] == first


def test_a_frame_that_is_just_complete_is_not_an_underrun() -> None:
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=20 * MS, detector=Deaf(RATE))
    live.push(counted(0, 160), 20 * MS)
    assert np.array_equal(np.frombuffer(live._taken(160, 1), np.int16), counted(0, 160))
    assert live.stats.underruns == 0
    live._taken(160, 1)
    assert live.stats.underruns == 1


def test_unread_audio_is_dropped() -> None:
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=20 * MS, detector=Deaf(RATE))
    live.push(counted(0, 800), 100 * MS)
    live.frame(100 * MS, 100 * MS)
    for number in range(1, 100):
        live.push(counted(number * 800, (number + 1) * 800), (number + 1) * 100 * MS)
    assert live.stats.overruns > 0
    assert live.stats.captured == 80_000
    assert live._tail - live._head <= 2 * RATE


class Scripted(SpeechDetector):
    """A detector that reports given speech 30 ms after its start and 400 ms after its end."""

    def __init__(self, *utterances: tuple[int, int]) -> None:
        super().__init__(RATE)
        self._samples = 0
        self._found: dict[int, Span] = {}
        for start_ms, end_ms in utterances:
            start, end = start_ms * RATE // 1000, end_ms * RATE // 1000
            self._found |= {start_ms + 30: Span(start), end_ms + 400: Span(start, end)}

    def push(self, pcm: NDArray[np.int16]) -> list[Span]:
        before, self._samples = self._samples, self._samples + len(pcm)
        return [span for ms, span in self._found.items() if before < ms * RATE // 1000 <= self._samples]


async def test_a_session_with_a_live_speaker() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=20 * MS, detector=Scripted((200, 900)))
    heard = Heard()

    async def device() -> None:
        for number in range(250):
            await clock.sleep_until((number + 1) * 20 * MS)
            live.push(counted(number * BLOCK, (number + 1) * BLOCK), clock.now_ns())
        live.stop()

    (capture,) = await beside(session.run(live), ears(peer, heard), device(), answers(peer, clock, heard))
    assert capture.failure is None
    assert capture.trace.boundaries is not None
    assert capture.trace.onset_ns == pytest.approx((200 + 60) * MS, abs=MS)
    assert capture.trace.voice_end_ns == pytest.approx((900 + 60) * MS, abs=MS)
    assert len(capture.wire) == 1
    assert live.stats.underruns == 0


async def test_a_persevering_user_continues_without_an_answer() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    utterances = Scripted((200, 900), (8_200, 8_900))
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=20 * MS, detector=utterances)
    heard = Heard()

    async def device() -> None:
        for number in range(600):
            await clock.sleep_until((number + 1) * 20 * MS)
            live.push(counted(number * BLOCK, (number + 1) * BLOCK), clock.now_ns())
        live.stop()

    async def answers_the_second() -> None:
        peer.send("ready")
        await clock.sleep_until(9_500 * MS)
        for message in ("stopped", "begin", "audio", "end"):
            peer.send(message)

    holding = session.run(live, survives_failures=True)
    first, second = await beside(holding, ears(peer, heard), device(), answers_the_second())
    assert first.failure is not None
    assert first.failure.kind is FailureKind.NO_RESPONSE
    assert second.failure is None
    assert second.trace.onset_ns == pytest.approx((8_200 + 60) * MS, abs=MS)
    assert len(second.wire) == 1


async def test_a_connection_that_ends_after_a_failed_turn_ends_the_session_with_its_own_reason() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    live = Live(device_hz=RATE, rate_hz=RATE, frame_ns=20 * MS, detector=Scripted((200, 900)))

    async def device() -> None:
        for number in range(600):
            await clock.sleep_until((number + 1) * 20 * MS)
            live.push(counted(number * BLOCK, (number + 1) * BLOCK), clock.now_ns())

    async def leaves() -> None:
        peer.send("ready")
        await clock.sleep_until(9_000 * MS)
        peer.close(1001, "too long")

    first, last = await beside(
        session.run(live, survives_failures=True), ears(peer, Heard()), device(), leaves()
    )
    assert first.failure is not None
    assert first.failure.kind is FailureKind.NO_RESPONSE
    assert last.failure is not None
    assert last.failure.kind is FailureKind.CLOSED
    assert "too long" in last.failure.message
    assert last.failure.at_ns == 9_000 * MS
