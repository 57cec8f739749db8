"""InteractionGym's scores, by hand from its table of outcomes."""

import pytest

from live_eval.analysis.turn_taking import interaction_gym
from live_eval.analysis.turn_taking.speech import AgentSpeech, UserSpeech
from live_eval.types import SpeechKind
from tests.support.conversations import conversation, reply, said


@pytest.mark.parametrize(
    ("latency_ms", "score"),
    [
        (0, 1.0),
        (200, 0.999),
        (500, 0.989),
        (800, 0.818),
        (950, 0.5),
        (1000, 0.378),
        (1500, 0.004),
        (-300, 1.0),
    ],
)
def test_latency_scores_are_those_of_the_sources_table(latency_ms: float, score: float) -> None:
    assert interaction_gym.latency_score(latency_ms) == pytest.approx(score, abs=5e-4)


def test_a_very_late_reply_scores_almost_zero() -> None:
    assert interaction_gym.latency_score(1e9) == pytest.approx(0, abs=1e-20)


def value(
    expects: str, user: list[UserSpeech], agent: list[AgentSpeech], end_s: float = 30.0
) -> float | None:
    found = interaction_gym.metrics([conversation(user, agent, end_s=end_s)])[expects]
    assert found.corrected == found.as_defined
    return found.as_defined


@pytest.mark.parametrize(
    ("agent", "end_s", "score"),
    [
        ([reply((2.5, 5))], 30.0, interaction_gym.latency_score(500)),
        ([reply((1.5, 5))], 30.0, 0.0),
        ([reply((7.5, 9))], 30.0, 0.0),
        ([], 30.0, 0.0),
        ([], 6.0, None),
    ],
    ids=["responded", "talked_over", "too late", "no_response", "censored"],
)
def test_a_turn_should_be_answered(agent: list[AgentSpeech], end_s: float, score: float | None) -> None:
    assert value("respond", [said((0, 2))], agent, end_s) == score


@pytest.mark.parametrize(
    ("agent", "score"),
    [
        ([reply((2, 3.4), completed=False), reply((5, 7))], interaction_gym.latency_score(400)),
        ([reply((2, 9)), reply((10, 12))], 0.0),
        ([reply((2, 3.4), completed=False), reply((4.0, 7))], 0.0),
        ([reply((2, 3.4), completed=False)], 0.0),
    ],
    ids=["yielded", "kept_talking", "talked_over", "no_response"],
)
def test_an_interruption_should_stop_the_agent(agent: list[AgentSpeech], score: float) -> None:
    assert value("yield", [said((0, 1)), said((3, 4.5))], agent) == score


def test_a_natural_end_is_not_a_yield_once_corrected() -> None:
    spoken = conversation([said((0, 1)), said((3, 4.5))], [reply((2, 3.4)), reply((5, 7))])
    found = interaction_gym.metrics([spoken])["yield"]
    assert (found.as_defined, found.corrected) == (interaction_gym.latency_score(400), None)
    assert found.why == "corrected: no interruption; natural ends excluded: 1"


ASIDE = said((4, 4.5), kind=SpeechKind.NON_DIRECTED)
BACKCHANNEL = said((4, 4.5), kind=SpeechKind.BACKCHANNEL)


@pytest.mark.parametrize(
    ("sound", "agent", "score"),
    [
        (ASIDE, [reply((2, 7))], 1.0),
        (ASIDE, [reply((2, 5.2), completed=False)], 0.0),
        (ASIDE, [reply((2, 6.0), completed=False)], 1.0),
        (ASIDE, [reply((2, 5)), reply((6, 7))], 0.0),
        (BACKCHANNEL, [reply((2, 5)), reply((6, 7))], 1.0),
        (ASIDE, [reply((2, 3)), reply((6, 7))], 0.0),
        (ASIDE, [reply((2, 3)), reply((7, 8))], 1.0),
        (ASIDE, [reply((5, 7))], 1.0),
        (ASIDE, [reply((2, 3))], 1.0),
    ],
    ids=[
        "goes on",
        "stopped",
        "stops later",
        "replied after its own end",
        "goes on after a backchannel",
        "replied in silence",
        "speaks later",
        "answers the turn",
        "stays silent",
    ],
)
def test_speech_to_other_people_should_be_ignored(
    sound: UserSpeech, agent: list[AgentSpeech], score: float
) -> None:
    assert value("ignore", [said((0, 1)), sound], agent) == score


@pytest.mark.parametrize(
    ("agent", "score"), [([reply((5, 7))], 1.0), ([reply((1.5, 2)), reply((5, 7))], 0.0)]
)
def test_the_agent_should_wait_through_a_pause(agent: list[AgentSpeech], score: float) -> None:
    assert value("wait", [said((0, 1), (3, 4))], agent) == score


def test_the_total_is_the_mean_of_all() -> None:
    found = value("total", [said((0, 1), (3, 4))], [reply((4.5, 7))])
    assert found == pytest.approx((1 + interaction_gym.latency_score(500)) / 2)
