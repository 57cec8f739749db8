from pathlib import Path

import numpy as np
import pytest

from live_eval.campaigns.latency.watch import LoadWatch, WallClockWatch, queued
from live_eval.recording.record import TurnRecord, finish
from live_eval.session.capture import TurnCapture
from live_eval.timing import TurnTrace
from live_eval.types import Case, Variant

S = 1_000_000_000
MS = 1_000_000


def turn(
    number: int = 0,
    *,
    dial_s: float = 0,
    intended_s: float | None = None,
    late_ms: float = 0,
    wall_s: float = 0,
) -> TurnRecord:
    """Return a turn with two seconds of frames of this lateness, and this offset of the wall clock."""
    dial_ns = round(dial_s * S)
    due = dial_ns + np.arange(1, 101, dtype=np.int64) * 20 * MS
    trace = TurnTrace(
        dial_ns=dial_ns,
        intended_ns=None if intended_s is None else round(intended_s * S),
        ready_ns=dial_ns + MS,
        t0_ns=dial_ns + MS,
        frame_deadline_ns=due,
        frame_sent_ns=due + round(late_ms * MS),
    )
    case = Case(case_id=f"case-{number}", script_id="s", variant=Variant.NEUTRAL, audio_path=Path("x"))
    capture = TurnCapture(trace=trace, wall_ns=dial_ns + round(wall_s * S))
    return finish(capture, case, None, repeat=0, attempt=1)


def overloaded(watch: LoadWatch, *, busy: float = 1.0) -> str | None:
    return watch.overload(10 * S, round(busy * 10 * S))


def test_frames_on_time_are_sustained() -> None:
    watch = LoadWatch(100, None, None)
    for number in range(200):
        watch.take(turn(number, late_ms=5))
    assert watch.late_p99_ns == 5 * MS
    assert overloaded(watch) is None


def test_late_frames_stop_a_condition_and_name_the_sustained_load() -> None:
    watch = LoadWatch(300, None, sustained=100)
    for number in range(9):
        watch.take(turn(number, dial_s=number, late_ms=35))
        assert overloaded(watch) is None, "too few turns to say"
    watch.take(turn(9, dial_s=9, late_ms=35))
    why = overloaded(watch)
    assert why is not None
    assert "cannot sustain 300 concurrent sessions" in why
    assert "were sent 35 ms late at p99 (bound: 20 ms); it sustained 100" in why


def test_without_an_earlier_condition_the_processor_time_bounds_the_load() -> None:
    watch = LoadWatch(300, None, None)
    for number in range(300):
        watch.take(turn(number, dial_s=number, late_ms=35))
    assert "(100%), it could sustain at most about 120" in (overloaded(watch) or "")
    assert "other programs slow it down" in (overloaded(watch, busy=0.1) or "")


def test_a_single_pause_stops_nothing() -> None:
    watch = LoadWatch(4, None, None)
    for number in range(20):
        watch.take(turn(number, dial_s=2 * (number // 4), late_ms=60 if number // 4 == 3 else 1))
    assert watch.late_p99_ns == 60 * MS
    assert overloaded(watch) is None


def test_old_turns_are_forgotten() -> None:
    watch = LoadWatch(10, None, None)
    for number in range(20):
        watch.take(turn(number, late_ms=100 if number < 10 else 1))
    assert overloaded(watch) is None


def test_sessions_that_begin_ever_later_stop_an_open_loop() -> None:
    watch = LoadWatch(2, 1.0, None)
    why = None
    for number in range(60):  # one is due each second, and one is dialled every 1.5 s
        watch.take(turn(number, intended_s=number, dial_s=1.5 * number))
        why = why or overloaded(watch)
    assert why is not None
    assert "2 concurrent sessions cannot sustain 1 turns per second" in why
    assert "the served rate is 0.67 turns per second" in why


@pytest.mark.parametrize("stall_s", [5, 12])
def test_a_queue_that_empties_again_is_sustained(stall_s: float) -> None:
    """A stalling endpoint delays sessions, and the schedule catches up, which is what is measured."""
    watch = LoadWatch(2, 1.0, None)
    free_s = 0.0
    for number in range(200):
        begins_s = max(number, free_s)
        if number % 50 == 20:
            begins_s += stall_s
        free_s = begins_s + 0.5
        watch.take(turn(number, intended_s=number, dial_s=begins_s))
        assert overloaded(watch) is None


def test_a_queue_in_front_of_the_sessions_is_noted_with_its_length() -> None:
    assert queued([], 4) is None
    assert queued([90 * MS] * 20, 4) is None
    note = queued([0] * 10 + [8 * S] * 10, 4) or ""
    assert "they began 8,000 ms after their due time at p95, with at most 4 concurrent" in note


def test_a_step_of_the_wall_clock_is_reported_once() -> None:
    watch = WallClockWatch()
    offsets_s = [5, 5, 5, 8.2, 8.2]
    notes = [watch.take(turn(n, dial_s=10 * n, wall_s=offset)) for n, offset in enumerate(offsets_s)]
    assert [note for note in notes if note] == [notes[3]]
    assert "stepped by +3.200 s between the turns case-2 and case-3" in (notes[3] or "")


def test_a_clock_that_is_slewed_has_not_stepped() -> None:
    watch = WallClockWatch()
    notes = [watch.take(turn(n, dial_s=100 * n, wall_s=100 * n * 0.0005)) for n in range(50)]
    assert set(notes) == {None}


def test_a_turn_that_only_took_longer_is_not_a_clock_step() -> None:
    watch = WallClockWatch()
    watch.take(turn(0, dial_s=0))
    watch.take(turn(2, dial_s=20, wall_s=3))
    assert watch.take(turn(1, dial_s=10)) is None
    assert watch.take(turn(3, dial_s=30, wall_s=3)) is None
