"""A fake language model for LLM judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

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
from live_eval.scoring.llm import Tokens
from live_eval.scoring.llm.calls import ChatAnswer

__all__ = ["PAIRWISE", "FakeEndpoint", "PairwiseJudge"]


class FakeEndpoint:
    """Answers each prompt with a function of its text and records the prompts."""

    answer: ClassVar[Callable[[str], str]]
    calls: ClassVar[list[str]]

    def __init__(self, settings: object, clock: object) -> None:
        pass

    async def close(self) -> None:
        pass

    async def call(
        self, model: str, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> ChatAnswer:
        content = messages[0]["content"]
        self.calls.append(content)
        return ChatAnswer(type(self).answer(content), model, Tokens(input=10, output=1))


class PairwiseJudge:
    """Asks which of two replies is better."""

    def request(self, first: JudgedTurn, second: JudgedTurn) -> ChatRequest:
        content = f"{first.reply_text}|{second.reply_text}"
        return ChatRequest(messages=[{"role": "user", "content": content}], model="toy")

    def parse(self, answer: str) -> Judgement:
        return Scored({"": float(answer)}, {"reason": "so"}) if answer else Failed("no answer")


PAIRWISE = JudgeSpec(
    name="toy",
    version="7",
    title="a toy",
    kind=JudgeKind.PAIRWISE,
    implementation=f"{__name__}:PairwiseJudge",
    outputs=(OutputSpec(name="", title="preference", low=-1.0, high=1.0, higher_is_better=None),),
    needs=frozenset({Need.REPLY_TEXT}),
    model="toy",
)
