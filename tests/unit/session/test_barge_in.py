"""A user who speaks over the reply, in memory with a fake clock."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.dialect import (
    EndpointProblem,
    Interrupted,
    Message,
    Output,
    ReplyAudio,
    ResponseDone,
    SpeechStarted,
    StreamAudio,
)
from live_eval.errors import FailureKind
from live_eval.recording.record import TurnRecord, finish
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.session.limits import SessionLimits
from live_eval.session.speaker import Frame, ReplyAudible
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.memory_transport import MemoryPeer, memory_pair
from live_eval.timing import ResponseStatus, play
from live_eval.types import Case, SpeechBoundaries, TurnMode, Variant
from tests.unit.session.scripted import Interrupting
from tests.unit.session.test_dialogues import TalkingDialect
from tests.unit.session.toy import FRAME, LIMITS, MS, TURN, Endpoint, Heard, ToyDialect, beside, ears

RATE = 24_000
LOUD = (8_000 * np.sin(2 * np.pi * 200 * np.arange(RATE // 10) / RATE)).astype("<i2").tobytes()
"""100 ms of audio."""
INTERRUPTION = Utterance(
    frames=[bytes([2, 0]) * 480] * 40,
    frame_ns=20 * MS,
    boundaries=SpeechBoundaries(onset_ns=50 * MS, voice_end_ns=700 * MS),
)
AFTER_NS = 507 * MS


class LoudDialect(TalkingDialect):
    """A dialect with audible replies and the messages ``interrupted a``, ``cancelled a``, ``hears a``."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        word, _, name = str(message).partition(" ")
        match word:
            case "silence" | "audio":
                data = LOUD if word == "audio" else bytes(len(LOUD))
                return [ReplyAudio(name, data, Codec(CodecName.PCM16, RATE))]
            case "interrupted":
                return [Interrupted(name)]
            case "cancelled":
                return [ResponseDone(name, ResponseStatus.CANCELLED)]
            case "failed":
                return [ResponseDone(name, ResponseStatus.FAILED, "overload")]
            case "broken":
                return [EndpointProblem(FailureKind.MALFORMED_MESSAGE, "not JSON", False)]
            case "hears":
                return [SpeechStarted(item_id=name)]
            case _:
                return super().received(message, at_ns)


class StreamDialect(ToyDialect):
    """A dialect with continuous audio, whose replies are detected by energy."""

    def __init__(self) -> None:
        super().__init__()
        self.continuous_media = True

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        if message == "ready":
            return super().received(message, at_ns)
        data = LOUD if message == "loud" else bytes(len(LOUD))
        return [StreamAudio(data, Codec(CodecName.PCM16, RATE))]


async def spoken(heard: Heard, utterance: Utterance) -> None:
    """Wait until all frames that contain only speech of an utterance have arrived."""
    frame = utterance.frames[0]
    await heard.until(
        lambda: (
            sum(message[-2:] == frame[-2:] for message in heard.messages if isinstance(message, bytes))
            >= len(utterance.frames)
        )
    )


async def begun(heard: Heard, utterance: Utterance) -> None:
    last = utterance.frames[0][-2:]
    await heard.until(lambda: any(message[-2:] == last for message in heard.messages if len(message) == 960))


async def yields(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    """Send a long answer in one burst, stop it 250 ms after the interruption's first frame, and answer."""
    peer.send("ready")
    await spoken(heard, TURN)
    for word in ("begin a", "silence a", *["audio a"] * 30):
        peer.send(word)
    await begun(heard, INTERRUPTION)
    await clock.sleep_until(clock.now_ns() + 250 * MS)
    for word in ("hears j", "interrupted a", "cancelled a"):
        peer.send(word)
    await spoken(heard, INTERRUPTION)
    await clock.sleep_until(clock.now_ns() + 400 * MS)
    for word in ("begin b", *["audio b"] * 5, "end b"):
        peer.send(word)


async def bursts(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    """Send a long answer and its end in one burst; it is heard for three seconds."""
    peer.send("ready")
    await spoken(heard, TURN)
    for word in ("begin a", *["audio a"] * 30, "end a"):
        peer.send(word)
    await spoken(heard, INTERRUPTION)
    for word in ("begin b", *["audio b"] * 5, "end b"):
        peer.send(word)


async def streams(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    """The same with continuous audio."""
    peer.send("ready")
    loud_until = silent_until = 0
    while True:
        words = [message[-2:] for _, message in heard if isinstance(message, bytes)]
        first, second = words.count(FRAME[-2:]), words.count(INTERRUPTION.frames[0][-2:])
        if first == len(TURN.frames) and not second:
            loud_until = clock.now_ns() + 300 * MS
        if second >= len(INTERRUPTION.frames) and not silent_until:
            silent_until = clock.now_ns() + 600 * MS
            loud_until = silent_until + 500 * MS
        peer.send("loud" if silent_until <= clock.now_ns() < loud_until else "quiet")
        await clock.sleep_until(clock.now_ns() + 100 * MS)


async def converse(
    endpoint: Endpoint = yields,
    dialect: ToyDialect | None = None,
    after_ns: int = AFTER_NS,
    speaker: Interrupting | None = None,
    mode: TurnMode = TurnMode.SERVER_VAD,
    limits: SessionLimits = LIMITS,
) -> tuple[list[TurnCapture], Interrupting]:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    heard = Heard()
    session = Session(dialect or LoudDialect(), lambda _: transport, clock, turn_mode=mode, limits=limits)
    speaker = speaker or Interrupting(TURN, INTERRUPTION, after_ns=after_ns, rate_hz=RATE)
    captures = await beside(session.run(speaker), ears(peer, heard), endpoint(peer, clock, heard))
    return captures, speaker


def finished(capture: TurnCapture) -> TurnRecord:
    case = Case(case_id="c", script_id="c", variant=Variant.TARGET, audio_path=Path("x"))
    return finish(capture, case, None, repeat=0, attempt=1)


async def test_an_utterance_is_anchored_to_the_audible_reply() -> None:
    captures, speaker = await converse()
    assert [capture.failure for capture in captures] == [None, None]
    audible = next(heard for heard in speaker.heard if isinstance(heard, ReplyAudible))
    first, second = captures[0].trace, captures[1].trace
    (response,) = captures[0].wire
    # It begins with 100 ms of silence; the sine then exceeds the threshold within its first samples.
    assert 0 < audible.at_ns - int(response.record.chunk_arrival_ns[0]) - 100 * MS < MS
    assert second.t0_ns is not None
    assert abs(second.t0_ns - audible.at_ns - AFTER_NS) <= 1_000_000_000 // RATE + 1
    assert first.barge_in_ns == second.onset_ns == second.t0_ns + 50 * MS


async def test_barge_in_stop_is_measured() -> None:
    captures, _ = await converse()
    first, second = map(finished, captures)
    trace = first.trace
    assert trace.barge_in_ns is not None
    stopped_ns = trace.responses[0].interrupted_ns
    assert stopped_ns is not None
    stop = first.timing.barge_in_stop
    assert stop.ns is not None
    assert abs(stop.ns - (stopped_ns - trace.barge_in_ns)) < MS
    assert len(first.audio[0]) > RATE / 2, "the interrupted reply is the turn's"
    assert [marks.response_id for marks in second.trace.responses] == ["b"]
    assert second.timing.barge_in_stop.ns is None
    assert second.timing.voice_to_voice.ns == pytest.approx(480 * MS, abs=25 * MS)


async def test_input_continues_while_a_turn_is_interrupted() -> None:
    captures, speaker = await converse()
    deadlines = [at_ns for capture in captures for at_ns in capture.trace.frame_deadline_ns.tolist()]
    assert set(np.diff(deadlines).tolist()) == {20 * MS}
    assert [type(heard.event).__name__ for heard in speaker.events][:2] == ["SessionReady", "ResponseStarted"]


async def test_a_reply_that_arrived_at_once_is_interrupted_while_it_is_heard() -> None:
    captures, _ = await converse(bursts)
    assert [capture.failure for capture in captures] == [None, None]
    first, second = map(finished, captures)
    assert first.trace.barge_in_ns == second.trace.onset_ns
    assert first.timing.barge_in_stop.reason == "censored: nothing stopped the reply"


async def test_an_interruption_on_continuous_media() -> None:
    captures, _ = await converse(streams, StreamDialect())
    assert [capture.failure for capture in captures] == [None, None]
    first, second = map(finished, captures)
    stop = first.timing.barge_in_stop
    assert stop.ns is not None
    assert 0 < stop.ns < 500 * MS
    assert second.timing.voice_to_voice.ns is not None
    assert 500 * MS < second.timing.voice_to_voice.ns < 900 * MS


async def test_the_wait_for_an_endpoint_that_talks_through_the_user_is_bounded() -> None:
    """The reply ends 6 s after the user's speech; the user waits 2 s after it, not 60 s."""

    async def never_stops(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await spoken(heard, TURN)
        for number in range(200):
            peer.send("loud" if number < 75 else "quiet")
            await clock.sleep_until(clock.now_ns() + 100 * MS)

    limits = SessionLimits(ready_s=2, reply_s=60, listen_s=2, linger_s=0.2)
    captures, _ = await converse(never_stops, StreamDialect(), limits=limits)
    first, second = captures
    assert first.failure is None
    assert second.failure is not None
    assert second.failure.kind is FailureKind.NO_RESPONSE
    assert second.failure.message == (
        "no response to the user's turn: the endpoint talked over it; its earlier reply continued for "
        "6.4 s after the turn and no further response began within 2.0 s"
    )
    assert second.trace.user_done_ns is not None
    assert second.failure.at_ns is not None
    assert second.failure.at_ns - second.trace.user_done_ns < 9_000 * MS


@pytest.mark.parametrize(
    ("word", "kind"),
    [("failed a", FailureKind.RESPONSE_FAILED), ("broken", FailureKind.MALFORMED_MESSAGE)],
)
async def test_an_interrupted_turn_with_an_error_has_failed(word: str, kind: FailureKind) -> None:
    async def breaks(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await spoken(heard, TURN)
        for said in ("begin a", *["audio a"] * 30, word):
            peer.send(said)
        await spoken(heard, INTERRUPTION)
        for said in ("begin b", *["audio b"] * 5, "end b"):
            peer.send(said)

    captures, _ = await converse(breaks, after_ns=100 * MS)
    first, second = (capture.failure for capture in captures)
    assert first is not None
    assert first.kind is kind
    assert second is None


async def test_speech_after_the_reply_was_heard_is_not_an_interruption() -> None:
    """The reply is heard for 100 ms; the turn waits another 100 ms for late audio, and the user speaks."""

    async def says_little(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await spoken(heard, TURN)
        for said in ("begin a", "audio a", "end a"):
            peer.send(said)
        await spoken(heard, INTERRUPTION)
        for said in ("begin b", *["audio b"] * 5, "end b"):
            peer.send(said)

    captures, _ = await converse(says_little, after_ns=100 * MS)
    assert [capture.failure for capture in captures] == [None, None]
    assert [len(capture.wire) for capture in captures] == [1, 1]
    assert captures[0].trace.barge_in_ns is None


class StoppingDialect(LoudDialect):
    """A dialect that records which replies it is asked to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.stopped: list[tuple[str, int, int]] = []

    def interrupt(self, response_id: str, heard_ms: int, at_ns: int) -> Sequence[Output]:
        self.stopped.append((response_id, heard_ms, at_ns))
        return []


async def burst_then_answer(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
    """Send the answer without its end in one burst; then answer the interruption."""
    peer.send("ready")
    await spoken(heard, TURN)
    for word in ("begin a", *["audio a"] * 30):
        peer.send(word)
    await spoken(heard, INTERRUPTION)
    for word in ("cancelled a", "begin b", *["audio b"] * 5, "end b"):
        peer.send(word)


@pytest.mark.parametrize("endpoint", [bursts, burst_then_answer])
async def test_in_a_manual_turn_the_reply_is_stopped_at_the_playout_position(endpoint: Endpoint) -> None:
    dialect = StoppingDialect()
    captures, _ = await converse(endpoint, dialect, mode=TurnMode.MANUAL)
    assert [capture.failure for capture in captures] == [None, None]
    first, second = map(finished, captures)
    ((name, heard_ms, at_ns),) = dialect.stopped
    (stopped,) = first.trace.responses
    assert name == "a"
    assert stopped.interrupted_ns == at_ns
    assert heard_ms == (at_ns - int(stopped.chunk_arrival_ns[0])) // MS
    assert heard_ms == play(stopped).heard_samples * 1000 // RATE
    assert first.trace.barge_in_ns is not None
    assert 0 <= at_ns - first.trace.barge_in_ns <= 20 * MS  # after the frame with the onset has been spoken
    assert first.timing.barge_in_stop.ns is not None, first.timing.barge_in_stop.reason
    assert 0 <= first.timing.barge_in_stop.ns <= at_ns - first.trace.barge_in_ns
    assert [marks.response_id for marks in second.trace.responses] == ["b"]


async def test_with_the_endpoints_detector_the_session_does_not_stop_the_reply() -> None:
    dialect = StoppingDialect()
    await converse(bursts, dialect)
    assert dialect.stopped == []


class Leaving(Interrupting):
    """A speaker that leaves `waits` frames after its last utterance."""

    def __init__(self, waits: int) -> None:
        super().__init__(TURN, INTERRUPTION, after_ns=60_000 * MS, rate_hz=RATE)
        self._waits = waits

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        frame = super().frame(now_ns, start_ns)
        if frame is not None and not frame.speech:
            self._waits -= 1
        return None if self._waits < 0 else frame


@pytest.mark.parametrize(("waits", "kind"), [(0, FailureKind.NO_RESPONSE), (20, None)])
async def test_a_session_that_ends_before_the_answer_fails(waits: int, kind: FailureKind | None) -> None:
    async def answers_slowly(peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        peer.send("ready")
        await spoken(heard, TURN)
        await clock.sleep_until(clock.now_ns() + 200 * MS)
        for said in ("begin a", *["audio a"] * 30):
            peer.send(said)

    (capture,), _ = await converse(answers_slowly, speaker=Leaving(waits))
    assert (None if capture.failure is None else capture.failure.kind) is kind
    if capture.failure is not None:
        assert capture.failure.message == "the session ended before a response began"
