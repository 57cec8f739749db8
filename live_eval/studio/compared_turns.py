"""Compare the turns of several runs side by side, one row per case, sorted by difference. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from live_eval.analysis.statistics.intervals import interval_json, paired_difference
from live_eval.analysis.summary.vocal_sounds import FROM_LAST_SOUND, TITLES_OF_A_TURN
from live_eval.errors import UsageError
from live_eval.studio.turn_filter import FilterError
from live_eval.studio.turn_index import RowQuery, RunIndex, counted_value, missing_last
from live_eval.studio.turn_rows import ListedTurn

__all__ = ["ORDERS", "CaseQuery", "compared_turns"]

ORDERS = ("size", "higher", "lower", "recorded")
"""The sort orders: by size of difference, by the last run's value (highest or lowest first), as recorded."""
_MEANS = 6
_TEXTS = ("cue", "variant", "task", "text")
_OF_A_TURN = ("status", "failure", "reply_text", "seconds", "flagged")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseQuery:
    """A query for one page of the compared cases.

    Args:
        turns: Turn filters; a case matches if its turn in any run matches. The sort key is ignored.
        metric: A latency, or a score that all runs have.
    """

    turns: RowQuery
    metric: str = "voice_to_voice"
    order: str = "size"


def compared_turns(runs: Sequence[RunIndex], query: CaseQuery) -> dict[str, Any]:
    """Return a page of the runs' cases, each with its turn in every run.

    The difference of a case is the last run's value minus the first run's or, for more than two runs, the
    range of their values. Cases without a difference are last. For invalid expressions, see
    `RunIndex.select`. As in the heat map, voice to voice of a chosen cue that is a vocal sound is from the
    last sound; `metric` in the answer is the metric used, and `asked` the query's.

    Raises:
        UsageError: The metric or the order is unknown.
    """
    scores = [column for column in runs[0].columns if all(_has(run, column.name) for run in runs)]
    latencies = [name for name in runs[0].latencies if all(name in run.latencies for run in runs)]
    metrics = (*latencies, *(column.name for column in scores))
    if query.metric not in metrics:
        raise UsageError(f"metric: expected one of {', '.join(metrics)}, got {query.metric[:40]!r}")
    if query.order not in ORDERS:
        raise UsageError(f"order: expected one of {', '.join(ORDERS)}, got {query.order[:40]!r}")
    rows = [{row["turn_id"]: row for row in run.rows} for run in runs]
    cases = list(dict.fromkeys(turn_id for each in rows for turn_id in each))
    matching, invalid = set(), None
    try:
        matching = {row["turn_id"] for run in runs for row in run.matching(query.turns)}
    except FilterError as error:
        invalid = str(error)
    listed = [turn_id for turn_id in cases if turn_id in matching]
    metric = _used(rows, listed, query.metric, latencies) if "cue" in query.turns.choices else query.metric
    found = [_case([each.get(turn_id) for each in rows], turn_id, metric) for turn_id in listed]
    found = _sorted(found, query.order)
    heard = [name for name in latencies if name.startswith("voice_to_voice")]
    names = [column.name for column in scores]
    main = [name for name in runs[0].main if name in names]
    means = _means(rows, found, query, metric, (*heard, *list(dict.fromkeys((*main, *names)))[:_MEANS]))
    first = query.turns.offset
    return {
        "total": len(cases),
        "matching": len(found),
        "offset": first,
        "with_difference": sum(case["difference"] is not None for case in found),
        "metric": metric,
        "asked": query.metric,
        "metrics": [
            {"name": name, "heading": TITLES_OF_A_TURN[name], "unit": "ms", "higher_is_better": False}
            for name in latencies
        ]
        + [column.as_json() for column in scores],
        "names": runs[0].names,
        "cues": list(dict.fromkeys(cue for run in runs for cue in run.rows.columns.get("cue", ()) if cue)),
        "means": means,
        "failed": [sum(_has_failed(case["turns"][place]) for case in found) for place in range(len(runs))],
        "invalid": invalid,
        "rows": found[first : first + query.turns.limit],
    }


def _means(
    rows: Sequence[Mapping[str, ListedTurn]],
    cases: Sequence[Mapping[str, Any]],
    query: CaseQuery,
    metric: str,
    main: Sequence[str],
) -> list[dict[str, Any]]:
    """Return each run's means over the cases with a value in every run."""
    if "cue" in query.turns.choices:
        return [{"metric": name, **_mean(rows, cases, name)} for name in dict.fromkeys((metric, *main))]
    by_cue: dict[str, list[Mapping[str, Any]]] = {}
    for case in cases:
        if case["cue"] is not None:
            by_cue.setdefault(case["cue"], []).append(case)
    used = {
        cue: _used(rows, [case["turn_id"] for case in each], metric, main) for cue, each in by_cue.items()
    }
    return [{"cue": cue, "metric": used[cue], **_mean(rows, each, used[cue])} for cue, each in by_cue.items()]


def _used(
    rows: Sequence[Mapping[str, ListedTurn]], turn_ids: Sequence[str], metric: str, main: Sequence[str]
) -> str:
    """Return the metric used for the cases of one cue.

    Voice to voice of a vocal sound is from the last sound, because its end of speech is often uncertain.
    """
    if metric != "voice_to_voice" or FROM_LAST_SOUND not in main:
        return metric
    turns = (turn for turn_id in turn_ids for each in rows if (turn := each.get(turn_id)) is not None)
    known = any(turn.number("latency_ms", FROM_LAST_SOUND) is not None for turn in turns)
    return FROM_LAST_SOUND if known else metric


def _mean(
    rows: Sequence[Mapping[str, ListedTurn]], cases: Sequence[Mapping[str, Any]], metric: str
) -> dict[str, Any]:
    """Return each run's mean of a metric; for two runs, also the interval of their paired difference."""
    values, scripts = [], []
    for case in cases:
        turns = [each.get(case["turn_id"]) for each in rows]
        measured = [value for turn in turns if (value := _value(turn, metric)) is not None]
        if len(measured) == len(rows):
            values.append(measured)
            scripts.append(next(turn["script_id"] for turn in turns if turn is not None))
    columns = list(zip(*values, strict=True))
    means: list[float | None] = [fmean(column) for column in columns] if columns else [None] * len(rows)
    interval = paired_difference(columns[0], columns[1], scripts).interval if len(columns) == 2 else None
    return {
        "n": len(values),
        "means": means,
        "difference": _difference(means),
        "interval": interval_json(interval),
    }


def _has_failed(turn: Mapping[str, Any] | None) -> bool:
    return turn is not None and turn["failure"] is not None


def _has(run: RunIndex, score: str) -> bool:
    return any(column.name == score for column in run.columns)


def _value(turn: ListedTurn | None, metric: str) -> float | None:
    if turn is None:
        return None
    return counted_value(turn, "latency_ms" if metric in turn["latency_ms"] else "scores", metric)


def _case(turns: Sequence[ListedTurn | None], turn_id: str, metric: str) -> dict[str, Any]:
    known = next(turn for turn in turns if turn is not None)
    values = [_value(turn, metric) for turn in turns]
    return {
        "turn_id": turn_id,
        **{name: known[name] for name in _TEXTS},
        "difference": _difference(values),
        "turns": [
            None if turn is None else {**{name: turn[name] for name in _OF_A_TURN}, "value": value}
            for turn, value in zip(turns, values, strict=True)
        ],
    }


def _difference(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    difference = known[-1] - known[0] if len(known) == 2 else max(known) - min(known)
    return round(difference, 6)


def _sorted(cases: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    if order == "recorded":
        return cases

    def value(case: Mapping[str, Any]) -> float | None:
        difference: float | None = case["difference"]
        return abs(difference) if order == "size" and difference is not None else difference

    return missing_last(cases, value, descending=order != "lower")
