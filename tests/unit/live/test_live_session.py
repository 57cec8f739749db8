"""One session: its audio, its updates and its turns to record."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from live_eval.audio import Codec, CodecName
from live_eval.dialect import InputTranscript, ReplyAudio, ReplyText, ResponseDone
from live_eval.errors import FailureKind
from live_eval.live.captures import LiveCapture, LiveCaptures, UserAudio
from live_eval.live.live_session import LiveSession
from live_eval.live.microphone import Microphone
from live_eval.live.recorder import LiveRecorder
from live_eval.live.updates import AudioSide, SpeechDetected, State, StateChanged, TranscriptPiece, Update
from live_eval.session import Session
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.session.speaker import (
    EndpointEvent,
    Frame,
    Heard,
    Speaker,
    UtteranceBegan,
    UtteranceEnded,
)
from live_eval.testing import FakeClock
from live_eval.timing import ResponseRecord, ResponseStatus, TurnTrace
from live_eval.types import Failure, SpeechBoundaries
from tests.support.live_user import Loudspeaker

MS = 1_000_000
RATE = 16_000
SILENCE = bytes(2 * RATE // 50)
TRACE = TurnTrace(dial_ns=0, t0_ns=0, onset_ns=20 * MS, voice_end_ns=40 * MS)
ANSWERED = TurnCapture(
    trace=TRACE,
    wire=[CapturedResponse(record=ResponseRecord(response_id="r"), chunks=(), codec=None)],
    wall_ns=0,
)
BEGAN = UtteranceBegan(t0_ns=0, onset_ns=20 * MS)
ENDED = UtteranceEnded(SpeechBoundaries(onset_ns=20 * MS, words_end_ns=40 * MS, voice_end_ns=40 * MS))
FAILED = replace(ANSWERED, failure=Failure(FailureKind.STALLED, "stalled"))


class Script:
    """A `Session` that runs a test's script, and a speaker with three frames."""

    listens = False
    frame_ns = 20 * MS

    def __init__(self, then: Callable[["Script"], None]) -> None:
        self.failure: Failure | None = None
        self.survives_failures = False
        self._then = then
        self._said = [Frame(SILENCE), Frame(SILENCE, began=BEGAN), Frame(SILENCE, ended=ENDED)]

    async def run(self, speaker: Speaker, *, on_turn: Callable[..., None], survives_failures: bool) -> None:
        self.speaker, self.end_turn, self.survives_failures = speaker, on_turn, survives_failures
        self._then(self)

    def so_far(self, take: Callable[..., None]) -> None:
        take(FAILED if self.failure else ANSWERED, tuple)

    def speak(self) -> None:
        while self._said:
            self.speaker.frame(0, (3 - len(self._said)) * 20 * MS)

    def frame(self, now_ns: int, start_ns: int) -> Frame | None:
        return self._said.pop(0) if self._said else None

    def hear(self, heard: Heard) -> None:
        """Ignore reports."""


class Live:
    """A live session with a script, its updates and recorded turns."""

    def __init__(self, *, manual: bool = False) -> None:
        self.updates: list[Update] = []
        self.recorded: list[tuple[LiveCapture, int]] = []
        self.loudspeaker = Loudspeaker()
        self.manual = manual

    def record(self, turn: LiveCapture, log: Callable[[], Sequence[Any]], ended_ns: int) -> None:
        self.recorded.append((turn, ended_ns))

    async def run(
        self, then: Callable[[Script], None], *, overheard_by: Microphone | None = None
    ) -> LiveSession:
        self.script = Script(then)
        self.session = LiveSession(
            cast("Session", self.script),
            LiveCaptures(UserAudio(RATE), session=1),
            cast("LiveRecorder", self),
            self.loudspeaker,
            tell=self.updates.append,
            clock=FakeClock(5_000 * MS),
            manual=self.manual,
        )
        await self.session.run(self.script, overheard_by=overheard_by)
        return self.session


def reply(ms: int) -> EndpointEvent:
    pcm = np.full(RATE * ms // 1_000, 5_000, "<i2").tobytes()
    return EndpointEvent(ReplyAudio("r", pcm, Codec(CodecName.PCM16, RATE)), 0)


async def test_speech_and_texts_are_reported() -> None:
    live = Live()

    def then(script: Script) -> None:
        script.speak()
        for event in (
            InputTranscript("hel", final=False),
            InputTranscript("hello", final=True),
            InputTranscript("", final=True, failed=True),
            ReplyText("r", "hi"),
        ):
            script.speaker.hear(EndpointEvent(event, 60 * MS))

    await live.run(then)
    assert live.updates == [
        StateChanged(State.TALKING),
        SpeechDetected(speaking=True),
        SpeechDetected(speaking=False),
        TranscriptPiece(AudioSide.USER, "hel"),
        TranscriptPiece(AudioSide.USER, "hello", final=True),
        TranscriptPiece(AudioSide.REPLY, "hi"),
    ]
    assert live.script.survives_failures
    assert not live.loudspeaker.played


@pytest.mark.parametrize("manual", [False, True])
async def test_a_barge_in_stops_the_reply_if_turns_are_manual(manual: bool) -> None:
    live = Live(manual=manual)

    def then(script: Script) -> None:
        script.speaker.hear(reply(1_000))
        script.speak()
        assert live.loudspeaker.drops == manual
        script.end_turn(ANSWERED, tuple)

    await live.run(then)
    [(turn, _)] = live.recorded
    assert turn.overlap is not None
    assert turn.overlap.heard.any()
    assert SpeechDetected(speaking=True, barge_in=True) in live.updates


async def test_a_turn_is_recorded_after_its_reply_after_a_failure_and_at_its_end() -> None:
    live = Live()

    def then(script: Script) -> None:
        script.speak()
        script.speaker.hear(reply(500))
        script.speaker.hear(EndpointEvent(ResponseDone("r", ResponseStatus.COMPLETED), 10 * MS))
        live.session.check(499 * MS)
        assert not live.recorded
        live.session.check(510 * MS)
        live.session.check(530 * MS)
        script.failure = FAILED.failure
        live.session.check(550 * MS)
        live.session.check(570 * MS)
        script.end_turn(FAILED, tuple)

    session = await live.run(then)
    assert [(turn.number, turn.capture.failure, ended_ns // MS) for turn, ended_ns in live.recorded] == [
        (1, None, 500),
        (1, FAILED.failure, 550),
        (1, FAILED.failure, 5_000),
    ]
    assert (session.failure, session.first, len(session.captures)) == (FAILED.failure, FAILED, 1)
    live.script.failure = None
    session.check(9_000 * MS)
    assert len(live.recorded) == 3, "the session is over"


async def test_a_reply_that_is_cut_off_ends_with_its_session() -> None:
    session = await Live().run(lambda script: script.speaker.hear(reply(1_000)))
    assert not session.reply.is_playing(6_000 * MS)


async def test_recordings_are_played_to_the_user() -> None:
    live = Live()
    microphone = Microphone(RATE, rate_hz=RATE, frame_ns=20 * MS, delay_ns=0, half_duplex=False)
    await live.run(Script.speak, overheard_by=microphone)
    assert live.loudspeaker.played == [(AudioSide.USER, RATE // 50)] * 3
    assert not live.script.survives_failures


@pytest.mark.parametrize("wire", [(), ANSWERED.wire])
async def test_a_turn_is_dropped_if_the_user_ends_the_session_amid_its_utterance(wire: Any) -> None:
    live = Live()
    failure = Failure(FailureKind.NO_RESPONSE, "the session ended before a response began")

    def then(script: Script) -> None:
        script.speaker.frame(0, 0)
        script.speaker.frame(0, 20 * MS)
        live.session.leave()
        script.end_turn(replace(ANSWERED, wire=wire, failure=None if wire else failure), tuple)

    await live.run(then)
    assert len(live.recorded) == (1 if wire else 0)
