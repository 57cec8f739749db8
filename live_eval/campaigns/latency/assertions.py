"""Assertions about latencies, such as ``voice_to_voice.p95 < 1200ms``.

An assertion about a missing value (a 95th percentile of fewer than 30 turns) fails. For an upper bound,
failed and unanswered turns rank after all others. Turns that failed because a live-eval process died do not
depend on the endpoint and are excluded.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.latency.campaign_latencies import METRICS, CampaignLatency
from live_eval.analysis.statistics.intervals import Interval, interval_json, rounded
from live_eval.campaigns.latency.point_metrics import PointMetrics
from live_eval.campaigns.latency.points import PointRole
from live_eval.errors import UsageError
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import counted

__all__ = [
    "STATISTICS",
    "Assertion",
    "CheckedAssertion",
    "check_assertion",
    "check_campaign",
    "parse_assertion",
]

STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
"""The statistics that can be asserted."""

_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNITS_MS = {"ms": 1.0, "s": 1000.0}
_FORM = "METRIC.STATISTIC < TIME, for example 'voice_to_voice.p95 < 1200ms'"
_EXPRESSION = re.compile(r"\s*([^\s<>=.]+)\s*\.\s*([^\s<>=]+)\s*(<=|>=|<|>)\s*([^\s<>=]+?)\s*([a-zA-Z]*)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A bound on one statistic.

    Args:
        expression: Text of the assertion.
        metric: Name of a campaign latency.
        statistic: One of `STATISTICS`.
        bound_ms: Bound in milliseconds.
    """

    expression: str
    metric: str
    statistic: str
    comparison: str
    bound_ms: float

    def holds_for(self, value_ms: float) -> bool:
        """Return whether a value satisfies the bound."""
        return _COMPARISONS[self.comparison](value_ms, self.bound_ms)

    @property
    def is_upper(self) -> bool:
        """Whether the bound is an upper bound."""
        return self.comparison.startswith("<")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAssertion:
    """An assertion with the measured value; true if the assertion holds.

    Args:
        holds: Whether the assertion holds.
        interval_ms: 95 % interval of the value, or None.
        error_bar_ms: Maximum part of the value due to our own lateness (p99 of `lag`); None if unknown.
        point: Condition of the campaign; empty outside a campaign.
        reason: Reason for a failure that the value alone does not show, or for a missing interval.
    """

    assertion: Assertion
    holds: bool
    value_ms: float | None
    interval_ms: Interval | None
    error_bar_ms: float | None
    n: int
    point: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{self.in_words}>"

    @property
    def in_words(self) -> str:
        """One line: the verdict, and the value with its interval and error bar."""
        figure = "has no value" if self.value_ms is None else f"is {self.value_ms:.1f} ms"
        details = [f"n {self.n}"]
        if self.interval_ms is not None:
            details.insert(0, f"95 % interval {self.interval_ms[0]:.1f} to {self.interval_ms[1]:.1f}")
        if self.error_bar_ms is not None:
            details.append(f"error bar {self.error_bar_ms:.1f} ms")
        if self.reason:
            details.append(self.reason)
        verdict = "holds" if self.holds else "FAILS"
        where = f" at {self.point}" if self.point else ""
        measured = f"{self.assertion.metric}.{self.assertion.statistic} {figure}"
        return f"{self.assertion.expression}: {verdict}{where}: {measured} ({', '.join(details)})"

    def as_json(self) -> dict[str, Any]:
        """Return the result as printed by ``live-eval latency --json``; keys are only ever added."""
        return {
            "expression": self.assertion.expression,
            "holds": self.holds,
            "value_ms": self.value_ms,
            "interval_ms": interval_json(self.interval_ms, 3),
            "error_bar_ms": self.error_bar_ms,
            "n": self.n,
            "point": self.point,
            "reason": self.reason,
        }


def parse_assertion(text: str) -> Assertion:
    """Parse an assertion: ``METRIC.STATISTIC < TIME``, also with ``<=``, ``>`` or ``>=``.

    The time is in ``ms`` or ``s``.

    Raises:
        UsageError: The text is not an assertion; the message contains the expected and the actual text.

    >>> parse_assertion("voice_to_voice.p95 < 1.2s").bound_ms
    1200.0
    """
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise UsageError(f"assertion {text!r}: expected {_FORM}")
    metric, statistic, comparison, number, unit = found.groups()
    _check_known(text, "metric", metric, METRICS)
    _check_known(text, "statistic", statistic, STATISTICS)
    if unit not in _UNITS_MS:
        came = f"{number}{unit}"
        raise UsageError(f"assertion {text!r}: expected a time in ms or s, but it is {came!r}")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise UsageError(f"assertion {text!r}: expected a number before {unit}, but it is {number!r}")
    return Assertion(
        expression=text.strip(),
        metric=metric,
        statistic=statistic,
        comparison=comparison,
        bound_ms=bound * _UNITS_MS[unit],
    )


def _check_known(text: str, what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UsageError(
            f"assertion {text!r}: unknown {what} {name!r}{did_you_mean(name, known)}; "
            f"expected one of {', '.join(known)}"
        )


def check_assertion(
    assertion: Assertion, latency: CampaignLatency, *, error_bar_ms: float | None, point: str = ""
) -> CheckedAssertion:
    """Check an assertion against a latency's metrics.

    For an upper bound, failed and unanswered turns rank after all others; with such turns, assertions on the
    mean or the maximum fail.

    Args:
        assertion: Assertion to check.
        latency: Metrics of the latency.
        error_bar_ms: Maximum part of a value due to our own lateness, or None.
        point: Condition of the campaign; empty outside a campaign.
    """
    found = latency.measured[assertion.statistic]
    value = rounded(found.value, 3)
    reason = f"no interval: {found.reason}" if found.reason else ""
    holds = value is not None and assertion.holds_for(value)
    if value is None:
        reason = f"cannot be checked: {_why_no_value(latency, found.reason)}"
    elif holds and assertion.is_upper and latency.unanswered:
        counted_ms = rounded(latency.with_unanswered(assertion.statistic), 3)
        holds = counted_ms is not None and assertion.holds_for(counted_ms)
        if not holds:
            lost = f"{counted(latency.unanswered, 'turn')} failed or had no answer"
            reason = f"{lost}, which counts as beyond the bound"
            if counted_ms is not None:
                reason += f"; with them it is {counted_ms:.1f} ms"
    return CheckedAssertion(
        assertion=assertion,
        holds=holds,
        value_ms=value,
        interval_ms=found.interval,
        error_bar_ms=error_bar_ms,
        n=latency.measured.n,
        point=point,
        reason=reason,
    )


def _why_no_value(latency: CampaignLatency, why: str) -> str:
    reasons = [why or "no values"]
    reasons += [f"{reason} ({counted(count, 'turn')})" for reason, count in latency.measured.missing.items()]
    if latency.uncertain:
        uncertain = counted(latency.uncertain, "turn")
        reasons.append(f"the end of the user's speech is uncertain in {uncertain}")
    return ", ".join(reasons)


def check_campaign(assertions: Sequence[Assertion], points: Sequence[PointMetrics]) -> list[CheckedAssertion]:
    """Check assertions for every condition of a campaign's sweep, excluding drift checks and endpointing.

    Returns:
        For each assertion, in order, one result per condition; a single failure if there are no conditions.
    """
    swept = [point for point in points if point.stored.role == PointRole.SWEEP]
    if not swept:
        return [_unchecked(assertion) for assertion in assertions]
    return [
        check_assertion(
            assertion, point.latencies[assertion.metric], error_bar_ms=point.lag.p99, point=point.name
        )
        for assertion in assertions
        for point in swept
    ]


def _unchecked(assertion: Assertion) -> CheckedAssertion:
    return CheckedAssertion(
        assertion=assertion,
        holds=False,
        value_ms=None,
        interval_ms=None,
        error_bar_ms=None,
        n=0,
        reason="cannot be checked: no point of the campaign was measured",
    )
