"""Curves and axes."""

from __future__ import annotations

import numpy as np

from live_eval.report.cells import Cell
from live_eval.report.plots import Axis, curve_plot


def test_a_curve_rises_to_the_share_of_answered_turns() -> None:
    plot = curve_plot("x", [(Cell("a"), [100.0, 200.0, 400.0], 4)])
    assert plot is not None
    [curve] = plot.paths
    assert curve.d == "M0 400H250.0V300.0H500.0V200.0H1000.0V100.0H1000"
    assert [tick.label for tick in plot.across_ticks] == ["0", "100", "200", "300", "400"]
    assert curve_plot("x", [(Cell("a"), [], 4)]) is None


def test_outliers_are_beyond_the_axis_and_counted() -> None:
    values = [*np.linspace(300, 500, 99).tolist(), 20_000.0]
    plot = curve_plot("x", [(Cell("a"), values, 100), (Cell("b", run=1), [-50.0], 1)])
    assert plot is not None
    assert [name.note for name in plot.legend] == ["1 beyond the axis", ""]
    assert float(plot.across_ticks[-1].label) < 1000
    assert plot.across_ticks[0].label.startswith("−"), "an early reply is to the left of zero"
    many = curve_plot("x", [(Cell("a"), np.linspace(1, 2, 5000).tolist(), 5000)])
    assert many is not None
    assert len(many.paths[0].d) < 10_000


def test_an_axis_between_values_may_exclude_zero() -> None:
    axis = Axis.between(3.02, 3.41)
    assert axis.low <= 3.02
    assert axis.high >= 3.41
    assert axis.low > 2.9
    assert Axis.between(4.0, 4.0).ticks()[0].label == "4"
