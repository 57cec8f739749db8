"""LLM judges: how to reach a model, what it may cost, and the driver that asks it.

A judge says what to ask and reads the answer (`live_eval.judging.LlmJudge`); everything in between is here.
"""

from live_eval.scoring.llm.budget import Budget, Expense, Price, Tokens
from live_eval.scoring.llm.calls import CallProblem
from live_eval.scoring.llm.driver import LlmDriver
from live_eval.scoring.llm.metering import LlmUsage
from live_eval.scoring.llm.options import OPENAI_BASE_URL, PRESETS, LlmOptions, LlmSettings
from live_eval.scoring.llm.questions import AnswerCache, question_key, without_payloads

__all__ = [
    "OPENAI_BASE_URL",
    "PRESETS",
    "AnswerCache",
    "Budget",
    "CallProblem",
    "Expense",
    "LlmDriver",
    "LlmOptions",
    "LlmSettings",
    "LlmUsage",
    "Price",
    "Tokens",
    "question_key",
    "without_payloads",
]
