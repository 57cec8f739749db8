"""Estimate model calls, reserve them in the budget, and count their usage."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Any

from live_eval.scoring.llm.budget import Budget, Expense, Price, Tokens
from live_eval.scoring.llm.calls import CallFailure, ChatAnswer

__all__ = ["OUTPUT_TOKENS", "CallMeter", "LlmUsage"]

OUTPUT_TOKENS = 1_000
"""The expected number of output tokens in the first response; reasoning models use more."""


@dataclass(slots=True)
class LlmUsage:
    """Model usage; tokens are counted only if the endpoint reports them."""

    calls: int = 0  # including failed ones
    cached: int = 0  # requests whose response was already stored
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0  # US$; None if a price or a number of tokens is unknown


class CallMeter:
    """Meters the calls of a driver. For each call: `admit`, `begin`, `count` the response, and `settle`."""

    def __init__(self, price: Price | None, budget: Budget) -> None:
        self.usage = LlmUsage()
        self._price = price
        self._budget = budget
        self._settled = asyncio.Event()
        self._first_in_progress = False
        self._most_output_tokens: int | None = None
        self._input_ratio = 1.0

    async def admit(self, size: Tokens) -> Expense | str:
        """Wait until the budget allows a call of about `size` tokens, and reserve the call.

        Returns:
            The reserved estimate, which must be settled after the call, or why the call exceeds the budget.
        """
        # if a limit depends on the response length, run the first call alone to measure it
        while self._budget.bounds_size and self._most_output_tokens is None and self._first_in_progress:
            await self._settled.wait()
        self._first_in_progress = True
        estimate = self._estimate(size)
        while not self._budget.reserve(estimate):
            refusal = self._budget.refusal(estimate)
            if refusal is not None:
                self._wake()
                return refusal
            await self._settled.wait()
        return estimate

    def begin(self) -> None:
        """Count a call that is about to be sent."""
        self.usage.calls += 1
        if self._price is None:
            self.usage.cost = None

    def settle(self, estimate: Expense, spent: Expense) -> None:
        """Replace a call's reserved estimate with its actual usage."""
        self._budget.settle(estimate, spent)
        self._wake()

    def count(
        self, reply: ChatAnswer | CallFailure, estimate: Expense, size: Tokens, record: dict[str, Any]
    ) -> Expense:
        """Count a response, and return the usage of the call as reported by the endpoint."""
        tokens = reply.tokens
        if tokens is None:
            billed = isinstance(reply, ChatAnswer) or reply.billed
            if billed:
                self.usage.cost = None
            if isinstance(reply, ChatAnswer):
                self._most_output_tokens = max(self._most_output_tokens or 0, OUTPUT_TOKENS)
            return estimate if billed else Expense(calls=1)
        # adjust later estimates to the endpoint's counts
        self._input_ratio = max(self._input_ratio, tokens.input / max(1, size.input))
        self._most_output_tokens = max(self._most_output_tokens or 0, tokens.output)
        self.usage.input_tokens += tokens.input
        self.usage.output_tokens += tokens.output
        record["input_tokens"] = record.get("input_tokens", 0) + tokens.input
        record["output_tokens"] = record.get("output_tokens", 0) + tokens.output
        price = self._price
        if price is None:
            self.usage.cost = None
            return Expense(1, tokens.input + tokens.output)
        if not tokens.audio_input:  # not every endpoint reports audio separately
            tokens = replace(tokens, audio_input=min(size.audio_input, tokens.input))
        cost = price.cost(tokens)
        if self.usage.cost is not None:
            self.usage.cost += cost
        return Expense(1, tokens.input + tokens.output, cost)

    def _estimate(self, size: Tokens) -> Expense:
        """Estimate the usage of a call, with a tendency to overestimate."""
        seen = self._most_output_tokens
        tokens = Tokens(
            input=math.ceil(size.input * self._input_ratio),
            output=OUTPUT_TOKENS if seen is None else math.ceil(1.5 * seen),
            audio_input=math.ceil(size.audio_input * self._input_ratio),
        )
        price = self._price
        return Expense(1, tokens.input + tokens.output, price.cost(tokens) if price is not None else 0.0)

    def _wake(self) -> None:
        """Wake the calls that are waiting for another call to finish."""
        self._first_in_progress = False
        self._settled.set()
        self._settled = asyncio.Event()
