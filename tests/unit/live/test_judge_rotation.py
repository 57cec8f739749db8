"""The order in which judges score the turns of a conversation."""

from __future__ import annotations

import asyncio

from live_eval.live.judge_rotation import JudgeRotation


async def test_each_judge_scores_the_newest_turn_of_all_runs() -> None:
    rotation, order = JudgeRotation(60), list[str]()

    async def score(run: str, turn: int, judge: str) -> None:
        async with rotation.held(turn, judge):
            order.append(f"{run}{turn}{judge}")
            await asyncio.sleep(0)

    tasks = [
        asyncio.create_task(score(run, turn, judge)) for turn in (1, 2, 3) for run in "ab" for judge in "xy"
    ]
    await asyncio.sleep(0)
    tasks[4].cancel()  # a2x waits
    await asyncio.gather(*tasks, return_exceptions=True)
    assert " ".join(order) == "a1x b1x a3y b3y a3x b3x a2y b2y b2x a1y b1y"


async def test_a_slow_judge_loses_its_turn_and_waits_until_it_has_finished() -> None:
    rotation, order = JudgeRotation(0.01), list[str]()
    others_end = asyncio.Event()

    async def score(turn: int, judge: str) -> None:
        async with rotation.held(turn, judge):
            order.append(f"{turn}{judge}")
            if len(order) == 3:
                others_end.set()
            if order == ["1x"]:
                await others_end.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for turn in (1, 2):
            for judge in "xy":
                group.create_task(score(turn, judge))
    assert order == ["1x", "2y", "1y", "2x"]


async def test_a_wait_cancelled_as_its_turn_comes_blocks_nobody() -> None:
    rotation, order = JudgeRotation(60), list[int]()

    async def wait(number: int) -> None:
        async with rotation.held(number, "x"):
            order.append(number)

    async with rotation.held(9, "x"):
        tasks = [asyncio.create_task(wait(number)) for number in (1, 2)]
        await asyncio.sleep(0)
    tasks[1].cancel()  # before the lock is passed on
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [1]
