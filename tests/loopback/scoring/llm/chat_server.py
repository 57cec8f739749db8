"""A server of chat completions with scripted answers, and judges that ask it."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from live_eval.clock import SystemClock
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
from live_eval.scoring.judge_runner import JudgeOptions
from live_eval.scoring.llm import (
    AnswerCache,
    Budget,
    CallProblem,
    LlmDriver,
    LlmOptions,
    LlmSettings,
    Price,
)
from live_eval.scoring.scoring_run import JudgeSummary, score_run
from live_eval.types import Case, Secret, Variant

KEY = "sk-test-3fb1c0de"


PAYLOAD = b"RIFF....WAVE"


class KindJudge:
    """A toy judge that asks for the reply's kindness as {"kindness": 1 to 5}."""

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


class Shelf:
    """A cache of answers in memory."""

    def __init__(self) -> None:
        self.answers: dict[str, Mapping[str, Any]] = {}

    def answer(self, question: str) -> Mapping[str, Any] | None:
        return self.answers.get(question)

    def keep_answer(self, question: str, answer: Mapping[str, Any]) -> None:
        self.answers[question] = json.loads(json.dumps(answer))


class SkippingClock(SystemClock):
    """The machine's clock, but sleeping advances it instead of taking time."""

    def __init__(self) -> None:
        self._skipped_ns = 0
        self.slept_s: list[float] = []

    def now_ns(self) -> int:
        return time.monotonic_ns() + self._skipped_ns

    async def sleep_until(self, at_ns: int) -> None:
        ahead_ns = at_ns - self.now_ns()
        if ahead_ns > 0:
            self.slept_s.append(ahead_ns / 1e9)
            self._skipped_ns += ahead_ns
        await asyncio.sleep(0)


Answer = Callable[[dict[str, Any]], web.StreamResponse]


def completion(content: str | list[dict[str, str]] | None = '{"kindness": 4}', **choice: Any) -> Answer:
    refusal = choice.pop("refusal", None)
    usage = choice.pop("usage", {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14})
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
        "usage": usage,
    }
    return lambda _: web.json_response(body)


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"error": {"message": message, "type": "x", "code": code}}
    return lambda _: web.json_response(body, status=status, headers=names)


def kindness(value: int) -> Answer:
    return completion(json.dumps({"kindness": value}))


@dataclass
class Server:
    """A server that sends the scripted responses in order, then valid ones."""

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
        """Wait until this many calls are pending."""
        async with asyncio.timeout(5), self.news:
            await self.news.wait_for(lambda: self.at_once >= at_once)


@asynccontextmanager
async def driver(
    server: Server,
    clock: SkippingClock | None = None,
    answers: AnswerCache | None = None,
    budget: Budget | None = None,
    **settings: Any,
) -> AsyncIterator[LlmDriver]:
    options = LlmSettings(base_url=server.base_url, key=Secret(KEY), **settings)
    # Created outside the event loop, as in scoring, because the client reads certificates.
    made = await asyncio.to_thread(
        LlmDriver, options, answers=answers, budget=budget, clock=clock or SkippingClock()
    )
    try:
        yield made
    finally:
        await made.close()


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


# -- Budget ---------------------------------------------------------------------------------------------

PRICE = Price(input=1_000.0, output=10_000.0)  # a call of 11 + 3 tokens costs 0.041 US$


async def score(run: Path, *, again: bool = False, **options: Any) -> JudgeSummary:
    chosen = JudgeOptions(llm=LlmOptions(**options))
    [summary] = (await asyncio.to_thread(score_run, run, ["kind"], options=chosen, again=again)).judges
    return summary
