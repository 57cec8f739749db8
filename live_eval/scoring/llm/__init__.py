"""Run LLM judges: model options, budgets, and a driver that sends requests to the model.

A judge builds the request and parses the response (`live_eval.judging.LlmJudge`). This package sends the
request and counts the cost.
"""

from live_eval.scoring.llm.budget import Budget, Expense, Price, Tokens
from live_eval.scoring.llm.calls import CallProblem
from live_eval.scoring.llm.chat_questions import AnswerCache, question_key, without_payloads
from live_eval.scoring.llm.driver import LlmDriver
from live_eval.scoring.llm.metering import LlmUsage
from live_eval.scoring.llm.options import OPENAI_BASE_URL, PRESETS, LlmOptions, LlmSettings

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
