"""HumDial's weighting, by hand and against its results page."""

import re
from pathlib import Path

import pytest

from live_eval.analysis.metric_definition import MetricValue
from live_eval.analysis.turn_taking import humdial
from tests.support.conversations import conversation, reply, said

FASTEST_S, BASELINE_S = 0.624, 2.531  # HelloWorld and the baseline on the results page


@pytest.mark.parametrize(
    ("delay_s", "score"),
    [(1.260, 79.9), (1.632, 72.6), (1.237, 80.5), (2.531, 60.0), (0.624, 100.0), (3.391, 51.6)],
    ids=["cookie_asr", "Badcat", "SenseDialog", "Baseline", "HelloWorld", "AISpeech"],
)
def test_delay_scores_are_those_of_the_results_page(delay_s: float, score: float) -> None:
    assert humdial.delay_score(delay_s, FASTEST_S, BASELINE_S) == pytest.approx(score, abs=0.1)


def test_the_published_rows_follow_from_their_parts() -> None:
    page = Path(__file__).resolve().parents[4] / "docs/reference/turn-taking-metrics.md"
    row = re.compile(r"\| .+ \| ([\d.]+) \| ([\d.]+) \| (\d\.\d{3}) \| ([\d.]+) \| ([\d.]+) \|")
    rows = [tuple(map(float, found)) for found in row.findall(page.read_text("utf-8"))]
    assert len(rows) == 13
    for interruption, rejection, delay_s, score, total in rows:
        assert humdial.delay_score(delay_s, FASTEST_S, BASELINE_S) == pytest.approx(score, abs=0.1)
        assert 0.4 * interruption + 0.4 * rejection + 0.2 * score == pytest.approx(total, abs=0.1)


def delay(as_defined: float | None, corrected: float | None = None, why: str = "") -> MetricValue:
    return MetricValue(as_defined=as_defined, corrected=corrected, n=1, n_corrected=1, why=why)


BEHAVIOURS = {
    **dict.fromkeys(humdial.INTERRUPTIONS, ("C_RESPOND", "C_RESPOND", "C_RESPOND", "C_RESUME")),
    **dict.fromkeys(humdial.REJECTIONS, ("C_RESUME", "C_RESPOND")),
}


def test_the_total_is_weighted() -> None:
    found = humdial.total_score(BEHAVIOURS, delay(2.531, 0.624), fastest_s=FASTEST_S, baseline_s=BASELINE_S)
    assert found.as_defined == pytest.approx(0.4 * 75 + 0.4 * 50 + 0.2 * 60)
    assert found.corrected == pytest.approx(0.4 * 75 + 0.4 * 50 + 0.2 * 100)
    assert (found.n, found.why) == (28, "")


def test_scenes_have_equal_weights_regardless_of_their_dialogues() -> None:
    uneven = {**BEHAVIOURS, "Topic Switching": ("C_UNKNOWN",)}
    assert humdial.behaviour_score(uneven, humdial.INTERRUPTIONS, "C_RESPOND") == pytest.approx(60)


def test_a_missing_scene_leaves_no_total() -> None:
    found = humdial.total_score(
        {**BEHAVIOURS, "Pause Handling": ()}, delay(1.0, 1.0), fastest_s=FASTEST_S, baseline_s=BASELINE_S
    )
    assert (found.as_defined, found.corrected, found.why) == (None, None, "no dialogue in Pause Handling")


def test_a_missing_delay_leaves_no_total() -> None:
    found = humdial.total_score(
        BEHAVIOURS, delay(None, 1.0, "no reply"), fastest_s=FASTEST_S, baseline_s=BASELINE_S
    )
    assert found.as_defined is None
    assert found.corrected is not None
    assert found.why == "no reply"


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
