"""Dialogues in memory with a fake clock: several turns in one session."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from live_eval.audio import Codec, CodecName
from live_eval.dialect import (
    Committed,
    EndpointProblem,
    InputTranscript,
    Message,
    Output,
    ReplyAudio,
    ReplyText,
    ResponseDone,
    ResponseStarted,
    SessionReady,
)
from live_eval.errors import ConnectError, FailureKind
from live_eval.recording.record import finish
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.memory_transport import MemoryPeer, memory_pair
from live_eval.timing import ResponseStatus
from live_eval.types import Case, SpeechKind, TurnMode, Variant
from tests.unit.session.toy import FRAME, LIMITS, MS, TURN, Heard, ToyDialect, beside, ears

PAUSE_NS = 600 * MS
CHUNK = bytes([1, 0]) * 2400
"""100 ms of a reply."""


class TalkingDialect(ToyDialect):
    """A dialect with words and the ID of a response or item as messages: ``begin a``, ``heard i``."""

    def received(self, message: Message, at_ns: int) -> Sequence[Output]:
        word, _, name = str(message).partition(" ")
        outputs: dict[str, Output] = {
            "ready": SessionReady("session", "toy"),
            "begin": ResponseStarted(name),
            "audio": ReplyAudio(name, CHUNK, Codec(CodecName.PCM16, 24_000)),
            "text": ReplyText(name, f"I am {name}", final=True),
            "end": ResponseDone(name, ResponseStatus.COMPLETED),
            "committed": Committed(name),
            "heard": InputTranscript(f"heard {name}", True, name),
        }
        return [outputs[word]]


@dataclass(slots=True)
class Stage:
    """Base class of the endpoints in these tests."""

    peer: MemoryPeer
    clock: FakeClock
    heard: Heard = field(default_factory=Heard)

    async def after(self, ms: int) -> None:
        """Let time pass."""
        await self.clock.sleep_until(self.clock.now_ns() + ms * MS)

    async def spoken(self, turns: int) -> None:
        """Wait until this many turns have been spoken."""
        await self.frames(turns * len(TURN.frames))

    async def frames(self, number: int) -> None:
        """Wait until this many frames of speech have been spoken."""
        await self.heard.until(lambda: self.heard.messages.count(FRAME) >= number)

    def say(self, *words: str) -> None:
        """Send messages."""
        for word in words:
            self.peer.send(word)

    def reply(self, name: str, chunks: int = 10) -> None:
        """Send a complete reply of `chunks` times 100 ms in one burst."""
        self.say(f"begin {name}", f"text {name}", *[f"audio {name}"] * chunks, f"end {name}")


Play = Callable[[Stage], Coroutine[Any, Any, None]]


async def converse(
    play: Play,
    *,
    turns: int = 3,
    said: Sequence[Utterance] = (),
    mode: TurnMode = TurnMode.SERVER_VAD,
    transcribes: bool = False,
    refuse: ConnectError | None = None,
    dialect: ToyDialect | None = None,
    greeting_ns: int = 0,
) -> tuple[list[TurnCapture], Stage, Session]:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock, refuse=refuse)
    stage = Stage(peer, clock)
    session = Session(
        dialect or TalkingDialect(),
        lambda _: transport,
        clock,
        turn_mode=mode,
        limits=LIMITS,
        transcribes=transcribes,
    )

    async def act() -> None:
        await stage.after(30)
        stage.say("ready")
        await play(stage)

    holding = session.converse(said or [TURN] * turns, pause_ns=PAUSE_NS, greeting_ns=greeting_ns)
    captures = await beside(holding, ears(peer, stage.heard), act())
    return captures, stage, session


async def answers(stage: Stage) -> None:
    """Answer each turn after 300 ms with a second of audio in one burst."""
    for turn in range(1, 4):
        await stage.spoken(turn)
        await stage.after(300)
        stage.reply("abc"[turn - 1])


def names(capture: TurnCapture) -> list[str]:
    return [response.record.response_id for response in capture.wire]


def kinds(captures: Sequence[TurnCapture]) -> list[FailureKind | None]:
    return [capture.failure.kind if capture.failure is not None else None for capture in captures]


def t0(capture: TurnCapture) -> int:
    assert capture.trace.t0_ns is not None
    return capture.trace.t0_ns


@pytest.mark.parametrize("mode", [TurnMode.SERVER_VAD, TurnMode.MANUAL])
async def test_the_next_turn_waits_for_the_reply_as_heard_and_a_pause(mode: TurnMode) -> None:
    captures, stage, session = await converse(answers, mode=mode)
    assert kinds(captures) == [None] * 3
    assert [names(capture) for capture in captures] == [["a"], ["b"], ["c"]]
    assert [capture.session_id for capture in captures] == ["session"] * 3
    for before, after in pairwise(captures):
        heard_ns = before.wire[0].record.chunk_arrival_ns[0] + 1_000 * MS  # it arrived in one burst
        assert heard_ns + PAUSE_NS <= t0(after) <= heard_ns + PAUSE_NS + 60 * MS
        silent = [
            at_ns for at_ns, message in stage.heard if message == bytes(len(FRAME)) and at_ns < t0(after)
        ]
        assert bool(silent) == (mode is TurnMode.SERVER_VAD)
    for number in range(3):
        assert [message.body["type"] for message in session.log(number) if message.direction == "in"] == (
            ["ready"] * (number == 0)
            + [f"{word} {'abc'[number]}" for word in ("begin", "text", *["audio"] * 10, "end")]
        )


async def test_input_flows_on_its_grid() -> None:
    """No frame is duplicated or missing between turns."""
    captures, _, _ = await converse(answers)
    deadlines = [at_ns for capture in captures for at_ns in capture.trace.frame_deadline_ns.tolist()]
    assert {after - before for before, after in pairwise(deadlines)} == {20 * MS}
    assert [capture.late_speech_frames for capture in captures] == [0] * 3


async def test_only_the_first_turn_connects() -> None:
    captures, _, _ = await converse(answers)
    assert [capture.trace.ready_ns for capture in captures] == [30 * MS, None, None]
    wall = [capture.wall_ns - capture.trace.dial_ns for capture in captures]
    assert len(set(wall)) == 1, "one wall clock for the session"
    case = Case(case_id="c", script_id="c", variant=Variant.TARGET, audio_path=Path("x"))
    connects = [
        finish(capture, case, None, repeat=0, attempt=1).timing.connect.reason for capture in captures
    ]
    assert connects == ["", "an earlier turn opened the session", "an earlier turn opened the session"]


async def test_late_audio_belongs_to_its_own_turn() -> None:
    """Audio, text and transcripts of the first turn arrive while the second is spoken."""

    async def late(stage: Stage) -> None:
        await stage.spoken(1)
        stage.say("committed i")
        await stage.after(300)
        stage.reply("a")
        await stage.frames(len(TURN.frames) + 10)
        stage.say("audio a", "text a", "heard i", "end a")
        await stage.spoken(2)
        stage.say("committed j", "heard j")
        await stage.after(100)
        stage.reply("b")

    captures, _, _ = await converse(late, turns=2, transcribes=True)
    assert kinds(captures) == [None, None]
    assert [names(capture) for capture in captures] == [["a"], ["b"]]
    assert [len(capture.wire[0].chunks) for capture in captures] == [11, 10]
    assert [capture.heard_text for capture in captures] == ["heard i", "heard j"]


async def test_a_second_response_before_the_next_turn_is_heard_too() -> None:
    async def twice(stage: Stage) -> None:
        await stage.spoken(1)
        stage.reply("a")
        await stage.after(1_200)  # in the pause
        stage.reply("aa", chunks=5)
        await stage.spoken(2)
        stage.reply("b")

    captures, _, _ = await converse(twice, turns=2)
    assert [names(capture) for capture in captures] == [["a", "aa"], ["b"]]
    second = captures[0].wire[1]
    assert t0(captures[1]) >= second.record.chunk_arrival_ns[0] + 500 * MS + PAUSE_NS


async def test_a_failure_midway_ends_the_dialogue() -> None:
    async def stalls(stage: Stage) -> None:
        await stage.spoken(1)
        stage.reply("a")
        await stage.spoken(2)
        stage.say("begin b", "audio b")

    captures, _, session = await converse(stalls)
    assert kinds(captures) == [None, FailureKind.STALLED, FailureKind.DIALOGUE_ENDED]
    assert names(captures[1]) == ["b"]
    told = captures[2].failure
    assert told is not None
    assert told.message.startswith("the dialogue ended at turn 2: response b stalled: no audio or text")
    assert captures[2].trace.t0_ns is None
    assert session.log(2) == ()


async def test_a_connection_that_ends_between_turns_costs_the_next_one() -> None:
    async def leaves(stage: Stage) -> None:
        await stage.spoken(1)
        stage.reply("a")
        await stage.after(1_300)
        stage.peer.close(1001, "enough")

    captures, _, _ = await converse(leaves)
    assert kinds(captures) == [None, FailureKind.CLOSED, FailureKind.DIALOGUE_ENDED]
    assert captures[1].failure is not None
    assert "enough" in captures[1].failure.message


class Knowing(TalkingDialect):
    """A dialect that explains the end of the connection."""

    def closed(self, code: int | None, reason: str, at_ns: int) -> Sequence[Output]:
        return [
            EndpointProblem(
                FailureKind.SESSION_EXPIRED, "the maximum duration was reached", True, retry_after_s=12.0
            )
        ]


async def test_an_end_between_turns_keeps_the_dialects_reason() -> None:
    async def leaves(stage: Stage) -> None:
        await stage.spoken(1)
        stage.reply("a")
        await stage.after(500)
        stage.peer.close(1001, "bye")

    captures, _, _ = await converse(leaves, dialect=Knowing())
    assert kinds(captures) == [None, FailureKind.SESSION_EXPIRED, FailureKind.DIALOGUE_ENDED]
    assert captures[1].failure is not None
    assert captures[1].failure.message == "the maximum duration was reached"
    assert captures[1].retry_after_s == 12.0


async def test_no_connection_fails_every_turn() -> None:
    refused = ConnectError(FailureKind.CONNECTION_REFUSED, "nobody there")
    captures, _, _ = await converse(answers, refuse=refused)
    ended = FailureKind.DIALOGUE_ENDED
    assert kinds(captures) == [FailureKind.CONNECTION_REFUSED, ended, ended]
    assert {capture.failure.message for capture in captures[1:] if capture.failure} == {
        "the dialogue ended at turn 1: nobody there"
    }


async def test_a_silent_endpoint_fails_the_first_turn() -> None:
    async def silent(stage: Stage) -> None:
        await stage.spoken(3)

    captures, _, _ = await converse(silent)
    assert kinds(captures)[0] is FailureKind.NO_RESPONSE
    assert kinds(captures)[1:] == [FailureKind.DIALOGUE_ENDED] * 2


async def test_after_an_unanswered_sound_the_session_only_listens() -> None:
    noise = replace(TURN, speech=SpeechKind.NOISE)
    (capture,), stage, _ = await converse(lambda stage: stage.after(1), said=[noise])
    assert capture.failure is None
    assert capture.trace.voice_end_ns is not None
    listened_ns = stage.clock.now_ns() - capture.trace.voice_end_ns
    assert 0 <= listened_ns - LIMITS.listen_s * 1000 * MS < 500 * MS
