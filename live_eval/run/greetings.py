"""Decide how long sessions wait for a greeting from the endpoint."""

from __future__ import annotations

from typing import Self

from live_eval.dialect import TransportKind
from live_eval.run.plan import Plan
from live_eval.session.capture import TurnCapture
from live_eval.timing import greets
from live_eval.types import OnGreeting

__all__ = ["LISTEN_S", "Greetings"]

LISTEN_S = 3.0
"""Maximum wait for a greeting while it is unknown whether the endpoint greets."""
_WAIT_S = 10.0  # maximum wait for a greeting from an endpoint known to greet
_SECOND_NS = 1_000_000_000


class Greetings:
    """Learn from the first sessions whether an endpoint greets, so that later sessions need not wait."""

    def __init__(self, on_greeting: OnGreeting | None = None) -> None:
        self._greets = None if on_greeting is None else on_greeting is OnGreeting.WAIT
        self._learns = on_greeting is None

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return a plan's initial state, before the first session."""
        spec, asked = plan.spec, plan.config.turns.greeting
        if spec.transport_kind is TransportKind.HTTP:
            return cls(OnGreeting.IGNORE)
        if asked is None and spec.greets:
            return cls(OnGreeting.WAIT)
        greetings = cls(asked)
        if asked is None and spec.greets is False and plan.config.endpoint.base_url is None:
            greetings._greets = False
        return greetings

    def patience_ns(self, *, listens: bool = True) -> int:
        """Return the maximum wait of the next session for a greeting to begin; 0 to speak immediately.

        Args:
            listens: Whether the session may wait just to learn whether the endpoint greets.
        """
        if self._greets is None:
            return round(LISTEN_S * _SECOND_NS) if listens else 0
        return round(_WAIT_S * _SECOND_NS) if self._greets else 0

    def observe(self, first: TurnCapture) -> None:
        """Learn from a session's first turn. A single greeting is sufficient evidence."""
        if not self._learns or first.trace.onset_ns is None:
            return
        self._greets = bool(self._greets) or any(
            greets(response.record, first.trace.onset_ns) for response in first.wire
        )
