"""Endpoints that speak first, in memory with a fake clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from live_eval.errors import FailureKind
from live_eval.session.greeting import AfterGreeting
from live_eval.session.playback import Playback
from live_eval.session.speaker import GreetingBegan, GreetingEnded, Heard, ReplyAudible, ReplyEnded
from live_eval.types import Anchor, AnchorKind, SpeechKind, TurnMode
from tests.unit.session.test_dialogues import PAUSE_NS, Play, Stage, converse, kinds, names, t0
from tests.unit.session.toy import LIMITS, MS, TURN

PATIENCE_NS = 3_000 * MS
READY_NS = 30 * MS


def greeting(*after_ms: int, chunks: int = 10, answers: int = 1) -> Play:
    """Return an endpoint that speaks first; each step has a delay after the previous one."""

    async def play(stage: Stage) -> None:
        for number, ms in enumerate(after_ms):
            await stage.after(ms)
            stage.reply(f"hello {number}", chunks)
        for turn in range(1, answers + 1):
            await stage.spoken(turn)
            await stage.after(300)
            stage.reply(f"answer {turn}")

    return play


@pytest.mark.parametrize("mode", [TurnMode.SERVER_VAD, TurnMode.MANUAL])
async def test_the_user_waits_until_a_greeting_has_been_heard_and_a_pause(mode: TurnMode) -> None:
    captures, *_ = await converse(greeting(500, answers=2), turns=2, mode=mode, greeting_ns=PATIENCE_NS)
    assert kinds(captures) == [None, None]
    assert [names(capture) for capture in captures] == [["hello 0", "answer 1"], ["answer 2"]]
    heard_ns = READY_NS + 500 * MS + 1_000 * MS  # it arrived in one burst and plays for a second
    assert 0 <= t0(captures[0]) - heard_ns - PAUSE_NS <= 60 * MS
    assert captures[0].trace.barge_in_ns is None


async def test_a_second_greeting_within_the_pause_is_waited_for_too() -> None:
    captures, *_ = await converse(greeting(500, 1_400), turns=1, greeting_ns=PATIENCE_NS)
    assert names(captures[0]) == ["hello 0", "hello 1", "answer 1"]
    heard_ns = READY_NS + (500 + 1_400 + 1_000) * MS
    assert 0 <= t0(captures[0]) - heard_ns - PAUSE_NS <= 60 * MS


async def test_without_a_greeting_the_user_waits_for_the_whole_patience() -> None:
    for patience_ns in (0, PATIENCE_NS):
        captures, *_ = await converse(greeting(), turns=1, greeting_ns=patience_ns)
        assert kinds(captures) == [None]
        assert 0 <= t0(captures[0]) - READY_NS - patience_ns <= 60 * MS


async def test_the_wait_for_a_stalled_greeting_is_bounded() -> None:
    async def play(stage: Stage) -> None:
        stage.say("begin hello", "audio hello")

    captures, *_ = await converse(play, turns=1, greeting_ns=PATIENCE_NS)
    assert kinds(captures) == [FailureKind.STALLED]
    stalled_ns = READY_NS + round(LIMITS.stall_s * 1e9)
    assert 0 <= t0(captures[0]) - stalled_ns <= 60 * MS


async def test_the_wait_for_a_greeting_that_never_ends_is_bounded() -> None:
    async def play(stage: Stage) -> None:
        stage.say("begin hello")
        while True:
            stage.say("audio hello")
            await stage.after(100)

    captures, *_ = await converse(play, turns=1, greeting_ns=PATIENCE_NS)
    assert kinds(captures) == [FailureKind.ENDLESS]
    endless_ns = READY_NS + round(LIMITS.max_reply_s * 1e9)
    assert 0 <= t0(captures[0]) - endless_ns - PAUSE_NS <= 200 * MS


async def test_speech_over_a_greeting_begins_the_first_turn_and_is_not_a_barge_in() -> None:
    captures, *_ = await converse(greeting(0, chunks=30), turns=1)
    assert kinds(captures) == [None]
    assert names(captures[0]) == ["hello 0", "answer 1"]
    assert captures[0].trace.barge_in_ns is None
    assert t0(captures[0]) <= READY_NS + 60 * MS


async def test_an_utterance_that_expects_no_answer_may_follow_a_greeting() -> None:
    listened = replace(TURN, speech=SpeechKind.BACKCHANNEL)
    over = replace(TURN, anchor=Anchor(AnchorKind.REPLY_AUDIBLE, 0), speech=SpeechKind.BACKCHANNEL)
    captures, *_ = await converse(greeting(500, answers=0), said=[listened, over], greeting_ns=PATIENCE_NS)
    assert t0(captures[0]) >= READY_NS + 1_500 * MS + PAUSE_NS
    assert captures[1].trace.t0_ns is None, "no utterance is anchored to a greeting"


def test_greetings_are_not_reported_as_replies() -> None:
    heard: list[object] = []

    class Listener(Playback):
        def hear(self, each: Heard) -> None:
            heard.append(each)

    speaker = AfterGreeting(Listener([TURN]), bytes(960), PATIENCE_NS)
    reports: Sequence[GreetingBegan | GreetingEnded | ReplyAudible | ReplyEnded]
    reports = (GreetingBegan(5), ReplyAudible("hello", 6), ReplyEnded(7), GreetingEnded(7))
    for report in reports:
        speaker.hear(report)
    assert heard == []
    frame = speaker.frame(7 + 600 * MS - 1, 0)
    assert frame is not None
    assert frame.began is None
    frame = speaker.frame(7 + 600 * MS, 0)
    assert frame is not None
    assert frame.began is not None
    speaker.hear(ReplyEnded(9))
    assert heard == [ReplyEnded(9)]
