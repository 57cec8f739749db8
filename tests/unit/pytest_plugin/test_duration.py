"""Durations are compared with durations; comparing an unmeasured one fails."""

from __future__ import annotations

import pytest

from live_eval.pytest_plugin import Duration, ms


def test_durations_compare_by_length() -> None:
    assert ms(900) < ms(1200)
    assert ms(900) <= ms(900)
    assert ms(1200.5) > ms(1200)
    assert ms(-3) >= ms(-3)
    assert not ms(900) < ms(900)
    assert ms(0.25).ns == 250_000


def test_a_number_without_a_unit_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a duration, such as ms\(1200\), got 1200"):
        assert ms(900) < 1200  # type: ignore[operator]


def test_without_a_value_no_comparison_holds() -> None:
    silent = Duration(None, reason="no audible sample")
    assert silent.ms is None
    assert not any((silent < ms(1), silent <= ms(1), silent > ms(1), silent >= ms(1), ms(1) > silent))
    assert repr(silent) == "missing (no audible sample)"


def test_a_measured_duration_is_printed_with_its_error_bar() -> None:
    assert repr(Duration(902_345_678, error_bar_ns=410_000)) == "902.3 ms (error bar 0.4 ms)"
    assert repr(ms(1200)) == "1200.0 ms"
