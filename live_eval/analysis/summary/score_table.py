"""Tabulate a run's scores, one cell per turn and score, and compute their means."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from live_eval.analysis.leaderboard_columns import BoardColumn, score_definition, score_heading
from live_eval.analysis.statistics.intervals import Estimate, estimate_means, interval_json, rounded, share_of
from live_eval.analysis.summary.audits import AuditSummary, read_audits
from live_eval.analysis.summary.observations import Observation
from live_eval.errors import StoreError
from live_eval.judging import TURN_FAILED, JudgeRole, JudgeSpec, OutputSpec, score_name
from live_eval.recording import SCORES_FILE, JudgeProblem, RunReader, ScoreReader, ScoreRow, ScoreStatus
from live_eval.registry import installed_judges
from live_eval.types import Task

__all__ = [
    "JudgeFacts",
    "ScoreCell",
    "ScoreColumn",
    "ScoreSummary",
    "ScoreTable",
    "judges_asked_for",
    "means",
    "read_scores",
    "run_scores",
    "summarise_scores",
]

NOT_JUDGED = "not judged yet"
_ACCURACY = "accuracy"
_BENCHMARKS = frozenset({JudgeRole.BENCHMARK, JudgeRole.BENCHMARK_MODEL})
_UNKNOWN = "The judge of this score is not installed, so its definition is unknown."


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One output of a judge.

    Args:
        name: Name of the column: ``judge`` or ``judge.output``.
        version: Judge version; empty if the judge has not run.
        output: Name of the output; empty if the judge has only one output.
        title: Description.
        heading: Short name: the heading in the paper's tables. It is the title if there is no such heading or
            if the title begins with it ("C1 context fit").
        definition: Description of what the output measures, with its range, direction, judge and source.
        higher_is_better: Better direction; None if there is none or it is unknown.
        tasks: Tasks that the output applies to.
        role: Role of the judge; None if the judge has no role or is not installed.
        fits_cue_from: Lowest value for which the reply takes the speaker's cue into account, or None.
    """

    name: str
    judge: str
    version: str
    output: str
    title: str
    unit: str
    higher_is_better: bool | None
    tasks: frozenset[Task] = frozenset(Task)
    role: JudgeRole | None = None
    fits_cue_from: float | None = None
    heading: str = ""
    definition: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the description of the score for web pages."""
        return {
            "name": self.name,
            "heading": self.heading,
            "title": self.title,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "judge": self.judge,
            "version": self.version,
            "definition": self.definition,
        }

    @property
    def is_accuracy(self) -> bool:
        """Whether the output measures the accuracy of answers to questions."""
        return self.role is JudgeRole.MULTIPLE_CHOICE and self.output == _ACCURACY


@dataclass(frozen=True, slots=True)
class ScoreCell:
    """A score, or the reason why it is missing."""

    status: ScoreStatus
    value: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class JudgeFacts:
    """A judge of a run's turns, with its models in order of frequency."""

    name: str
    version: str
    models: tuple[str, ...]

    @property
    def in_words(self) -> str:
        """The judge's name, models and version."""
        by = f" by {' and '.join(self.models)}" if self.models else ""
        return f"{self.name}{by}, version {self.version}"


class JudgedTurns(Mapping[str, Mapping[str, ScoreRow]]):
    """The judgements of each turn by judge, stored as JSON and parsed on access to save memory."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._last: tuple[str, dict[str, ScoreRow]] = ("", {})

    def add(self, row: ScoreRow) -> None:
        """Add a judgement; it replaces an earlier one by the same judge."""
        packed = orjson.dumps([row.judge, row.version, row.status, row.values, row.reason, row.detail])
        before = self._packed.get(row.turn_id)
        self._packed[row.turn_id] = packed if before is None else b"%b,%b" % (before, packed)

    def __getitem__(self, turn_id: str) -> Mapping[str, ScoreRow]:
        packed = self._packed[turn_id]
        last, rows = self._last
        if turn_id != last:
            rows = {
                judge: ScoreRow(
                    judge=judge,
                    version=version,
                    turn_id=turn_id,
                    status=status,
                    values=values,
                    reason=reason,
                    detail=detail,
                )
                for judge, version, status, values, reason, detail in orjson.loads(b"[%b]" % packed)
            }
            self._last = turn_id, rows
        return rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)


class ScoredValues:
    """The values of scored judgements, in an array for each output; NaN where missing.

    Add all judgements before reading values.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._given: dict[tuple[str, str], tuple[array[int], array[float]]] = {}
        self._values: dict[tuple[str, str], NDArray[np.float64]] = {}
        self._together: tuple[Sequence[ScoreColumn], NDArray[np.float64]] | None = None

    def add(self, row: ScoreRow) -> None:
        """Add the values of a scored judgement."""
        place = self._places.setdefault(row.turn_id, len(self._places))
        for output, value in row.values.items():
            key = row.judge, output
            given = self._given.get(key)
            if given is None:
                given = self._given[key] = array("q"), array("d")
            given[0].append(place)
            given[1].append(value)

    def of(self, turn_ids: Sequence[str], column: ScoreColumn) -> NDArray[np.float64]:
        """Return the values of the given turns, shape (turns,)."""
        places = np.fromiter((self._places.get(each, -1) for each in turn_ids), np.int64, len(turn_ids))
        return self._array(column)[places]

    def one(self, turn_id: str, column: ScoreColumn) -> float | None:
        """Return the value of a turn; None if missing."""
        value = self._array(column).item(self._places.get(turn_id, -1))
        return None if value != value else value

    def all_of(self, turn_id: str, columns: Sequence[ScoreColumn]) -> list[float]:
        """Return the values of a turn; NaN where missing. Fast if the same columns are requested again."""
        if self._together is None or self._together[0] is not columns:
            values = np.empty((len(self._places) + 1, len(columns)))
            for place, column in enumerate(columns):
                values[:, place] = self._array(column)
            self._together = columns, values
        row: list[float] = self._together[1][self._places.get(turn_id, -1)].tolist()
        return row

    def _array(self, column: ScoreColumn) -> NDArray[np.float64]:
        key = column.judge, column.output
        found = self._values.get(key)
        if found is None:
            found = np.full(len(self._places) + 1, np.nan)  # the last index represents unknown turns
            places, values = self._given.pop(key, (array("q"), array("d")))
            found[np.asarray(places, np.int64)] = values
            self._values[key] = found
        return found


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The scores of a run, from one version of each judge (`ScoreReader.versions`).

    Args:
        columns: Judge outputs.
        rows: Judgements by turn and judge.
        scored_values: The values in `rows`.
        problems: Judges whose last attempt did not start or did not finish.
        answers_judged: Whether questions were judged: an answer was scored, or all turns failed.
        judges: The judges that judged turns, in column order.
        audits: Audits by judge.
        unread: Reason why the stored scores cannot be read, and the remedy; empty if they were read.
    """

    columns: tuple[ScoreColumn, ...]
    rows: Mapping[str, Mapping[str, ScoreRow]]
    scored_values: ScoredValues
    problems: tuple[JudgeProblem, ...]
    answers_judged: bool
    judges: tuple[JudgeFacts, ...]
    audits: Mapping[str, AuditSummary]
    unread: str = ""

    def cell(self, turn_id: str, task: Task, column: ScoreColumn) -> ScoreCell:
        """Return a turn's score for its task; turns that were not judged are unscored."""
        value = self.scored_values.one(turn_id, column)
        return self._missing(turn_id, task, column) if value is None else ScoreCell("scored", value, "")

    def cells(self, turn_id: str, task: Task) -> dict[str, ScoreCell]:
        """Return a turn's scores for its task by column name; see `cell`."""
        values = self.scored_values.all_of(turn_id, self.columns)
        return {
            column.name: ScoreCell("scored", value, "")
            if value == value
            else self._missing(turn_id, task, column)
            for column, value in zip(self.columns, values, strict=True)
        }

    def _missing(self, turn_id: str, task: Task, column: ScoreColumn) -> ScoreCell:
        row = self.rows.get(turn_id, {}).get(column.judge)
        if row is None and task not in column.tasks:
            return ScoreCell("unscored", None, f"not applicable to the task {task.value}")
        if row is None:
            reason = next((p.reason for p in self.problems if p.judge == column.judge), NOT_JUDGED)
            return ScoreCell("unscored", None, reason)
        if row.status != "scored":
            return ScoreCell(row.status, None, row.reason)
        return ScoreCell("unscored", None, f"the judge returned no {column.output or 'score'}")

    def column(self, name: str) -> ScoreColumn | None:
        """Return the column with this name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    def filling(self, column: BoardColumn) -> ScoreColumn | None:
        """Return the score that fills a column of the paper's tables, or None."""
        return next((found for name in column.scores if (found := self.column(name)) is not None), None)

    @property
    def accuracy(self) -> ScoreColumn | None:
        """The accuracy of answers to questions, or None."""
        return next((column for column in self.columns if column.is_accuracy), None)

    def row(self, turn_id: str, role: JudgeRole) -> ScoreRow | None:
        """Return the judgement of a turn by the judge with a role, or None."""
        judge = next((column.judge for column in self.columns if column.role is role), None)
        return self.rows.get(turn_id, {}).get(judge) if judge is not None else None

    def value(self, turn: Observation, column: ScoreColumn) -> float | None:
        """Return a turn's value for statistics, or None.

        A failed turn has no value, but a question that the endpoint failed to answer counts as wrong.
        """
        if turn.captured:
            return self.scored_values.one(turn.turn_id, column)
        return 0.0 if column.is_accuracy and turn.unanswered and self.answers_judged else None

    def scored(self, turns: Iterable[Observation], column: ScoreColumn) -> list[tuple[Observation, float]]:
        """Return the turns that have a value for statistics, with their values."""
        return [(turn, value) for turn in turns if (value := self.value(turn, column)) is not None]

    def mean(self, turns: Iterable[Observation], column: ScoreColumn) -> Estimate:
        """Return the mean of a score over the turns with a value."""
        counted = list(turns)
        return means(self.values(counted, [column]), [turn.script_id for turn in counted], [column])[
            column.name
        ]

    def values(self, turns: Sequence[Observation], columns: Sequence[ScoreColumn]) -> NDArray[np.float64]:
        """Return the turns' values for statistics, shape (turns, columns); NaN where missing."""
        turn_ids = [turn.turn_id for turn in turns]
        found = np.empty((len(turns), len(columns)))
        for place, column in enumerate(columns):
            found[:, place] = self.scored_values.of(turn_ids, column)
        for row, turn in enumerate(turns):
            if not turn.captured:
                found[row] = [
                    np.nan if (value := self.value(turn, each)) is None else value for each in columns
                ]
        return found

    def answer(self, turn_id: str) -> ScoreRow | None:
        """Return the judgement of the answer to a question, or None."""
        return self.row(turn_id, JudgeRole.MULTIPLE_CHOICE)

    def chosen(self, turn_id: str) -> str | None:
        """Return the letter of the option chosen by a reply; None unless it chooses exactly one."""
        row = self.answer(turn_id)
        letter = row.detail.get("chosen") if row is not None else None
        return letter if isinstance(letter, str) else None


def means(
    values: NDArray[np.float64], scripts: Sequence[str], columns: Sequence[ScoreColumn]
) -> dict[str, Estimate]:
    """Return the mean of each score by name, given the result of `ScoreTable.values`."""
    found: dict[str, Estimate] = {}
    known = ~np.isnan(values)
    alike: dict[bytes, list[int]] = {}  # resample columns with values for the same turns together
    for place in range(len(columns)):
        alike.setdefault(known[:, place].tobytes(), []).append(place)
    for places in alike.values():
        turns = np.flatnonzero(known[:, places[0]]).tolist()
        estimates = estimate_means([*values[np.ix_(turns, places)].T], [scripts[turn] for turn in turns])
        found |= {columns[place].name: estimate for place, estimate in zip(places, estimates, strict=True)}
    return {
        column.name: share_of(found[column.name])
        if column.role is JudgeRole.MULTIPLE_CHOICE
        else found[column.name]
        for column in columns
    }


def judges_asked_for(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the judges listed in a run's manifest, in order."""
    names: Any = manifest
    for key in ("config", "judges", "names"):
        names = names.get(key) if isinstance(names, Mapping) else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def run_scores(run: RunReader, *, turn_ids: Collection[str] | None = None) -> ScoreTable:
    """Return the scores of a run (see `read_scores`); none if they cannot be read, since its turns still can.

    `ScoreTable.unread` is then the reason, which the user must see.
    """
    try:
        with ScoreReader.open(run.path) as scores:
            return read_scores(scores, judges_asked_for(run.manifest), turn_ids=turn_ids)
    except StoreError as error:
        reason = str(error).replace(f"{run.path}/", "")  # a page must not reveal local paths
        remedy = f"delete {SCORES_FILE} in the run folder, and run live-eval score {run.path.name}"
        unread = f"there are no scores, because they cannot be read ({reason}); to score again, {remedy}"
        return ScoreTable((), JudgedTurns(), ScoredValues(), (), False, (), {}, unread)


def read_scores(
    scores: ScoreReader, order: Sequence[str] = (), *, turn_ids: Collection[str] | None = None
) -> ScoreTable:
    """Read the scores of a run.

    Args:
        scores: Stored scores.
        order: Judges whose columns are placed first.
        turn_ids: Turns to read, without audits; None for all. The columns always cover the whole run.
    """
    versions, unfinished = scores.judged()
    problems = (*scores.problems(), *unfinished)
    specs = {spec.name: spec for spec in installed_judges()}
    asking = {name for name, spec in specs.items() if spec.role is JudgeRole.MULTIPLE_CHOICE}
    rows, values = JudgedTurns(), ScoredValues()
    models: defaultdict[str, Counter[str]] = defaultdict(Counter)
    answered = failed = asked = 0
    given: dict[str, dict[str, None]] = {judge: {} for judge in versions}
    if turn_ids is not None:
        expected = {name: [output.name for output in spec.outputs] for name, spec in specs.items()}
        for judge, output in scores.outputs(versions, expected):
            given[judge][output] = None
    for row in scores.read() if turn_ids is None else scores.of_turns(turn_ids, versions):
        if versions[row.judge] != row.version:
            continue
        rows.add(row)
        if row.status == "scored":
            values.add(row)
        given[row.judge] |= dict.fromkeys(row.values)
        if row.status != "unscored":
            model = row.detail.get("answered_by") or row.detail.get("model")
            named = models[row.judge]
            if isinstance(model, str):
                named[model] += 1
        if row.judge in asking:
            answered += row.status == "scored"
            failed += row.reason.startswith(TURN_FAILED)
            asked += 1
    known = {**{problem.judge: problem.version for problem in problems}, **versions}
    judges = [
        *(judge for judge in order if judge in known),
        *(judge for judge in known if judge not in order),
    ]
    columns: list[ScoreColumn] = []
    for judge in judges:
        spec = specs.get(judge)
        outputs = {output.name: output for output in spec.outputs} if spec is not None else {}
        # Another version of a judge may have produced outputs that its current specification does not list.
        names = list(given.get(judge, ())) or list(outputs) or [""]
        specified = list(outputs)
        names.sort(key=lambda name: specified.index(name) if name in specified else len(specified))
        columns.extend(_column(judge, known[judge], name, outputs.get(name), spec) for name in names)
    facts = tuple(
        JudgeFacts(judge, known[judge], tuple(dict(models[judge].most_common())))
        for judge in judges
        if judge in models
    )
    answers_judged = answered > 0 or 0 < failed == asked
    audits = read_audits(scores) if turn_ids is None else {}
    return ScoreTable(tuple(columns), rows, values, problems, answers_judged, facts, audits)


def _column(
    judge: str, version: str, output: str, spec: OutputSpec | None, judge_spec: JudgeSpec | None
) -> ScoreColumn:
    title = spec.title if spec else score_name(judge, output)
    return ScoreColumn(
        name=score_name(judge, output),
        judge=judge,
        version=version,
        output=output,
        title=title,
        heading=score_heading(spec) if spec else title,
        definition=score_definition(spec, judge_spec, version) if spec and judge_spec else _UNKNOWN,
        unit=spec.unit if spec else "",
        higher_is_better=spec.higher_is_better if spec else None,
        tasks=judge_spec.tasks if judge_spec else frozenset(Task),
        role=judge_spec.role if judge_spec else None,
        fits_cue_from=spec.fits_cue_from if spec else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """One output of a judge over a run.

    Args:
        column: Column of the output.
        mean: Mean over the scored turns; for accuracy, unanswered questions are included.
        n_unscored: Number of turns without the judge's input, including failed turns.
        n_failed: Number of turns on which the judge failed.
        reasons: Number of turns without the score, by reason.
        tasks: Tasks of the run that the output applies to.
    """

    column: ScoreColumn
    mean: Estimate
    n_unscored: int
    n_failed: int
    reasons: Mapping[str, int]
    tasks: tuple[Task, ...]

    @property
    def label(self) -> str:
        """The output's heading, with the tasks if the mean is over several tasks."""
        of = f" ({', '.join(task.value for task in self.tasks)})" if len(self.tasks) > 1 else ""
        return f"{self.column.heading or self.column.name}{of}"

    @property
    def n(self) -> int:
        """The number of scored turns."""
        return self.mean.n

    def as_json(self) -> dict[str, Any]:
        """Return the score as printed by ``show --json``."""
        return {
            "mean": rounded(self.mean.value),
            "n": self.n,
            "n_unscored": self.n_unscored,
            "n_failed": self.n_failed,
            "interval": interval_json(self.mean.interval),
            "version": self.column.version,
            "column": self.column.as_json(),
            "reasons": dict(self.reasons),
        }


def _unless_mixed(
    mean: Estimate, column: ScoreColumn, turns: Sequence[Observation], values: NDArray[np.float64]
) -> Estimate:
    """Return the mean, without its value if it pools a benchmark's parts with different scoring rules."""
    if column.role not in _BENCHMARKS:
        return mean
    scored = [turn for turn, value in zip(turns, values.tolist(), strict=True) if not np.isnan(value)]
    rules = {turn.item.rule for turn in scored if turn.item is not None}
    if len(rules) < 2:
        return mean
    return replace(
        mean, value=None, interval=None, reason=f"not pooled over {len(rules)} scoring rules; see the parts"
    )


def summarise_scores(table: ScoreTable, turns: Sequence[Observation]) -> dict[str, ScoreSummary]:
    """Summarise each score over the turns that it applies to, by name."""
    summaries: dict[str, ScoreSummary] = {}
    for column in table.columns:
        reasons: Counter[str] = Counter()
        failed = 0
        concerned = [turn for turn in turns if turn.task in column.tasks]
        values = table.values(concerned, [column])
        mean = means(values, [turn.script_id for turn in concerned], [column])[column.name]
        for place in np.flatnonzero(np.isnan(values[:, 0])).tolist():
            turn = concerned[place]
            if not turn.captured:
                reasons[f"{TURN_FAILED} ({turn.failed_by})" if turn.is_excluded else TURN_FAILED] += 1
            else:
                cell = table.cell(turn.turn_id, turn.task, column)
                reasons[cell.reason] += 1
                failed += cell.status == "failed"
        summaries[column.name] = ScoreSummary(
            column=column,
            mean=_unless_mixed(mean, column, concerned, values[:, 0]),
            n_unscored=reasons.total() - failed,
            n_failed=failed,
            reasons=dict(reasons.most_common()),
            tasks=tuple(task for task in Task if any(turn.task is task for turn in concerned)),
        )
    return summaries
