"""Votes as CSV, as ``live-eval arena --votes`` and ``live-eval audit --labels`` read them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from live_eval.files import csv_line
from live_eval.studio.listening.plan import ListeningKind
from live_eval.studio.listening.votes import Ballots, ListenerVote

__all__ = ["votes_csv"]


def votes_csv(ballots: Ballots, run: str = "") -> str:
    """Return the votes of a test as CSV.

    Args:
        ballots: The test and its votes.
        run: For ratings, the run that they are of.
    """
    kind = ballots.test.kind
    rows: Iterable[Sequence[object]]
    if kind is ListeningKind.PREFERENCE:
        heading = ["case_id", "first", "second", "winner", "rater", "turn_id", "at"]
        rows = (_preference(vote) for vote in ballots.votes)
    elif kind is ListeningKind.IDENTITY:
        heading = ["case_id", "first", "second", "x", "chosen", "correct", "rater", "turn_id", "at"]
        rows = (_identity(vote) for vote in ballots.votes)
    else:
        heading = ["turn_id", "case_id", "output", "score", "rater", "at"]
        rows = _ratings(vote for vote in ballots.votes if vote.runs == (run,))
    return "".join(csv_line(row) for row in (heading, *rows))


def _preference(vote: ListenerVote) -> Sequence[object]:
    winner = "tie" if vote.choice is None else vote.runs[vote.choice]
    return [vote.case_id, *vote.runs, winner, vote.listener, vote.turn_id, vote.at]


def _identity(vote: ListenerVote) -> Sequence[object]:
    assert vote.x is not None
    assert vote.choice is not None
    named = [vote.runs[vote.x], vote.runs[vote.choice]]
    correct = int(vote.x == vote.choice)
    return [vote.case_id, *vote.runs, *named, correct, vote.listener, vote.turn_id, vote.at]


def _ratings(votes: Iterable[ListenerVote]) -> Iterator[Sequence[object]]:
    for vote in votes:
        for scale, rating in vote.ratings.items():
            yield [vote.turn_id, vote.case_id, scale, rating, vote.listener, vote.at]
