"""The turns of a live session, numbered, with the user's audio."""

from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import read_audio, resample
from live_eval.live.captures import LiveCaptures, TurnNumbers, UserAudio
from live_eval.live.reply import HeardAudio
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.timing import ResponseRecord, TurnTrace

MS = 1_000_000


def capture(t0_ms: int, *, ends_ms: int, reply_ms: int = 0) -> TurnCapture:
    """A turn whose reply arrives at the end of the user's speech."""
    record = ResponseRecord(
        response_id="r",
        rate_hz=1_000,
        chunk_arrival_ns=np.asarray([ends_ms * MS], np.int64),
        chunk_samples=np.asarray([reply_ms], np.int64),
    )
    wire = [CapturedResponse(record=record, chunks=(), codec=None)] if reply_ms else []
    trace = TurnTrace(dial_ns=0, t0_ns=t0_ms * MS, voice_end_ns=ends_ms * MS)
    return TurnCapture(trace=trace, wire=wire, wall_ns=0)


def spoken(turns_before: int = 0) -> LiveCaptures:
    user = UserAudio(1_000)
    for start_ms in range(0, 10_000, 20):
        user.append(start_ms * MS, np.full(20, start_ms // 20, "<i2").tobytes())
    return LiveCaptures(user, session=2, turns_before=turns_before)


def test_user_audio_is_placed_in_time_and_bounded() -> None:
    user = UserAudio(1_000)
    for start_ms in range(0, 1_000, 20):
        user.append(start_ms * MS, np.full(20, start_ms, "<i2").tobytes())
    kept = user.between(490 * MS, 530 * MS)
    assert kept.tolist() == [480] * 10 + [500] * 20 + [520] * 10
    assert user.between(-50 * MS, 0).tolist() == [0] * 50
    user.forget(500 * MS)
    assert user.between(480 * MS, 500 * MS).tolist() == [0] * 20
    for start_s in range(1, 7_200):
        user.append(start_s * 1_000 * MS, np.full(1_000, 1, "<i2").tobytes())
    assert user.between(0, 7_200_000 * MS).sum() == 601_000


def test_a_turn_that_is_seen_again_keeps_its_number() -> None:
    turns = spoken(turns_before=3)
    seen = [turns.capture_of(capture(t0_ms, ends_ms=t0_ms + 500), 9_000 * MS) for t0_ms in (0, 4_000, 0)]
    assert [(turn.session, turn.number, turn.index) for turn in seen] == [(2, 4, 0), (2, 5, 1), (2, 4, 0)]
    assert len(turns) == 2


def test_the_users_audio_ends_shortly_after_the_reply_or_at_the_next_turn() -> None:
    turns = spoken()
    alone = turns.capture_of(capture(0, ends_ms=1_000), 9_000 * MS)
    assert len(alone.user) == 1_300
    assert alone.user[-1] == 1_299 // 20
    answered = turns.capture_of(capture(0, ends_ms=1_000, reply_ms=2_000), 9_000 * MS)
    assert len(answered.user) == 3_300 - 1, "the last sample is heard 1 ms before its end"
    now = turns.capture_of(capture(0, ends_ms=1_000, reply_ms=2_000), 2_500 * MS)
    assert len(now.user) == 2_500
    turns.capture_of(capture(2_000, ends_ms=2_800), 9_000 * MS)
    interrupted = turns.capture_of(capture(0, ends_ms=1_000, reply_ms=2_000), 9_000 * MS)
    assert len(interrupted.user) == 2_000


def test_sessions_with_one_user_agree_on_the_numbers_of_turns() -> None:
    numbers = TurnNumbers()
    first, second = (LiveCaptures(UserAudio(1_000), session=1, numbers=numbers) for _ in range(2))
    late = LiveCaptures(UserAudio(1_000), session=2, numbers=numbers)
    found = [
        each.capture_of(capture(t0_ms, ends_ms=t0_ms + 500), 9_000 * MS).number
        for each, t0_ms in (
            (first, 0),
            (second, 12),
            (second, 2_190),
            (first, 2_000),
            (late, 4_000),
            (first, 4_001),
        )
    ]
    assert found == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("echo", [True, False])
def test_an_utterance_that_is_an_echo_of_the_reply_is_recognised(echo: bool) -> None:
    sample = Path("live_eval/data/sample/data_human/audio")
    rate_hz = 16_000
    reply, voice = (
        resample(read_audio(sample / name).audio, rate_hz).int16()[:32_000]
        for name in ("breath/le_102_breath_family_target.flac", "fast/le_101_fast_work_target.flac")
    )
    heard, user = HeardAudio(), UserAudio(rate_hz)
    heard.push(reply, rate_hz, 10_000 * MS)
    user.append(10_270 * MS, (reply // 4 if echo else voice).astype("<i2").tobytes())
    captures = LiveCaptures(user, session=1)
    captures.overheard(10_270 * MS, 11_900 * MS, heard)
    assert captures.capture_of(capture(10_270, ends_ms=11_900), 12_500 * MS).echoes is echo
    assert not captures.capture_of(capture(20_000, ends_ms=21_000), 22_000 * MS).echoes
