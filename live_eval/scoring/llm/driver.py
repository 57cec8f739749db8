"""Run LLM judges: call a chat endpoint, retry calls, count them, and store responses.

A judge builds the request and parses the response (`LlmJudge`). Any failure in between becomes a `Failed`
whose reason begins with its `CallProblem`; once the budget is exhausted, turns are `Unscored`. The detail of
a judgement contains the full prompt and all responses, with audio replaced by its hash and size. The key is
sent only to the endpoint and never stored.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from live_eval.clock import Clock, SystemClock
from live_eval.errors import LiveEvalError
from live_eval.judging import (
    ChatRequest,
    Failed,
    JudgedTurn,
    Judgement,
    LlmJudge,
    PairwiseJudge,
    Scored,
    SelectiveJudge,
    Unscored,
    check_judgement,
)
from live_eval.redaction import SECRETS
from live_eval.run.retries import Backoff, RateGate
from live_eval.scoring.llm.budget import Budget, Expense, Tokens
from live_eval.scoring.llm.calls import HOPELESS, PASSING, CallFailure, CallProblem, ChatAnswer, ChatEndpoint
from live_eval.scoring.llm.chat_questions import AnswerCache, ChatQuestion, estimated_tokens, question_key
from live_eval.scoring.llm.metering import CallMeter, LlmUsage
from live_eval.scoring.llm.options import LlmSettings
from live_eval.text.quoting import quoted

__all__ = ["LlmDriver", "together"]

# maximum number of characters of the unreadable response in a repair request
_SHOWN_AGAIN = 4_000
_REPAIR = (
    "Your answer, quoted above as a JSON string, could not be parsed. The reason, as a JSON string: "
    "{reason}. Answer again with the JSON object alone."
)

_Parse: TypeAlias = Callable[[str], Judgement]


class LlmDriver:
    """Judges turns with a model. Use it in only one event loop, and close it.

    Args:
        answers: Store of responses. A request is not sent again if its response is stored or pending.
        budget: Budget, which may be shared with other drivers in the same event loop or one after another.
    """

    def __init__(
        self,
        settings: LlmSettings,
        *,
        answers: AnswerCache | None = None,
        budget: Budget | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._answers = answers
        self._meter = CallMeter(settings.price, budget or Budget())
        self._clock = clock or SystemClock()
        self._backoff = Backoff(settings.seed)
        self._gate = RateGate(self._clock)
        self._room = asyncio.Semaphore(settings.concurrency)
        self._preparing = asyncio.Lock()  # judges are not required to be thread-safe
        self._looking_up = asyncio.Lock()
        self._in_progress: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._hopeless: CallFailure | None = None
        self._without: set[str] = set()
        self._endpoint = ChatEndpoint(settings, self._clock)

    @property
    def usage(self) -> LlmUsage:
        """The model usage so far."""
        return self._meter.usage

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def judge(
        self,
        judge: LlmJudge | PairwiseJudge,
        asked: Sequence[JudgedTurn | tuple[JudgedTurn, JudgedTurn]],
    ) -> list[Judgement]:
        """Judge each turn or pair of turns, at most `LlmSettings.concurrency` at a time.

        With several samples, a score is the mean of the readable responses if at least half are readable, and
        the detail contains the spread. Turns beyond the budget are unscored. Both turns of a pair must have
        the same case.

        Raises:
            LiveEvalError: Responses cannot be looked up or stored.
        """
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._judge(judge, item if isinstance(item, tuple) else (item,)))
                    for item in asked
                ]
        except* LiveEvalError as problems:
            cache_problem = problems.exceptions[0]
        else:
            return [task.result() for task in tasks]
        raise cache_problem

    async def _judge(self, judge: LlmJudge | PairwiseJudge, turns: Sequence[JudgedTurn]) -> Judgement:
        async with self._room:
            async with self._preparing:
                question = await asyncio.to_thread(self._prepare, judge, turns)
            if not isinstance(question, ChatQuestion):
                return question
            samples: list[Judgement] = []
            for number in range(self._settings.samples):
                samples.append(await self._sample(question, judge.parse, number))
                if isinstance(samples[-1], Unscored) or self._hopeless is not None:
                    break
            judgement = together(samples, self._settings.samples)
            return _with_detail(judgement, {"model": question.model, "prompt": question.shown})

    def _prepare(
        self, judge: LlmJudge | PairwiseJudge, turns: Sequence[JudgedTurn]
    ) -> ChatQuestion | Unscored | Failed:
        """Return the request, or a verdict instead. Call this in a thread, because encoding audio blocks."""
        try:
            if isinstance(judge, SelectiveJudge):
                for turn in turns:
                    if (verdict := judge.unscorable(turn)) is not None:
                        return verdict
            asked: ChatRequest = judge.request(*turns)
            if self._settings.temperature is not None:
                asked = replace(asked, temperature=self._settings.temperature)
            return ChatQuestion.of(asked, self._settings.model or asked.model)
        except Exception as error:
            return self._failed(
                CallFailure(CallProblem.JUDGE, f"building the request: {type(error).__name__}: {error}")
            )

    async def _sample(self, question: ChatQuestion, parse: _Parse, number: int) -> Judgement:
        """Return the judgement of one response, which is taken from the store if possible."""
        key = question_key(question, self._settings.judge, SECRETS.text(self._settings.base_url), number)
        # run equal requests one after another, so that later ones find the stored response
        async with self._in_progress.setdefault(key, asyncio.Lock()):
            return await self._sample_of(key, question, parse)

    async def _sample_of(self, key: str, question: ChatQuestion, parse: _Parse) -> Judgement:
        """Judge the stored response, or a new response that the model may repair once."""
        known = await self._known(key)
        if known is not None and isinstance(text := known.get("answer"), str):
            read = self._read(question, parse, text)
            if isinstance(read, (Scored, Unscored)):
                self.usage.cached += 1
                return _with_detail(read, {**known, "calls": 0, "cached": True})
        record: dict[str, Any] = {"calls": 0}
        messages = question.request.messages
        while True:
            reply = await self._ask(question, messages, record)
            if isinstance(reply, Unscored):
                return reply
            read = self._read(question, parse, reply.text) if isinstance(reply, ChatAnswer) else reply
            if isinstance(read, (Scored, Unscored)):
                await self._keep(key, record)
                return _with_detail(read, record)
            if isinstance(read, Failed) and "repaired" in record:
                read = CallFailure(CallProblem.MALFORMED, read.reason)
            if isinstance(read, CallFailure):
                return _with_detail(self._failed(read), record)
            assert isinstance(reply, ChatAnswer)
            record["repaired"] = {"answer": reply.text, "reason": read.reason}
            messages = [
                *messages,
                {"role": "assistant", "content": quoted(reply.text[:_SHOWN_AGAIN])},
                {"role": "user", "content": _REPAIR.format(reason=quoted(read.reason))},
            ]

    def _read(self, question: ChatQuestion, parse: _Parse, text: str) -> Judgement | CallFailure:
        """Parse a response. A repair is possible after a `Failed`, but not after a `CallFailure`."""
        try:
            judgement = parse(text)
        except Exception as error:
            return CallFailure(CallProblem.JUDGE, f"parsing the response: {type(error).__name__}: {error}")
        if isinstance(judgement, Scored):
            for name, wanted in question.request.expected_detail.items():
                if (got := judgement.detail.get(name)) != wanted:
                    return Failed(f"expected {wanted} {name}, got {got}")
        return check_judgement(self._settings.judge, judgement) if self._settings.judge else judgement

    async def _known(self, key: str) -> Mapping[str, Any] | None:
        if self._answers is None:
            return None
        async with self._looking_up:
            return await asyncio.to_thread(self._answers.answer, key)

    async def _keep(self, key: str, record: Mapping[str, Any]) -> None:
        if self._answers is not None:
            kept = {name: value for name, value in record.items() if name != "calls"}
            async with self._looking_up:
                await asyncio.to_thread(self._answers.keep_answer, key, kept)

    async def _ask(
        self, question: ChatQuestion, messages: Sequence[Mapping[str, Any]], record: dict[str, Any]
    ) -> ChatAnswer | CallFailure | Unscored:
        """Return the model's response, retrying failed calls."""
        size = estimated_tokens(messages)
        failed_attempts = 0
        while True:
            if not await self._gate.wait():
                return CallFailure(
                    CallProblem.RATE_LIMITED, f"requests a further wait of {self._gate.closed_s:.0f} s"
                )
            estimate = await self._meter.admit(size)
            if isinstance(estimate, str):
                return Unscored(estimate)
            if self._hopeless is not None:
                self._meter.settle(estimate, Expense())
                return replace(self._hopeless, message=f"not asked: {self._hopeless.message}")
            parameters: dict[str, Any] = {"temperature": question.request.temperature}
            if question.request.json_object:
                parameters["response_format"] = {"type": "json_object"}
            for name in self._without & parameters.keys():
                del parameters[name]
                record["without"] = sorted(self._without)
            reply = await self._call(question, messages, parameters, estimate, size, record)
            if isinstance(reply, ChatAnswer):
                return reply
            if reply.kind in HOPELESS:
                self._hopeless = self._hopeless or reply
            if reply.refused:
                self._without |= reply.refused
                continue
            failed_attempts += 1
            if reply.kind not in PASSING or failed_attempts >= self._settings.attempts:
                return reply
            wait_s = reply.retry_after_s
            if wait_s is not None and wait_s > self._settings.longest_wait_s:
                return replace(reply, message=f"{reply.message}; requests a wait of {wait_s:.0f} s")
            delay_s = self._backoff.delay_s(failed_attempts, wait_s)
            if reply.kind is CallProblem.RATE_LIMITED:
                self._gate.close_for(delay_s)  # the rate limit applies to all turns
            await self._clock.sleep_until(self._clock.now_ns() + round(delay_s * 1e9))

    async def _call(
        self,
        question: ChatQuestion,
        messages: Sequence[Mapping[str, Any]],
        parameters: Mapping[str, Any],
        estimate: Expense,
        size: Tokens,
        record: dict[str, Any],
    ) -> ChatAnswer | CallFailure:
        """Send a request once, and record its usage."""
        record["calls"] += 1
        self._meter.begin()
        spent = estimate  # the best estimate if the call is cancelled
        try:
            reply = await self._endpoint.call(question.model, messages, parameters)
            spent = self._meter.count(reply, estimate, size, record)
        finally:
            self._meter.settle(estimate, spent)
        answer = reply if isinstance(reply, ChatAnswer) else reply.answer
        if answer is not None:
            record["answer"], record["answered_by"] = answer.text, answer.model
        return reply

    def _failed(self, problem: CallFailure) -> Failed:
        reason = f"{problem.kind}: {problem.message}"
        if self._settings.key is not None:
            reason = self._settings.key.redact(reason)
        return Failed(reason, {"problem": problem.kind.value})


def together(samples: Sequence[Judgement], wanted: int) -> Judgement:
    """Combine the judgements of several responses to one request.

    The result is the mean of the readable responses if at least half of the requested number are readable;
    the detail contains every response and the spread. A single `Unscored` response makes the turn unscored.
    There may be fewer responses than requested if further calls are certain to fail.
    """
    for sample in samples:
        if isinstance(sample, Unscored):
            return sample
    if wanted == 1:
        return samples[0]
    scored = [sample for sample in samples if isinstance(sample, Scored)]
    failed = [sample for sample in samples if isinstance(sample, Failed)]
    kept = {"samples_failed": len(failed), "samples": [_kept(sample) for sample in samples]}
    if 2 * len(scored) < wanted:
        return Failed(failed[0].reason, {"problem": failed[0].detail["problem"], **kept})
    by_name: dict[str, list[float]] = {}
    for sample in scored:
        for name, value in sample.values.items():
            by_name.setdefault(name, []).append(value)
    return Scored(
        {name: statistics.fmean(values) for name, values in by_name.items()},
        {"spread": {name: _spread(values) for name, values in by_name.items()}, **kept},
    )


def _with_detail(judgement: Judgement, detail: Mapping[str, Any]) -> Judgement:
    if isinstance(judgement, Unscored):
        return judgement
    return replace(judgement, detail={**judgement.detail, **detail})


def _kept(sample: Judgement) -> dict[str, Any]:
    """Return the record of a judgement for storage."""
    if isinstance(sample, Scored):
        return {"values": dict(sample.values), **sample.detail}
    assert isinstance(sample, Failed)
    return {"reason": sample.reason, **sample.detail}


def _spread(values: Sequence[float]) -> dict[str, Any]:
    """Return the spread of the responses, with the sample standard deviation (n - 1)."""
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return {"values": list(values), "min": min(values), "max": max(values), "sd": deviation}
