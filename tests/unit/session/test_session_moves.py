"""Sessions that switch connections or end with a final message, in memory with a fake clock."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.clock import Clock
from live_eval.dialect import (
    Close,
    Dial,
    Message,
    Output,
    Reconnect,
    ReplyAudio,
    ResponseDone,
    ResponseStarted,
    Send,
    SessionReady,
    SetTimer,
)
from live_eval.errors import ConnectError, FailureKind
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.session.limits import SessionLimits
from live_eval.testing import FakeClock, MemoryPeer, MemoryTransport, memory_pair
from live_eval.timing import ResponseStatus, measure
from live_eval.transport import Transport
from live_eval.types import SpeechBoundaries, StampKind, TurnMode
from tests.unit.session.toy import Heard, ears

MS = 1_000_000
FRAME = bytes(640)
TURN = Utterance(
    frames=[FRAME] * 50, frame_ns=20 * MS, boundaries=SpeechBoundaries(onset_ns=0, voice_end_ns=900 * MS)
)
LIMITS = SessionLimits(connect_s=5, ready_s=2, reply_s=5, stall_s=3, max_reply_s=20, linger_s=0.2)
AUDIO = ReplyAudio("r", bytes(4_800), Codec(CodecName.PCM16, 24_000))
AUDIO2 = replace(AUDIO, response_id="r2")


class Words:
    """A dialect with words as messages; ``move`` requests a new connection, immediately or by a timer."""

    needs_continuous_input = False
    continuous_media = False

    def __init__(self, *, farewell_ns: int | None = None) -> None:
        self.secrets: set[str] = set()
        self._farewell_ns = farewell_ns
        self._connections = 0

    def dial(self) -> Dial:
        return Dial("memory://")

    def opened(self, at_ns: int) -> Sequence[Output]:
        self._connections += 1
        return [Send(f"hello {self._connections}")]

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        outputs: dict[Message, list[Output]] = {
            "ready": [SessionReady("s")],
            "move": [Reconnect()],
            "move soon": [SetTimer("move", at_ns + 100 * MS)],
            "reply": [ResponseStarted("r"), AUDIO, ResponseDone("r", ResponseStatus.COMPLETED)],
            "reply2": [ResponseStarted("r2"), AUDIO2, ResponseDone("r2", ResponseStatus.COMPLETED)],
            "more": [AUDIO],
            "ask": [Send("told")],
            "bye": [Close()],
        }
        return outputs[message]

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        return [Send("frame")]

    def end_turn(self, at_ns: int) -> Sequence[Output]:
        return []

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        return []

    def timer(self, name: str, at_ns: int) -> Sequence[Output]:
        return [Reconnect() if name == "move" else Close()]

    def finish(self, at_ns: int) -> Sequence[Output]:
        if self._farewell_ns is None:
            return [Close()]
        return [Send("leaving"), SetTimer("farewell", at_ns + self._farewell_ns)]

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        return []

    def redact(self, message: Message) -> dict[str, Any]:
        return {"type": str(message)}


class Keeping(Words):
    """A dialect that buffers the user's audio while switching connections, until ``open``."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[Output] | None = None

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if message == "move":
            self._kept = []
        if message == "open":
            kept, self._kept = self._kept or [], None
            return kept
        return super().received(message, at_ns)

    def frame(self, pcm: bytes, at_ns: int) -> Sequence[Output]:
        if self._kept is None:
            return super().frame(pcm, at_ns)
        self._kept.append(Send("frame"))
        return []


class Slow:
    """A `Transport` that takes half a second to connect."""

    track = None
    setup_ns: Mapping[str, int] = {"slow": 500 * MS}

    def __init__(self, clock: Clock, inner: MemoryTransport) -> None:
        self._clock = clock
        self._inner = inner
        self.send, self.receive, self.close = inner.send, inner.receive, inner.close

    async def connect(self, dial: Dial, timeout_s: float) -> None:
        await self._clock.sleep_until(self._clock.now_ns() + 500 * MS)
        await self._inner.connect(dial, timeout_s)


class Lingering:
    """A `Transport` whose endpoint closes slowly."""

    track = None
    setup_ns: Mapping[str, int] = {}

    def __init__(self, clock: Clock, inner: MemoryTransport, closes_in_ns: int) -> None:
        self._clock, self._inner, self._closes_in_ns = clock, inner, closes_in_ns
        self.connect, self.send, self.receive = inner.connect, inner.send, inner.receive

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._clock.sleep_until(self._clock.now_ns() + self._closes_in_ns)
        await self._inner.close(code, reason)


Endpoint = Callable[[MemoryPeer, FakeClock], Coroutine[Any, Any, None]]


async def hold(
    endpoints: Sequence[Endpoint],
    *,
    dialect: Words | None = None,
    refuse: ConnectError | None = None,
    turns: int = 1,
    closes_in_ns: int = 0,
) -> tuple[TurnCapture, list[Heard], int]:
    """Return the first turn of a session; connection n uses endpoint n, and the second one is slow."""
    clock = FakeClock(start_ns=0)
    heard: list[Heard] = []
    tasks: list[asyncio.Task[None]] = []

    def connect(_: Clock) -> Transport:
        number = len(heard)
        transport, peer = memory_pair(clock, refuse=refuse if number else None)
        heard.append(Heard())
        tasks.append(asyncio.create_task(ears(peer, heard[number])))
        tasks.append(asyncio.create_task(endpoints[min(number, len(endpoints) - 1)](peer, clock)))
        return Slow(clock, transport) if number else Lingering(clock, transport, closes_in_ns)

    session = Session(dialect or Words(), connect, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    try:
        capture, *_ = await session.converse([TURN] * turns)
    finally:
        for task in tasks:
            task.cancel()
    return capture, heard, clock.now_ns()


def says(*words: tuple[int, str], ends_at: int | None = None) -> Endpoint:
    async def endpoint(peer: MemoryPeer, clock: FakeClock) -> None:
        for at_ms, word in words:
            await clock.sleep_until(at_ms * MS)
            peer.send(word)
        if ends_at is not None:
            await clock.sleep_until(ends_at * MS)
            peer.close(1011, "Deadline expired")

    return endpoint


@pytest.mark.parametrize("word", ["move", "move soon"])
async def test_the_user_continues_to_speak_during_a_reconnection(word: str) -> None:
    capture, heard, _ = await hold([says((0, "ready"), (300, word)), says((1_500, "reply"))])
    assert capture.failure is None
    assert len(capture.wire) == 1
    assert [message for _, message in heard[1]][:1] == ["hello 2"]
    sent = capture.trace.frame_sent_ns
    assert max(sent[1:50] - sent[:49]) == 20 * MS  # no frame was late
    frames = sum(message == "frame" for connection in heard for _, message in connection)
    assert frames == len(sent)


async def test_a_connection_that_ends_while_it_is_replaced_is_not_a_failure() -> None:
    capture, heard, _ = await hold([says((0, "ready"), (300, "move"), ends_at=400), says((1_500, "reply"))])
    assert capture.failure is None
    assert heard[1][0][1] == "hello 2"


async def test_a_second_request_during_a_reconnection_has_no_effect() -> None:
    endpoints = [says((0, "ready"), (300, "move"), (400, "move")), says((1_500, "reply"))]
    capture, heard, _ = await hold(endpoints)
    assert capture.failure is None
    assert [messages[0][1] for messages in heard] == ["hello 1", "hello 2"]


async def test_a_new_connection_that_is_refused_fails_the_turn() -> None:
    refuse = ConnectError(FailureKind.CONNECTION_REFUSED, "nobody is there")
    capture, _, _ = await hold([says((0, "ready"), (300, "move"))], refuse=refuse)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.CONNECTION_REFUSED
    assert "could not be resumed" in capture.failure.message


async def test_the_setup_belongs_to_the_first_connection() -> None:
    stays, _, _ = await hold([says((0, "ready"), (1_500, "reply"))])
    moves, heard, _ = await hold([says((0, "ready"), (300, "move")), says((1_500, "reply"))])
    assert heard[1]
    assert moves.trace.setup_ns == stays.trace.setup_ns


async def test_a_failed_reconnection_can_be_repeated() -> None:
    refuse = ConnectError(FailureKind.CONNECTION_REFUSED, "nobody is there")
    endpoint = says((0, "ready"), (1_500, "reply"), (1_805, "move"), (2_310, "move"))
    _, heard, _ = await hold([endpoint], refuse=refuse, turns=2)
    assert len(heard) == 3


async def test_a_refusal_to_resume_keeps_its_retry_delay() -> None:
    refuse = ConnectError(FailureKind.RATE_LIMITED, "429", retry_after_s=7.0)
    capture, _, _ = await hold([says((0, "ready"), (300, "move"))], refuse=refuse)
    assert capture.retry_after_s == 7.0


async def test_a_failed_session_is_not_awaited() -> None:
    refuse = ConnectError(FailureKind.CONNECTION_REFUSED, "nobody is there")
    capture, _, ended_ns = await hold([says((300, "move"))], refuse=refuse)
    assert capture.failure is not None
    assert capture.failure.kind is FailureKind.CONNECTION_REFUSED
    assert ended_ns <= 850 * MS


@pytest.mark.parametrize(
    "refuse",
    [None, ConnectError(FailureKind.CONNECTION_REFUSED, "nobody is there")],
    ids=["taken", "refused"],
)
async def test_a_reconnection_is_cancelled_when_the_turn_is_over(refuse: ConnectError | None) -> None:
    endpoint = says((0, "ready"), (1_500, "reply"), (1_550, "move"))
    capture, heard, _ = await hold([endpoint], dialect=Words(farewell_ns=2_000 * MS), refuse=refuse)
    assert capture.failure is None
    assert heard[0][-1][1] == "leaving"
    assert heard[1] == []


async def test_a_farewell_is_awaited_but_not_part_of_the_turn() -> None:
    endpoint = says((0, "ready"), (1_000, "reply"), (1_600, "more"), (1_900, "bye"))
    capture, heard, ended_ns = await hold([endpoint], dialect=Words(farewell_ns=2_000 * MS))
    assert capture.failure is None
    assert len(capture.wire[0].chunks) == 1
    left_ns = next(at_ns for at_ns, message in heard[0] if message == "leaving")
    assert left_ns < 1_600 * MS
    assert 1_900 * MS <= ended_ns < 1_950 * MS


@pytest.mark.parametrize(("waits_ms", "bound_ms"), [(400, 400), (60_000, 5_000)])
async def test_the_wait_for_a_missing_farewell_is_bounded(waits_ms: int, bound_ms: int) -> None:
    endpoint = says((0, "ready"), (1_000, "reply"))
    capture, heard, ended_ns = await hold([endpoint], dialect=Words(farewell_ns=waits_ms * MS))
    assert capture.failure is None
    left_ns = next(at_ns for at_ns, message in heard[0] if message == "leaving")
    assert 0 <= ended_ns - left_ns - bound_ms * MS <= 20 * MS


async def test_a_closed_client_is_not_awaited() -> None:
    endpoint = says((0, "ready"), (1_000, "reply"), ends_at=1_500)
    _, _, ended_ns = await hold([endpoint], dialect=Words(farewell_ns=2_000 * MS))
    assert ended_ns <= 1_540 * MS


async def test_the_new_connection_is_read_while_the_old_one_closes() -> None:
    endpoints = [says((0, "ready"), (300, "move")), says((900, "ask"), (1_500, "reply"))]
    capture, heard, _ = await hold(endpoints, closes_in_ns=2_000 * MS)
    assert capture.failure is None
    assert (900 * MS, "told") in heard[1]


async def test_frames_that_the_dialect_kept_for_the_new_connection_were_late() -> None:
    endpoints = [says((0, "ready"), (700, "move")), says((1_400, "open"), (1_500, "reply"))]
    capture, heard, _ = await hold(endpoints, dialect=Keeping())
    assert capture.failure is None
    late = capture.trace.frame_sent_ns - capture.trace.frame_deadline_ns
    kept = (capture.trace.frame_deadline_ns > 700 * MS) & (capture.trace.frame_deadline_ns < 1_400 * MS)
    assert late[~kept].max() == 0
    assert late[kept].tolist() == list(range(late[kept].max(), 0, -20 * MS))
    assert kept.sum() == 34
    assert sum(message == "frame" for _, message in heard[1]) > 34
    assert measure(capture.trace, []).lag_ns > 400 * MS


async def test_stamping_covers_the_connections_that_a_turn_used() -> None:
    clock = FakeClock(start_ns=0)
    connections: list[Any] = []

    def connect(_: Clock) -> Any:
        transport, peer = memory_pair(clock)
        kinds = [StampKind.KERNEL, StampKind.USER]
        connection: Any = Lingering(clock, transport, 0)
        connection.stamps, connection.clock_steps = kinds[len(connections)], len(connections)
        words = [(0, "ready"), (1_500, "reply"), (2_500, "move")]
        tasks.append(
            asyncio.create_task((says(*words) if not connections else says((4_500, "reply2")))(peer, clock))
        )
        tasks.append(asyncio.create_task(ears(peer, Heard())))
        connections.append(connection)
        return connection

    tasks: list[asyncio.Task[None]] = []
    session = Session(Words(), connect, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS)
    captures = await session.converse([TURN] * 2)
    for task in tasks:
        task.cancel()
    assert [each.failure for each in captures] == [None, None]
    assert [each.trace.stamps for each in captures] == [StampKind.KERNEL, StampKind.USER]
    assert [each.trace.clock_steps for each in captures] == [0, 1]
