"""Simultaneous runs over real sockets: equal start times, one dead endpoint, an interruption."""

import asyncio
import functools
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from live_eval.errors import FailureKind, LiveEvalError, UsageError
from live_eval.recording import RunReader, RunWriter, TurnRecord
from live_eval.run.plan import Plan, make_plan
from live_eval.run.run_file import validate
from live_eval.run.runner import Observer, RunOutcome
from live_eval.run.simultaneous import (
    SimultaneousRun,
    check_same_turns,
    onset_spreads_ms,
    run_simultaneously,
)
from tests.support.marked_cases import marked_cases
from tests.support.serving import reference


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return marked_cases(tmp_path, [300] * 4)


def planned(manifest: Path, address: str, turns: Mapping[str, Any] | None = None) -> Plan:
    values = {
        "endpoint": {"name": "reference", "base_url": f"ws://{address}/v1"},
        "data": {"path": str(manifest)},
        "turns": {"concurrency": 1, "word_times": "off", "reply_timeout": 3, **(turns or {})},
    }
    return make_plan(validate(values))


endpoint = functools.partial(reference, calibrate=True)


class Interrupting(Observer):
    """An observer that sends SIGINT after the first turn."""

    interrupts = False
    stored = 0

    def turn(self, record: TurnRecord) -> None:
        self.stored += 1
        if self.interrupts and self.stored == 1:
            os.kill(os.getpid(), signal.SIGINT)


def created(folder: Path, plan: Plan) -> RunWriter:
    return RunWriter.create(folder, plan.manifest())


async def run(folder: Path, plans: Mapping[str, Plan], *, interrupts: bool = False) -> list[Any]:
    runs: list[SimultaneousRun] = []
    for name, plan in plans.items():
        observer = Interrupting()
        observer.interrupts = interrupts and not runs
        writer = await asyncio.to_thread(created, folder / name, plan)
        runs.append(SimultaneousRun(plan=plan, writer=writer, folder=folder / name, observer=observer))
    outcomes = await run_simultaneously(runs)
    for each in runs:
        await asyncio.to_thread(each.writer.end)
        await asyncio.to_thread(each.writer.close)
    return outcomes


def turns(folder: Path) -> list[TurnRecord]:
    with RunReader.open(folder) as stored:
        return list(stored.turns())


async def test_each_case_is_played_to_all_endpoints_at_the_same_moment(
    tmp_path: Path, manifest: Path
) -> None:
    async with endpoint(reply_ms=100) as quick, endpoint(reply_ms=900) as slow:
        plans = await asyncio.to_thread(
            lambda: {"quick": planned(manifest, quick), "slow": planned(manifest, slow)}
        )
        outcomes = await run(tmp_path, plans)
    assert outcomes == [RunOutcome(4, 0, False), RunOutcome(4, 0, False)]
    folders = [tmp_path / "quick", tmp_path / "slow"]
    spreads = await asyncio.to_thread(onset_spreads_ms, folders)
    assert len(spreads) == 4
    assert max(spreads) < 400  # otherwise, replies that are 600 ms longer add up
    assert sorted(spreads)[1] < 100


async def test_a_dead_endpoint_does_not_stop_the_others(tmp_path: Path, manifest: Path) -> None:
    async with endpoint(reply_ms=100) as alive:
        plans = await asyncio.to_thread(
            lambda: {
                "alive": planned(manifest, alive),
                "dead": planned(manifest, "127.0.0.1:9", {"retries": 0, "patience": 0.5}),
            }
        )
        captured, dead = await run(tmp_path, plans)
    assert captured == RunOutcome(4, 0, False)
    assert dead.captured == 0
    assert {each.failure is None for each in await asyncio.to_thread(turns, tmp_path / "alive")} == {True}
    failures = [each.failure for each in await asyncio.to_thread(turns, tmp_path / "dead")]
    assert all(each is not None and each.kind is FailureKind.CONNECTION_REFUSED for each in failures)


async def test_one_signal_stops_all_runs(tmp_path: Path, manifest: Path) -> None:
    async with endpoint(reply_ms=100) as one, endpoint(reply_ms=100) as two:
        plans = await asyncio.to_thread(
            lambda: {"one": planned(manifest, one), "two": planned(manifest, two)}
        )
        outcomes = await run(tmp_path, plans, interrupts=True)
    assert [each.interrupted for each in outcomes] == [True, True]
    assert all(each.captured < 4 for each in outcomes)


async def test_an_endpoint_that_cannot_be_launched_does_not_stop_the_others(
    tmp_path: Path, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> object:
        raise LiveEvalError("cannot launch")

    async with endpoint(reply_ms=100) as alive:
        here = await asyncio.to_thread(planned, manifest, alive)
        values = {"data": {"path": str(manifest)}, "turns": {"concurrency": 1, "word_times": "off"}}
        launched = await asyncio.to_thread(lambda: make_plan(validate(values)))
        monkeypatch.setattr("live_eval.run.runner.running_endpoint", broken)
        captured, failed = await run(tmp_path, {"alive": here, "launched": launched})
    assert captured == RunOutcome(4, 0, False)
    assert str(failed) == "cannot launch"


def test_runs_of_different_turns_are_refused(manifest: Path) -> None:
    plans = {"all": planned(manifest, "127.0.0.1:9"), "sample": make_plan(validate({}))}
    with pytest.raises(UsageError, match="the turns of all and sample differ"):
        check_same_turns(plans)
