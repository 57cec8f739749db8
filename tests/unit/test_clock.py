import asyncio
import contextlib
import gc
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from live_eval.clock import FrameSlots, Pacer, SystemClock, _timetable, wait_until
from live_eval.testing.fake_clock import FakeClock
from tests.support.busy_loop import hold_up

uvloop = pytest.importorskip("uvloop")

FRAME = 20_000_000


class Left(NamedTuple):
    deadline_ns: int
    skipped: int
    late_ns: int


async def leave(clock: FakeClock, pacer: Pacer, *, speech: bool) -> Left:
    """Send a frame like a session."""
    tick = pacer.next(speech=speech)
    at_ns = await clock.run_at(tick.deadline_ns, clock.now_ns)
    return Left(tick.deadline_ns, tick.skipped, pacer.left(tick, at_ns, speech=speech))


async def test_a_frame_is_sent_when_its_last_sample_is_spoken() -> None:
    clock = FakeClock(start_ns=0)
    pacer = Pacer(clock, t0_ns=100, frame_ns=FRAME)
    ticks = [await leave(clock, pacer, speech=True) for _ in range(3)]
    assert [tick.deadline_ns for tick in ticks] == [100 + FRAME, 100 + 2 * FRAME, 100 + 3 * FRAME]
    assert clock.now_ns() == 100 + 3 * FRAME
    assert pacer.late_speech_frames == 0


@pytest.mark.parametrize("sessions", [1, 2, 10, 11, 300])
def test_the_frames_of_sessions_are_spread_over_the_length_of_a_frame(sessions: int) -> None:
    slots = FrameSlots(FakeClock(start_ns=7))
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(slots.slot(FRAME)) for _ in range(sessions)]
        phases = [first_ns(1_000) for first_ns in held]
    assert all(1_000 <= phase < 1_000 + FRAME for phase in phases)
    assert {first_ns(phase) - phase for first_ns, phase in zip(held, phases, strict=True)} == {0}
    assert {first_ns(phase + 1) - phase for first_ns, phase in zip(held, phases, strict=True)} == {FRAME}
    counts = Counter(phases)
    assert len(counts) == min(sessions, 10)
    assert max(counts.values()) - min(counts.values()) <= 1
    gaps = [later - earlier for earlier, later in itertools.pairwise(sorted(counts))]
    assert not gaps or min(gaps) >= 2_000_000


def test_a_released_slot_is_taken_first() -> None:
    slots = FrameSlots(FakeClock(start_ns=0))
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(slots.slot(FRAME))
        with slots.slot(FRAME) as first_ns:
            phase_ns = first_ns(0)
        with slots.slot(FRAME) as first_ns:
            assert first_ns(0) == phase_ns
        with slots.slot(1_000_000) as first_ns:  # shorter than a slot
            assert first_ns(1) == 1_000_000


async def test_late_speech_catches_up_without_losing_a_frame() -> None:
    clock = FakeClock(start_ns=0)
    pacer = Pacer(clock, t0_ns=0, frame_ns=FRAME)
    await leave(clock, pacer, speech=True)
    clock.advance(5 * FRAME)  # the process was stopped
    ticks = [await leave(clock, pacer, speech=True) for _ in range(6)]
    assert [tick.deadline_ns for tick in ticks] == [k * FRAME for k in range(2, 8)]
    assert [tick.late_ns for tick in ticks] == [4 * FRAME, 3 * FRAME, 2 * FRAME, FRAME, 0, 0]
    assert pacer.late_speech_frames == 3
    assert pacer.skipped_silence_frames == 0


async def test_late_silence_is_skipped_and_the_grid_is_kept() -> None:
    clock = FakeClock(start_ns=0)
    pacer = Pacer(clock, t0_ns=0, frame_ns=FRAME)
    await leave(clock, pacer, speech=True)
    clock.advance(5 * FRAME + 7)
    tick = await leave(clock, pacer, speech=False)
    assert tick.skipped == 4
    assert tick.deadline_ns == 6 * FRAME
    assert tick.late_ns == 7
    following = await leave(clock, pacer, speech=False)
    assert (following.deadline_ns, following.skipped) == (7 * FRAME, 0)
    assert pacer.skipped_silence_frames == 4
    assert pacer.late_speech_frames == 0


async def test_fake_clock_wakes_sleepers_in_order() -> None:
    clock = FakeClock(start_ns=0)
    woken: list[tuple[str, int]] = []

    async def sleeper(name: str, at_ns: int) -> None:
        await clock.sleep_until(at_ns)
        woken.append((name, clock.now_ns()))

    async with asyncio.TaskGroup() as tasks:
        for name, at_ns in (("late", 300), ("early", 100), ("middle", 200)):
            tasks.create_task(sleeper(name, at_ns))
    assert woken == [("early", 100), ("middle", 200), ("late", 300)]


async def test_fake_clock_survives_a_cancelled_sleeper() -> None:
    clock = FakeClock(start_ns=0)
    gone = asyncio.create_task(clock.sleep_until(50))
    await asyncio.sleep(0)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await clock.sleep_until(100)
    assert clock.now_ns() == 100


@pytest.mark.parametrize("new_event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_system_clock_does_not_wake_early(new_event_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    clock = SystemClock()

    async def early_ns(after_ns: int) -> int:
        at_ns = clock.now_ns() + after_ns
        await clock.sleep_until(at_ns)
        return max(0, at_ns - clock.now_ns())

    async def sleeps() -> list[int]:
        await clock.sleep_until(clock.now_ns() - 1_000_000_000)  # past: returns
        # Delays that uvloop rounds down to a millisecond, at different phases of its millisecond clock.
        return await asyncio.gather(*(early_ns(1_000_000 + 50_000 * step) for step in range(60)))

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert not any(runner.run(sleeps()))


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_due_actions_run_in_order_before_waiting_tasks(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    clock, done = SystemClock(), list[str]()

    async def wait(name: str, at_ns: int) -> None:
        def act() -> str:
            done.append(name)
            return name

        assert await clock.run_at(at_ns, act) == name
        done.append(f"{name} goes on")

    async def main() -> None:
        soon_ns = clock.now_ns() + 20_000_000
        cancelled = asyncio.create_task(wait("cancelled", soon_ns))
        tasks = [asyncio.create_task(wait(name, soon_ns + k)) for name, k in (("b", 2), ("a", 1), ("c", 3))]
        await asyncio.sleep(0)
        cancelled.cancel()
        hold_up(0.03)
        await asyncio.gather(*tasks)
        assert clock.now_ns() >= soon_ns

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert done == ["a", "b", "c", "a goes on", "b goes on", "c goes on"]


async def test_catch_up_runs_due_actions() -> None:
    clock = SystemClock()
    at_ns = asyncio.ensure_future(clock.run_at(clock.now_ns() + 10_000_000, clock.now_ns))
    await asyncio.sleep(0)
    hold_up(0.02)
    clock.catch_up()
    caught_up_ns = clock.now_ns()
    hold_up(0.02)
    assert await at_ns <= caught_up_ns


async def test_cancelled_sleepers_are_removed() -> None:
    clock = SystemClock()
    table = _timetable()
    for _ in range(5_000):
        task = asyncio.create_task(clock.sleep_until(clock.now_ns() + 10**12))
        await asyncio.sleep(0)
        task.cancel()
    assert len(table._entries) <= 1_000


async def test_a_cancelled_action_does_not_delay_other_sleepers() -> None:
    clock = SystemClock()

    def cancel() -> None:
        raise asyncio.CancelledError

    at_ns = clock.now_ns() + 5_000_000
    other = asyncio.create_task(clock.sleep_until(at_ns + 1_000_000))
    with pytest.raises(asyncio.CancelledError):
        await clock.run_at(at_ns, cancel)
    async with asyncio.timeout(2):
        await other


async def test_an_error_of_an_action_is_raised_where_it_is_awaited() -> None:
    clock = SystemClock()

    def fail() -> None:
        raise KeyError("wrong")

    with pytest.raises(KeyError, match="wrong"):
        await clock.run_at(clock.now_ns(), fail)
    await clock.sleep_until(clock.now_ns() + 1_000_000)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's timers are Linux's")
def test_closed_loops_release_their_timer() -> None:
    async def give_up() -> None:
        sleeper = asyncio.ensure_future(SystemClock().sleep_until(time.monotonic_ns() + 10**12))
        await asyncio.sleep(0)
        sleeper.cancel()

    def open_after(loops: int) -> int:
        for _ in range(loops):
            asyncio.run(give_up())
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    assert open_after(1) == open_after(4)


async def test_a_condition_is_awaited_until_it_holds_or_the_time_is_over() -> None:
    changed, held = asyncio.Event(), [False]

    def hold() -> None:
        held[0] = True
        changed.set()

    asyncio.get_running_loop().call_later(0.01, changed.set)  # changed, but does not hold yet
    asyncio.get_running_loop().call_later(0.03, hold)
    assert await wait_until(lambda: held[0], changed, SystemClock(), 5_000_000_000)
    assert not await wait_until(lambda: False, changed, SystemClock(), 10_000_000)
