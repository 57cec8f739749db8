"""Scripts of anchored utterances, in memory with a fake clock."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from live_eval.dialect import Interrupted, ResponseDone
from live_eval.errors import FailureKind
from live_eval.session import Session, Utterance
from live_eval.session.capture import TurnCapture
from live_eval.session.script import ScriptPlayback
from live_eval.session.speaker import EndpointEvent, Frame, ReplyAudible, ReplyEnded, UtteranceAnswered
from live_eval.testing.fake_clock import FakeClock
from live_eval.testing.memory_transport import MemoryPeer, memory_pair
from live_eval.timing import ResponseStatus
from live_eval.types import Anchor, AnchorKind, SpeechBoundaries, SpeechKind, TurnMode
from tests.unit.session.test_barge_in import RATE, LoudDialect, StreamDialect
from tests.unit.session.toy import LIMITS as SHORT
from tests.unit.session.toy import MS, Heard, ToyDialect, beside, ears

FRAME_NS = 20 * MS
SAMPLE_NS = 1_000_000_000 // RATE + 1
"""A sample, and rounding."""
LIMITS = replace(SHORT, listen_s=1.0)


def utterance(
    mark: int, anchor: str = "", speech: SpeechKind = SpeechKind.TURN, *, lead_ms: int = 50, tail_ms: int = 50
) -> Utterance:
    """Return 300 ms of audio with the sample value `mark`, with a lead-in and a tail of ``-mark``."""
    pcm = b"".join(
        value.to_bytes(2, "little", signed=True) * (ms * RATE // 1000)
        for value, ms in ((-mark, lead_ms), (mark, 300), (-mark, tail_ms))
    )
    size = 2 * RATE * FRAME_NS // 1_000_000_000
    return Utterance(
        frames=[pcm[at : at + size].ljust(size, b"\0") for at in range(0, len(pcm), size)],
        frame_ns=FRAME_NS,
        boundaries=SpeechBoundaries(onset_ns=lead_ms * MS, voice_end_ns=(lead_ms + 300) * MS),
        anchor=Anchor.parse(anchor) if anchor else None,
        speech=speech,
    )


class Stage:
    """Base class of the endpoints in these tests."""

    def __init__(self, peer: MemoryPeer, clock: FakeClock, heard: Heard) -> None:
        self._peer, self.clock, self.heard = peer, clock, heard

    def say(self, *words: str) -> None:
        for word in words:
            self._peer.send(word)

    def hang_up(self) -> None:
        self._peer.close()

    async def after(self, ms: int) -> None:
        await self.clock.sleep_until(self.clock.now_ns() + ms * MS)

    async def said(self, mark: int) -> None:
        """Wait until the complete audio of an utterance has arrived."""
        sound = mark.to_bytes(2, "little")
        await self.heard.until(lambda: b"".join(self.bytes).count(sound) >= 300 * RATE // 1000)

    @property
    def bytes(self) -> list[bytes]:
        return [message for _, message in self.heard if isinstance(message, bytes)]

    def spoken_ns(self, mark: int) -> int:
        """Return the time at which the first sample of an utterance was spoken."""
        for at_ns, message in self.heard:
            if isinstance(message, bytes):
                samples = [message[at : at + 2] for at in range(0, len(message), 2)]
                sound = mark.to_bytes(2, "little")
                if sound in samples:
                    return at_ns - FRAME_NS + samples.index(sound) * 1_000_000_000 // RATE
        raise AssertionError(f"{mark} was not spoken")


Play = Callable[[Stage], Coroutine[Any, Any, None]]


async def converse(
    play: Play, *utterances: Utterance, dialect: ToyDialect | None = None
) -> tuple[list[TurnCapture], Stage]:
    clock = FakeClock(start_ns=0)
    transport, peer = memory_pair(clock)
    heard = Heard()
    stage = Stage(peer, clock, heard)
    session = Session(
        dialect or LoudDialect(), lambda _: transport, clock, turn_mode=TurnMode.SERVER_VAD, limits=LIMITS
    )
    captures = await beside(session.converse(utterances), ears(peer, heard), play(stage))
    return captures, stage


def kinds(captures: Sequence[TurnCapture]) -> list[FailureKind | None]:
    return [capture.failure.kind if capture.failure else None for capture in captures]


def responses(captures: Sequence[TurnCapture]) -> list[list[str]]:
    return [[each.record.response_id for each in capture.wire] for capture in captures]


async def answers(stage: Stage) -> None:
    """Send a two-second answer in one burst, after 100 ms of silence; ignore speech over it."""
    stage.say("ready")
    await stage.said(1)
    await stage.after(300)
    stage.say("begin a", "silence a", *["audio a"] * 20, "end a")


@pytest.mark.parametrize("after_ms", [400, 507, 900])
async def test_an_utterance_begins_at_its_anchor_exact_to_the_sample(after_ms: int) -> None:
    over = utterance(2, f"reply_audible+{after_ms}ms", SpeechKind.BACKCHANNEL)
    captures, stage = await converse(answers, utterance(1), over)
    assert kinds(captures) == [None, None]
    first, second = (capture.trace for capture in captures)
    audible_ns = int(captures[0].wire[0].record.chunk_arrival_ns[0]) + 100 * MS
    assert second.onset_ns is not None
    assert 0 <= second.onset_ns - audible_ns - after_ms * MS <= SAMPLE_NS + MS / 10  # the sine rises
    assert abs(stage.spoken_ns(2) - second.onset_ns) <= SAMPLE_NS
    assert first.barge_in_ns == second.onset_ns
    assert responses(captures) == [["a"], []]


async def test_the_grid_of_frames_is_never_left() -> None:
    over = utterance(2, "reply_audible+507ms", SpeechKind.BACKCHANNEL)
    _, stage = await converse(answers, utterance(1), over)
    assert {len(message) for message in stage.bytes} == {960}
    times = [at_ns for at_ns, message in stage.heard if isinstance(message, bytes)]
    assert {later - at for at, later in pairwise(times)} == {FRAME_NS}


async def test_the_lead_in_is_cut_if_the_anchor_is_near() -> None:
    """A lead-in of 400 ms does not fit within 100 ms after the anchor; the speech starts on time."""
    over = utterance(2, "reply_audible+100ms", SpeechKind.BACKCHANNEL, lead_ms=400)
    captures, stage = await converse(answers, utterance(1), over)
    audible_ns = int(captures[0].wire[0].record.chunk_arrival_ns[0]) + 100 * MS
    assert 0 <= stage.spoken_ns(2) - audible_ns - 100 * MS <= SAMPLE_NS + MS / 10
    trace = captures[1].trace
    assert trace.t0_ns is not None
    assert trace.onset_ns == trace.t0_ns + 400 * MS


async def test_an_utterance_follows_the_reply_exact_to_the_sample() -> None:
    captures, stage = await converse(
        answers, utterance(1), utterance(2, "reply_ended+250ms", SpeechKind.NOISE, lead_ms=0)
    )
    ended_ns = int(captures[0].wire[0].record.chunk_arrival_ns[0]) + 2_100 * MS
    assert abs(stage.spoken_ns(2) - ended_ns - 250 * MS) <= 2 * SAMPLE_NS
    assert captures[0].trace.barge_in_ns is None


@pytest.mark.parametrize("after_ms", [0, 5, 200])
async def test_an_utterance_right_after_another_cuts_its_tail(after_ms: int) -> None:
    """Each has its own turn; the answer to the first belongs to the second, in which it began."""

    async def answers_late(stage: Stage) -> None:
        stage.say("ready")
        await stage.said(2)
        await stage.after(500)
        stage.say("begin a", *["audio a"] * 3, "end a")

    captures, stage = await converse(
        answers_late,
        utterance(1, tail_ms=500),
        utterance(2, f"utterance_ended+{after_ms}ms", SpeechKind.NON_DIRECTED, lead_ms=0),
    )
    assert abs(stage.spoken_ns(2) - stage.spoken_ns(1) - (300 + after_ms) * MS) <= 2 * SAMPLE_NS
    assert kinds(captures) == [None, None]
    assert responses(captures) == [[], ["a"]]


async def test_a_due_answer_is_awaited() -> None:
    """The utterance after the question expects no answer, but the question does."""

    async def stays_silent(stage: Stage) -> None:
        stage.say("ready")

    noise = utterance(2, "utterance_ended+200ms", SpeechKind.NOISE)
    captures, _ = await converse(stays_silent, utterance(1), noise)
    assert kinds(captures) == [None, FailureKind.NO_RESPONSE]


@pytest.mark.parametrize("speech", [SpeechKind.NOISE, SpeechKind.NON_DIRECTED])
async def test_an_utterance_that_expects_no_answer_does_not_fail_without_one(speech: SpeechKind) -> None:
    async def stays_silent(stage: Stage) -> None:
        stage.say("ready")

    captures, stage = await converse(stays_silent, utterance(1, speech=speech))
    assert kinds(captures) == [None]
    listened_ns = stage.heard[-2][0] - stage.spoken_ns(1) - 300 * MS
    assert listened_ns == pytest.approx(1_000 * MS, abs=100 * MS)


async def test_a_reaction_to_noise_is_heard_to_its_end() -> None:
    async def starts(stage: Stage) -> None:
        stage.say("ready")
        await stage.said(1)
        await stage.after(700)
        stage.say("begin a", *["audio a"] * 5, "end a")

    captures, stage = await converse(starts, utterance(1, speech=SpeechKind.NOISE))
    assert kinds(captures) == [None]
    assert responses(captures) == [["a"]]
    done_ns = captures[0].wire[0].record.done_ns
    assert done_ns is not None
    assert stage.heard[-2][0] - done_ns == pytest.approx(1_500 * MS, abs=100 * MS), "heard, then listened"


async def test_two_backchannels_over_one_reply() -> None:
    over = [
        utterance(mark, f"reply_audible+{at_ms}ms", SpeechKind.BACKCHANNEL)
        for mark, at_ms in ((2, 400), (3, 1_200))
    ]
    captures, stage = await converse(answers, utterance(1), *over)
    assert kinds(captures) == [None, None, None]
    assert responses(captures) == [["a"], [], []]
    assert abs(stage.spoken_ns(3) - stage.spoken_ns(2) - 800 * MS) <= 2 * SAMPLE_NS
    assert captures[0].trace.barge_in_ns == captures[1].trace.onset_ns
    assert captures[1].trace.barge_in_ns is None


async def test_an_interruption_is_answered_in_its_own_turn() -> None:
    async def yields(stage: Stage) -> None:
        await answers(stage)
        await stage.said(2)
        stage.say("interrupted a", "cancelled a")
        await stage.after(300)
        stage.say("begin b", *["audio b"] * 5, "end b")

    captures, _ = await converse(yields, utterance(1), utterance(2, "reply_audible+400ms"))
    assert kinds(captures) == [None, None]
    assert responses(captures) == [["a"], ["b"]]


async def test_an_interruption_that_is_not_answered_has_failed() -> None:
    captures, _ = await converse(answers, utterance(1), utterance(2, "reply_audible+400ms"))
    assert kinds(captures) == [None, FailureKind.NO_RESPONSE]


async def test_the_moment_may_lie_after_the_reply() -> None:
    captures, stage = await converse(
        answers, utterance(1), utterance(2, "reply_audible+2500ms", SpeechKind.BACKCHANNEL)
    )
    audible_ns = int(captures[0].wire[0].record.chunk_arrival_ns[0]) + 100 * MS
    assert 0 <= stage.spoken_ns(2) - audible_ns - 2_500 * MS <= SAMPLE_NS + MS / 10
    assert captures[0].trace.barge_in_ns is None


async def test_without_a_reply_the_other_recordings_are_not_streamed() -> None:
    async def stays_silent(stage: Stage) -> None:
        stage.say("ready")

    over = utterance(2, "reply_audible+400ms")
    captures, _ = await converse(stays_silent, utterance(1), over)
    assert kinds(captures) == [FailureKind.NO_RESPONSE, FailureKind.DIALOGUE_ENDED]


async def test_a_reply_that_is_never_audible_ends_the_script() -> None:
    async def whispers(stage: Stage) -> None:
        stage.say("ready")
        await stage.said(1)
        stage.say("begin a", *["silence a"] * 5, "end a")

    captures, _ = await converse(whispers, utterance(1), utterance(2, "reply_audible+400ms"))
    assert kinds(captures) == [None, FailureKind.DIALOGUE_ENDED]
    assert captures[1].failure is not None
    assert captures[1].failure.message.endswith("the anchor of the next utterance did not occur")


async def test_a_reply_that_stalls_during_a_backchannel_ends_the_script() -> None:
    async def stalls(stage: Stage) -> None:
        stage.say("ready")
        await stage.said(1)
        stage.say("begin a", *["audio a"] * 10)

    over = utterance(2, "reply_audible+400ms", SpeechKind.BACKCHANNEL)
    captures, _ = await converse(stalls, utterance(1), over)
    assert kinds(captures) == [None, FailureKind.STALLED]


async def test_a_connection_that_ends_during_a_backchannel_fails_its_turn() -> None:
    async def hangs_up(stage: Stage) -> None:
        await answers(stage)
        await stage.said(2)
        stage.hang_up()

    over = utterance(2, "reply_audible+400ms", SpeechKind.BACKCHANNEL)
    captures, _ = await converse(hangs_up, utterance(1), over)
    assert kinds(captures) == [None, FailureKind.CLOSED]


async def test_on_continuous_media_a_reply_that_continues_stays_one_reply() -> None:
    """The stream belongs to the first turn until its reply ends."""

    async def streams(stage: Stage) -> None:
        stage.say("ready")
        until_ns = 0
        while True:
            said = b"".join(stage.bytes).count((1).to_bytes(2, "little")) >= 300 * RATE // 1000
            until_ns = until_ns or (stage.clock.now_ns() + 2_500 * MS if said else 0)
            loud = until_ns - 2_200 * MS <= stage.clock.now_ns() < until_ns
            stage.say("loud" if loud else "quiet")
            await stage.after(100)

    over = utterance(2, "reply_audible+600ms", SpeechKind.BACKCHANNEL)
    captures, _ = await converse(streams, utterance(1), over, dialect=StreamDialect())
    assert kinds(captures) == [None, None]
    assert responses(captures) == [["reply_1"], []]
    record = captures[0].wire[0].record
    assert 2_200 <= int(record.chunk_samples.sum()) * 1000 / RATE <= 2_600
    assert captures[0].trace.barge_in_ns == captures[1].trace.onset_ns


# -- The speaker alone -----------------------------------------------------------------------------------


def frames(speaker: ScriptPlayback, from_ms: int, to_ms: int) -> list[Frame | None]:
    return [speaker.frame(at * MS, at * MS) for at in range(from_ms, to_ms, 20)]


def spoken_first() -> ScriptPlayback:
    """Return a script after its first utterance (0 to 400 ms, with speech from 50 to 350 ms)."""
    speaker = ScriptPlayback([utterance(1), utterance(2, "reply_audible+200ms")])
    frames(speaker, 0, 400)
    return speaker


def began_ms(found: Sequence[Frame | None]) -> list[float]:
    return [frame.began.onset_ns / MS for frame in found if frame is not None and frame.began is not None]


def test_a_reply_that_was_cancelled_does_not_count() -> None:
    for cancelled in (Interrupted("a"), ResponseDone("a", ResponseStatus.CANCELLED)):
        speaker = spoken_first()
        speaker.hear(ReplyAudible("a", 420 * MS))
        speaker.hear(EndpointEvent(cancelled, 500 * MS))
        speaker.hear(ReplyAudible("b", 900 * MS))
        assert began_ms(frames(speaker, 400, 1_200)) == pytest.approx([1_100], abs=0.05)


def test_a_reply_before_the_end_of_the_utterance_counts_unless_another_follows() -> None:
    speaker = spoken_first()
    speaker.hear(ReplyAudible("a", 300 * MS))
    assert began_ms(frames(speaker, 400, 700)) == pytest.approx([500], abs=0.05)
    speaker = spoken_first()
    speaker.hear(ReplyAudible("a", 300 * MS))
    speaker.hear(ReplyAudible("b", 400 * MS))
    assert began_ms(frames(speaker, 400, 700)) == pytest.approx([600], abs=0.05)


def test_a_reply_that_was_over_before_the_end_of_the_utterance_does_not_count() -> None:
    speaker = spoken_first()
    speaker.hear(ReplyAudible("a", 100 * MS))
    speaker.hear(ReplyEnded(200 * MS))
    assert began_ms(frames(speaker, 400, 900)) == []


def test_an_anchor_known_too_late_begins_at_once() -> None:
    """The lead-in of 50 ms is skipped."""
    speaker = spoken_first()
    frames(speaker, 400, 1_000)
    speaker.hear(ReplyAudible("a", 500 * MS))
    (frame,) = frames(speaker, 1_000, 1_020)
    assert frame is not None
    assert frame.began is not None
    assert frame.began.onset_ns == 1_000 * MS
    assert frame.began.t0_ns == 950 * MS
    assert frame.pcm[:2] == (2).to_bytes(2, "little")


def test_a_script_is_over_once_the_last_reply_was_heard() -> None:
    speaker = ScriptPlayback([utterance(1, speech=SpeechKind.NOISE)])
    frames(speaker, 0, 400)
    speaker.hear(UtteranceAnswered(500 * MS))
    speaker.hear(ReplyEnded(700 * MS))
    found = frames(speaker, 500, 740)
    assert found.index(None) == 10


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("reply_audible+900ms", Anchor(AnchorKind.REPLY_AUDIBLE, 900 * MS)),
        ("reply_ended + 0.25 s", Anchor(AnchorKind.REPLY_ENDED, 250 * MS)),
        ("utterance_ended", Anchor(AnchorKind.UTTERANCE_ENDED)),
        ("reply_audible+0.5ms", Anchor(AnchorKind.REPLY_AUDIBLE, MS // 2)),
    ],
)
def test_anchors_round_trip_through_their_text(text: str, anchor: Anchor) -> None:
    assert Anchor.parse(text) == anchor
    assert Anchor.parse(str(anchor)) == anchor


@pytest.mark.parametrize(
    "text", ["", "900ms", "reply+1ms", "reply_audible-100ms", "reply_audible+1", "+", "x" * 99]
)
def test_no_anchor(text: str) -> None:
    with pytest.raises(ValueError, match="expected an anchor such as reply_audible"):
        Anchor.parse(text)
