"""Compare runs with the first run: comparability, settings, and metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from live_eval.analysis.comparison.boundaries import Boundaries, boundaries_of
from live_eval.analysis.comparison.difference import Difference, Verdict, difference_of
from live_eval.analysis.comparison.run_settings import Setting, settings_json, settings_that_differ
from live_eval.analysis.comparison.series import CAPTURED, ComparedRun, Series, find_series
from live_eval.analysis.licences import licences_of
from live_eval.analysis.statistics.intervals import OVER_SCRIPTS
from live_eval.analysis.statistics.paired import flips_for, holm
from live_eval.analysis.summary.observations import TurnKey
from live_eval.errors import UsageError
from live_eval.recording import part_of
from live_eval.text.wording import counted
from live_eval.timing import LAG_BOUND_NS

__all__ = [
    "APART_NS",
    "ComparedRuns",
    "RunComparison",
    "check_same_data",
    "check_same_measure",
    "compare_runs",
    "latencies_differ",
]

_SHOWN_CASES = 5
_COMMON = "--common"

APART_NS = 1_000_000_000
"""The difference in start times above which two sessions are not simultaneous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """The differences between a run and the first run.

    Args:
        settings: Endpoint and prompt settings that differ.
        without_flagged: Latency differences that exclude turns flagged in either run.
        flagged_first: Number of common turns flagged in the first run because live-eval itself was late.
        flagged_other: Number of common turns flagged in the other run.
        flagged: Number of common turns flagged in either run.
        boundaries: Differences between the speech boundaries.
        notes: Reasons for excluded comparisons, and other remarks.
        data_cases: Number of cases in the data set of the runs; None if unknown.
    """

    other: str
    settings: tuple[Setting, ...]
    differences: Mapping[str, Difference]
    without_flagged: Mapping[str, Difference]
    flagged_first: int
    flagged_other: int
    flagged: int
    boundaries: Boundaries
    notes: tuple[str, ...]
    data_cases: int | None = None

    def flagged_in_words(self, first: str) -> str:
        """Return a note on the flagged turns; empty if there are none or no latency is compared."""
        if not (self.flagged and self.without_flagged):
            return ""
        return (
            f"flagged (live-eval's own lag exceeded {LAG_BOUND_NS / 1e6:.0f} ms): "
            f"{counted(self.flagged_first, 'turn')} in {first}, {self.flagged_other} in {self.other}; "
            f"latency differences are given with and without the turns flagged in either run "
            f"({self.flagged})"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as printed by ``live-eval compare --json``; its keys are stable."""
        return {
            "other": self.other,
            "differs": settings_json(self.settings),
            "metrics": {
                name: {
                    **difference.as_json(),
                    "without_flagged": clear.as_json() if (clear := self.without_flagged.get(name)) else None,
                }
                for name, difference in self.differences.items()
            },
            "flagged": {"first": self.flagged_first, "other": self.flagged_other, "either": self.flagged},
            "boundaries": self.boundaries.as_json(),
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """Comparisons of runs with the first run.

    `tests` is the number of tests in Holm's correction: one per comparison and metric in which a script
    differs. `licences` are notes on the licences of the runs' data.
    """

    first: str
    comparisons: tuple[RunComparison, ...]
    tests: int
    licences: tuple[str, ...] = ()

    @property
    def tests_in_words(self) -> str:
        """The number of tests, and why some metrics have none, as a sentence; empty without a test."""
        if not self.tests:
            return ""
        metrics = sum(len(comparison.differences) for comparison in self.comparisons)
        untested = metrics - self.tests
        why = (
            f"; {untested} of {counted(metrics, 'metric')} have no test, because no script differs or there "
            "are too few scripts"
        )
        return f"p values are corrected for {counted(self.tests, 'test')} (Holm){why if untested else ''}."

    def as_json(self) -> dict[str, Any]:
        """Return the comparisons as printed by ``live-eval compare --json``; its keys are stable."""
        return {
            "first": self.first,
            "estimator": OVER_SCRIPTS,
            "correction": {"method": "Holm", "tests": self.tests},
            "comparisons": [comparison.as_json() for comparison in self.comparisons],
            "licences": list(self.licences),
        }


def compare_runs(
    runs: Sequence[ComparedRun],
    metrics: Sequence[str] = (),
    *,
    common: bool = False,
    seed: int = 0,
    remedy: str = _COMMON,
) -> ComparedRuns:
    """Compare each run with the first.

    Args:
        runs: Runs to compare, at least two.
        metrics: Metrics to compare; all common metrics if empty.
        common: Whether to compare only the common cases, instead of requiring the same cases in all runs.
        seed: Seed for resampling and sign flips.
        remedy: What the user can choose to compare only the common cases, for the message.

    Raises:
        UsageError: The runs have different data, or a requested metric is missing in a run.
    """
    first, *others = runs
    if not others:
        raise UsageError("expected at least two runs, got one")
    for other in others:
        check_same_data(first, other, common=common, remedy=remedy)
    # Look up the metrics in every run to report unknown names.
    wanted = [{find_series(run, name).name for name in metrics} for run in runs]
    # An upper bound: the number of tests is known only after the comparisons.
    flips = flips_for(len(others) * len(wanted[0] or first.series))
    made = [_compare(first, other, wanted[0], flips, seed) for other in others]
    corrected = _corrected([comparison.differences for comparison in made])
    # The same tests without the flagged turns.
    unflagged = _corrected([{**each.differences, **each.without_flagged} for each in made])
    comparisons = tuple(
        replace(
            comparison,
            differences=differences,
            without_flagged={name: clear[name] for name in comparison.without_flagged},
        )
        for comparison, differences, clear in zip(made, corrected, unflagged, strict=True)
    )
    tests = sum(each.test.informative for comparison in made for each in comparison.differences.values())
    return ComparedRuns(
        first=first.name,
        comparisons=tuple(replace(each, notes=(*each.notes, *_on_flagged(each))) for each in comparisons),
        tests=tests,
        licences=licences_of(run.manifest for run in runs),
    )


def _corrected(families: Sequence[Mapping[str, Difference]]) -> list[dict[str, Difference]]:
    """Return the differences with p-values corrected for the number of tests."""
    tested = [each.test.p for family in families for each in family.values() if each.test.informative]
    corrected = iter(holm(tested))
    # If no script differs, there was no test, so no correction is necessary.
    return [
        {
            name: replace(
                each, p_holm=next(corrected) if each.test.informative else each.p_holm, tests=len(tested)
            )
            for name, each in family.items()
        }
        for family in families
    ]


def _on_flagged(comparison: RunComparison) -> Iterator[str]:
    """Yield a note for each latency verdict that depends on flagged turns."""
    for name, clear in comparison.without_flagged.items():
        verdict = comparison.differences[name].verdict
        if clear.verdict not in (verdict, Verdict.TOO_FEW):
            yield f"{clear.title}: {verdict.value} with the flagged turns, {clear.verdict.value} without them"


def check_same_data(
    first: ComparedRun, other: ComparedRun, *, common: bool = False, remedy: str = _COMMON
) -> None:
    """Check that two runs have the same data or, with `common`, common cases (`remedy`: see `compare_runs`).

    Raises:
        UsageError: The data differ; the message lists the differences.
    """
    problem = next(_data_differs(first, other, None if common else remedy), None)
    if problem is not None:
        raise UsageError(f"cannot compare {first.name} and {other.name}: {problem}")


def _data_differs(first: ComparedRun, other: ComparedRun, remedy: str | None) -> Iterator[str]:
    """Yield what differs; without a `remedy`, only what common cases must share."""
    data = [part_of(run.manifest, "data") for run in (first, other)]
    prints = [str(part.get("fingerprint") or "") for part in data]
    if all(prints) and prints[0] != prints[1]:
        names = [str(part.get("name") or "unnamed data") for part in data]
        yield (
            f"their data differ: {names[0]} (fingerprint {prints[0][:12]}) and {names[1]} "
            f"(fingerprint {prints[1][:12]})"
        )
    shared = [key for key in first.scripts if key in other.scripts]
    if not shared:
        yield "they have no case in common"
    changed = [key for key in shared if first.contents[key] != other.contents[key]]
    if changed:
        yield f"the speech or the question differs in {_cases(changed)}"
    if remedy is None:
        return
    if first.tasks != other.tasks:
        tasks = (", ".join(sorted(run.tasks)) for run in (first, other))
        yield f"the tasks are {' in one and '.join(tasks)} in the other; {remedy} compares the common turns"
    unshared = [
        f"{_cases([key for key in one.scripts if key not in two.scripts])} only in {one.name}"
        + ("" if two.ended else f" ({two.name} is incomplete)")
        for one, two in ((first, other), (other, first))
        if one.scripts.keys() - two.scripts.keys()
    ]
    if unshared:
        yield f"found {', and '.join(unshared)}; {remedy} compares the {counted(len(shared), 'common turn')}"


def _cases(keys: Sequence[TurnKey]) -> str:
    shown = ", ".join(
        case if repeat == 0 else f"{case} (repetition {repeat + 1})" for case, repeat in keys[:_SHOWN_CASES]
    )
    more = ", …" if len(keys) > _SHOWN_CASES else ""
    return f"{counted(len(keys), 'turn')} ({shown}{more})"


def _compare(
    first: ComparedRun, other: ComparedRun, wanted: set[str], flips: int, seed: int
) -> RunComparison:
    notes = [f"{run.name}: {run.unread_scores}" for run in (first, other) if run.unread_scores]
    differences: dict[str, Difference] = {}
    failed = [
        {key for key, value in run.series[CAPTURED].values.items() if not value} for run in (first, other)
    ]
    unflagged: dict[str, Difference] = {}
    flagged = [run.flagged & first.scripts.keys() & other.scripts.keys() for run in (first, other)]
    either = flagged[0] | flagged[1]
    boundaries = boundaries_of(first.speech_ends, other.speech_ends)
    no_latencies = latencies_differ(first, other)
    if no_latencies:
        notes.append(f"latencies are not compared: {no_latencies}")

    difference = partial(
        difference_of,
        scripts=first.scripts,
        failed_first=failed[0],
        failed_other=failed[1],
        flips=flips,
        seed=seed,
    )

    for name, series in first.series.items():
        theirs = other.series.get(name)
        if theirs is None or (wanted and name not in wanted) or (series.kind == "latency" and no_latencies):
            continue
        if series.version != theirs.version:
            notes.append(f"{series.title} is not compared: {_versions_differ(first, series, other, theirs)}")
            continue
        differences[name] = difference(series, theirs)
        if series.kind == "latency":
            unflagged[name] = (
                difference(series.without(either), theirs.without(either)) if either else differences[name]
            )
    if unflagged and (shown := boundaries.in_words(first.name, other.name)):
        notes.append(shown)
    notes += _missing(first, other, wanted)
    notes += _missing(other, first, wanted)
    notes += _apart(first, other)
    cases = part_of(first.manifest, "data").get("cases")
    return RunComparison(
        other=other.name,
        settings=tuple(settings_that_differ(first, other)),
        differences=differences,
        without_flagged=unflagged,
        flagged_first=len(flagged[0]),
        flagged_other=len(flagged[1]),
        flagged=len(either),
        boundaries=boundaries,
        notes=tuple(notes),
        data_cases=cases if isinstance(cases, int) else None,
    )


def _missing(one: ComparedRun, other: ComparedRun, wanted: Collection[str]) -> Iterator[str]:
    """Yield a note on the metrics that only the first of two runs has."""
    titles = [
        series.title
        for name, series in one.series.items()
        if name not in other.series and (not wanted or name in wanted)
    ]
    if titles:
        verb = "is" if len(titles) == 1 else "are"
        yield f"{', '.join(titles)} {verb} not compared: missing from {other.name}"


def _apart(first: ComparedRun, other: ComparedRun) -> Iterator[str]:
    """Yield a note if sessions of simultaneous runs drifted apart, for example after an interruption."""
    if not all(run.manifest.get("simultaneous_with") for run in (first, other)):
        return
    common = first.session_starts.keys() & other.session_starts.keys()
    apart = sum(abs(first.session_starts[key] - other.session_starts[key]) > APART_NS for key in common)
    if apart:
        yield f"not simultaneous: {apart} of {counted(len(common), 'session')} began more than 1 s apart"


def check_same_measure(first: ComparedRun, mine: Series, other: ComparedRun, theirs: Series) -> None:
    """Check that a metric is comparable between two runs.

    Raises:
        UsageError: The metric is not comparable; the message contains the reason.
    """
    why = ""
    if mine.name != theirs.name:
        why = f"it is {mine.name} in {first.name} and {theirs.name} in {other.name}"
    elif mine.version != theirs.version:
        why = _versions_differ(first, mine, other, theirs)
    elif mine.kind == "latency":
        why = latencies_differ(first, other)
    if why:
        raise UsageError(f"cannot compare {mine.name}: {why}")


def _versions_differ(first: ComparedRun, mine: Series, other: ComparedRun, theirs: Series) -> str:
    return f"judged by version {mine.version} in {first.name} and by {theirs.version} in {other.name}"


def latencies_differ(first: ComparedRun, other: ComparedRun) -> str:
    """Return the reason why two runs' latencies are not comparable; empty if they are."""
    endpoints = [part_of(run.manifest, "endpoint") for run in (first, other)]
    modes = [endpoint.get("turn_mode") for endpoint in endpoints]
    if modes[0] != modes[1]:
        return f"the user's turns were ended by {modes[0]} in {first.name} and by {modes[1]} in {other.name}"
    if len({endpoint.get("comparable") is not False for endpoint in endpoints}) > 1:
        return "only one of the endpoints is realtime"
    if mixed := [run.name for run in (first, other) if run.timing_version is None]:
        return f"{' and '.join(mixed)}: latencies follow several definitions; --retime recomputes them"
    if first.timing_version != other.timing_version:
        return "their definitions differ; --retime recomputes them"
    return ""
