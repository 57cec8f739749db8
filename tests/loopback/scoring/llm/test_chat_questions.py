"""Questions whose answers are cached."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from live_eval.errors import StoreError
from live_eval.judging import (
    Failed,
    Scored,
)
from live_eval.scoring.llm import (
    CallProblem,
    Price,
)
from tests.loopback.scoring.llm.chat_server import (
    TOY,
    KindJudge,
    Server,
    Shelf,
    completion,
    driver,
    failed,
    kindness,
    turns,
)

KEY = "sk-test-3fb1c0de"


PAYLOAD = b"RIFF....WAVE"


Answer = Callable[[dict[str, Any]], web.StreamResponse]


# -- Cached answers -------------------------------------------------------------------------------------


async def test_cached_answers_are_reused(server: Server) -> None:
    shelf = Shelf()
    server.answers = [kindness(2), kindness(3)]
    async with driver(server, answers=shelf, concurrency=1, judge=TOY) as llm:
        first = await llm.judge(KindJudge(), turns("a", "b"))
        assert (llm.usage.calls, llm.usage.cached) == (2, 0)
    async with driver(server, answers=shelf, judge=TOY, price=Price(input=1, output=1)) as llm:
        again = await llm.judge(KindJudge(), turns("a", "b"))
        usage = llm.usage
    assert (usage.calls, usage.cached, usage.input_tokens, usage.cost) == (0, 2, 0, 0.0)
    for one, other in zip(first, again, strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        assert one.values == other.values
        assert other.detail == {**one.detail, "calls": 0, "cached": True}


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "other"},
        {"temperature": 0.7},
        {"judge": replace(TOY, version="2")},
        {"judge": replace(TOY, name="kinder")},
    ],
)
async def test_a_different_prompt_is_requested(server: Server, changed: dict[str, Any]) -> None:
    shelf = Shelf()
    for settings in ({"judge": TOY}, {"judge": TOY} | changed):
        async with driver(server, answers=shelf, **settings) as llm:
            await llm.judge(KindJudge(), turns("a"))
    assert len(server.requests) == 2


async def test_different_audio_is_a_different_request(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf()
    for sound in (b"RIFF....WAVE", b"RIFF....WAVf", b"RIFF....WAVE"):
        monkeypatch.setattr("tests.loopback.scoring.llm.chat_server.PAYLOAD", sound)
        async with driver(server, answers=shelf) as llm:
            await llm.judge(KindJudge(), turns("a"))
    assert len(server.requests) == 2


async def test_concurrent_identical_requests_are_sent_once(server: Server) -> None:
    server.hold, server.answers = asyncio.Event(), [kindness(2), kindness(5)]
    async with driver(server, answers=Shelf()) as llm:
        asking = asyncio.create_task(llm.judge(KindJudge(), [*turns("a") * 3, *turns("b")]))
        await server.asked(at_once=2)  # the two different ones
        server.hold.set()
        judgements = await asking
    assert (len(server.requests), llm.usage.calls, llm.usage.cached) == (2, 2, 2)
    scored = [judgement for judgement in judgements if isinstance(judgement, Scored)]
    values = [judgement.values[""] for judgement in scored]
    assert values[0] == values[1] == values[2] != values[3]
    assert ["cached" in judgement.detail for judgement in scored] == [False, True, True, False]


async def test_a_waiter_retries_after_the_first_request_fails(server: Server) -> None:
    server.answers = [completion(None, refusal="No."), kindness(2)]
    async with driver(server, answers=Shelf()) as llm:
        first, second, third = await llm.judge(KindJudge(), turns("a") * 3)
    failed(first, CallProblem.REFUSAL)
    assert isinstance(second, Scored)
    assert isinstance(third, Scored)
    assert len(server.requests) == 2


async def test_a_waiter_retries_after_the_first_request_is_cancelled(server: Server) -> None:
    server.hold = asyncio.Event()
    async with driver(server, answers=Shelf()) as llm:
        first = asyncio.create_task(llm.judge(KindJudge(), turns("a")))
        await server.asked(at_once=1)
        second = asyncio.create_task(llm.judge(KindJudge(), turns("a", "b")))
        given_up = asyncio.create_task(llm.judge(KindJudge(), turns("a", "c")))
        await server.asked(at_once=3)  # one per name: the later two wait for the first one's "a"
        given_up.cancel()
        first.cancel()
        server.hold.set()
        assert all(isinstance(judgement, Scored) for judgement in await second)
        for cancelled in (first, given_up):
            with pytest.raises(asyncio.CancelledError):
                await cancelled
    assert len(server.requests) == 4


async def test_answers_without_a_judgement_are_not_cached(server: Server) -> None:
    shelf = Shelf()
    bad = [completion(None, refusal="No."), completion("x", finish_reason="length"), kindness(9), kindness(9)]
    server.answers = [*bad, completion("what?"), kindness(5)]
    async with driver(server, answers=shelf, concurrency=1, judge=TOY) as llm:
        judgements = await llm.judge(KindJudge(), turns(*"abcd"))
    assert [type(judgement) for judgement in judgements] == [Failed, Failed, Failed, Scored]
    (kept,) = shelf.answers.values()
    assert kept["answer"] == '{"kindness": 5}', "of a repaired answer, the repaired one"
    assert kept["repaired"]["answer"] == "what?"
    assert KEY not in repr(shelf.answers)


async def test_a_damaged_cached_answer_is_requested_again(server: Server) -> None:
    shelf = Shelf()
    for _ in range(2):
        async with driver(server, answers=shelf) as llm:
            (judgement,) = await llm.judge(KindJudge(), turns("a"))
        assert isinstance(judgement, Scored)
        for question in shelf.answers:
            shelf.answers[question] = {"answer": "torn"}
    assert len(server.requests) == 2


async def test_a_failing_cache_does_not_fail_the_judge(server: Server) -> None:
    class Full(Shelf):
        def keep_answer(self, question: str, answer: Mapping[str, Any]) -> None:
            raise StoreError("no room")

    async with driver(server, answers=Full()) as llm:
        with pytest.raises(StoreError, match="no room"):
            await llm.judge(KindJudge(), turns("a"))
