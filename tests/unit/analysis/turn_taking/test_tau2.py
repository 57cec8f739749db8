"""tau2's panel: its own recorded calls with the values that it expects, and its defects by hand."""

import pytest

from live_eval.analysis.turn_taking import tau2
from live_eval.types import SpeechKind
from tests.support import tau2_calls
from tests.support.conversations import conversation, reply, said

recorded = pytest.mark.skipif(
    not tau2_calls.FOLDER.exists(), reason="tau2's recorded calls are not next to the project"
)
NAMES = {
    "L_R": "response_latency_mean",
    "L_Y": "yield_latency_mean",
    "R_R": "response_rate",
    "R_Y": "yield_rate",
    "I_A": "agent_interruption_rate",
    "S_BC": "selectivity_backchannel",
    "S_VT": "selectivity_vocal_tic",
    "S_ND": "selectivity_non_directed",
}
COUNTS = {
    "R_R": "response_total",
    "R_Y": "yield_total",
    "I_A": "response_total",
    "S_BC": "backchannel_total",
    "S_VT": "vocal_tic_total",
    "S_ND": "non_directed_total",
}


@recorded
def test_recorded_calls_have_the_values_that_tau2_expects() -> None:
    found, expected = tau2.metrics(tau2_calls.calls()), tau2_calls.expected()
    assert {name: found[name].as_defined for name in NAMES} == pytest.approx(
        {name: expected[field] for name, field in NAMES.items()}, rel=1e-14
    )
    assert {name: found[name].n for name in COUNTS} == {
        name: expected["counts"][field] for name, field in COUNTS.items()
    }


@recorded
def test_selectivity_of_recorded_calls_is_hidden_as_on_the_leaderboard() -> None:
    found = tau2.metrics(tau2_calls.calls())["selectivity"]
    assert found.as_defined is None
    assert found.why == "as defined: hidden, S_BC, S_VT and S_ND require 10 events each, got 3, 7, 6"
    assert found.corrected == pytest.approx((1 / 3 + 2 / 5 + 2 / 7) / 3)


def test_the_grid_makes_a_latency_short_and_a_yield_long() -> None:
    # The first reply begins 0.5 s after the user; the user interrupts it, and it stops after 0.5 s.
    found = tau2.metrics(
        [
            conversation(
                [said((0.0, 1.1)), said((2.9, 4.0))],
                [reply((1.6, 3.4), completed=False), reply((4.5, 6.0))],
            )
        ]
    )
    assert found["L_R"].corrected == pytest.approx(0.5)
    assert found["L_R"].as_defined == pytest.approx((0.4 + 0.4) / 2)
    assert found["L_Y"].corrected == pytest.approx(0.5)
    assert found["L_Y"].as_defined == pytest.approx(0.6)


def test_a_reply_that_ends_naturally_is_not_a_yield() -> None:
    heard = [said((0.0, 1.0)), said((3.0, 5.0))]
    after = reply((6.0, 8.0))
    cut = conversation(heard, [reply((2.0, 3.6), completed=False), after])
    ended = conversation(heard, [reply((2.0, 3.6)), after])
    kept = conversation(heard, [reply((2.0, 5.4)), after])

    found = tau2.metrics([cut, ended, kept])["R_Y"]
    assert (found.as_defined, found.n) == pytest.approx((2 / 3, 3))
    assert (found.corrected, found.n_corrected) == (0.5, 2)
    assert found.why == "natural ends excluded: 1"
    assert tau2.metrics([cut, ended])["L_Y"].corrected == pytest.approx(0.6)


def test_an_interruption_with_too_short_a_recording_is_excluded() -> None:
    found = tau2.metrics(
        [conversation([said((0.0, 1.0)), said((3.0, 4.0))], [reply((2.0, 4.0), completed=False)], end_s=4.0)]
    )["R_Y"]
    assert (found.as_defined, found.corrected) == (0.0, None)
    assert found.why == "corrected: no interruption"


def test_a_pause_inside_a_reply_is_not_a_yield_but_a_new_reply_is() -> None:
    user = [said((0.0, 1.0)), said((3.0, 4.0))]
    breath = conversation(user, [reply((2.0, 3.4), (3.8, 9.0))])
    long = conversation(user, [reply((2.0, 3.4), (4.4, 9.0))])
    assert tau2.metrics([long])["R_Y"].corrected == 0.0
    stop = conversation(user, [reply((2.0, 3.4), completed=False), reply((4.4, 9.0))])
    assert tau2.metrics([breath])["R_Y"].corrected == 0.0
    assert tau2.metrics([stop])["R_Y"].corrected == 1.0


def test_an_unanswered_last_turn_counts_if_enough_was_recorded_after_it() -> None:
    user, agent = [said((0.0, 1.0)), said((6.0, 7.0))], [reply((2.0, 4.0))]
    listened = tau2.metrics([conversation(user, agent, end_s=12.0)])["R_R"]
    hung_up = tau2.metrics([conversation(user, agent, end_s=8.0)])["R_R"]
    assert (listened.as_defined, listened.corrected) == (1.0, 0.5)
    assert (hung_up.as_defined, hung_up.corrected) == (1.0, 1.0)


def test_agent_interruptions_are_a_share_of_turns_once_corrected() -> None:
    # One turn, interrupted twice, then answered.
    found = tau2.metrics(
        [conversation([said((0.0, 8.0))], [reply((2.0, 3.0)), reply((5.0, 6.0)), reply((9.0, 11.0))])]
    )["I_A"]
    assert (found.as_defined, found.corrected) == (2.0, 1.0)


@pytest.mark.parametrize(("end_s", "right"), [(3.8, 0.0), (5.0, 1.0)])
def test_a_backchannel_should_not_silence_the_agent(end_s: float, right: float) -> None:
    found = tau2.metrics(
        [
            conversation(
                [said((0.0, 1.0)), said((3.0, 3.4), kind=SpeechKind.BACKCHANNEL)],
                [reply((2.0, end_s), completed=False)],
            )
        ]
    )["S_BC"]
    assert (found.as_defined, found.corrected, found.n) == (right, right, 1)


def test_a_tic_that_the_agent_talks_through_counts_once_corrected() -> None:
    through = conversation(
        [said((0.0, 1.0)), said((3.0, 3.2), kind=SpeechKind.VOCAL_TIC)], [reply((2.0, 6.0), completed=False)]
    )
    found = tau2.metrics([through])["S_VT"]
    assert (found.as_defined, found.n) == (None, 0)
    assert (found.corrected, found.n_corrected) == (1.0, 1)
    assert found.why == "as defined: no vocal tic"


def test_the_answer_to_a_turn_is_not_a_reaction_to_a_later_sound() -> None:
    aside = said((1.4, 2.0), kind=SpeechKind.NON_DIRECTED)
    answered = conversation([said((0.0, 1.0)), aside], [reply((2.4, 5.0))])
    reacted = conversation(
        [said((0.0, 1.0)), said((6.0, 6.6), kind=SpeechKind.NON_DIRECTED)],
        [reply((1.6, 4.0)), reply((7.0, 8.0))],
    )
    assert tau2.metrics([answered])["S_ND"].as_defined == 0.0
    assert tau2.metrics([answered])["S_ND"].corrected == 1.0
    assert tau2.metrics([reacted])["S_ND"].as_defined == 0.0
    assert tau2.metrics([reacted])["S_ND"].corrected == 0.0


def test_a_tic_inside_a_turn_belongs_to_the_turn() -> None:
    # tau2 treats the whole interruption as the tic, and yielding to it as an error.
    found = tau2.metrics(
        [
            conversation(
                [said((0.0, 1.0)), said((3.0, 5.0)), said((4.0, 4.2), kind=SpeechKind.VOCAL_TIC)],
                [reply((2.0, 3.6), completed=False), reply((6.0, 8.0))],
            )
        ]
    )
    assert (found["S_VT"].as_defined, found["S_VT"].corrected) == (0.0, None)
    assert (found["R_Y"].as_defined, found["R_Y"].corrected) == (None, 1.0)


def test_a_tic_in_a_backchannel_to_a_silent_agent_counts_as_a_tic() -> None:
    along, tic = said((4.0, 5.0), kind=SpeechKind.BACKCHANNEL), said((4.4, 4.6), kind=SpeechKind.VOCAL_TIC)
    found = tau2.metrics(
        [conversation([said((0.0, 1.0)), along, tic], [reply((2.0, 3.0)), reply((6.0, 7.0))])]
    )
    assert (found["S_BC"].n, found["S_VT"].as_defined) == (0, 0.0)


def test_without_conversations_every_value_is_missing_with_a_reason() -> None:
    found = tau2.metrics([])
    assert all(each.as_defined is None and each.corrected is None and each.why for each in found.values())
