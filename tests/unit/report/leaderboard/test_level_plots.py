"""Plots of levels over models."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from scipy.stats import spearmanr

from live_eval.report.leaderboard import build_board, render
from live_eval.report.leaderboard.paper import PUBLISHED


def test_levels_are_plotted_over_models_as_in_the_paper(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    plots = {(plot.across.title, plot.up.title): plot for plot in board.plots}
    assert list(plots) == [
        ("understanding", "reasoning"),
        ("understanding", "C4"),
        ("understanding", "VES"),
        ("reasoning", "C1"),
        ("reasoning", "VES"),
    ]
    published = [row for row in PUBLISHED.values() if {"understanding", "reasoning"} <= row.keys()]
    alone = plots["understanding", "reasoning"]
    expected = spearmanr(
        [row["understanding"] for row in published], [row["reasoning"] for row in published]
    ).statistic
    assert len(alone.dots) == len(published) == 13
    assert alone.correlation == pytest.approx(expected)
    ours = [dot for dot in plots["understanding", "C4"].dots if not dot.published]
    assert [(dot.across, dot.label) for dot in ours] == [(50.0, "made-up")]
    assert alone.published == alone.correlation
    several = build_board([runs["basic"], runs["enhance"]])
    for plot, value in ((several.plots[1], 3.5), (several.plots[2], 2.5)):
        [dot] = [dot for dot in plot.dots if not dot.published]
        assert dot.up == pytest.approx(value, abs=0.06), "under the prompt that the table shows"
    page = render(board, "html")
    assert page.count('class="dot mine"') == 2, "with C4 and with VES; it was not asked to reason"
    assert "| C4 speech information relevance by understanding | " in render(board, "md")
