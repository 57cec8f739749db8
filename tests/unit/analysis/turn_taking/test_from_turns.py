"""Conversations built from turns with known samples."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from live_eval.analysis.turn_taking.from_turns import (
    both_sides_of,
    conversation_of,
)
from live_eval.analysis.turn_taking.segmentation import as_replies
from live_eval.analysis.turn_taking.speech import Stretch
from live_eval.audio import Audio, Codec, CodecName
from live_eval.errors import StoreError
from live_eval.recording import RunReader, RunWriter
from live_eval.recording.record import TurnRecord, finish
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.timing import ResponseRecord, ResponseStatus, TurnTrace
from live_eval.types import Case, SpeechBoundaries, SpeechKind, SpokenPart, Variant

MS = 1_000_000
RATE = 24_000
PCM = Codec(CodecName.PCM16, RATE)
T0 = 5_000 * MS


def square(*parts_ms: float) -> NDArray[np.int16]:
    """Return alternating tones and silences, beginning with a tone; each tone is audible throughout."""
    pieces = [
        np.where(np.arange(round(ms * RATE / 1000)) % 2, 9_000, -9_000) * (not number % 2)
        for number, ms in enumerate(parts_ms)
    ]
    return np.concatenate(pieces).astype(np.int16)


def response(
    name: str, pcm: NDArray[np.int16], arrivals_ms: dict[float, float], **marks: object
) -> CapturedResponse:
    """Return a response whose audio arrives in chunks: length in ms by arrival in ms after `T0`."""
    ends = np.cumsum([round(ms * RATE / 1000) for ms in arrivals_ms.values()])
    chunks = np.split(pcm, ends[:-1])
    record = ResponseRecord(
        response_id=name,
        chunk_arrival_ns=np.asarray([T0 + round(at * MS) for at in arrivals_ms], np.int64),
        chunk_samples=np.asarray([len(chunk) for chunk in chunks], np.int64),
        rate_hz=RATE,
        **{"status": ResponseStatus.COMPLETED, **marks},  # type: ignore[arg-type]
    )
    return CapturedResponse(record=record, chunks=[chunk.tobytes() for chunk in chunks], codec=PCM)


def turn(
    *responses: CapturedResponse,
    t0_ms: float = 0,
    parts_ms: tuple[tuple[float, float], ...] = ((100, 600),),
    annotated: bool = True,
    kind: SpeechKind = SpeechKind.TURN,
    late_ms: float = 0,
    speed: float = 1,
    **trace: object,
) -> TurnRecord:
    """Return a turn of 20 ms frames for 700 ms."""
    t0_ns = T0 + round(t0_ms * MS)
    onset_ns, end_ns = round(parts_ms[0][0] * MS / speed), round(parts_ms[-1][1] * MS / speed)
    due_ns = t0_ns + 20 * MS * np.arange(1, 36)
    sent_ns = due_ns.copy()
    sent_ns[10] += round(late_ms * MS)
    marks = TurnTrace(
        dial_ns=0,
        t0_ns=t0_ns,
        onset_ns=t0_ns + onset_ns,
        voice_end_ns=t0_ns + end_ns,
        boundaries=SpeechBoundaries(onset_ns=onset_ns, voice_end_ns=end_ns),
        frame_deadline_ns=due_ns,
        frame_sent_ns=sent_ns,
        **trace,  # type: ignore[arg-type]
    )
    case = Case(
        case_id=f"at {t0_ms}",
        script_id="s",
        variant=Variant.TARGET,
        audio_path=Path("constructed"),
        text="hello",
        speech=kind,
        parts=tuple(SpokenPart(round(a * MS), round(b * MS)) for a, b in parts_ms) if annotated else (),
    )
    user = Audio(np.full(round(0.7 * RATE), 0.5, np.float32), RATE)
    return finish(TurnCapture(trace=marks, wire=responses, wall_ns=0), case, user, repeat=0, attempt=1)


def ms(*stretches: Stretch) -> list[tuple[float, float]]:
    return [((start - T0) / MS, (end - T0) / MS) for start, end in stretches]


def test_the_users_audio_is_timed_as_spoken() -> None:
    first = turn(parts_ms=((100, 250), (400, 600)))
    second = turn(t0_ms=2_000, annotated=False, kind=SpeechKind.BACKCHANNEL)
    conversation = conversation_of(None, [first, second])
    assert [speech.kind for speech in conversation.user] == [SpeechKind.TURN, SpeechKind.BACKCHANNEL]
    assert [ms(*speech.sounds) for speech in conversation.user] == [
        [(100, 250), (400, 600)],
        [(2_100, 2_600)],
    ]
    assert conversation.user[0].text == "hello"
    assert conversation.start_ns == T0
    assert (conversation.end_ns - T0) / MS == 2_700, "the last frame"


def test_annotated_parts_follow_the_speed_of_the_recording() -> None:
    played = turn(parts_ms=((100, 300), (400, 600)), speed=0.5)
    (speech,) = conversation_of(None, [played]).user
    assert ms(*speech.sounds) == [(200, 600), (800, 1_200)]


def test_the_endpoints_audio_is_timed_as_heard() -> None:
    """A burst of 500 ms, an underrun of 100 ms, and the remainder; a pause of 99 ms does not split."""
    pcm = square(200, 99, 101, 100, 300)
    came = response("r", pcm, {1_000: 500, 1_600: 300}, created_ns=T0 + 900 * MS)
    (speech,) = conversation_of(None, [turn(came)]).agent
    assert ms(*speech.sounds) == [(1_000, 1_400), (1_600, 1_900)]
    assert speech.created_ns == T0 + 900 * MS
    assert speech.cancelled_ns is None
    assert speech.completed
    assert speech.discarded_ns == 0


def test_audio_dropped_by_an_interruption_is_counted_but_not_heard() -> None:
    came = response(
        "r", square(400, 200, 400), {1_000: 1_000}, interrupted_ns=T0 + 1_250 * MS, done_ns=T0 + 1_300 * MS
    )
    (speech,) = conversation_of(None, [turn(came)]).agent
    assert ms(*speech.sounds) == [(1_000, 1_250)]
    assert speech.discarded_ns == (150 + 400) * MS
    assert speech.cancelled_ns == T0 + 1_250 * MS
    assert not speech.completed


def test_a_cancelled_response_that_was_heard_completely() -> None:
    came = response("r", square(300), {1_000: 300}, status=ResponseStatus.CANCELLED, done_ns=T0 + 1_200 * MS)
    (speech,) = conversation_of(None, [turn(came)]).agent
    assert ms(*speech.sounds) == [(1_000, 1_300)]
    assert speech.cancelled_ns == T0 + 1_200 * MS
    assert not speech.completed


def test_on_continuous_media_no_mark_comes_from_the_endpoint() -> None:
    marks = {"created_ns": T0 + 950 * MS, "done_ns": T0 + 1_500 * MS, "status": ResponseStatus.CANCELLED}
    came = response("reply_1", square(300), {1_000: 300}, **marks)
    (speech,) = conversation_of(None, [turn(came, continuous=True)]).agent
    assert (speech.created_ns, speech.cancelled_ns, speech.completed) == (None, None, False)


def test_on_continuous_media_replies_are_found_by_the_endpoints_own_pauses() -> None:
    """The session hears one response; the pause follows a hum, and the other replies have none."""
    came = response("reply_1", square(700, 600, 300), {1_000: 1_600}, text="well now")
    hum = turn(t0_ms=1_500, parts_ms=((0, 200),), kind=SpeechKind.BACKCHANNEL)
    session = [turn(came, continuous=True), hum]
    others = [[turn(response("r", square(900), {1_000: 900}), continuous=True)] for _ in range(3)]
    (whole,) = as_replies([conversation_of(None, session)], 1500 * MS)
    found, *_ = as_replies([conversation_of(None, turns) for turns in (session, *others)], 1500 * MS)
    assert [(ms(*each.sounds), each.text) for each in conversation_of(None, session).agent] == [
        ([(1_000, 1_700), (2_300, 2_600)], "well now")
    ]
    assert [(ms(*each.sounds), each.text, each.unsure) for each in found.agent] == [
        ([(1_000, 1_700)], "well now", ""),
        ([(2_300, 2_600)], "", ""),
    ]
    assert "fewer than 3 uninterrupted replies" in whole.agent[0].unsure


def test_responses_are_ordered_by_their_start() -> None:
    late = response("late", square(100), {3_000: 100})
    early = response("early", square(100), {2_500: 100})
    conversation = conversation_of(None, [turn(late), turn(early, t0_ms=2_000)])
    assert [speech.response_id for speech in conversation.agent] == ["early", "late"]
    assert (conversation.end_ns - T0) / MS == 3_100


def test_the_endpoints_word_on_the_users_speech() -> None:
    first = turn(speech_started_ns=(T0 + 150 * MS,), speech_stopped_ns=(T0 + 700 * MS,))
    second = turn(t0_ms=2_000, speech_started_ns=(T0 + 2_150 * MS,), committed_ns=T0 + 2_700 * MS)
    conversation = conversation_of(None, [first, second])
    assert conversation.speech_started_ns == (T0 + 150 * MS, T0 + 2_150 * MS)
    assert conversation.speech_stopped_ns == (T0 + 700 * MS, T0 + 2_700 * MS)


def test_a_frame_of_speech_that_leaves_late_counts() -> None:
    assert conversation_of(None, [turn(), turn(t0_ms=2_000, late_ms=7)]).lag_ns == 7 * MS


def test_a_session_without_an_utterance_has_no_conversation() -> None:
    with pytest.raises(ValueError, match="at least one spoken turn; none of 0 is"):
        conversation_of(None, [])


@pytest.mark.parametrize(("click_ms", "sounds"), [(15, 0), (30, 1)])
def test_a_click_is_not_audible_speech(click_ms: float, sounds: int) -> None:
    came = response("r", square(click_ms, 500), {0: click_ms + 500})
    assert len(turn(came).responses[0].heard_ns or ()) == sounds


def test_both_sides_of_a_session_share_one_timeline() -> None:
    """The second utterance begins before the end of the first recording, whose remainder was not spoken."""
    came = response("r", square(200), {650: 200})
    both = both_sides_of(None, [turn(came), turn(t0_ms=500)])
    assert both is not None
    pcm, rate_hz = both
    assert rate_hz == RATE
    assert pcm.shape == (1.2 * RATE, 2)
    assert np.flatnonzero(pcm[:, 0] != pcm[0, 0]).size == 0
    assert np.flatnonzero(pcm[:, 1])[[0, -1]].tolist() == [0.65 * RATE, 0.85 * RATE - 1]


def test_a_session_without_audio_has_no_sides() -> None:
    assert both_sides_of(None, []) is None


def test_a_stored_conversation_is_read_without_its_audio(tmp_path: Path) -> None:
    came = response("r", square(200, 300, 100), {650: 600}, interrupted_ns=T0 + 900 * MS)
    heard = conversation_of(None, [turn(came)])
    assert [len(speech.sounds) for speech in heard.agent] == [1]
    assert heard.agent[0].discarded_ns == 100 * MS
    with RunWriter.create(tmp_path / "run", {}) as writer:
        writer.commit(turn(came))
        writer.end()
    with RunReader.open(tmp_path / "run") as run:
        [stored] = run.turns()
        marks = replace(stored.responses[0], heard_ns=None, discarded_ns=None)
        earlier = replace(stored, trace=replace(stored.trace, responses=(marks,)))
        assert conversation_of(run, [earlier]) == heard  # a run without stored heard times
        shutil.rmtree(tmp_path / "run" / "audio")
        assert conversation_of(run, [stored]) == heard


def test_the_audio_of_turns_that_are_days_apart_is_refused() -> None:
    turns = [turn(), turn(t0_ms=1e9)]
    with pytest.raises(StoreError, match="expected audio of at most"):
        both_sides_of(None, turns)
