"""Calls of a chat model: retries, limits, errors and refused parameters."""

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from live_eval.judging import (
    Scored,
)
from live_eval.scoring.llm import (
    CallProblem,
)
from tests.loopback.scoring.llm.chat_server import (
    KindJudge,
    Server,
    Shelf,
    SkippingClock,
    ask,
    completion,
    driver,
    error,
    failed,
    score,
    turns,
)

KEY = "sk-test-3fb1c0de"


PAYLOAD = b"RIFF....WAVE"


Answer = Callable[[dict[str, Any]], web.StreamResponse]


def cut_body(_: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text='{"id": "c1", "choices": [{"ind', content_type="application/json")


async def test_an_answer_in_parts_is_read(server: Server) -> None:
    parts = [{"type": "text", "text": '{"kindness"'}, {"type": "thinking"}, {"type": "text", "text": ": 2}"}]
    judgement = await ask(server, [completion(parts)])
    assert isinstance(judgement, Scored)
    assert judgement.values == {"": 2.0}


async def test_retry_after_is_obeyed(server: Server) -> None:
    clock = SkippingClock()
    judgement = await ask(server, [error(429, Retry_After="7")], clock=clock)
    assert isinstance(judgement, Scored)
    assert judgement.detail["calls"] == 2
    assert 6.9 < clock.slept_s[0] < 8.5


async def test_understands_a_date_in_retry_after(server: Server) -> None:
    clock = SkippingClock()
    later = formatdate(time.time() + 30, usegmt=True)
    assert isinstance(await ask(server, [error(503, Retry_After=later)], clock=clock), Scored)
    assert 28 < clock.slept_s[0] < 31.5


async def test_does_not_wait_longer_than_allowed(server: Server) -> None:
    judgement = await ask(server, [error(429, Retry_After="3600")], longest_wait_s=60)
    assert "requests a wait of 3600 s" in failed(judgement, CallProblem.RATE_LIMITED).reason
    assert len(server.requests) == 1


async def test_a_rate_limit_delays_all_calls(server: Server) -> None:
    clock = SkippingClock()
    server.answers = [error(429, Retry_After="20")]
    async with driver(server, clock, concurrency=1) as llm:
        await llm.judge(KindJudge(), turns("a", "b"))
    assert sum(clock.slept_s) >= 19.9


async def test_backs_off_with_growing_waits_and_gives_up(server: Server) -> None:
    clock = SkippingClock()
    judgement = await ask(server, [error(500)] * 9, clock=clock, attempts=4)
    assert failed(judgement, CallProblem.SERVER_ERROR).detail["calls"] == 4
    assert len(server.requests) == 4
    assert len(clock.slept_s) == 3
    assert clock.slept_s[0] < clock.slept_s[1] < clock.slept_s[2]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (error(400, "too many messages"), CallProblem.REJECTED),
        (error(400, "API key not valid. Please pass a valid API key."), CallProblem.AUTHENTICATION),
        (error(402, "insufficient balance"), CallProblem.QUOTA),
        (error(401, f"Incorrect API key provided: {KEY}"), CallProblem.AUTHENTICATION),
        (error(403), CallProblem.AUTHENTICATION),
        (error(404, "no such model"), CallProblem.NOT_FOUND),
        (error(429, code="insufficient_quota"), CallProblem.QUOTA),
        (completion(None, refusal="I will not judge that."), CallProblem.REFUSAL),
        (completion('{"kind', finish_reason="length"), CallProblem.TRUNCATED),
        (completion("", finish_reason="content_filter"), CallProblem.FILTERED),
        (completion(" "), CallProblem.EMPTY),
        (completion(None), CallProblem.EMPTY),
    ],
)
async def test_permanent_errors_are_named_and_not_retried(
    server: Server, answer: Answer, problem: CallProblem
) -> None:
    failed(await ask(server, [answer]), problem)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        cut_body,
        lambda _: web.json_response({"object": "nothing"}),
        lambda _: web.json_response({"choices": []}),
        lambda _: web.json_response([1, 2]),
        lambda _: web.Response(text="<html>gateway</html>", content_type="text/html"),
        lambda _: web.json_response({"choices": [{"message": None}]}),
        lambda _: web.json_response({"choices": [{}], "usage": {}}),
        lambda _: web.json_response({"choices": [{"message": {"content": 3}}]}),
    ],
)
async def test_invalid_completions_are_retried(server: Server, answer: Answer) -> None:
    assert isinstance(await ask(server, [answer]), Scored)
    judgement = await ask(server, [answer] * 3, attempts=2)
    failed(judgement, CallProblem.UNREADABLE)


def compressed(_: dict[str, Any]) -> web.StreamResponse:
    return web.Response(body=gzip.compress(b'{"choices": []}'), headers={"Content-Encoding": "gzip"})


def dripping(_: dict[str, Any]) -> web.StreamResponse:
    async def drops() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.02)

    return web.Response(body=drops(), content_type="application/json")


@pytest.mark.parametrize(
    ("answer", "problem", "why"),
    [
        (compressed, CallProblem.UNREADABLE, "Content-Encoding is 'gzip'"),
        (lambda _: web.Response(body=bytes(5 << 20)), CallProblem.UNREADABLE, "longer than 4194304 bytes"),
        (lambda _: web.Response(body=b"x" * (1 << 20), status=401), CallProblem.AUTHENTICATION, "401 xxx"),
        (
            lambda _: web.Response(body=b"x", status=401, headers={"Content-Encoding": "gzip"}),
            CallProblem.AUTHENTICATION,
            "no reason given",
        ),
        (completion(usage={"prompt_tokens": 10**400}), CallProblem.UNREADABLE, "prompt_tokens"),
        (dripping, CallProblem.TIMEOUT, "no answer within 0.3 s"),
    ],
)
async def test_the_size_and_the_time_of_an_answer_are_bounded(
    server: Server, answer: Answer, problem: CallProblem, why: str
) -> None:
    judgement = await ask(server, [answer], attempts=1, timeout_s=0.3 if answer is dripping else 5.0)
    assert why in failed(judgement, problem).reason


async def test_no_redirect_is_followed_with_the_prompt_and_the_key(server: Server) -> None:
    to = f"{server.base_url.replace('127.0.0.1', 'user:secret@localhost')}/chat/completions?token=secret"
    server.answers = [lambda _: web.Response(status=307, headers={"Location": to})]
    async with driver(server, concurrency=1) as llm:
        judgements = await llm.judge(KindJudge(), turns("a", "b"))
    reasons = [failed(judgement, CallProblem.NOT_FOUND).reason for judgement in judgements]
    assert all("redirects are not followed: correct the base URL" in reason for reason in reasons)
    assert not any("secret" in reason for reason in reasons)
    assert len(server.requests) == 1, "the driver asks nothing more of an address that has moved"


async def test_a_slow_endpoint_times_out(server: Server) -> None:
    server.hold = asyncio.Event()
    judgement = await ask(server, [], timeout_s=0.1, attempts=2)
    assert failed(judgement, CallProblem.TIMEOUT).detail["calls"] == 2


async def test_a_closed_port_is_a_connection_problem(server: Server) -> None:
    server.base_url = "http://127.0.0.1:9/v1"
    failed(await ask(server, [], attempts=2), CallProblem.CONNECTION)


async def test_a_refused_key_stops_all_requests(server: Server) -> None:
    server.answers = [error(401)] * 50
    async with driver(server, concurrency=1) as llm:
        judgements = await llm.judge(KindJudge(), turns(*"abcdef"))
    assert len(server.requests) == 1
    assert all("401" in failed(judgement, CallProblem.AUTHENTICATION).reason for judgement in judgements)
    assert llm.usage.calls == 1


async def test_an_echoed_key_is_not_stored(server: Server) -> None:
    shelf = Shelf()
    server.answers = [completion(json.dumps({"kindness": 4, "key": KEY}))]
    async with driver(server, answers=shelf) as llm:
        (judgement,) = await llm.judge(KindJudge(), turns("a"))
    assert isinstance(judgement, Scored)
    assert judgement.detail["answer"] == '{"kindness": 4, "key": "***"}'
    assert KEY not in repr(shelf.answers)
    refusal = await ask(server, [completion(None, refusal=f"Not with {KEY}.")])
    assert failed(refusal, CallProblem.REFUSAL).detail["answer"] == "Not with ***."


# -- Parameters that some models refuse -----------------------------------------------------------------

NO_TEMPERATURE = error(
    400,
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
    "supported.",
    code="unsupported_value",
)


NO_JSON = error(422, "response_format: Extra inputs are not permitted")


@pytest.mark.slow
async def test_a_refused_parameter_is_omitted_from_then_on(server: Server) -> None:
    server.answers = [NO_TEMPERATURE, NO_JSON]
    async with driver(server, concurrency=1, attempts=1) as llm:
        judgements = await llm.judge(KindJudge(), turns("a", "b"))
    assert [set(body) & {"temperature", "response_format"} for body in server.requests] == [
        {"temperature", "response_format"},
        {"response_format"},
        set(),
        set(),
    ]
    for judgement in judgements:
        assert isinstance(judgement, Scored)
        assert judgement.detail["without"] == ["response_format", "temperature"]


async def test_refusing_an_unsent_parameter_is_an_error(server: Server) -> None:
    failed(await ask(server, [NO_TEMPERATURE] * 3), CallProblem.REJECTED)
    assert len(server.requests) == 2


async def test_geminis_errors_are_understood(server: Server) -> None:
    """Gemini's OpenAI-compatible address answers with a list, with the retry delay in the body."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}]
    body = [{"error": {"code": 429, "message": "Resource has been exhausted", "details": details}}]
    clock = SkippingClock()
    judgement = await ask(server, [lambda _: web.json_response(body, status=429)], clock=clock)
    assert isinstance(judgement, Scored)
    assert 16.9 < clock.slept_s[0] < 18.5
    reason = failed(await ask(server, [lambda _: web.json_response(body, status=400)]), CallProblem.REJECTED)
    assert reason.reason == "rejected: 400 Resource has been exhausted"


async def test_no_part_of_an_echoed_key_is_stored(server: Server) -> None:
    key = KEY
    html = f"<html>hi Bearer {key}</html>"
    answers: list[Answer] = [
        error(400, message="x" * 280 + f" your key {key} is not liked"),
        lambda _: web.Response(text=html, content_type="text/html"),
        lambda _: web.json_response({"model": f"m-{key}", "choices": [{"message": {"content": "no"}}]}),
    ]
    for answer in answers:
        server.answers = [answer]
        async with driver(server, attempts=1) as llm:
            [judgement] = await llm.judge(KindJudge(), turns("a"))
        assert not any(key[at : at + 8] in str(judgement) for at in range(len(key) - 8)), judgement


async def test_a_refused_key_fails_every_turn_with_one_call(server: Server, run: Path) -> None:
    server.answers = [error(401, f"bad key {KEY}")] * 3
    summary = await score(run, base_url=server.base_url, key_variable="TOY_KEY", concurrency=1)
    assert (summary.n_failed, summary.calls) == (3, 1)
    assert KEY.encode() not in (run / "scores.sqlite").read_bytes()
