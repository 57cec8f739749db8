"""The drift of a campaign, measured with the same recordings throughout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from live_eval.analysis.latency.drift import DRIFT_METRICS
from live_eval.report.tables import LATENCY_TITLES, Cell, Column, Table, ranged

__all__ = ["drift_table"]

_TITLES = {**LATENCY_TITLES, "lag": "lag (error bar)"}


def drift_table(sentinels: Sequence[Mapping[str, Any]], link: Callable[[str], str]) -> Table:
    """Return the medians of each drift check, with their differences from the first.

    Args:
        sentinels: Name of each drift check, values of
            `live_eval.analysis.latency.drift.drift_metrics`, and ``started_at`` if known.
        link: Function from the name of a drift check to the link to its turns.
    """
    dated = any("started_at" in sentinel for sentinel in sentinels)
    texts = ("metric", "drift check", *(["started"] if dated else []))
    columns = [Column(name, numeric=False) for name in texts]
    columns += map(Column, ("n", "p50, ms", "mean difference from the first, ms"))
    rows = []
    for name in DRIFT_METRICS:
        digits = 1 if name in ("connect", "lag") else 0
        for sentinel in sentinels:
            found = sentinel["figures"][name]
            difference, between = found["difference_ms"], found["difference_interval_ms"]
            rows.append(
                (
                    Cell(_TITLES[name]),
                    Cell(sentinel["name"], href=link(sentinel["name"]), note=_answers(sentinel)),
                    *([Cell(str(sentinel.get("started_at", "")))] if dated else []),
                    Cell(str(found["n"])),
                    Cell(ranged(found["p50_ms"], found["interval_ms"], digits), note=found["reason"]),
                    Cell(ranged(difference, between, digits, signed=True)),
                )
            )
    return Table(tuple(columns), tuple(rows))


def _answers(sentinel: Mapping[str, Any]) -> str:
    return "answered: " + "; ".join(
        f"{each['case']} {each['answered']} of {each['n']}" for each in sentinel["answers"]
    )
