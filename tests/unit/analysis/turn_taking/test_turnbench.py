"""TurnBench's matching, by hand from its rules."""

import pytest

from live_eval.analysis.turn_taking import turnbench
from live_eval.analysis.turn_taking.speech import Stretch
from live_eval.types import SpeechKind
from tests.support.conversations import S, conversation, reply, said, stretch


def score(
    events: list[float], negatives: list[Stretch], predictions: list[float], before_s: float = 0.25
) -> tuple[int, int, int, int]:
    found = turnbench.score_task(
        [round(each * S) for each in events],
        negatives,
        [round(each * S) for each in predictions],
        before_ns=round(before_s * S),
    )
    return found.tp, found.fn, found.fp, found.tn


@pytest.mark.parametrize(
    ("prediction", "hit"), [(9.74, 0), (9.75, 1), (10.0, 1), (13.0, 1), (13.01, 0)], ids=str
)
def test_a_report_counts_from_a_quarter_second_before_to_3_s_after(prediction: float, hit: int) -> None:
    assert score([10], [], [prediction]) == (hit, 1 - hit, 0, 0)


def test_a_report_after_the_next_event_is_the_next_events() -> None:
    assert score([10, 11], [], [11.5]) == (1, 1, 0, 0)


def test_one_report_matches_one_event() -> None:
    assert score([10, 10.5], [], [10.45]) == (1, 1, 0, 0)


def test_a_span_is_a_false_positive_once() -> None:
    assert score([], [stretch(2, 3), stretch(5, 6)], [2.1, 2.2, 2.3]) == (0, 0, 1, 1)


def test_the_tolerance_is_charged_to_negative_spans_too() -> None:
    assert score([], [stretch(2, 3)], [1.8]) == (0, 0, 1, 0)
    assert score([], [stretch(2, 3)], [1.8], before_s=0) == (0, 0, 0, 1)


def test_a_report_inside_a_window_is_never_a_false_positive() -> None:
    assert score([2], [stretch(1, 3)], [2.1, 2.5]) == (1, 0, 0, 1)


def test_a_pause_inside_a_turn_is_not_an_end_of_turn() -> None:
    spoken = conversation(
        [said((0, 1), (3, 4)), said((10, 11))], [reply((5, 7)), reply((12, 14))], stopped_s=[1.5, 4.5, 11.3]
    )
    found = turnbench.metrics([spoken])
    assert found["eot.recall"].as_defined == 1.0
    assert found["eot.fp_rate"].as_defined == 1.0
    assert found["eot.latency_p50"].as_defined == pytest.approx(400)
    assert found["eot.latency_p90"].as_defined == pytest.approx(480)
    ranked = found["eot.recall_at_fp_rate"]
    assert ranked.as_defined is None
    assert ranked.why == "the false-positive rate is above 0.1, or there are no pauses inside turns"


def test_a_backchannel_is_not_an_interruption() -> None:
    spoken = conversation(
        [
            said((0, 1)),
            said((3, 3.3), kind=SpeechKind.BACKCHANNEL),
            said((8, 9)),
            said((20, 21), kind=SpeechKind.NOISE),
        ],
        [reply((2, 8.5), completed=False), reply((10, 12))],
        started_s=[0.1, 8.2, 20.4],
    )
    found = turnbench.metrics([spoken])
    assert (found["int.recall"].as_defined, found["int.recall"].n) == (1.0, 1)
    assert (found["int.fp_rate"].as_defined, found["int.fp_rate"].n) == (0.5, 2)
    assert found["int.latency_p10"].as_defined == pytest.approx(200)


def test_a_good_detector_is_ranked() -> None:
    spoken = conversation([said((0, 1), (3, 4))], [reply((5, 7))], stopped_s=[4.5])
    assert turnbench.metrics([spoken])["eot.recall_at_fp_rate"].as_defined == 1.0


def test_a_report_before_the_end_is_early_once_corrected() -> None:
    spoken = conversation([said((0, 1))], [reply((2, 3))], stopped_s=[0.8])
    found = turnbench.metrics([spoken])
    assert (found["eot.recall"].as_defined, found["eot.recall"].corrected) == (1.0, 0.0)
    latency = found["eot.latency_p50"]
    assert (latency.as_defined, latency.corrected) == pytest.approx((-200, None))
    assert latency.why == "the endpoint reported none of the ends of turns"


def test_an_endpoint_that_reports_nothing_has_no_score() -> None:
    found = turnbench.metrics([conversation([said((0, 1))], [reply((2, 3))])])
    assert found["eot.recall"].as_defined is None
    assert found["eot.recall"].why == "the endpoint reports no end of speech"
    assert found["int.recall"].why == "no interruption"
