"""Votes on several endpoints' replies."""

from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.analysis.arena.vote_file import read_votes
from live_eval.errors import FailureKind, UsageError
from live_eval.live.ballot import Ballot
from live_eval.live.updates import LatencyMeasured
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn


def turn(number: int, *, fails: bool = False) -> LatencyMeasured:
    case_id = f"turn-{number:04d}"
    case = Case(case_id=case_id, script_id=case_id, variant=Variant.TARGET, audio_path=Path("x.wav"))
    plan = TurnPlan(failure=Failure(FailureKind.NO_RESPONSE, "nothing") if fails else None)
    return LatencyMeasured(number, spoken_turn(case, plan), 0)


def test_votes_are_read_by_arena(tmp_path: Path) -> None:
    ballot = Ballot(["a", "b", "c"])
    assert ballot.vote(0).number is None  # no reply yet
    for number in (1, 2, 3):
        ballot.replied(0, turn(number))
        ballot.replied(1, turn(number))
        ballot.replied(2, turn(number, fails=number == 3))
        if number == 1:
            assert ballot.vote(0).number == 1
            assert ballot.vote(1).number == 1  # replaces the first vote
        if number == 2:
            assert ballot.vote(None).number == 2
    assert ballot.vote(2).number is None  # its reply is missing
    assert ballot.vote(0) == replace(ballot.vote(0), number=3, winner=0, wins=(1, 1, 0))
    assert len(ballot) == 3
    ballot.write(tmp_path / "votes.csv")
    scripts = {f"turn-{number:04d}": f"turn-{number:04d}" for number in (1, 2, 3)}
    votes = read_votes(tmp_path / "votes.csv", ["a", "b", "c"], scripts)
    assert [(vote.case_id, vote.first, vote.second, vote.verdict) for vote in votes.votes] == [
        ("turn-0001", "a", "b", -1.0),
        ("turn-0001", "b", "c", 1.0),
        ("turn-0002", "a", "b", 0.0),
        ("turn-0002", "a", "c", 0.0),
        ("turn-0002", "b", "c", 0.0),
        ("turn-0003", "a", "b", 1.0),
    ]


def test_a_vote_does_not_count_against_a_later_reply() -> None:
    ballot = Ballot(["a", "b", "c"])
    for place in (0, 1):
        ballot.replied(place, turn(1))
    ballot.vote(0)
    ballot.replied(2, turn(1))
    assert [(row.first, row.second, row.winner) for row in ballot.rows()] == [("a", "b", "a")]
    ballot.vote(0)
    assert len(ballot.rows()) == 2


def test_a_turn_with_one_reply_takes_no_vote_and_keeps_the_last_one() -> None:
    ballot = Ballot(["a", "b"])
    for place in (0, 1):
        ballot.replied(place, turn(1))
    assert ballot.vote(0).number == 1
    ballot.replied(0, turn(2))  # the other endpoint is gone
    assert ballot.vote(1).number is None
    assert ballot.vote(None).number is None
    assert [row.case_id for row in ballot.rows()] == ["turn-0001"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        Ballot(["a", "b"]).write(tmp_path / "missing" / "votes.csv")
