"""Assertions on measured values, such as ``voice_to_voice.p95 < 1200ms`` or ``barge_in.passed >= 90%``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from live_eval.analysis.statistics.distribution import PERCENTILES, Distribution
from live_eval.analysis.statistics.intervals import Estimate, Interval, interval_json, rounded, too_few_for
from live_eval.errors import UsageError
from live_eval.text.suggestions import did_you_mean

__all__ = [
    "MS",
    "PERCENT",
    "PLAIN",
    "Assertion",
    "CheckedAssertion",
    "check_estimate",
    "check_known",
    "check_unit",
    "failure_with_lost",
    "parse_bound",
    "too_few_planned",
]

MS = "ms"
PERCENT = "%"
PLAIN = ""
_UNITS: Mapping[str, tuple[str, float]] = {
    "": (PLAIN, 1.0),
    "ms": (MS, 1.0),
    "s": (MS, 1000.0),
    "%": (PERCENT, 1.0),
}
_BOUNDS = {MS: "a time in ms or s", PERCENT: "a share in %", PLAIN: "a number without a unit"}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXPRESSION = re.compile(
    r"\s*([^\s<>=.]+(?:\s*\.\s*[^\s<>=.]+)*)\s*(<=|>=|<|>)\s*([^\s<>=%]+?)\s*([a-zA-Z]*|%)\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """A bound on a measured value.

    Args:
        expression: Text of the assertion.
        name: Dotted name of the value, for example ``voice_to_voice.p95``.
        comparison: ``<``, ``<=``, ``>`` or ``>=``.
        bound: Bound in `unit`.
        unit: `MS`, `PERCENT` or `PLAIN`.
    """

    expression: str
    name: str
    comparison: str
    bound: float
    unit: str

    @property
    def metric(self) -> str:
        """The name without its last part."""
        return self.name.rpartition(".")[0]

    @property
    def statistic(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    def holds_for(self, value: float) -> bool:
        """Return whether `value` satisfies the bound."""
        return _COMPARISONS[self.comparison](value, self.bound)

    @property
    def is_upper(self) -> bool:
        """Whether the bound is an upper bound."""
        return self.comparison.startswith("<")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAssertion:
    """The result of an assertion; true if the assertion holds.

    Args:
        value: Measured value in the assertion's unit, or None.
        interval: 95 % interval of the value, or None.
        error_bar_ms: Maximum error of the value due to live-eval's own lateness (p99 of `lag`), or None.
        point: Condition or run of the campaign; empty outside a campaign.
        reason: Reason for a missing interval, or for a failure that the value does not explain.
    """

    assertion: Assertion
    holds: bool
    value: float | None
    interval: Interval | None
    error_bar_ms: float | None = None
    n: int
    point: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        return f"<{self.in_words}>"

    @property
    def in_words(self) -> str:
        """The verdict and the value with its interval and error bar, in one line."""
        result = "has no value"
        if self.value is not None:
            result = f"is {self._shown(self.value)} {self.assertion.unit}".rstrip()
        details = [f"n {self.n}"]
        if self.interval is not None:
            low, high = map(self._shown, self.interval)
            details.insert(0, f"95 % interval {low} to {high}")
        if self.error_bar_ms is not None:
            details.append(f"error bar {self.error_bar_ms:.1f} ms")
        if self.reason:
            details.append(self.reason)
        verdict = "holds" if self.holds else "FAILS"
        where = f" at {self.point}" if self.point else ""
        return (
            f"{self.assertion.expression}: {verdict}{where}: {self.assertion.name} {result} "
            f"({', '.join(details)})"
        )

    def _shown(self, value: float) -> str:
        return f"{value:.{2 if self.assertion.unit == PLAIN else 1}f}"

    def as_json(self) -> dict[str, Any]:
        """Return the result as printed with ``--json``; its keys are stable."""
        unit = {MS: "_ms", PERCENT: "_percent", PLAIN: ""}[self.assertion.unit]
        return {
            "expression": self.assertion.expression,
            "holds": self.holds,
            f"value{unit}": self.value,
            f"interval{unit}": interval_json(self.interval, 3),
            "error_bar_ms": self.error_bar_ms,
            "n": self.n,
            "point": self.point,
            "reason": self.reason,
        }


def check_estimate(
    assertion: Assertion,
    found: Estimate,
    *,
    failure: str = "",
    digits: int = 3,
    error_bar_ms: float | None = None,
    point: str = "",
) -> CheckedAssertion:
    """Check an assertion against an estimate; without a value, it fails.

    Args:
        found: Estimate in the assertion's unit.
        failure: Reason to fail the assertion regardless of the value; empty if there is none.
        digits: Number of decimals of the value.
        error_bar_ms: Maximum error of the value due to live-eval's own lateness, or None.
        point: Condition or run of the campaign; empty outside a campaign.
    """
    value = rounded(found.value, digits)
    reason = failure
    if not reason and found.reason:
        reason = f"{'cannot be checked' if value is None else 'no interval'}: {found.reason}"
    return CheckedAssertion(
        assertion=assertion,
        holds=value is not None and not failure and assertion.holds_for(value),
        value=value,
        interval=found.interval,
        error_bar_ms=error_bar_ms,
        n=found.n,
        point=point,
        reason=reason,
    )


def failure_with_lost(
    assertion: Assertion, measured: Distribution, statistic: str, lost: int, lost_in_words: str
) -> str:
    """Return a reason if an upper bound holds for the measured values but fails with the lost ones, else "".

    A lost value, such as the stop time of a reply that never stopped, ranks after all measured values.

    Args:
        lost: Number of lost values.
        lost_in_words: Description of the lost values.
    """
    value = rounded(measured[statistic].value, 3)
    if not lost or not assertion.is_upper or value is None or not assertion.holds_for(value):
        return ""
    with_lost = rounded(measured.with_lost(statistic, lost), 3)
    if with_lost is None:
        return f"{lost_in_words}, which counts as beyond the bound"
    if assertion.holds_for(with_lost):
        return ""
    shown = f"{with_lost:.1f} {assertion.unit}"
    return f"{lost_in_words}, which counts as beyond the bound; including these, the value is {shown}"


def too_few_planned(assertions: Iterable[Assertion], planned: Callable[[Assertion], int]) -> Iterator[str]:
    """Yield a note for each percentile assertion that needs more values than are planned.

    Args:
        planned: Function that returns the maximum number of values for an assertion, or 0 if unknown.
    """
    for each in assertions:
        share, n = PERCENTILES.get(each.statistic), planned(each)
        if share is not None and n and (reason := too_few_for(share, n)):
            yield f"{each.expression}: will fail: {each.statistic} of {reason} ({n} planned)"


def parse_bound(text: str, form: str) -> Assertion:
    """Parse an assertion: ``NAME < BOUND``, also with ``<=``, ``>`` or ``>=``.

    The bound is in ``ms``, ``s`` or ``%``, or a plain number. The caller checks its unit with `check_unit`.

    Args:
        text: Assertion to parse.
        form: Expected form with an example, for error messages.

    Raises:
        UsageError: The text is not a valid assertion.

    >>> parse_bound("voice_to_voice.p95 < 1.2s", "NAME < TIME").bound
    1200.0
    """
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise UsageError(f"assertion {text!r}: expected {form}")
    name, comparison, number, unit = found.groups()
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise UsageError(f"assertion {text!r}: expected a number after {comparison}, got {number + unit!r}")
    if unit not in _UNITS:
        expected = f"expected a unit of {', '.join(filter(None, _UNITS))} or none"
        raise UsageError(f"assertion {text!r}: {expected}, got {unit!r}")
    measured_in, factor = _UNITS[unit]
    return Assertion(
        expression=text.strip(),
        name="".join(name.split()),
        comparison=comparison,
        bound=bound * factor,
        unit=measured_in,
    )


def check_known(text: str, what: str, name: str, known: Collection[str]) -> None:
    """Check that part of an assertion's name is known.

    Raises:
        UsageError: The name is unknown.
    """
    if name not in known:
        raise UsageError(
            f"assertion {text!r}: unknown {what} {name!r}{did_you_mean(name, known)}; "
            f"expected one of {', '.join(known)}"
        )


def check_unit(assertion: Assertion, unit: str) -> None:
    """Check that an assertion's bound has the given unit: `MS`, `PERCENT` or `PLAIN`.

    Raises:
        UsageError: The bound has another unit.
    """
    if assertion.unit != unit:
        found = assertion.expression.rpartition(assertion.comparison)[2].strip()
        raise UsageError(f"assertion {assertion.expression!r}: expected {_BOUNDS[unit]}, got {found!r}")
