"""Define the columns of the leaderboard: the paper's tables, and the judge scores that fill them.

The judges' specifications (``judges/specs/``) declare the columns, each as a
`live_eval.judging.LeaderboardColumn`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from live_eval.judging import JudgeKind, JudgeSpec, LeaderboardTable, OutputSpec, score_name
from live_eval.registry import installed_judges
from live_eval.text.wording import sentence
from live_eval.types import Task

__all__ = [
    "BoardColumn",
    "TableColumn",
    "leaderboard_columns",
    "prompt_scores",
    "score_definition",
    "score_heading",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table on the leaderboard.

    Args:
        title: Short name, by which published values are found.
        heading: Name on pages.
        scores: Scores that can fill the column; the first one that a run has is used.
        definition: What the values measure, in full sentences.
    """

    title: str
    heading: str
    scores: tuple[str, ...] = ()
    definition: str = ""
    unit: str = ""
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardColumn(TableColumn):
    """A column of a table in the paper; `LeaderboardColumn` documents the other fields.

    Args:
        scale: Lowest and highest value, or None.
        rated: Whether a language model assigns the values.
    """

    table: LeaderboardTable
    task: Task
    scale: tuple[float, float] | None = None
    rated: bool = False
    picks_prompt: bool = False
    heat_map: bool = False
    note: str = ""

    def along(self, value: float) -> float:
        """Return the position of a value on the column's scale, in percent."""
        assert self.scale is not None
        low, high = self.scale
        return 100 * (value - low) / (high - low)


def leaderboard_columns() -> tuple[BoardColumn, ...]:
    """Return the columns, sorted by table and position; scores that declare the same column share it."""
    found = sorted(
        (
            (list(LeaderboardTable).index(column.table), column.place, column.title, spec, output, column)
            for spec in installed_judges()
            for output in spec.outputs
            for column in output.columns
        ),
        key=lambda each: each[:3],
    )
    columns: dict[tuple[LeaderboardTable, str], BoardColumn] = {}
    for _, _, title, spec, output, column in found:
        score, definition = score_name(spec.name, output.name), score_definition(output, spec)
        if (first := columns.get((column.table, title))) is not None:
            definition = f"{first.definition} Or: {definition}"
            columns[column.table, title] = replace(
                first, scores=(*first.scores, score), definition=definition
            )
            continue
        columns[column.table, title] = BoardColumn(
            title=title,
            heading=_heading(title, output),
            table=column.table,
            scores=(score,),
            definition=definition,
            task=column.task,
            unit=output.unit,
            scale=output.bounds,
            higher_is_better=output.higher_is_better is not False,
            rated=spec.kind is JudgeKind.LLM,
            picks_prompt=column.picks_prompt,
            heat_map=column.heat_map,
            note=column.note,
        )
    return tuple(columns.values())


def prompt_scores() -> tuple[str, ...]:
    """Return the scores that the paper uses to choose each model's prompt."""
    return tuple(score for column in leaderboard_columns() if column.picks_prompt for score in column.scores)


def score_heading(output: OutputSpec) -> str:
    """Return an output's short name: its title, or the title of its only column in the paper's tables."""
    return _heading(output.columns[0].title, output) if len(output.columns) == 1 else output.title


def _heading(title: str, output: OutputSpec) -> str:
    """Return an output's title if it begins with the title of its column ("C1 context fit")."""
    return output.title if output.title.startswith(f"{title} ") else title


def score_definition(output: OutputSpec, judge: JudgeSpec, version: str = "") -> str:
    """Explain what an output of a judge measures, in full sentences.

    Args:
        version: Version that produced the scores; empty for the current one.
    """
    bounds, unit = output.bounds, "" if output.unit.startswith("of ") else output.unit
    between = f"{bounds[0]:g} to {bounds[1]:g}" if bounds is not None else ""
    scale = " ".join(filter(None, (between, unit)))
    better = {True: "higher is better", False: "lower is better", None: "neither direction is better"}
    sentences = [
        f"{output.title} ({', '.join(filter(None, (scale, better[output.higher_is_better])))})",
        f"Judge {judge.name}, version {version or judge.version}: {judge.title}",
        f"Source: {judge.source}" if judge.source else "",
    ]
    return " ".join(map(sentence, filter(None, sentences)))
