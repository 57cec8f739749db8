"""Tabulate the drift checks of a campaign."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from live_eval.analysis.latency.drift import DRIFT_METRICS, DriftCheck
from live_eval.analysis.summary.latencies import LATENCY_TITLES
from live_eval.report.cells import Cell, Column, Table, estimate_cell, ranged

__all__ = ["drift_table"]

_TITLES = {**LATENCY_TITLES, "lag": "lag (error bar)"}


def drift_table(checks: Sequence[DriftCheck], link: Callable[[str], str]) -> Table:
    """Return a table of each drift check's medians and their differences from the first check.

    `link` maps a drift check's name to the link to its turns.
    """
    dated = any(check.started_at for check in checks)
    texts = ("metric", "drift check", *(["started"] if dated else []))
    columns = [Column(name, numeric=False) for name in texts]
    columns += map(Column, ("n", "p50, ms", "mean difference from the first, ms"))
    rows = []
    for name in DRIFT_METRICS:
        digits = 1 if name in ("connect", "lag") else 0
        for check in checks:
            found = check.metrics[name]
            difference = found.difference
            rows.append(
                (
                    Cell(_TITLES[name]),
                    Cell(check.name, href=link(check.name), note=_answers(check)),
                    *([Cell(check.started_at)] if dated else []),
                    Cell(str(found.median.n)),
                    estimate_cell(found.median, digits),
                    Cell(ranged(difference.value, difference.interval, digits, signed=True)),
                )
            )
    return Table(tuple(columns), tuple(rows))


def _answers(check: DriftCheck) -> str:
    return "answered: " + "; ".join(f"{each.case} {each.answered} of {each.n}" for each in check.answers)
