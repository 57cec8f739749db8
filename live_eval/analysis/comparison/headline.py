"""State the result of a comparison in one sentence."""

from __future__ import annotations

from live_eval.analysis.comparison.difference import Difference, Verdict
from live_eval.analysis.comparison.run_comparison import RunComparison
from live_eval.analysis.sample_size import Aim, detectable, scripts_needed
from live_eval.errors import UsageError
from live_eval.text.wording import counted, significant

__all__ = ["headline"]

_LARGER = 10  # assume that an unknown data set has at most this many times the scripts
_MAIN = "voice_to_voice"
_MOST_AMOUNTS = 3  # further metrics are only named
_OPEN = (Verdict.NOT_SHOWN, Verdict.TOO_FEW)


def headline(first: str, comparison: RunComparison) -> str:
    """Summarise a comparison of another run with the first in a sentence.

    It states the differences shown with their 95 % intervals, the number not shown, and the scripts needed to
    show one.
    """
    differences = sorted(comparison.differences.values(), key=lambda each: each.name != _MAIN)
    parts = [_lost(first, comparison)]
    for verdict in Verdict:
        shown = [each for each in differences if each.verdict is verdict]
        if verdict not in _OPEN and shown:
            names = [_measured(each) for each in shown[:_MOST_AMOUNTS]]
            names += [each.title for each in shown[_MOST_AMOUNTS:]]
            parts.append(f"{comparison.other} is {verdict} in {', '.join(names)}")
    tests = max((each.tests for each in differences), default=0)
    if len(parts) > 1 and tests > 1:
        parts.append(f"p is corrected for {tests} tests (Holm)")
    unclear = [each for each in differences if each.verdict in _OPEN]
    if unclear:
        too_few = sum(each.verdict is Verdict.TOO_FEW for each in unclear)
        of = counted(len(differences), "metric")
        if not_shown := len(unclear) - too_few:
            main = [
                _measured(each)
                for each in unclear
                if each.name == _MAIN and each.verdict is Verdict.NOT_SHOWN
            ]
            parts.append(
                f"no difference is shown in {not_shown} of {of}{f', as in {main[0]}' if main else ''}"
            )
        if too_few:
            parts.append(f"there is too little data to say in {too_few} of {of}")
        measured = [each for each in unclear if each.effect.value and not each.rounds_to_zero]
        parts += [_reach(each, comparison.data_cases) for each in measured[:1]]
    return "; ".join(filter(None, parts)) + "."


def _measured(difference: Difference) -> str:
    """Return a metric's title, difference and 95 % interval, rounded as in the table of the comparison."""
    value, interval = difference.difference.value, difference.difference.interval
    assert value is not None
    share = difference.unit == "share"
    unit = " percentage points" if share else f" {difference.unit}" if difference.unit else ""

    def shown(number: float) -> str:
        digits, scaled = (1, 100 * number) if share else (difference.digits, number)
        return f"{scaled:+z.{digits}f}".replace("-", "−")

    between = "" if interval is None else f" [{shown(interval.low)} to {shown(interval.high)}]"
    return f"{difference.title} ({shown(value)}{unit}{between})"


def _lost(first: str, comparison: RunComparison) -> str:
    """Return how many turns each run lost, as text; empty if none."""
    most = max(comparison.differences.values(), key=lambda each: each.turns, default=None)
    if most is None:
        return f"{comparison.other} and {first} have no metric in common"
    lost = [
        f"{name} lost {failed} of {counted(most.turns, 'turn')}"
        for name, failed in ((first, most.failed_first), (comparison.other, most.failed_other))
        if failed
    ]
    return ", ".join(lost)


def _reach(difference: Difference, data_cases: int | None) -> str:
    """Describe the smallest detectable difference, and how many scripts would show the measured one.

    The number of scripts is omitted if it exceeds `data_cases`, the number of cases in the data set.
    """
    value, effect = difference.difference.value, difference.effect.value
    scripts = difference.difference.clusters
    assert value is not None
    assert effect is not None
    spread = abs(value / effect)
    aim = Aim(detect=abs(value), tests=max(difference.tests, 1))
    least = detectable(aim, spread, scripts)
    parts = [
        f"{counted(scripts, 'script')} cannot show any difference in {difference.title}"
        if least is None
        else f"{counted(scripts, 'script')} are too few to show a difference in {difference.title} below "
        f"{_amount(least, difference.unit)}"
    ]
    try:
        needed = scripts_needed(aim, spread)
    except UsageError:
        return parts[0]
    if scripts < needed <= (_LARGER * scripts if data_cases is None else data_cases):
        parts.append(f"{needed:,} would show the measured {_amount(abs(value), difference.unit)}")
    return ", and ".join(parts)


def _amount(value: float, unit: str) -> str:
    if unit == "share":
        return f"{significant(100 * value, 2)} percentage points"
    return f"{significant(value, 2)}{f' {unit}' if unit else ''}"
