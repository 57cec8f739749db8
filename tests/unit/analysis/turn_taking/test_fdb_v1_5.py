"""Full-Duplex-Bench v1.5, by hand from its definitions."""

import pytest

from live_eval.analysis.turn_taking import fdb_v1_5
from live_eval.types import SpeechKind
from tests.support.conversations import conversation, reply, said, stretch

USER = [said((0, 1)), said((3, 5))]


def test_the_overlap_is_the_stop_latency_and_the_gap_the_response_latency() -> None:
    found = fdb_v1_5.metrics([conversation(USER, [reply((1.5, 3.4), completed=False), reply((5.8, 8))])])
    stop, response = found["stop_latency"], found["response_latency"]
    assert (stop.as_defined, stop.corrected) == pytest.approx((0.4, 0.4))
    assert (response.as_defined, response.corrected) == pytest.approx((0.65, 0.65))
    assert (stop.why, response.why) == ("", "")


def test_an_agent_that_never_stops_counts_the_utterance_unless_corrected() -> None:
    found = fdb_v1_5.metrics([conversation(USER, [reply((1.5, 9))])])["stop_latency"]
    assert (found.as_defined, found.corrected) == (2.0, None)
    assert found.why == "corrected: no overlap that the agent yields to; never stopped, excluded: 1"


def test_a_stop_after_a_short_utterance_is_longer_than_the_utterance() -> None:
    spoken = conversation(
        [said((0, 1)), said((3, 3.5))], [reply((1.5, 4.2), completed=False), reply((5.8, 8))]
    )
    found = fdb_v1_5.metrics([spoken])["stop_latency"]
    assert (found.as_defined, found.corrected) == pytest.approx((0.5, 1.2))


def test_a_natural_end_is_not_a_stop() -> None:
    found = fdb_v1_5.metrics([conversation(USER, [reply((1.5, 3.4)), reply((5.8, 8))])])["stop_latency"]
    assert (found.as_defined, found.corrected) == pytest.approx((0.4, None))
    assert found.why.endswith("natural ends excluded: 1")


def test_an_early_reply_has_a_negative_latency_once_corrected() -> None:
    found = fdb_v1_5.metrics([conversation([said((0, 2))], [reply((1.6, 4))])])["response_latency"]
    assert (found.as_defined, found.corrected) == pytest.approx((None, -0.4))
    assert found.why == "as defined: no reply; early replies that the source excludes: 1"


def test_a_backchannel_expects_no_answer() -> None:
    spoken = conversation(
        [said((0, 1)), said((3, 3.3), kind=SpeechKind.BACKCHANNEL)], [reply((1.5, 6)), reply((8, 9))]
    )
    found = fdb_v1_5.metrics([spoken])["response_latency"]
    assert found.as_defined == pytest.approx((0.5 + 4.7) / 2)
    assert found.corrected == pytest.approx(0.5)


def test_segments_are_joined_at_gaps_up_to_the_limit() -> None:
    assert fdb_v1_5.joined([stretch(2.1, 3), stretch(0, 1), stretch(1.5, 2)], 500_000_000) == [stretch(0, 3)]
    assert len(fdb_v1_5.joined([stretch(0, 1), stretch(1.6, 2)], 500_000_000)) == 2


def test_of_several_user_segments_before_a_reply_the_last_counts() -> None:
    gaps = fdb_v1_5.response_gaps([stretch(0, 1), stretch(2, 3)], [stretch(4, 5)])
    assert gaps == [stretch(3, 4)]


def test_overlaps_are_found_on_both_sides() -> None:
    user, model = [stretch(0, 2), stretch(4, 6)], [stretch(1.5, 4.5), stretch(5, 5.5)]
    assert fdb_v1_5.overlaps(user, model) == [stretch(1.5, 2), stretch(4, 4.5), stretch(5, 5.5)]
