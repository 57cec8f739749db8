"""The session in memory with a fake clock."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from live_eval.clock import FrameSlots
from live_eval.dialect import (
    Dial,
    EndpointProblem,
    Message,
    Output,
    SetTimer,
)
from live_eval.errors import ConnectError, FailureKind
from live_eval.session import Session
from live_eval.session.capture import TurnCapture
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.memory_transport import Link, MemoryPeer, MemoryTransport, memory_pair
from live_eval.types import TurnMode
from tests.unit.session.toy import FRAME, LIMITS, MS, TURN, Endpoint, Heard, ToyDialect, answers, beside, ears


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def hold(
    endpoint: Endpoint,
    *,
    mode: TurnMode = TurnMode.SERVER_VAD,
    dialect: ToyDialect | None = None,
    down: Link | None = None,
    refuse: ConnectError | None = None,
    taken: int | None = None,
) -> tuple[TurnCapture, Heard, Session]:
    """Run a session; `taken` is the number of other sessions with frame slots; None for no slots."""
    clock = FakeClock(start_ns=0)
    slots = FrameSlots(clock) if taken is not None else None
    others = contextlib.ExitStack()
    for _ in range(taken or 0):
        assert slots is not None
        others.enter_context(slots.slot(TURN.frame_ns))
    transport, peer = memory_pair(clock, down=down, refuse=refuse)
    heard = Heard()
    session = Session(
        dialect or ToyDialect(), lambda _: transport, clock, turn_mode=mode, limits=LIMITS, slots=slots
    )
    with others:
        (capture,) = await beside(session.converse([TURN]), ears(peer, heard), endpoint(peer, clock, heard))
    return capture, heard, session


def frames(heard: Heard) -> list[tuple[int, bytes]]:
    return [(at, message) for at, message in heard if isinstance(message, bytes)]


async def test_a_turn_with_the_servers_detector() -> None:
    capture, heard, session = await hold(answers)
    trace = capture.trace
    assert capture.failure is None
    assert trace.ready_ns == 30 * MS
    assert trace.t0_ns == 50 * MS
    assert trace.voice_end_ns == 950 * MS
    assert trace.boundaries is TURN.boundaries
    assert [at for at, _ in frames(heard)] == trace.frame_sent_ns.tolist()
    assert trace.frame_deadline_ns.tolist() == [
        50 * MS + 20 * MS * (k + 1) for k in range(len(frames(heard)))
    ]
    assert [message for _, message in frames(heard)[:50]] == [FRAME] * 50
    rest = frames(heard)[50:]
    assert rest, "silence must go on after the recording"
    assert all(message == bytes(960) for _, message in rest)
    (response,) = capture.wire
    assert response.record.text == "hi"
    assert len(response.chunks) == 2
    assert response.record.created_ns == trace.speech_stopped_ns[0] + 100 * MS
    assert heard[0][1] == "hello"
    assert heard[-1][1] == "bye"
    log = [(entry.direction, entry.body["type"]) for entry in session.log()]
    assert log[:2] == [("out", "hello"), ("in", "ready")]
    assert ("out", "frame") not in log
    assert log[-1] == ("out", "bye")


@pytest.mark.parametrize("mode", TurnMode)
@pytest.mark.parametrize(("taken", "phase_ms"), [(0, 0), (1, 10), (9, 16), (10, 0)])
async def test_frames_are_sent_in_the_slot_of_their_session(
    mode: TurnMode, taken: int, phase_ms: int
) -> None:
    capture, heard, _ = await hold(
        answers if mode is not TurnMode.MANUAL else committed, mode=mode, taken=taken
    )
    trace = capture.trace
    assert capture.failure is None
    assert {at % (20 * MS) for at, _ in frames(heard)} == {phase_ms * MS}
    assert trace.t0_ns is not None
    assert trace.ready_ns is not None
    assert 20 * MS <= trace.t0_ns - trace.ready_ns < 60 * MS
    assert trace.frame_deadline_ns[0] == trace.t0_ns + 20 * MS


class LoadingTransport:
    """A memory transport whose first connection must load code for 28 ms."""

    def __init__(self, clock: FakeClock, transport: MemoryTransport) -> None:
        self._clock, self._transport = clock, transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def load(self, dial: Dial) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + 28 * MS)


async def test_loading_for_the_first_connection_is_not_part_of_connect() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    loading: Any = LoadingTransport(clock, transport)
    heard = Heard()
    session = Session(ToyDialect(), lambda _: loading, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    (capture,) = await beside(session.converse([TURN]), ears(peer, heard), answers(peer, clock, heard))
    assert capture.failure is None
    assert (capture.trace.dial_ns, capture.trace.ready_ns) == (28 * MS, 30 * MS)


async def test_a_pause_of_the_process_is_harmless_while_the_user_speaks() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    heard = Heard()
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    timed = {-1: session.timed()}

    async def watch() -> None:
        for at_ms in (10, 200, 700, 800, 1_200):
            await clock.sleep_until(at_ms * MS)
            timed[at_ms] = session.timed()

    # The recording lasts from 50 to 1,050 ms; speech ends at 950 ms.
    await beside(session.converse([TURN]), ears(peer, heard), answers(peer, clock, heard), watch())
    assert timed == {-1: False, 10: True, 200: False, 700: False, 800: True, 1_200: True}


async def test_a_finished_session_leaves_no_reference_cycles(
    uncollected: None,
) -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    heard = Heard()
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    tasks = [asyncio.create_task(task) for task in (ears(peer, heard), answers(peer, clock, heard))]
    await session.converse([TURN])
    gone = weakref.ref(session)
    del session
    assert gone() is None
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def committed(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    await heard.until(lambda: "commit" in heard.messages)
    peer.send("committed")
    await clock.sleep_until(clock.now_ns() + 500 * MS)
    for message in ("begin", "audio", "end"):
        peer.send(message)


async def test_a_manual_turn_commits_after_the_last_frame_and_appends_nothing() -> None:
    capture, heard, _ = await hold(committed, mode=TurnMode.MANUAL)
    assert capture.failure is None
    assert len(frames(heard)) == 50
    words = [message for _, message in heard]
    assert words.index("commit") == words.index(FRAME) + 50
    assert capture.trace.committed_ns is not None
    assert capture.trace.committed_ns >= capture.trace.frame_sent_ns[-1]


async def test_a_manual_turn_continues_with_silence_if_the_dialect_needs_it() -> None:
    _, heard, _ = await hold(committed, mode=TurnMode.MANUAL, dialect=ToyDialect(continuous=True))
    assert len(frames(heard)) > 60


async def test_timers_of_the_dialect_fire() -> None:
    _, heard, _ = await hold(answers, dialect=ToyDialect(poll_ns=200 * MS))
    (at_ns,) = [at for at, message in heard if message == "timer poll"]
    assert 200 * MS <= at_ns <= 220 * MS


async def test_messages_are_stamped_on_arrival() -> None:
    capture, _, _ = await hold(answers, down=Link(delay_ns=lambda _: 70 * MS))
    assert capture.trace.ready_ns == 100 * MS


async def never_ready(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    await clock.sleep_until(10**12)


async def goes_silent(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")


async def closes_early(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    await clock.sleep_until(500 * MS)
    peer.close(1011, "internal error")


async def closes_mid_reply(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    await clock.sleep_until(1_500 * MS)
    peer.send("begin")
    peer.send("audio")
    peer.close(1011, "internal error")


async def stalls(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    await clock.sleep_until(1_500 * MS)
    peer.send("begin")


async def endless(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    await clock.sleep_until(1_500 * MS)
    while True:
        peer.send("audio")
        await clock.sleep_until(clock.now_ns() + 50 * MS)


async def floods(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    for _ in range(1_100):
        peer.send("ready")
    await clock.sleep_until(10**12)
    await clock.sleep_until(10**12)


async def breaks(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    peer.send("ready")
    peer.send("fatal")


@pytest.mark.parametrize(
    ("endpoint", "kind", "chunks"),
    [
        (never_ready, FailureKind.NO_SESSION, 0),
        (goes_silent, FailureKind.NO_RESPONSE, 0),
        (closes_early, FailureKind.CLOSED, 0),
        (closes_mid_reply, FailureKind.CLOSED, 1),
        (stalls, FailureKind.STALLED, 0),
        (endless, FailureKind.ENDLESS, 200),
        (floods, FailureKind.ENDLESS, 0),
        (breaks, FailureKind.ENDPOINT_ERROR, 0),
    ],
)
async def test_a_failure_is_named_and_the_captured_audio_is_kept(
    endpoint: Endpoint, kind: FailureKind, chunks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.session.bounds.MOST_MESSAGES", 1_000)
    capture, _, _ = await hold(endpoint)
    assert capture.failure is not None
    assert capture.failure.kind is kind
    assert sum(len(response.chunks) for response in capture.wire) >= chunks


async def test_a_refused_connection_is_a_failure_with_its_delay() -> None:
    refuse = ConnectError(FailureKind.RATE_LIMITED, "429", retry_after_s=12.0)
    capture, heard, _ = await hold(never_ready, refuse=refuse)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.RATE_LIMITED
    assert capture.retry_after_s == 12.0
    assert heard == []


async def test_a_defect_of_a_dialect_is_a_failure_that_keeps_received_audio() -> None:
    async def nonsense(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await clock.sleep_until(1_500 * MS)
        peer.send("audio")
        peer.send("a word that the toy does not know")

    capture, _, _ = await hold(nonsense)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.INTERNAL
    assert "KeyError" in capture.failure.message
    assert len(capture.wire[0].chunks) == 1


async def test_an_endpoint_that_stops_reading_ends_in_bounded_time() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    send, sent = transport.send, 0

    async def clogged(message: Message) -> None:
        nonlocal sent
        sent += 1
        while sent > 30 and not closed.is_set():
            await clock.sleep_until(clock.now_ns() + 1000 * MS)
        await send(message)

    close, closed = transport.close, asyncio.Event()

    async def closing(code: int = 1000, reason: str = "") -> None:
        closed.set()
        await close(code, reason)

    transport.send, transport.close = clogged, closing  # type: ignore[method-assign]
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    peer.send("ready")
    (capture,) = await session.converse([TURN])
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.STALLED
    assert "the endpoint stopped reading after" in capture.failure.message


class Limited(ToyDialect):
    """A dialect with ``limited``: an error with a retry delay."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if message != "limited":
            return super().received(message, at_ns)
        return [EndpointProblem(FailureKind.RATE_LIMITED, "too many", True, retry_after_s=12.0)]


async def test_the_retry_delay_outlasts_the_connection() -> None:
    async def limits(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await clock.sleep_until(500 * MS)
        peer.send("limited")
        peer.close(1013, "busy")

    capture, _, _ = await hold(limits, dialect=Limited())
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.RATE_LIMITED
    assert capture.retry_after_s == 12.0


class Waiting(ToyDialect):
    """A dialect with ``wait``: a timer that is set before the session is ready."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if message != "wait":
            return super().received(message, at_ns)
        return [SetTimer("poll", at_ns + 200 * MS)]


async def test_a_timer_set_before_the_session_is_ready_fires_in_time() -> None:
    async def waits(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        await clock.sleep_until(100 * MS)
        peer.send("wait")
        await heard.until(lambda: "timer poll" in heard.messages)
        await answers(peer, clock, heard)

    capture, heard, _ = await hold(waits, dialect=Waiting())
    assert [at_ns for at_ns, message in heard if message == "timer poll"] == [300 * MS]
    assert capture.failure is None


class Twofold(ToyDialect):
    """A dialect with ``both``: two timers due at the same time, the first of which changes the second."""

    def __init__(self, *, second_ns: int | None) -> None:
        super().__init__()
        self._second_ns = second_ns

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if message != "both":
            return super().received(message, at_ns)
        return [SetTimer("first", at_ns + 30 * MS), SetTimer("second", at_ns + 30 * MS)]

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        fired = super().timer(name, at_ns)
        return [SetTimer("second", self._second_ns), *fired] if name == "first" else fired


@pytest.mark.parametrize("second_ns", [None, 400 * MS], ids=["taken back", "put off"])
async def test_a_timer_may_cancel_another_due_timer(second_ns: int | None) -> None:
    async def waits(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("both")
        await clock.sleep_until(500 * MS)
        await answers(peer, clock, heard)

    capture, heard, _ = await hold(waits, dialect=Twofold(second_ns=second_ns))
    assert capture.failure is None
    fired = [(at_ns, message) for at_ns, message in heard if isinstance(message, str) and "timer" in message]
    assert fired == [(30 * MS, "timer first"), *([(second_ns, "timer second")] if second_ns else [])]


class Attentive(ToyDialect):
    """A dialect that records its method calls."""

    def __init__(self) -> None:
        super().__init__(poll_ns=640 * MS)
        self.calls: list[str] = []

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        self.calls.append("frame")
        return super().frame(pcm, at_ns)

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        self.calls.append("timer")
        return super().timer(name, at_ns)

    def finish(self, at_ns: int) -> Sequence[Output]:
        self.calls.append("finish")
        return super().finish(at_ns)

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        self.calls.append("closed")
        return super().closed(code, reason, at_ns)


async def test_a_dialect_is_not_called_after_the_end() -> None:
    async def ends(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await clock.sleep_until(635 * MS)
        peer.close(1011, "internal error")

    dialect = Attentive()
    capture, _, _ = await hold(ends, dialect=dialect)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.CLOSED
    assert dialect.calls[-2:] == ["frame", "closed"]


async def test_an_unread_farewell_does_not_fail_the_turn() -> None:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    send, close, closed = transport.send, transport.close, asyncio.Event()

    async def clogged(message: Message) -> None:
        if message == "bye":
            await closed.wait()
        await send(message)

    async def closing(code: int = 1000, reason: str = "") -> None:
        closed.set()
        await close(code, reason)

    transport.send, transport.close = clogged, closing  # type: ignore[method-assign]
    heard = Heard()
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    listening = asyncio.create_task(ears(peer, heard))
    playing = asyncio.create_task(answers(peer, clock, heard))
    (capture,) = await session.converse([TURN])
    await asyncio.gather(playing, listening)
    assert capture.failure is None
    assert clock.now_ns() <= capture.trace.frame_sent_ns[-1] + 5_040 * MS


@pytest.mark.parametrize("at_ms", [10, 500, 1_300])
async def test_a_session_that_is_cancelled_closes_its_connection_and_leaves_no_task(at_ms: int) -> None:
    """While connecting, while the user speaks, and while waiting for the reply."""
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    connect = transport.connect

    async def slow(dial: Dial, timeout_s: float) -> None:
        await clock.sleep_until(20 * MS)
        await connect(dial, timeout_s)

    transport.connect = slow  # type: ignore[method-assign]
    peer.send("ready")
    session = Session(ToyDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    before = asyncio.all_tasks()
    holding = asyncio.create_task(session.converse([TURN]))
    await clock.sleep_until(at_ms * MS)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    heard = Heard()
    await ears(peer, heard)  # ends with the connection
    assert bool(heard) == (at_ms > 20)
    await clock.sleep_until(clock.now_ns() + 10_000 * MS)
    assert asyncio.all_tasks() - before <= {clock._jumper}


@pytest.mark.parametrize("broken", ["dial", "transport", "connect"])
async def test_a_bug_before_the_session_is_open_fails_the_turn(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object) -> Any:
        raise RuntimeError("a bug")

    clock, dialect = FakeClock(start_ns=0), ToyDialect()
    transport, _ = memory_pair(clock)
    if broken == "dial":
        monkeypatch.setattr(dialect, "dial", raises)
    elif broken == "connect":
        monkeypatch.setattr(transport, "connect", raises)
    make = raises if broken == "transport" else lambda _: transport
    session = Session(dialect, make, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    (capture,) = await session.converse([TURN])
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.INTERNAL
    assert capture.failure.message == "RuntimeError: a bug"
