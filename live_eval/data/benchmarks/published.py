"""Read the values that benchmarks publish for models, with their source and judge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

__all__ = ["OVERALL", "PublishedTable", "published_tables"]

OVERALL = "Overall"
"""The column with the mean over the others, of which ratings are multiplied by 20."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table of published values.

    Args:
        source: Where the values were read.
        judge: How the publisher scored the replies, if not by a rule.
        percent: Whether ratings from 1 to 5 are published multiplied by 20.
        columns: Parts of the benchmark, and `OVERALL`.
        rows: Values of each model, one for each column; None if unpublished.
    """

    benchmark: str
    title: str
    source: str
    judge: str
    percent: bool
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]


def published_tables(benchmark: str) -> list[PublishedTable]:
    """Return the tables that a benchmark publishes; empty if none was found."""
    text = resources.files(__package__).joinpath("published.json").read_text("utf-8")
    return [PublishedTable(**table) for table in json.loads(text) if table["benchmark"] == benchmark]
