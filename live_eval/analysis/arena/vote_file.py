"""Read and write CSV files of human votes on pairs of replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from live_eval.errors import DataError
from live_eval.files import atomic_text, csv_line, read_rows

__all__ = ["Vote", "VoteRow", "Votes", "read_votes", "write_votes"]

_NEEDED = ("case_id", "first", "second", "winner")
_OPTIONAL = ("rater",)
_SHOWN_ROWS = 8


class VoteRow(NamedTuple):
    """A row of a vote file; `winner` is ``tie`` or the name of a run."""

    case_id: str
    first: str
    second: str
    winner: str


def write_votes(path: Path, rows: Iterable[VoteRow]) -> None:
    """Write a vote file, replacing an existing file.

    Raises:
        OSError: The file cannot be written.
    """
    with atomic_text(path) as file:
        file.write(csv_line(VoteRow._fields))
        for row in rows:
            file.write(csv_line(row))


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote on two runs' replies to a case; `first` was presented first.

    `verdict` is 1 if the first reply won, −1 if the second won, 0 for a tie; `rater` is empty if unnamed.
    """

    case_id: str
    script_id: str
    first: str
    second: str
    verdict: float
    rater: str = ""


@dataclass(slots=True, kw_only=True)
class Votes:
    """The votes from a file on the compared runs.

    `n_unknown` is the number of rows for unknown cases, `n_other` the number of rows for other runs.
    """

    file: str
    votes: list[Vote] = field(default_factory=list)
    rows: int = 0
    n_unknown: int = 0
    n_other: int = 0

    @property
    def raters(self) -> int:
        """The number of raters; unnamed votes count as one rater."""
        return len({vote.rater for vote in self.votes})


def read_votes(path: Path, runs: Sequence[str], scripts: Mapping[str, str]) -> Votes:
    """Read the votes on these runs from a UTF-8 CSV file with a header; `scripts` maps cases to scripts.

    Columns: ``case_id``; ``first`` and ``second``, the names of the runs in presentation order; ``winner``:
    ``first``, ``second``, ``tie`` or a run's name; and optionally ``rater``. Votes on other runs or other
    cases are ignored, but counted.

    Raises:
        DataError: The file cannot be read, or rows are invalid; the message lists the lines.
    """
    votes = Votes(file=path.name)
    wrong: list[str] = []
    seen: dict[tuple[str, frozenset[str], str], int] = {}
    for line, row in read_rows(path, _NEEDED, _OPTIONAL):
        votes.rows += 1
        first, second, case = row["first"], row["second"], row["case_id"]
        verdict = _verdict(row["winner"], first, second)
        rater = row.get("rater", "")
        problem = None
        if not (case and first and second):
            problem = "expected a case_id, first and second"
        elif first == second:
            problem = f"expected two different runs, got {first!r} twice"
        elif verdict is None:
            problem = f"winner {row['winner']!r}: expected first, second, tie, {first!r} or {second!r}"
        elif rater and (before := seen.setdefault((case, frozenset((first, second)), rater), line)) != line:
            problem = f"a second vote by {rater!r} on this pair; the first is on line {before}"
        if problem is not None or verdict is None:
            wrong.append(f"{path}:{line}: {problem}")
        elif first not in runs or second not in runs:
            votes.n_other += 1
        elif case not in scripts:
            votes.n_unknown += 1
        else:
            votes.votes.append(Vote(case, scripts[case], first, second, verdict, rater))
    if wrong:
        more = [f"and {len(wrong) - _SHOWN_ROWS} more rows"] if len(wrong) > _SHOWN_ROWS else []
        raise DataError("\n".join([*wrong[:_SHOWN_ROWS], *more]))
    if not votes.votes:
        known = ", ".join(runs)
        raise DataError(
            f"{path}: no votes match these runs ({known}) and their cases: {votes.n_other} rows are for "
            f"other runs, {votes.n_unknown} for unknown cases"
        )
    return votes


def _verdict(winner: str, first: str, second: str) -> float | None:
    # Run names take precedence over positions, because a run may be named "second".
    names = {"tie": 0.0, "first": 1.0, "second": -1.0}
    if {first, second} & {"first", "second", "tie"}:
        names = {"tie": 0.0}
    return {**names, first: 1.0, second: -1.0}.get(winner)
