"""All metrics together: their names, and corrections that change nothing in defect-free cases."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_eval.analysis.turn_taking import DEFINITIONS, all_metrics
from live_eval.analysis.turn_taking.speech import AgentSpeech, Conversation, UserSpeech
from live_eval.types import SpeechKind
from tests.support.conversations import conversation, reply, said

TICK_S = 0.2


@st.composite
def faultless(draw: st.DrawFn) -> Conversation:
    """Return a conversation on tau2's grid that triggers none of the sources' defects.

    Every turn is answered after the user has finished; a reply is interrupted and stops before the user has
    finished, or the user backchannels and it ends before the user speaks again.
    """
    ticks = st.integers
    user: list[UserSpeech] = []
    agent: list[AgentSpeech] = []
    stopped: list[float] = []
    now = 0

    def speak(start: int, end: int, kind: SpeechKind = SpeechKind.TURN) -> None:
        user.append(said((start * TICK_S, end * TICK_S), kind=kind))

    end = now + draw(ticks(1, 20))
    speak(now, end)
    for interrupted in draw(st.lists(st.booleans(), max_size=4)):
        stopped.append((end + 1) * TICK_S)
        start = end + draw(ticks(2, 12))
        if interrupted:
            over = start + draw(ticks(6, 20))
            stop = over + draw(ticks(1, 5))
            agent.append(reply((start * TICK_S, stop * TICK_S), completed=False))
            end = stop + draw(ticks(4, 15))
            speak(over, end)
        else:
            along = start + draw(ticks(1, 10))
            stop = along + draw(ticks(8, 20))
            agent.append(reply((start * TICK_S, stop * TICK_S)))
            if draw(st.booleans()):
                speak(along, along + 2, SpeechKind.BACKCHANNEL)
            now = stop + draw(ticks(5, 10))
            end = now + draw(ticks(1, 20))
            speak(now, end)
    start = end + draw(ticks(2, 12))
    stopped.append((end + 1) * TICK_S)
    agent.append(reply((start * TICK_S, (start + 8) * TICK_S)))
    return conversation(user, agent, end_s=(start + 40) * TICK_S, stopped_s=stopped)


@st.composite
def any_conversation(draw: st.DrawFn) -> Conversation:
    """Return any recordable conversation: utterances in order, responses that may overlap anything."""
    user, now = [], 0.0
    for kind in draw(st.lists(st.sampled_from(SpeechKind), max_size=5)):
        sounds = []
        for _ in range(draw(st.integers(1, 3))):
            start = now + draw(st.floats(0.01, 3))
            now = start + draw(st.floats(0.01, 4))
            sounds.append((start, now))
        user.append(said(*sounds, kind=kind))
    agent, now = [], 0.0
    for completed in draw(st.lists(st.booleans(), max_size=5)):
        sounds = []
        for _ in range(draw(st.integers(0, 3))):
            start = now + draw(st.floats(0.1, 3))
            now = start + draw(st.floats(0.01, 4))
            sounds.append((start, now))
        text = draw(st.sampled_from(["", "yes", "one two three"]))
        agent.append(reply(*sounds, completed=completed, text=text))
    reports = st.lists(st.floats(0, 60), max_size=4).map(sorted)
    return conversation(user, agent, end_s=65.0, started_s=draw(reports), stopped_s=draw(reports))


@given(st.lists(any_conversation(), max_size=3))
def test_a_value_is_a_number_or_missing_with_a_reason(conversations: list[Conversation]) -> None:
    units = {each.name: each.unit for each in DEFINITIONS}
    for name, figure in all_metrics(conversations).items():
        values = (figure.as_defined, figure.corrected)
        assert all(each is None or math.isfinite(each) for each in values), name
        assert figure.why or None not in values, name
        if not units[name] and name != "tau2.I_A":
            assert all(each is None or 0 <= each <= 1 for each in values), name


# In Full-Duplex-Bench v1.5 a backchannel is an overlap that did not stop the agent, and expects an answer.
BACKCHANNELS = {
    "fdb_v1.5.stop_latency",
    "fdb_v1.5.response_latency",
    "humdial.total_delay",
}


@given(st.lists(faultless(), max_size=4))
def test_a_correction_changes_nothing_without_a_defect(conversations: list[Conversation]) -> None:
    found = all_metrics(conversations)
    hidden = {"tau2.selectivity"}
    if any(each.kind is SpeechKind.BACKCHANNEL for one in conversations for each in one.user):
        hidden |= BACKCHANNELS
    for name in found.keys() - hidden:
        figure = found[name]
        assert figure.corrected == (
            None if figure.as_defined is None else pytest.approx(figure.as_defined)
        ), name
        assert figure.n == figure.n_corrected, name


def test_every_metric_has_a_definition_in_the_same_order() -> None:
    assert list(all_metrics([])) == [each.name for each in DEFINITIONS]


def test_without_conversations_every_metric_has_a_reason() -> None:
    for name, figure in all_metrics([]).items():
        assert (figure.as_defined, figure.corrected, figure.n) == (None, None, 0), name
        assert figure.why, name


def test_conversations_without_audible_speech_raise_nothing() -> None:
    assert all(figure.as_defined is None for figure in all_metrics([conversation([])]).values())
