"""The metrics of several endpoints."""

from dataclasses import replace

import pytest

from live_eval.errors import FailureKind
from live_eval.live.lines import in_words
from live_eval.live.standings import Standing, common_state
from live_eval.live.updates import Levels, SpeechDetected, State, StateChanged
from live_eval.types import Failure
from tests.unit.live.test_ballot import turn


def test_the_state_and_the_values_follow_the_updates() -> None:
    standing = Standing("a")
    assert (standing.in_words, standing.so_far, standing.turn_in_words(1)) == ("starting", "–", "…")
    standing.follow(StateChanged(State.TALKING))
    assert standing.in_words == "listening"
    standing.follow(SpeechDetected(speaking=False))
    assert standing.in_words == "thinking"
    standing.follow(Levels(-90.0, -20.0, replying=True))
    assert standing.in_words == "speaking"
    standing.follow(Levels(-90.0, -90.0))
    assert standing.in_words == "listening"
    standing.follow(SpeechDetected(speaking=True))
    standing.follow(Levels(-20.0, -90.0, audible=True))
    assert standing.in_words == "listening"
    standing.follow(Levels(-70.0, -90.0))
    assert standing.in_words == "thinking", "the voice has ended, before the detector reports it"
    standing.follow(Levels(-20.0, -90.0, audible=True))
    assert standing.in_words == "listening", "it was a pause"
    standing.follow(SpeechDetected(speaking=False))
    standing.follow(Levels(-90.0, -20.0, replying=True))
    standing.follow(Levels(-90.0, -90.0))
    standing.follow(turn(1))
    standing.follow(turn(2, fails=True))
    assert standing.voice_to_voice_ms(1) == pytest.approx(580, abs=0.1)
    assert [standing.turn_in_words(number) for number in (1, 2)] == ["580 ms", "no_response"]
    assert standing.so_far == "580 ms (1)"
    for number in (3, 4, 5):
        standing.follow(turn(number))
    assert standing.so_far == "580 ms (580 to 580, 4)"


def test_a_turn_with_an_uncertain_end_of_speech_is_shown_but_not_in_the_median() -> None:
    standing = Standing("a")
    certain = turn(1)
    timing = replace(certain.record.timing, uncertain=True)
    uncertain = replace(certain, record=replace(certain.record, timing=timing))
    standing.follow(uncertain)
    assert standing.turn_in_words(1) == "580 ms"
    assert standing.so_far == "–"
    assert in_words(uncertain) == "turn 1: voice to voice 580 ms (the end of the speech is uncertain)"


def test_a_failed_endpoint_stays_missing_until_it_is_back() -> None:
    standing = Standing("a")
    failure = Failure(FailureKind.CLOSED, "gone")
    standing.follow(StateChanged(State.DISCONNECTED, failure))
    standing.follow(StateChanged(State.ENDED))
    assert (standing.in_words, standing.failure) == ("disconnected", failure)
    assert standing.turn_in_words(1) == "–"
    standing.follow(StateChanged(State.TALKING))
    assert standing.failure is None


def test_the_common_state_is_disconnected_only_without_any_endpoint() -> None:
    standings = [Standing("a"), Standing("b")]
    assert common_state(standings) is State.STARTING
    standings[0].follow(StateChanged(State.TALKING))
    assert common_state(standings) is State.TALKING
    failure = Failure(FailureKind.CLOSED, "gone")
    standings[1].follow(StateChanged(State.DISCONNECTED, failure))
    assert common_state(standings) is State.TALKING
    standings[0].follow(StateChanged(State.ENDED))
    assert common_state(standings) is State.ENDED
    standings[0].follow(StateChanged(State.DISCONNECTED, failure))
    assert common_state(standings) is State.DISCONNECTED
