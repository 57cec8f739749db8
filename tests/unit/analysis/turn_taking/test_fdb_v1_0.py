"""Full-Duplex-Bench v1, by hand from its definitions."""

import pytest

from live_eval.analysis.turn_taking import fdb_v1_0
from tests.support.conversations import conversation, reply, said, stretch


@pytest.mark.parametrize(
    ("length_s", "words", "tor"), [(0.9, 3, 0.0), (0.9, 4, 1.0), (1.0, 1, 1.0), (0.5, 0, 0.0)]
)
def test_a_short_reply_of_few_words_takes_no_turn(length_s: float, words: int, tor: float) -> None:
    found = fdb_v1_0.metrics(
        [
            conversation(
                [said((0, 2))], [reply((2.5, 2.5 + length_s), text=" ".join("word" for _ in range(words)))]
            )
        ]
    )
    assert found["smooth_turn_taking.TOR"].as_defined == tor
    assert found["smooth_turn_taking.TOR"].corrected == tor
    assert found["smooth_turn_taking.latency"].as_defined == (0.5 if tor else None)


def test_silence_takes_no_turn() -> None:
    found = fdb_v1_0.metrics([conversation([said((0, 2))])])
    assert found["smooth_turn_taking.TOR"].as_defined == 0.0
    assert found["smooth_turn_taking.latency"].why == "no turn taken over"


def test_a_negative_latency_stays_negative_once_corrected() -> None:
    late, early = reply((2.5, 5)), reply((1.7, 5))
    found = fdb_v1_0.metrics([conversation([said((0, 2))], [each]) for each in (late, early)])
    latency = found["smooth_turn_taking.latency"]
    assert latency.as_defined == pytest.approx((0.5 + 0) / 2)
    assert latency.corrected == pytest.approx((0.5 - 0.3) / 2)
    assert latency.why == "negative latencies clamped by the source: 1"


def test_speech_that_ends_before_the_users_turn_is_not_an_answer() -> None:
    found = fdb_v1_0.metrics([conversation([said((0, 5))], [reply((2, 2.5)), reply((6, 8))])])
    latency = found["smooth_turn_taking.latency"]
    assert (latency.as_defined, latency.corrected) == (0.0, 1.0)


def test_an_agent_that_never_stops_does_not_succeed() -> None:
    user = [said((0, 1)), said((3, 4))]
    never = conversation(user, [reply((2, 9))])
    yields = conversation(user, [reply((2, 3.4), completed=False), reply((4.7, 8))])
    found = fdb_v1_0.metrics([never, yields])
    tor, latency = found["user_interruption.TOR"], found["user_interruption.latency"]
    assert (tor.as_defined, tor.corrected) == (1.0, 0.5)
    assert tor.why == "taken over only by the interrupted reply: 1"
    assert latency.as_defined == pytest.approx((0 + 0.7) / 2)
    assert latency.corrected == pytest.approx(0.7)


def test_a_short_tail_of_the_interrupted_reply_takes_no_turn_in_the_source_either() -> None:
    found = fdb_v1_0.metrics(
        [
            conversation(
                [said((0, 1)), said((3, 4))], [reply((2, 4.5), completed=False, text="one two three four")]
            )
        ]
    )
    assert found["user_interruption.TOR"].as_defined == 0.0


def test_a_takeover_in_a_pause_is_counted() -> None:
    user = [said((0, 1), (3, 4))]
    waits = conversation(user, [reply((5, 8))])
    takes = conversation(user, [reply((1.5, 3.5), completed=False), reply((5, 8))])
    follows = conversation(user, [reply((1.5, 2.0), text="mm hmm"), reply((5, 8))])
    found = fdb_v1_0.metrics([waits, takes, follows])["pause_handling.TOR"]
    assert (found.as_defined, found.corrected, found.n) == pytest.approx((1 / 3, 1 / 3, 3))


def test_a_reply_created_in_a_pause_counts_once_corrected() -> None:
    # The endpoint ends the turn 0.4 s into the pause and answers after the second part.
    found = fdb_v1_0.metrics([conversation([said((0, 1), (3, 4))], [reply((4.2, 8), created_s=1.4)])])
    tor = found["pause_handling.TOR"]
    assert (tor.as_defined, tor.corrected) == (0.0, 1.0)


def test_backchannels_are_short_and_of_two_words_at_most() -> None:
    found = fdb_v1_0.metrics(
        [conversation([said((0, 10))], [reply((2, 2.4), text="mm hmm"), reply((6, 6.5), text="right")])]
    )
    assert (found["backchannel.TOR"].as_defined, found["backchannel.TOR"].corrected) == (0.0, 0.0)
    assert (found["backchannel.frequency"].as_defined, found["backchannel.frequency"].corrected) == (0.2, 0.2)


def test_in_the_source_the_last_segment_decides_and_all_are_counted() -> None:
    takeover, backchannel = reply((2, 4)), reply((6, 6.5))
    found = fdb_v1_0.metrics([conversation([said((0, 10))], [takeover, backchannel])])
    assert (found["backchannel.TOR"].as_defined, found["backchannel.TOR"].corrected) == (0.0, 1.0)
    assert (found["backchannel.frequency"].as_defined, found["backchannel.frequency"].corrected) == (0.2, 0.1)


def test_a_segment_of_more_than_3_s_takes_the_turn_and_ends_the_count() -> None:
    found = fdb_v1_0.metrics([conversation([said((0, 10))], [reply((1, 4.5)), reply((6, 6.5))])])
    assert (found["backchannel.TOR"].as_defined, found["backchannel.TOR"].corrected) == (1.0, 1.0)
    assert (found["backchannel.frequency"].as_defined, found["backchannel.frequency"].corrected) == (0.0, 0.1)


def test_words_are_spread_evenly_over_the_audible_speech() -> None:
    response = reply((0, 1), (2, 4), text="one two three four five six")
    assert [
        fdb_v1_0.words_within(response, *stretch(*each)) for each in ((0, 1), (2, 4), (3, 4), (1, 2))
    ] == [
        2,
        4,
        2,
        0,
    ]
