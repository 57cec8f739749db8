"""Compute the cost per minute of conversation from the endpoint's reported usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.analysis.statistics.intervals import rounded
from live_eval.recording import TurnRecord
from live_eval.scoring.llm.budget import Price, Tokens
from live_eval.timing import play
from live_eval.types import Usage

__all__ = ["CostPerMinute", "cost_per_minute", "unpriced"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPerMinute:
    """The tokens and US dollars per minute of conversation.

    Args:
        usd: US dollars per minute, or None.
        tokens_per_minute: Input and output tokens; None if the endpoint reports no usage.
        minutes: Length of the conversation with reported usage, in minutes.
        reason: Reason why `usd` is missing.
    """

    usd: float | None
    tokens_per_minute: float | None
    minutes: float
    reason: str


def cost_per_minute(turns: Sequence[TurnRecord], price: Price | None = None) -> CostPerMinute:
    """Return the cost over the turns with reported usage; cancelled responses are included."""
    used = [(turn, usages) for turn in turns if (usages := _usages(turn))]
    minutes = sum(_conversation_s(turn) for turn, _ in used) / 60
    if not minutes:
        return CostPerMinute(
            usd=None, tokens_per_minute=None, minutes=0.0, reason="the endpoint reports no usage"
        )
    tokens = [_tokens(usage) for _, usages in used for usage in usages]
    reason = unpriced(tokens, price)
    usd = None if price is None or reason else sum(map(price.cost, tokens)) / minutes
    return CostPerMinute(
        usd=rounded(usd, 6),
        tokens_per_minute=round(sum(each.input + each.output for each in tokens) / minutes, 1),
        minutes=round(minutes, 3),
        reason=reason,
    )


def unpriced(tokens: Sequence[Tokens], price: Price | None) -> str:
    """Return the reason why the cost of the tokens is unknown; empty if it is known."""
    if price is None:
        return "the price of the model is unknown"
    if price.audio_input is None and any(each.audio_input for each in tokens):
        return "the price of input audio is unknown (audio_input)"
    if price.audio_output is None and any(each.audio_output for each in tokens):
        return "the price of output audio is unknown (audio_output)"
    return ""


def _conversation_s(turn: TurnRecord) -> float:
    """Return the seconds from the user's first sample to the end of the audible answer."""
    t0_ns, headline = turn.trace.t0_ns, turn.headline
    if t0_ns is None:
        return 0.0
    ends = [int(turn.trace.frame_deadline_ns[-1])] if len(turn.trace.frame_deadline_ns) else []
    if headline is not None and len(headline.chunk_samples):
        playout = play(headline)
        if playout.heard_samples:
            ends.append(playout.heard_ns(playout.heard_samples - 1))
    return max(0, max(ends, default=t0_ns) - t0_ns) / 1e9


def _usages(turn: TurnRecord) -> list[Usage]:
    return [response.usage for response in turn.responses if response.usage is not None]


def _tokens(usage: Usage) -> Tokens:
    return Tokens(
        input=usage.input_tokens or 0,
        output=usage.output_tokens or 0,
        audio_input=usage.input_audio_tokens or 0,
        cached_input=usage.cached_tokens or 0,
        audio_output=usage.output_audio_tokens or 0,
    )
