"""The value of a published metric."""

from live_eval.analysis.metric_definition import MetricValue, mean_value


def test_a_difference_needs_both_values() -> None:
    both = MetricValue(as_defined=0.5, corrected=0.25, n=4, n_corrected=4)
    assert both.difference == -0.25
    assert both.as_json() == {
        "as_defined": 0.5,
        "corrected": 0.25,
        "difference": -0.25,
        "n": 4,
        "n_corrected": 4,
        "why": "",
    }
    assert mean_value([], [1.0], missing="nothing").difference is None
