"""The one driver of LLM judges: asks an OpenAI-compatible chat endpoint, tries again, counts, keeps.

A judge says what to ask and reads the answer (`LlmJudge`); everything that can go wrong in between is here
and ends in a `Failed` whose reason begins with its `CallProblem`. The whole prompt and the whole answer stay
in the judgement's detail, audio replaced by its hash and size. The key goes on the wire and nowhere else.
"""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pybase64
from pydantic import BaseModel, Field

from live_eval.clock import Clock, SystemClock
from live_eval.judging import ChatRequest, Failed, JudgedTurn, Judgement, JudgeSpec, LlmJudge, Scored
from live_eval.retry import Backoff, RateGate
from live_eval.types import Secret

if TYPE_CHECKING:
    import openai

__all__ = [
    "OPENAI_BASE_URL",
    "CallProblem",
    "LlmDriver",
    "LlmOptions",
    "LlmSettings",
    "LlmUsage",
    "without_payloads",
]

OPENAI_BASE_URL = "https://api.openai.com/v1"


class CallProblem(StrEnum):
    """Why an LLM judge got no answer that it could read; the reason of the `Failed` begins with it."""

    AUTHENTICATION = "authentication"
    """The key was refused; nothing more is asked."""
    NOT_FOUND = "not_found"
    """There is no such model or address; nothing more is asked."""
    QUOTA = "quota"
    """The account has nothing left to spend; nothing more is asked."""
    RATE_LIMITED = "rate_limited"
    """Still limited after the last attempt, or for longer than we wait."""
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    SERVER_ERROR = "server_error"
    REJECTED = "rejected"
    """The endpoint does not take the request."""
    UNREADABLE = "unreadable"
    """What came is no chat completion."""
    EMPTY = "empty"
    """The answer has no text."""
    REFUSAL = "refusal"
    """The model would not answer."""
    FILTERED = "filtered"
    """A content filter took the answer."""
    TRUNCATED = "truncated"
    """The answer was cut at its length limit."""
    JUDGE = "judge"
    """The judge itself broke, asking or reading."""


# After these every further call would end alike.
_HOPELESS = frozenset({CallProblem.AUTHENTICATION, CallProblem.NOT_FOUND, CallProblem.QUOTA})
# These may pass.
_PASSING = frozenset(
    {
        CallProblem.RATE_LIMITED,
        CallProblem.TIMEOUT,
        CallProblem.CONNECTION,
        CallProblem.SERVER_ERROR,
        CallProblem.UNREADABLE,
    }
)
_MESSAGE_LENGTH = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings:
    """How to reach the model that judges.

    Args:
        base_url: An OpenAI-compatible address, for example ``"http://127.0.0.1:8000/v1"``.
        key: The key; None where the endpoint wants none.
        model: The model to ask instead of the one that the judge was made for.
        concurrency: Calls at a time.
        timeout_s: Seconds for one call.
        attempts: Calls at most for one question.
        longest_wait_s: An endpoint that asks to wait longer than this is not waited for.
        seed: Seed of the jitter between attempts.
    """

    base_url: str = OPENAI_BASE_URL
    key: Secret | None = None
    model: str | None = None
    concurrency: int = 8
    timeout_s: float = 60.0
    attempts: int = 5
    longest_wait_s: float = 120.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmOptions:
    """What the user says of the models that judge; what is None is as the judge says.

    Args:
        base_url: An OpenAI-compatible address. It gets no key unless `key_variable` names one.
        model: The model to ask.
        key_variable: Environment variable of the key.
        concurrency: Calls at a time.
        timeout_s: Seconds for one call.
        attempts: Calls at most for one question.
    """

    base_url: str | None = None
    model: str | None = None
    key_variable: str | None = None
    concurrency: int = 8
    timeout_s: float = 60.0
    attempts: int = 5

    def key_variable_of(self, spec: JudgeSpec) -> str | None:
        """Return the environment variable of the key that `spec` is asked with, or None."""
        if self.key_variable is not None or self.base_url is not None:
            return self.key_variable
        return spec.key_variable

    def settings_for(self, spec: JudgeSpec) -> LlmSettings:
        """Return how to reach the model that `spec` is asked with."""
        variable = self.key_variable_of(spec)
        key = os.environ.get(variable) if variable else None
        return LlmSettings(
            base_url=self.base_url or spec.base_url or OPENAI_BASE_URL,
            key=Secret(key) if key else None,
            model=self.model,
            concurrency=self.concurrency,
            timeout_s=self.timeout_s,
            attempts=self.attempts,
        )


@dataclass(slots=True)
class LlmUsage:
    """What was used so far.

    Args:
        calls: Requests that were sent, failed ones included.
        input_tokens: As the endpoint counts them, where it does.
        output_tokens: Likewise.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(BaseModel):
    """What we read of a chat completion. The SDK's own type does not check what an endpoint sends."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Tokens | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class _Problem:
    """A call that gave no answer."""

    kind: CallProblem
    message: str
    retry_after_s: float | None = None


@dataclass(slots=True)
class _Question:
    """One request on its way to an answer, and what is kept of it."""

    request: ChatRequest
    detail: dict[str, Any] = field(default_factory=dict)


class LlmDriver:
    """Asks the model about turns. An asynchronous context manager; one event loop for its whole life.

    Args:
        settings: Whom to ask, and how.
        clock: The clock to wait on between attempts.
    """

    def __init__(self, settings: LlmSettings, *, clock: Clock | None = None) -> None:
        from openai import AsyncOpenAI

        self.usage = LlmUsage()
        self._settings = settings
        self._clock = clock or SystemClock()
        self._backoff = Backoff(settings.seed)
        self._gate = RateGate(self._clock)
        self._room = asyncio.Semaphore(settings.concurrency)
        self._hopeless: _Problem | None = None
        self._client = AsyncOpenAI(
            api_key=settings.key.reveal() if settings.key else "none",
            base_url=settings.base_url,
            timeout=settings.timeout_s,
            max_retries=0,  # attempts are made and counted here
        )

    async def __aenter__(self) -> LlmDriver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def judge(
        self,
        judge: LlmJudge,
        turns: Sequence[JudgedTurn],
        on_judged: Callable[[], None] = lambda: None,
    ) -> list[Judgement]:
        """Ask about each turn, at most `LlmSettings.concurrency` at a time.

        Args:
            judge: Says what to ask, and reads the answer.
            turns: Turns that have everything the judge's specification needs.
            on_judged: Called after each judgement.

        Returns:
            One judgement for each turn, in order.
        """

        async def one(turn: JudgedTurn) -> Judgement:
            async with self._room:
                judgement = await self._judge(judge, turn)
            on_judged()
            return judgement

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(turn)) for turn in turns]
        return [task.result() for task in tasks]

    async def _judge(self, judge: LlmJudge, turn: JudgedTurn) -> Judgement:
        try:
            question = _Question(judge.request(turn))
        except Exception as error:
            return self._failed(_Problem(CallProblem.JUDGE, f"asking: {type(error).__name__}: {error}"), {})
        model = self._settings.model or question.request.model
        question.detail = {"model": model, "prompt": without_payloads(question.request.messages)}
        answer = await self._ask(question, model)
        if isinstance(answer, _Problem):
            return self._failed(answer, question.detail)
        try:
            judgement = judge.parse(answer)
        except Exception as error:
            problem = _Problem(CallProblem.JUDGE, f"reading: {type(error).__name__}: {error}")
            return self._failed(problem, question.detail)
        if isinstance(judgement, (Scored, Failed)):
            return replace(judgement, detail={**judgement.detail, **question.detail})
        return judgement

    async def _ask(self, question: _Question, model: str) -> str | _Problem:
        """Return the text of the answer, after as many attempts as it takes and is allowed."""
        attempt = 0
        while True:
            if self._hopeless is not None:
                return replace(self._hopeless, message=f"not asked, since {self._hopeless.message}")
            await self._gate.wait()
            attempt += 1
            question.detail["calls"] = attempt
            answer = await self._call(question, model)
            if not isinstance(answer, _Problem):
                return answer
            if answer.kind in _HOPELESS:
                self._hopeless = self._hopeless or answer
            if answer.kind not in _PASSING or attempt >= self._settings.attempts:
                return answer
            wait_s = answer.retry_after_s
            if wait_s is not None and wait_s > self._settings.longest_wait_s:
                return replace(answer, message=f"{answer.message}; asks to wait {wait_s:.0f} s")
            delay_s = self._backoff.delay_s(attempt, wait_s)
            if answer.kind is CallProblem.RATE_LIMITED:
                self._gate.close_for(delay_s)  # the limit is everybody's
            await self._clock.sleep_until(self._clock.now_ns() + round(delay_s * 1e9))

    async def _call(self, question: _Question, model: str) -> str | _Problem:
        """Send the request once."""
        import openai

        request = question.request
        options: dict[str, Any] = {"response_format": {"type": "json_object"}} if request.json_object else {}
        self.usage.calls += 1
        try:
            response = await self._client.chat.completions.with_raw_response.create(
                model=model,
                messages=list(request.messages),  # type: ignore[arg-type]  # as the API takes them
                temperature=request.temperature,
                **options,
            )
            completion = _Completion.model_validate_json(response.content)
        except openai.APIStatusError as error:
            return _refused(error, self._clock.wall_ns())
        except openai.APITimeoutError:
            return _Problem(CallProblem.TIMEOUT, f"no answer within {self._settings.timeout_s:g} s")
        except openai.APIConnectionError as error:
            return _Problem(CallProblem.CONNECTION, f"{self._settings.base_url}: {error.__cause__ or error}")
        except (openai.OpenAIError, ValueError) as error:
            return _Problem(CallProblem.UNREADABLE, f"expected a chat completion: {error}"[:_MESSAGE_LENGTH])
        return self._answer(completion, question.detail)

    def _answer(self, completion: _Completion, detail: dict[str, Any]) -> str | _Problem:
        """Count and keep what came; return its text."""
        if completion.usage is not None:
            detail["input_tokens"] = completion.usage.prompt_tokens
            detail["output_tokens"] = completion.usage.completion_tokens
            self.usage.input_tokens += completion.usage.prompt_tokens
            self.usage.output_tokens += completion.usage.completion_tokens
        choice = completion.choices[0]
        text, refusal = choice.message.content, choice.message.refusal
        detail["answer"] = text if text is not None else refusal
        detail["answered_by"] = completion.model
        if refusal:
            return _Problem(CallProblem.REFUSAL, refusal)
        if choice.finish_reason == "content_filter":
            return _Problem(CallProblem.FILTERED, "the endpoint's content filter took the answer")
        if choice.finish_reason == "length":
            return _Problem(CallProblem.TRUNCATED, "the answer was cut at its length limit")
        if text is None or not text.strip():
            return _Problem(CallProblem.EMPTY, "the answer has no text")
        return text

    def _failed(self, problem: _Problem, detail: Mapping[str, Any]) -> Failed:
        reason = f"{problem.kind}: {problem.message}"
        if self._settings.key is not None:
            reason = self._settings.key.redact(reason)
        return Failed(reason, {**detail, "problem": problem.kind.value})


def without_payloads(value: Any) -> Any:
    """Return messages with each audio or image payload replaced by its hash and size.

    >>> without_payloads({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})
    {'type': 'input_audio', 'input_audio': {'data': 'sha256:709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c, 3 bytes', 'format': 'wav'}}
    """  # noqa: E501 - an example's output cannot be broken
    if isinstance(value, Mapping):
        return {
            key: _digest(inner)
            if key in ("data", "url") and _is_payload(key, inner)
            else without_payloads(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [without_payloads(inner) for inner in value]
    return value


def _is_payload(key: str, value: object) -> bool:
    return isinstance(value, str) and (key == "data" or value.startswith("data:"))


def _digest(payload: str) -> str:
    encoded = payload.partition(",")[2] if payload.startswith("data:") else payload
    try:
        content = pybase64.b64decode(encoded, validate=True)
    except ValueError:
        content = payload.encode()
    return f"sha256:{hashlib.sha256(content).hexdigest()}, {len(content)} bytes"


def _refused(error: openai.APIStatusError, wall_ns: int) -> _Problem:
    """Say what an HTTP status means for us."""
    status, message = error.status_code, f"{error.status_code} {error.message}"[:_MESSAGE_LENGTH]
    if status in (401, 403):
        return _Problem(CallProblem.AUTHENTICATION, message)
    if status == 404:
        return _Problem(CallProblem.NOT_FOUND, message)
    if status == 429 and error.code == "insufficient_quota":
        return _Problem(CallProblem.QUOTA, message)
    if status == 429:
        return _Problem(CallProblem.RATE_LIMITED, message, _retry_after_s(error, wall_ns))
    if status in (408, 409) or status >= 500:
        return _Problem(CallProblem.SERVER_ERROR, message, _retry_after_s(error, wall_ns))
    return _Problem(CallProblem.REJECTED, message)


def _retry_after_s(error: openai.APIStatusError, wall_ns: int) -> float | None:
    """Return the seconds that a Retry-After header asks for: a number, or an HTTP date (RFC 9110, 10.2.3)."""
    value = error.response.headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - wall_ns / 1e9
        except ValueError:
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)
