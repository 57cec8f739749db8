"""HumDial's delays, by hand."""

import pytest

from live_eval.analysis.turn_taking import humdial
from tests.support.conversations import conversation, reply, said


def test_the_first_response_delay_drops_early_replies_unless_corrected() -> None:
    late = conversation([said((0, 2))], [reply((2.6, 5))])
    early = conversation([said((0, 2))], [reply((1.8, 5))])
    found = humdial.metrics([late, early])["first_response_delay"]
    assert (found.as_defined, found.n) == pytest.approx((0.6, 1))
    assert (found.corrected, found.n_corrected) == pytest.approx((0.2, 2))
    assert found.why == "early replies that the source drops: 1"


def test_the_total_delay_is_the_mean_of_three() -> None:
    spoken = conversation([said((0, 1)), said((3, 5))], [reply((1.5, 3.4), completed=False), reply((5.8, 8))])
    found = humdial.metrics([spoken])["total_delay"]
    assert found.as_defined == pytest.approx((0.4 + 0.65 + 0.5) / 3)


def test_a_total_delay_without_an_overlap_has_a_reason() -> None:
    found = humdial.metrics([conversation([said((0, 1))], [reply((2, 3))])])["total_delay"]
    assert (found.as_defined, found.why) == (None, "no stop_latency")
