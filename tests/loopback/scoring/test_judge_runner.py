"""Runs scored by a chat model."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from live_eval.recording import ScoreReader, ScoreRow
from tests.loopback.scoring.llm.chat_server import PRICE, Server, completion, error, kindness, score

KEY = "sk-test-3fb1c0de"


Answer = Callable[[dict[str, Any]], web.StreamResponse]


def rows(run: Path) -> dict[str, ScoreRow]:
    with ScoreReader.open(run) as scores:
        return {row.turn_id: row for row in scores.read()}


async def test_a_run_is_scored_by_a_model(server: Server, run: Path) -> None:
    nine = completion('{"kindness": 9}')
    server.answers = [error(503, Retry_After="0"), nine, nine]
    summary = await score(run, base_url=server.base_url, model="mine", key_variable="TOY_KEY", concurrency=1)
    assert summary.version.startswith("1+mine@127.0.0.1:"), "another server's model may be another"
    assert (summary.n, summary.n_failed, summary.calls) == (2, 1, 5)
    assert summary.cost is None
    assert set(server.keys) == {f"Bearer {KEY}"}
    kept = await asyncio.to_thread(rows, run)
    assert kept["c0"].reason == "malformed: expected a finite number from 1 to 5, got 9.0"
    assert kept["c0"].detail["answer"] == '{"kindness": 9}'
    assert kept["c1"].values == {"": 4.0}
    assert kept["c1"].detail["prompt"][0]["content"][0]["text"].endswith("c1: I hear you.")

    summary = await score(run, base_url=server.base_url, model="mine", key_variable="TOY_KEY")
    assert (summary.n, summary.n_failed, summary.calls) == (3, 0, 1), "what failed is asked again, alone"
    summary = await score(run, base_url=server.base_url, model="mine", key_variable="TOY_KEY")
    assert (summary.n, summary.calls, summary.cost) == (3, 0, 0.0)


async def test_scoring_again_repeats_no_answered_request(server: Server, run: Path) -> None:
    options: dict[str, Any] = {"base_url": server.base_url, "concurrency": 1}
    server.answers = [kindness(1), kindness(2), kindness(3)]
    await score(run, **options)
    before = await asyncio.to_thread(rows, run)
    summary = await score(run, again=True, **options)
    assert (summary.n, summary.calls, summary.cached, summary.cost) == (3, 0, 3, 0.0)
    after = await asyncio.to_thread(rows, run)
    assert {turn: row.values for turn, row in after.items()} == {
        turn: row.values for turn, row in before.items()
    }
    summary = await score(run, samples=2, **options)
    assert summary.version.endswith("+samples=2")
    assert (summary.n, summary.calls, summary.cached) == (3, 3, 3)


async def test_scoring_keeps_its_budget(server: Server, run: Path) -> None:
    prices = {"mine": PRICE}
    options: dict[str, Any] = {"base_url": server.base_url, "model": "mine", "prices": prices}
    summary = await score(run, max_calls=2, **options)
    assert (summary.n, summary.n_unscored, summary.calls) == (2, 1, 2)
    assert summary.cost == pytest.approx(0.082)
    summary = await score(run, **options)
    assert (summary.n, summary.calls) == (3, 1), "what the budget did not reach is asked later"
