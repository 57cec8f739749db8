"""The probe of the event loop, and the collection of garbage between turns."""

import asyncio
import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from live_eval.session.event_loop import Collector, LoopProbe, uncollected, undisturbed
from live_eval.testing.fake_clock import FakeClock

MS = 1_000_000


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the collected generations; collections are only counted, since they would visit all tests."""
    made: list[int] = []
    frozen = [0]
    monkeypatch.setattr(gc, "collect", lambda generation=2: made.append(generation))
    monkeypatch.setattr(gc, "freeze", lambda: frozen.__setitem__(0, 1))
    monkeypatch.setattr(gc, "unfreeze", lambda: frozen.__setitem__(0, 0))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen[0])
    return made


@pytest.fixture
def collections(made: list[int]) -> Iterator[list[int]]:
    """Return the collected generations, with automatic collection off."""
    gc.disable()
    yield made
    gc.enable()


def test_the_old_generation_is_collected_once_no_session_is_timed(collections: list[int]) -> None:
    collector = Collector()
    timed = True
    with collector.session(lambda: timed):
        with collector.session(lambda: True):
            pass
        assert collections == []
        timed = False
        with collector.session(lambda: True):
            pass
        assert collections == [2]
    assert collections == [2, 2]


def test_timed_sessions_delay_a_collection_up_to_a_limit(
    collections: list[int],
) -> None:
    collector = Collector()
    with collector.session(lambda: True):
        for _ in range(257):
            with collector.session(lambda: True):
                pass
    assert collections == [2, 2, 2]  # after 128 sessions, after 256, and after the last


def test_modules_imported_after_the_start_are_not_visited_by_collections(
    collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, frozen = Collector(), []
    for name in (None, "imported_by_the_second_session", None):
        if name is not None:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        with collector.session(lambda: False):
            frozen.append(gc.get_freeze_count())
        gc.unfreeze()
    assert [count > 0 for count in frozen] == [True, True, False]


def test_pythons_own_collector_is_not_changed(collections: list[int]) -> None:
    gc.enable()
    with Collector().session(lambda: False):
        pass
    assert collections == []


def test_overlapping_uses_collect_once_and_the_last_restores_the_settings(made: list[int]) -> None:
    interval_s, first, second = sys.getswitchinterval(), undisturbed(), undisturbed()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    assert sys.getswitchinterval() < interval_s
    second.__exit__(None, None, None)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == interval_s
    assert made == [2]


def test_collection_is_off_while_a_run_is_read_but_stays_off_for_timed_code() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    timed = undisturbed()
    with uncollected():
        timed.__enter__()
    assert not gc.isenabled()
    timed.__exit__(None, None, None)
    assert gc.isenabled()


async def test_the_probe_keeps_the_last_readings_in_order() -> None:
    clock = FakeClock(start_ns=0)
    probe = LoopProbe(clock, kept=8)
    probing = asyncio.create_task(probe.run())
    await clock.sleep_until(52 * MS)
    clock.advance(7 * MS)  # the process was stopped: the reading due at 55 ms is taken at 59 ms
    await clock.sleep_until(62 * MS)
    probing.cancel()
    every = probe.between(0, 100 * MS)
    assert every.at_ns.tolist() == [at * MS for at in (25, 30, 35, 40, 45, 50, 55, 60)]
    assert every.lag_ns.tolist() == [0, 0, 0, 0, 0, 0, 4 * MS, 0]
    some = probe.between(40 * MS, 55 * MS)
    assert some.at_ns.tolist() == [at * MS for at in (40, 45, 50, 55)]
