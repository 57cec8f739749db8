"""Build the paper's plots of one level against another, with the runs' models added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from live_eval.analysis.agreement import spearman
from live_eval.analysis.leaderboard_columns import BoardColumn
from live_eval.analysis.statistics.intervals import MIN_CLUSTERS
from live_eval.analysis.task_levels import PLOTTED, related_columns
from live_eval.report.leaderboard.entries import Entry, choose_prompts_of
from live_eval.report.leaderboard.paper import PUBLISHED
from live_eval.types import Task

__all__ = ["LevelPlot", "ModelDot", "level_plots"]


@dataclass(frozen=True, slots=True)
class ModelDot:
    """A model in a plot of two levels."""

    label: str
    published: bool
    across: float
    up: float


@dataclass(frozen=True, slots=True)
class LevelPlot:
    """A plot of two levels against each other over models, as in the paper.

    Args:
        correlation: Spearman correlation over all models; None if undefined.
        published: Spearman correlation over the published models alone.
    """

    across: BoardColumn
    up: BoardColumn
    dots: tuple[ModelDot, ...]
    correlation: float | None
    published: float | None


def level_plots(entries: Sequence[Entry]) -> tuple[LevelPlot, ...]:
    """Return the paper's plots.

    Each model has one dot: its replies with the prompt in the table, and its first run with questions. Means
    over too few scripts are omitted.
    """
    columns = {column.title: column for column in related_columns()}
    ours = [_figures(entries, model) for model in dict.fromkeys(entry.model for entry in entries)]
    models = [(name, True, dict(figures)) for name, figures in PUBLISHED.items()]
    models += [(label, False, figures) for label, figures in ours]
    plots = []
    for across, up in PLOTTED:
        if not {across, up} <= columns.keys():
            continue
        dots = tuple(
            ModelDot(label, published, figures[across], figures[up])
            for label, published, figures in models
            if {across, up} <= figures.keys()
        )
        published = [dot for dot in dots if dot.published]
        plots.append(
            LevelPlot(columns[across], columns[up], dots, _correlation(dots), _correlation(published))
        )
    return tuple(plots)


def _figures(entries: Sequence[Entry], model: tuple[str | None, ...]) -> tuple[str, dict[str, float]]:
    """Return a model's name and its values by column title."""
    runs = [entry for entry in entries if entry.model == model]
    figures: dict[str, float] = {}
    for column in related_columns():
        shown = [entry for entry in choose_prompts_of(column.table, runs).entries if not entry.states_cue]
        for entry in shown if column.task is Task.CONVERSATION else runs:
            found = entry.mean(column, entry.turns(column))
            if found.value is not None and found.clusters >= MIN_CLUSTERS:
                figures.setdefault(column.title, found.value)
    return runs[0].label, figures


def _correlation(dots: Sequence[ModelDot]) -> float | None:
    across, up = [dot.across for dot in dots], [dot.up for dot in dots]
    return spearman(across, up, range(len(dots))).value
