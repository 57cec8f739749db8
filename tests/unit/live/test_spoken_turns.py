"""The turns of a live session and what the user said in each."""

import numpy as np

from live_eval.live.said import SaidAudio
from live_eval.live.spoken_turns import SpokenTurns
from live_eval.recording.record import CapturedResponse, TurnCapture
from live_eval.timing import ResponseRecord, TurnTrace

MS = 1_000_000


def capture(t0_ms: int, *, ends_ms: int, reply_ms: int = 0) -> TurnCapture:
    """A turn whose reply arrives at the end of the user's voice."""
    record = ResponseRecord(
        response_id="r",
        rate_hz=1_000,
        chunk_arrival_ns=np.asarray([ends_ms * MS], np.int64),
        chunk_samples=np.asarray([reply_ms], np.int64),
    )
    wire = [CapturedResponse(record=record, chunks=(), codec=None)] if reply_ms else []
    trace = TurnTrace(dial_ns=0, t0_ns=t0_ms * MS, voice_end_ns=ends_ms * MS)
    return TurnCapture(trace=trace, wire=wire, wall_ns=0)


def spoken(turns_before: int = 0) -> SpokenTurns:
    said = SaidAudio(1_000)
    for start_ms in range(0, 10_000, 20):
        said.append(start_ms * MS, np.full(20, start_ms // 20, "<i2").tobytes())
    return SpokenTurns(said, session=2, turns_before=turns_before)


def test_a_turn_keeps_its_number_however_often_it_is_seen() -> None:
    turns = spoken(turns_before=3)
    seen = [turns.turn(capture(t0_ms, ends_ms=t0_ms + 500), 9_000 * MS) for t0_ms in (0, 4_000, 0)]
    assert [(turn.session, turn.number, turn.index) for turn in seen] == [(2, 4, 0), (2, 5, 1), (2, 4, 0)]
    assert len(turns) == 2


def test_what_the_user_said_ends_shortly_after_the_reply_or_with_the_next_turn() -> None:
    turns = spoken()
    alone = turns.turn(capture(0, ends_ms=1_000), 9_000 * MS)
    assert len(alone.user) == 1_300
    assert alone.user[-1] == 1_299 // 20
    answered = turns.turn(capture(0, ends_ms=1_000, reply_ms=2_000), 9_000 * MS)
    assert len(answered.user) == 3_300 - 1, "the last sample is heard 1 ms before its end"
    now = turns.turn(capture(0, ends_ms=1_000, reply_ms=2_000), 2_500 * MS)
    assert len(now.user) == 2_500
    turns.turn(capture(2_000, ends_ms=2_800), 9_000 * MS)
    interrupted = turns.turn(capture(0, ends_ms=1_000, reply_ms=2_000), 9_000 * MS)
    assert len(interrupted.user) == 2_000
