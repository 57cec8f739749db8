from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from live_eval.audio import Audio, Codec, CodecName
from live_eval.errors import FailureKind
from live_eval.recording.record import finish, turn_id
from live_eval.session.capture import CapturedResponse, TurnCapture
from live_eval.timing import ResponseRecord, ResponseStatus, TurnTrace
from live_eval.types import Case, Variant

MS = 1_000_000
CASE = Case(case_id="id_1/target", script_id="id_1", variant=Variant.TARGET, audio_path=Path("a.wav"))
USER = Audio(np.full(24_000, 0.25, np.float32), 24_000)
TRACE = TurnTrace(dial_ns=0, ready_ns=5 * MS, t0_ns=10 * MS, onset_ns=10 * MS, voice_end_ns=1_010 * MS)


def chunk(value: int, ms: int, rate_hz: int = 24_000) -> bytes:
    return np.full(ms * rate_hz // 1000, value, "<i2").tobytes()


def response(*chunks: tuple[int, bytes], codec: Codec | None = None) -> CapturedResponse:
    return CapturedResponse(
        record=ResponseRecord(
            response_id="r1",
            status=ResponseStatus.COMPLETED,
            chunk_arrival_ns=np.asarray([at * MS for at, _ in chunks], np.int64),
            text="hello",
        ),
        chunks=[data for _, data in chunks],
        codec=codec or Codec(CodecName.PCM16, 24_000),
    )


def capture(*responses: CapturedResponse) -> TurnCapture:
    return TurnCapture(trace=TRACE, wire=responses, wall_ns=0)


def test_both_sides_share_one_axis_sample_for_sample() -> None:
    record = finish(
        capture(response((1_510, chunk(5000, 100)), (1_512, chunk(6000, 100)), (1_800, chunk(7000, 50)))),
        CASE,
        USER,
        repeat=0,
        attempt=1,
    )
    assert record.failure is None
    assert record.reply is not None
    assert len(record.reply) == 250 * 24
    assert record.both_sides is not None
    left, right = record.both_sides.T
    assert (left[:24_000] == 8192).all()
    assert not left[24_000:].any()
    at = [1500 * 24, 1600 * 24, 1700 * 24, 1790 * 24, 1840 * 24]  # heard, on the axis that begins at t0
    assert not right[: at[0]].any()
    assert (right[at[0] : at[1]] == 5000).all()
    assert (right[at[1] : at[2]] == 6000).all()
    assert not right[at[2] : at[3]].any(), "an underrun is silence"
    assert (right[at[3] : at[4]] == 7000).all()
    assert len(right) == at[4]
    assert record.timing.first_byte.ns == 500 * MS
    assert record.timing.voice_to_voice.ns == 500 * MS
    assert record.timing.stalls == 1
    assert record.reply_text == "hello"


def test_audio_dropped_at_an_interruption_is_in_the_reply_but_not_heard() -> None:
    cut = response((1_510, chunk(5000, 400)))
    cut = replace(cut, record=replace(cut.record, interrupted_ns=1_610 * MS))
    record = finish(capture(cut), CASE, USER, repeat=0, attempt=1)
    assert record.reply is not None
    assert len(record.reply) == 400 * 24
    assert record.both_sides is not None
    assert len(record.both_sides) == 1600 * 24


def test_different_rates_are_resampled_to_the_higher_one() -> None:
    codec = Codec(CodecName.PCMU, 8_000)
    record = finish(capture(response((1_510, bytes(800)), codec=codec)), CASE, USER, repeat=0, attempt=1)
    assert record.reply_rate_hz == 8_000
    assert record.both_rate_hz == 24_000
    assert record.both_sides is not None
    assert len(record.both_sides) == 1600 * 24


def test_resampling_leaves_no_discontinuity_between_chunks() -> None:
    rate_hz = 16_000
    wave = np.sin(2 * np.pi * 440 * np.arange(rate_hz) / rate_hz)
    data = np.rint(10_000 * wave).astype("<i2").tobytes()
    chunks = [(1_510 + at, data[at * 32 : (at + 10) * 32]) for at in range(0, 1_000, 10)]
    codec = Codec(CodecName.PCM16, rate_hz)
    record = finish(capture(response(*chunks, codec=codec)), CASE, USER, repeat=0, attempt=1)
    assert record.both_sides is not None
    heard = record.both_sides[1_500 * 24 : 2_500 * 24, 1]
    true = 10_000 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)
    assert len(heard) == len(true)
    inner = slice(240, -240)
    assert np.abs(heard - true)[inner].max() < 3


def test_half_a_sample_fails_the_turn_and_keeps_the_audio_before_it() -> None:
    record = finish(
        capture(response((1_510, chunk(5000, 100)), (1_520, b"\x01"))), CASE, USER, repeat=0, attempt=1
    )
    assert record.failure is not None
    assert record.failure.kind is FailureKind.MALFORMED_MESSAGE
    assert "chunk 1 of response r1" in record.failure.message
    assert record.reply is not None
    assert len(record.reply) == 100 * 24


def test_an_error_while_timing_a_turn_fails_only_that_turn() -> None:
    whole = response((1_510, chunk(5000, 100)))
    lacks_a_stamp = replace(whole, chunks=[*whole.chunks, chunk(5000, 100)])
    record = finish(capture(lacks_a_stamp), CASE, USER, repeat=0, attempt=1)
    assert record.failure is not None
    assert record.failure.kind is FailureKind.INTERNAL
    assert "ValueError" in record.failure.message
    assert record.responses == ()
    assert record.timing.connect.ns == 5 * MS


def test_a_turn_without_a_session_has_neither_side() -> None:
    record = finish(TurnCapture(trace=TurnTrace(dial_ns=0), wall_ns=0), CASE, None, repeat=0, attempt=2)
    assert record.reply is None
    assert record.both_sides is None
    assert record.attempt == 2


@pytest.mark.parametrize(("repeat", "name"), [(0, "id_1/target"), (2, "id_1/target#3")])
def test_turns_are_named_by_case_and_repetition(repeat: int, name: str) -> None:
    assert turn_id(CASE, repeat) == name
