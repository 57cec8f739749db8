"""The driver of LLM judges against a small OpenAI-compatible server that misbehaves on demand."""

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from live_eval import registry
from live_eval.judging import (
    ChatRequest,
    Failed,
    JudgedTurn,
    JudgeKind,
    Judgement,
    JudgeSpec,
    Need,
    OutputSpec,
    Scored,
)
from live_eval.llm import CallProblem, LlmDriver, LlmOptions, LlmSettings
from live_eval.scoring import JudgeSummary, score_run
from live_eval.store import RunWriter, ScoreReader, ScoreRow
from live_eval.testing.records import spoken_turn
from live_eval.types import Case, Secret, Variant

KEY = "sk-test-3fb1c0de"
PAYLOAD = b"RIFF....WAVE"


class KindJudge:
    """A toy: asks how kind the reply is, and gets {"kindness": 1 to 5} back."""

    def request(self, turn: JudgedTurn) -> ChatRequest:
        if turn.turn_id == "unaskable":
            raise KeyError("cue")
        sound = {"data": base64.b64encode(PAYLOAD).decode(), "format": "wav"}
        content = [
            {"type": "text", "text": f"How kind is this, 1 to 5? {turn.turn_id}: {turn.reply_text}"},
            {"type": "input_audio", "input_audio": sound},
        ]
        return ChatRequest(messages=[{"role": "user", "content": content}], model="toy-1")

    def parse(self, answer: str) -> Judgement:
        try:
            return Scored({"": float(json.loads(answer)["kindness"])}, {"why": "said so"})
        except (ValueError, KeyError, TypeError):
            return Failed(f"expected a JSON object with kindness, got {answer!r}")


class SkippingClock:
    """The machine's clock, except that sleeping moves it instead of taking time."""

    def __init__(self) -> None:
        self._skipped_ns = 0
        self.slept_s: list[float] = []

    def now_ns(self) -> int:
        return time.monotonic_ns() + self._skipped_ns

    def wall_ns(self) -> int:
        return time.time_ns()

    async def sleep_until(self, at_ns: int) -> None:
        ahead_ns = at_ns - self.now_ns()
        if ahead_ns > 0:
            self.slept_s.append(ahead_ns / 1e9)
            self._skipped_ns += ahead_ns
        await asyncio.sleep(0)


Answer = Callable[[dict[str, Any]], web.StreamResponse]


def completion(content: str | None = '{"kindness": 4}', **choice: Any) -> Answer:
    refusal = choice.pop("refusal", None)
    body = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "toy-1-2026",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": content, "refusal": refusal},
                **choice,
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    }
    return lambda _: web.json_response(body)


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"error": {"message": message, "type": "x", "code": code}}
    return lambda _: web.json_response(body, status=status, headers=names)


def cut_body(_: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text='{"id": "c1", "choices": [{"ind', content_type="application/json")


@dataclass
class Server:
    """Gives its answers in order, then good ones."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    base_url: str = ""
    hold: asyncio.Event | None = None
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    at_once: int = 0
    most_at_once: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.keys.append(request.headers.get("Authorization"))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        async with self.news:
            self.news.notify_all()
        try:
            if self.hold is not None:
                await self.hold.wait()
            return (self.answers.pop(0) if self.answers else completion())(body)
        finally:
            self.at_once -= 1

    async def asked(self, at_once: int) -> None:
        """Return when so many calls wait for their answers."""
        async with asyncio.timeout(5), self.news:
            await self.news.wait_for(lambda: self.at_once >= at_once)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.base_url = f"http://{host}:{port}/v1"
    yield server
    if server.hold is not None:
        server.hold.set()
    await runner.cleanup()


@asynccontextmanager
async def driver(
    server: Server, clock: SkippingClock | None = None, **settings: Any
) -> AsyncIterator[LlmDriver]:
    options = LlmSettings(base_url=server.base_url, key=Secret(KEY), **settings)
    # Made outside the event loop, as scoring does: the client reads certificates.
    made = await asyncio.to_thread(LlmDriver, options, clock=clock or SkippingClock())
    async with made:
        yield made


def turns(*names: str) -> list[JudgedTurn]:
    case = Case(case_id="c", script_id="s", variant=Variant.TARGET, audio_path=Path("c.wav"))
    return [JudgedTurn(turn_id=name, case=case, reply_text=f"reply {name}") for name in names]


async def ask(server: Server, answers: Sequence[Answer], **settings: Any) -> Judgement:
    server.answers = list(answers)
    async with driver(server, **settings) as llm:
        (judgement,) = await llm.judge(KindJudge(), turns("a"))
    return judgement


def failed(judgement: Judgement, problem: CallProblem) -> Failed:
    assert isinstance(judgement, Failed)
    assert judgement.reason.startswith(f"{problem}: "), judgement.reason
    assert judgement.detail["problem"] == problem.value
    assert KEY not in repr(judgement)
    return judgement


async def test_asks_in_order_and_keeps_prompt_and_answer(server: Server) -> None:
    names = [f"t{number}" for number in range(20)]

    def kindness(body: dict[str, Any]) -> web.StreamResponse:
        number = int(body["messages"][0]["content"][0]["text"].split("? t")[1].split(":")[0])
        return completion(json.dumps({"kindness": number}))(body)

    server.answers = [kindness] * 20
    judged = 0

    def count() -> None:
        nonlocal judged
        judged += 1

    async with driver(server) as llm:
        judgements = await llm.judge(KindJudge(), turns(*names), count)
    assert [j.values[""] for j in judgements if isinstance(j, Scored)] == list(range(20))
    assert judged == 20
    assert (llm.usage.calls, llm.usage.input_tokens, llm.usage.output_tokens) == (20, 220, 60)
    assert set(server.keys) == {f"Bearer {KEY}"}
    body = server.requests[0]
    assert (body["model"], body["temperature"], body["response_format"]) == (
        "toy-1",
        0.0,
        {"type": "json_object"},
    )

    first = judgements[0]
    assert isinstance(first, Scored)
    digest = f"sha256:{hashlib.sha256(PAYLOAD).hexdigest()}, {len(PAYLOAD)} bytes"
    (message,) = first.detail["prompt"]
    assert message["content"][0]["text"] == "How kind is this, 1 to 5? t0: reply t0"
    assert message["content"][1]["input_audio"] == {"data": digest, "format": "wav"}
    assert first.detail["answer"] == '{"kindness": 0}'
    assert first.detail["answered_by"] == "toy-1-2026"
    assert (first.detail["why"], first.detail["calls"], first.detail["input_tokens"]) == ("said so", 1, 11)


async def test_bounds_the_calls_at_a_time(server: Server) -> None:
    server.hold = asyncio.Event()
    async with driver(server, concurrency=3) as llm:
        asking = asyncio.create_task(llm.judge(KindJudge(), turns(*"abcdefgh")))
        await server.asked(at_once=3)
        assert len(server.requests) == 3
        server.hold.set()
        assert all(isinstance(judgement, Scored) for judgement in await asking)
    assert server.most_at_once == 3


async def test_waits_as_long_as_retry_after_says(server: Server) -> None:
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
    assert "asks to wait 3600 s" in failed(judgement, CallProblem.RATE_LIMITED).reason
    assert len(server.requests) == 1


async def test_a_limit_holds_back_the_other_calls_too(server: Server) -> None:
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
        (error(400, "bad temperature"), CallProblem.REJECTED),
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
async def test_names_what_went_wrong_and_does_not_ask_again(
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
async def test_what_is_no_completion_is_asked_for_again(server: Server, answer: Answer) -> None:
    assert isinstance(await ask(server, [answer]), Scored)
    judgement = await ask(server, [answer] * 3, attempts=2)
    failed(judgement, CallProblem.UNREADABLE)


async def test_cut_json_in_the_answer_is_the_judges_failure(server: Server) -> None:
    judgement = await ask(server, [completion('{"kindness": ')])
    assert isinstance(judgement, Failed)
    assert judgement.reason.startswith("expected a JSON object")
    assert judgement.detail["answer"] == '{"kindness": '
    assert judgement.detail["prompt"]


async def test_a_slow_endpoint_times_out(server: Server) -> None:
    server.hold = asyncio.Event()
    judgement = await ask(server, [], timeout_s=0.1, attempts=2)
    assert failed(judgement, CallProblem.TIMEOUT).detail["calls"] == 2


async def test_a_closed_port_is_a_connection_problem(server: Server) -> None:
    server.base_url = "http://127.0.0.1:9/v1"
    failed(await ask(server, [], attempts=2), CallProblem.CONNECTION)


async def test_after_a_refused_key_nothing_more_is_asked(server: Server) -> None:
    server.answers = [error(401)] * 50
    async with driver(server, concurrency=1) as llm:
        judgements = await llm.judge(KindJudge(), turns(*"abcdef"))
    assert len(server.requests) == 1
    assert all("401" in failed(judgement, CallProblem.AUTHENTICATION).reason for judgement in judgements)
    assert llm.usage.calls == 1


async def test_a_judge_that_breaks_fails_its_turn_alone(server: Server) -> None:
    async with driver(server) as llm:
        broken, fine = await llm.judge(KindJudge(), turns("unaskable", "b"))
    assert "KeyError" in failed(broken, CallProblem.JUDGE).reason
    assert isinstance(fine, Scored)


async def test_another_model_can_be_asked(server: Server) -> None:
    judgement = await ask(server, [], model="mine")
    assert isinstance(judgement, Scored)
    assert judgement.detail["model"] == server.requests[0]["model"] == "mine"


async def test_cancelling_stops_asking(server: Server) -> None:
    server.hold = asyncio.Event()
    async with driver(server) as llm:
        asking = asyncio.create_task(llm.judge(KindJudge(), turns("a", "b")))
        await server.asked(at_once=2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


TOY = JudgeSpec(
    name="kind",
    version="1",
    title="kindness",
    kind=JudgeKind.LLM,
    implementation=f"{__name__}:KindJudge",
    outputs=(OutputSpec(name="", title="kindness", low=1.0, high=5.0),),
    needs=frozenset({Need.REPLY_TEXT}),
    key_variable="TOY_KEY",
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(registry, "judge", lambda _: TOY)
    monkeypatch.setenv("TOY_KEY", KEY)
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for number in range(3):
            case = Case(case_id=f"c{number}", script_id="s", variant=Variant.TARGET, audio_path=Path("c.wav"))
            writer.commit(spoken_turn(case))
        writer.end(finished=True)
    return tmp_path / "run"


def rows(run: Path) -> dict[str, ScoreRow]:
    with ScoreReader.open(run) as scores:
        return {row.turn_id: row for row in scores.read()}


async def score(run: Path, **options: Any) -> JudgeSummary:
    [summary] = (await asyncio.to_thread(score_run, run, ["kind"], llm=LlmOptions(**options))).judges
    return summary


async def test_a_run_is_scored_by_a_model(server: Server, run: Path) -> None:
    server.answers = [error(503, Retry_After="0"), completion('{"kindness": 9}')]
    summary = await score(run, base_url=server.base_url, model="mine", key_variable="TOY_KEY", concurrency=1)
    assert (summary.version, summary.n, summary.n_failed, summary.calls) == ("1+mine", 2, 1, 4)
    assert summary.cost is None
    assert set(server.keys) == {f"Bearer {KEY}"}
    kept = await asyncio.to_thread(rows, run)
    assert kept["c0"].reason == "the judge gave 9.0, expected a finite number from 1 to 5"
    assert kept["c0"].detail["answer"] == '{"kindness": 9}'
    assert kept["c1"].values == {"": 4.0}
    assert kept["c1"].detail["prompt"][0]["content"][0]["text"].endswith("c1: I hear you.")

    summary = await score(run, base_url=server.base_url, model="mine", key_variable="TOY_KEY")
    assert (summary.n, summary.n_failed, summary.calls) == (3, 0, 1), "what failed is asked again, alone"
    summary = await score(run, base_url=server.base_url, model="mine", key_variable="TOY_KEY")
    assert (summary.n, summary.calls, summary.cost) == (3, 0, 0.0)


async def test_another_address_gets_no_key_that_it_was_not_given(server: Server, run: Path) -> None:
    await score(run, base_url=server.base_url)
    assert KEY not in repr(server.keys)
    assert len(server.keys) == 3


async def test_without_its_key_a_judge_is_not_asked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOY_KEY")
    summary = await score(run)
    assert (summary.n_unscored, summary.calls, summary.reason) == (3, 0, "lacks key in TOY_KEY")


async def test_a_refused_key_fails_every_turn_with_one_call(server: Server, run: Path) -> None:
    server.answers = [error(401, f"bad key {KEY}")] * 3
    summary = await score(run, base_url=server.base_url, key_variable="TOY_KEY", concurrency=1)
    assert (summary.n_failed, summary.calls) == (3, 1)
    assert KEY.encode() not in (run / "scores.sqlite").read_bytes()
