"""The judges under each heading, and letters that mark their figures where needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import ascii_lowercase

from live_eval.analysis.columns import BenchmarkColumn
from live_eval.analysis.summary import JudgeFacts
from live_eval.report.leaderboard.published import JUDGES

__all__ = ["JudgeLabels", "name_judges"]


@dataclass(frozen=True, slots=True)
class JudgeLabels:
    """The judges of a table.

    Args:
        note: A note that names the judges; empty without figures of ours.
    """

    letters: Mapping[JudgeFacts, str]
    note: str


def name_judges(columns: Iterable[tuple[BenchmarkColumn, Iterable[JudgeFacts]]]) -> JudgeLabels:
    """Return the judges under each heading.

    Judges have letters if a column has several, or if a model also judged the published
    rows.

    Args:
        columns: Each column with the judges of our figures in it.
    """
    titles: dict[tuple[tuple[JudgeFacts, ...], str], list[str]] = {}
    for column, judges in columns:
        if different := tuple(dict.fromkeys(judges)):
            titles.setdefault((different, JUDGES.get(column.title, "")), []).append(column.title)
    apart = dict.fromkeys(judge for judges, paper in titles for judge in judges if paper or len(judges) > 1)
    letters = {judge: _letter(place) for place, judge in enumerate(apart)}
    parts = []
    for (judges, paper), of in titles.items():
        names = [
            f"{letters[judge]}) {judge.in_words}" if judge in letters else judge.in_words for judge in judges
        ]
        published = f" (published: by {paper})" if paper else ""
        parts.append(f"{', '.join(of)}: {', '.join(names)}{published}")
    return JudgeLabels(letters, f"Judges. {'; '.join(parts)}" if parts else "")


def _letter(place: int) -> str:
    """Return a, b, …, z, aa, bb, …"""
    turn, letter = divmod(place, len(ascii_lowercase))
    return ascii_lowercase[letter] * (turn + 1)
