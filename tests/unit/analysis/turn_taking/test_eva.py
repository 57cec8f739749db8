"""eva's turn-taking score, by hand from its tables and rules."""

import pytest

from live_eval.analysis.turn_taking import eva
from tests.support.conversations import conversation, reply, said


@pytest.mark.parametrize(
    ("latency_ms", "score"),
    [
        (-600, 0.0),
        (-500, 0.0),
        (0, 0.5),
        (200, 0.7),
        (500, 1.0),
        (2000, 1.0),
        (2750, 0.5),
        (3000, 1 / 3),
        (3500, 0.0),
        (5000, 0.0),
    ],
)
def test_latency_scores_are_those_of_the_sources_table(latency_ms: float, score: float) -> None:
    assert eva.latency_score(latency_ms) == pytest.approx(score)


def test_overlap_count_and_yield_scores_are_those_of_the_sources_tables() -> None:
    assert [eva.overlap_score(ms) for ms in (0, 500, 1000, 2000, 9000)] == [0.5, 0.375, 0.25, 0, 0]
    assert [eva.count_score(n) for n in (1, 2, 3, 9)] == [0.5, 0.25, 0, 0]
    assert [eva.yield_score(ms) for ms in (0, 600, 1000, 2000, 9000)] == [1, 0.7, 0.5, 0, 0]


def test_a_conversation_scores_the_mean_of_its_turns() -> None:
    # Latencies of 1,000 and 200 ms; then the agent interrupts for 200 ms and settles after 1,000 ms; then it
    # yields after 100 ms. Scores 1.0, 0.7, 0.45, 0.95.
    spoken = conversation(
        [said((0, 1)), said((4, 5)), said((8, 10)), said((13, 15))],
        [
            reply((2, 3)),
            reply((5.2, 7)),
            reply((9, 9.2), completed=False),
            reply((11, 13.1), completed=False),
            reply((16, 17)),
        ],
    )
    found = eva.metrics([spoken])
    score = found["turn_taking"]
    assert (score.as_defined, score.corrected) == pytest.approx((0.775, 0.775))
    assert found["user_interruption.mean_yield_ms"].as_defined == pytest.approx(100)
    assert found["user_interruption.mean_yield_score"].as_defined == pytest.approx(0.95)


def test_an_agent_that_talks_past_the_end_of_the_turn_has_no_latency() -> None:
    found = eva.metrics([conversation([said((0, 2))], [reply((1.6, 4))])])["turn_taking"]
    assert found.as_defined == pytest.approx(0.5 * (1 - 400 / 2000))


def test_a_pause_belongs_to_the_users_audio() -> None:
    found = eva.metrics([conversation([said((0, 1), (3, 4))], [reply((1.5, 2.5)), reply((5, 6))])])
    assert found["turn_taking"].as_defined == pytest.approx(0.5 * (1 - 1000 / 2000))


def test_an_unanswered_last_turn_zeroes_the_conversation_or_corrected_only_itself() -> None:
    user, agent = [said((0, 1)), said((5, 6))], [reply((2, 4))]
    found = eva.metrics([conversation(user, agent)])["turn_taking"]
    assert (found.as_defined, found.corrected) == (0.0, 0.5)
    assert found.why == "unanswered turns: 1"


def test_an_unanswered_turn_in_between_counts_only_when_corrected() -> None:
    found = eva.metrics([conversation([said((0, 1)), said((5, 6))], [reply((7, 9))])])["turn_taking"]
    assert (found.as_defined, found.corrected) == (1.0, 0.5)


def test_a_natural_end_counts_as_a_yield_unless_corrected() -> None:
    user = [said((0, 1)), said((3, 4))]
    spoken = conversation(user, [reply((2, 3.2)), reply((6.75, 8))])
    found = eva.metrics([spoken])
    assert found["turn_taking"].as_defined == pytest.approx((1 + 0.9) / 2)
    assert found["turn_taking"].corrected == pytest.approx((1 + 0.5) / 2)
    yields = found["user_interruption.mean_yield_ms"]
    assert (yields.as_defined, yields.corrected) == pytest.approx((200, None))
    assert yields.why == "corrected: no interruption; natural ends that the source counts as yields: 1"


def test_talking_over_the_whole_interruption_scores_zero() -> None:
    found = eva.metrics([conversation([said((0, 1)), said((3, 4))], [reply((2, 5.5)), reply((6, 8))])])
    assert found["turn_taking"].corrected == pytest.approx(0.5)
    assert found["user_interruption.mean_yield_ms"].corrected == pytest.approx(2500)


def test_a_greeting_is_not_a_turn() -> None:
    found = eva.metrics([conversation([said((3, 4))], [reply((0, 2)), reply((5, 6))])])["turn_taking"]
    assert found.as_defined == 1.0
