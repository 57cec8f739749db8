"""Sessions that start simultaneously in several runs."""

import asyncio

import pytest

from live_eval.run.pairing import PairedRun, Pairing


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_session_starts_once_every_run_has_reached_it() -> None:
    first, second = Pairing(2).runs
    first.plan(["a", "b"])
    starting = asyncio.create_task(first.start("a"))
    await settled()
    assert not starting.done()  # the second run has not planned its sessions yet
    second.plan(["a", "b"])
    await settled()
    assert not starting.done()
    await second.start("a")
    await settled()
    assert starting.done()
    await first.start("a")  # retries do not wait


async def test_a_run_without_the_session_and_an_ended_run_are_not_awaited() -> None:
    first, second, third = Pairing(3).runs
    first.plan(["a", "b"])
    second.plan(["b"])
    third.plan(["a", "b"])
    starting = asyncio.create_task(first.start("a"))
    await settled()
    assert not starting.done()
    third.leave()
    await settled()
    assert starting.done()
    starting = asyncio.create_task(first.start("b"))
    await settled()
    assert not starting.done()
    second.leave()
    await starting


@pytest.mark.parametrize("workers", [(1, 1), (1, 3), (3, 2)])
async def test_runs_with_any_number_of_workers_pair_every_session(workers: tuple[int, int]) -> None:
    sessions = [str(number) for number in range(12)]
    order: list[list[str]] = [[], []]

    async def work(paired: PairedRun, queue: list[str], started: list[str]) -> None:
        while queue:
            session = queue.pop(0)
            await paired.start(session)
            started.append(session)
            await asyncio.sleep(0)

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        for paired, number, started in zip(Pairing(2).runs, workers, order, strict=True):
            paired.plan(sessions)
            queue = list(sessions)
            for _ in range(number):
                tasks.create_task(work(paired, queue, started))
    assert [sorted(started, key=int) for started in order] == [sessions, sessions]
