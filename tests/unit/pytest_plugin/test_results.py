"""The test API for turns."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.errors import FailureKind, UsageError
from live_eval.pytest_plugin import ms
from live_eval.pytest_plugin.endpoint_tester import EndpointTester
from live_eval.pytest_plugin.results import Result, Results
from live_eval.recording.record import TurnRecord
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn

CASE = Case(
    case_id="question", script_id="question", variant=Variant.TARGET, audio_path=Path("question.flac")
)
NO_RESPONSE = Failure(FailureKind.NO_RESPONSE, "no response began within 30 s")


def turns(*plans: TurnPlan) -> Results:
    records = [
        spoken_turn(replace(CASE, case_id=f"q{number}", script_id=f"q{number}"), plan)
        for number, plan in enumerate(plans)
    ]
    return Results(tuple(Result(record, Path("run")) for record in records), Path("run"))


def test_the_latencies_of_a_turn_are_durations_with_its_lag_as_error_bar() -> None:
    turn = Result(spoken_turn(CASE, TurnPlan(frame_late_ns=700_000)), Path("run"))
    assert ms(579) < turn.voice_to_voice < ms(581)
    assert repr(turn.first_byte) == "500.0 ms (error bar 0.7 ms)"
    assert turn.lead_silence.ms == pytest.approx(80, abs=0.5)
    assert (turn.connect.ms, turn.endpointing.ms, turn.transcript.ms) == (90, 300, 480)
    assert turn.complete > turn.first_byte
    assert (turn.text, turn.heard_text) == ("I hear you.", "hello there")
    assert repr(turn) == "<turn 'question' recorded in run>"


def test_a_missing_latency_of_a_turn_has_a_reason() -> None:
    turn = Result(spoken_turn(CASE, TurnPlan(endpointing_ms=None)), Path("run"))
    assert not turn.endpointing < ms(10_000)
    assert repr(turn.endpointing) == "missing (the endpoint did not report that speech stopped)"


def test_turns_meet_an_assertion_or_say_what_was_measured() -> None:
    played = turns(*(TurnPlan(first_byte_ms=400 + 10 * number) for number in range(9)))
    assert played.meet("first_byte.p50 < 441ms")
    failed = played.meet("first_byte.max < 480ms")
    assert not failed
    assert failed.value == 480
    assert repr(failed) == (
        "<first_byte.max < 480ms: FAILS: first_byte.max is 480.0 ms (n 9, error bar 0.3 ms)>"
    )


def test_turns_that_failed_are_named_and_count_against_an_upper_bound() -> None:
    played = turns(TurnPlan(), TurnPlan(), TurnPlan(first_byte_ms=None, failure=NO_RESPONSE))
    assert played.failed == {"q2": "no_response: no response began within 30 s"}
    assert played.meet("voice_to_voice.p50 < 1s")
    assert "1 turn failed or had no answer" in repr(played.meet("voice_to_voice.max < 1s"))


def test_turns_are_a_sequence() -> None:
    played = turns(TurnPlan(), TurnPlan())
    record: TurnRecord = played[0].record
    assert record.turn_id == "q0"
    assert [turn.record.turn_id for turn in played[1:]] == ["q1"]
    assert repr(played) == "<2 turns recorded in run>"


async def test_playing_inside_a_running_event_loop_is_refused_with_advice(tmp_path: Path) -> None:
    tester = EndpointTester(
        endpoint="reference",
        base_url="ws://127.0.0.1:1/v1",
        folder=tmp_path,
        name="test",
        base_folder=tmp_path,
    )
    with pytest.raises(UsageError, match=r"await asyncio.to_thread"):
        tester.play("question.flac")
    assert not await asyncio.to_thread(lambda: list(tmp_path.iterdir()))
