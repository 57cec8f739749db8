"""Collect votes on the replies of several endpoints to one utterance, as a file for ``live-eval arena``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from live_eval.analysis.arena.vote_file import VoteRow, write_votes
from live_eval.errors import UsageError
from live_eval.live.updates import LatencyMeasured, Voted

__all__ = ["Ballot"]


class Ballot:
    """Collect votes on the turns of several runs; a second vote on a turn replaces the first.

    Args:
        runs: Names of the runs, in the order in which the endpoints are presented.
    """

    def __init__(self, runs: Sequence[str]) -> None:
        self._runs = tuple(runs)
        self._cases: dict[
            int, tuple[str, set[int]]
        ] = {}  # the case and the endpoints that have replied, by turn number
        self._votes: dict[int, tuple[int | None, frozenset[int]]] = {}  # winner and replies so far, by turn

    def replied(self, place: int, turn: LatencyMeasured) -> None:
        """Add an endpoint's reply; failed turns cannot be voted on."""
        _, places = self._cases.setdefault(turn.number, (turn.record.case.case_id, set()))
        if turn.record.failure is None:
            places.add(place)
        else:
            places.discard(place)

    def vote(self, winner: int | None) -> Voted:
        """Vote on the latest turn, if it has at least two replies.

        Args:
            winner: Place of the endpoint with the best reply; None for a tie. A missing reply cannot win.
        """
        number = max(self._cases, default=None)
        replies = self._cases[number][1] if number is not None else ()
        if number is not None and len(replies) > 1 and (winner is None or winner in replies):
            self._votes[number] = winner, frozenset(replies)
        else:
            number = None
        return Voted(number, winner, self.wins)

    @property
    def wins(self) -> tuple[int, ...]:
        """The number of turns won by each endpoint."""
        winners = [winner for winner, _ in self._votes.values()]
        return tuple(winners.count(place) for place in range(len(self._runs)))

    def __len__(self) -> int:
        return len(self._votes)

    def rows(self) -> list[VoteRow]:
        """Return the votes by pair of runs; a winner beats every other reply that had ended at the vote."""
        rows = []
        for number, (winner, voted_on) in sorted(self._votes.items()):
            case_id, places = self._cases[number]
            for first, second in combinations(sorted(places & voted_on), 2):
                if winner in (None, first, second):
                    word = "tie" if winner is None else self._runs[winner]
                    rows.append(VoteRow(case_id, self._runs[first], self._runs[second], word))
        return rows

    def write(self, path: Path) -> None:
        """Write the votes so far.

        Raises:
            UsageError: The file cannot be written.
        """
        try:
            write_votes(path, self.rows())
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
