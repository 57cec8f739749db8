"""Compute costs from model prices, and limit the usage of all judges in a scoring run. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Self

__all__ = ["Budget", "Expense", "Price", "Tokens"]

_ROUNDING = 1e-9  # US$; tolerance for sums of floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The number of tokens of a call."""

    input: int = 0
    output: int = 0  # including reasoning tokens
    audio_input: int = 0  # audio tokens in the input
    cached_input: int = 0  # input tokens from the endpoint's cache
    audio_output: int = 0  # audio tokens in the output


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model, in US$ per million tokens.

    Raises:
        ValueError: A price is negative or NaN.
    """

    input: float
    output: float
    audio_input: float | None = None  # None: same price as text
    cached_input: float | None = None  # None to charge cached input like other input
    audio_output: float | None = None  # None: same price as text

    def __post_init__(self) -> None:
        for name in ("input", "output", "audio_input", "cached_input", "audio_output"):
            price = getattr(self, name)
            if price is not None and not price >= 0:
                raise ValueError(f"{name} = {price}: expected 0 or more")

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return a price from values by name.

        Raises:
            ValueError: A name is unknown or missing, or a value is not a price.
        """
        names = {field.name: field.default is MISSING for field in fields(cls)}
        prices: dict[str, float] = {}
        for name, value in values.items():
            if name not in names:
                raise ValueError(f"expected one of {', '.join(names)}, got {name!r}")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name}: expected US dollars per million tokens, 0 or more, got {value!r}")
            prices[name] = value
        missing = [name for name, needed in names.items() if needed and name not in values]
        if missing:
            raise ValueError(f"missing {' and '.join(missing)}")
        return cls(**prices)

    def cost(self, tokens: Tokens) -> float:
        """Return the cost of a call in US$; cached audio is charged as cached input.

        >>> price = Price(input=2.5, output=10.0, audio_input=40.0)
        >>> price.cost(Tokens(input=1200, output=100, audio_input=200))
        0.0115
        """
        cached = min(tokens.cached_input, tokens.input)
        audio = min(tokens.audio_input, tokens.input - cached)
        text = tokens.input - cached - audio
        audio_price = self.input if self.audio_input is None else self.audio_input
        cached_price = self.input if self.cached_input is None else self.cached_input
        sound = min(tokens.audio_output, tokens.output)
        sound_price = self.output if self.audio_output is None else self.audio_output
        paid_in = text * self.input + audio * audio_price + cached * cached_price
        return (paid_in + (tokens.output - sound) * self.output + sound * sound_price) / 1e6


@dataclass(frozen=True, slots=True)
class Expense:
    """Model usage: number of calls, input and output tokens, cost in US$."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __add__(self, other: Expense) -> Expense:
        return Expense(self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Expense) -> Expense:
        return Expense(self.calls - other.calls, self.tokens - other.tokens, self.cost - other.cost)


@dataclass(slots=True, kw_only=True)
class Budget:
    """A budget for model calls: reserve a call's estimated usage before the call, and settle it afterwards.

    Calls in flight count as spent, so that concurrent calls do not exceed a limit together. A limit can still
    be exceeded by calls that exceed their estimate, which are not aborted.
    """

    max_calls: int | None = None  # including failed ones
    max_tokens: int | None = None  # input and output
    max_cost: float | None = None  # US$
    spent: Expense = Expense()
    _reserved: Expense = Expense()

    @property
    def bounds_size(self) -> bool:
        """Whether a limit depends on the length of responses."""
        return self.max_tokens is not None or self.max_cost is not None

    def reserve(self, estimate: Expense) -> bool:
        """Reserve a call's estimated usage; if it exceeds the budget, return False without a reservation."""
        if self._bound_passed(self.spent + self._reserved + estimate) is not None:
            return False
        self._reserved += estimate
        return True

    def settle(self, estimate: Expense, spent: Expense) -> None:
        """Replace a call's reservation with its actual usage."""
        self._reserved -= estimate
        self.spent += spent

    def refusal(self, estimate: Expense) -> str | None:
        """Return why a call exceeds the budget, ignoring calls in flight; None if it does not."""
        bound = self._bound_passed(self.spent + estimate)
        return f"the budget is spent: {bound}" if bound is not None else None

    def _bound_passed(self, total: Expense) -> str | None:
        if self.max_calls is not None and total.calls > self.max_calls:
            return f"{self.max_calls} calls"
        if self.max_tokens is not None and total.tokens > self.max_tokens:
            return f"{self.max_tokens} tokens"
        if self.max_cost is not None and total.cost > self.max_cost + _ROUNDING:
            return f"{self.max_cost:.2f} US$"
        return None
