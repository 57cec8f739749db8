"""Build the tables of tasks and of relations between levels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.benchmark_parts import PartSummary
from live_eval.analysis.summary.task_metrics import QuestionSummary, TaskSummary
from live_eval.analysis.task_levels import TaskLevels, related_columns
from live_eval.report.cells import NONE, Cell, Table, interval, number
from live_eval.report.tables import RunView, columns_of, run_cell
from live_eval.text.wording import counted
from live_eval.types import ScoringRule, Task

__all__ = ["benchmark_table", "question_table", "task_tables", "transcription_table"]

_QUESTION_NOTE = (
    "Per cent of n questions answered correctly, resampled by script. Unanswered questions and replies that "
    "choose no option or several (unparsed) count as wrong. Turns that failed for other "
    "reasons (the data, live-eval itself, no session) are excluded."
)
_WER_NOTE = (
    "Word errors of the repeated text against the script, in per cent (mean: over utterances, as in the "
    "paper; pooled: all errors / all words). In Chinese, characters instead of words."
)
_ERRORS = {"normalized": "Whisper-normalised", "raw": "raw", "characters": "characters (Chinese)"}
_BENCHMARK_NOTE = (
    "Per cent of n items by the benchmark's own rule (official) and by live-eval's (ours), resampled by "
    "script. If the official rule cannot read a reply, it guesses (guessed), which counts with the "
    "expected value of the guess; by live-eval's rule, the reply is wrong (unparsed). Items that the "
    "endpoint failed to answer count as 0 by both rules (failed). A model rates open answers from 1 to 5, "
    "and compares others with a reference (% correct)."
)
_RELATION_NOTE = (
    "Spearman's rank correlation of the means by script, and by vocal attribute, over recordings with both "
    "tasks; intervals resample scripts, or attributes."
)
_CUE_NOTE = (
    "Replies to recordings whose questions about the cue were all answered correctly, compared with replies "
    "to the others. A cue that is hard to hear may also be hard to reply to."
)
_CHANGE_NOTE = (
    "Replies to turns whose cue differs from the previous turn's, compared with the replies to the previous "
    "turn; paired, resampled by dialogue. Followed: C4 of 4 or more, so that the reply considers the new "
    "cue. Failed turns count as not followed; changes to neutral are excluded."
)
_SOURCE_NOTE = "Human minus synthetic recordings, paired by script, variant and type of question."


def task_tables(runs: Sequence[RunView], levels: Sequence[TaskLevels]) -> list[Table]:
    """Return the non-empty tables of accuracy, transcription, benchmarks and relations between levels."""
    related = list(zip(runs, levels, strict=True))
    tables = [
        question_table(runs),
        transcription_table(runs),
        benchmark_table(runs),
        _relations(related, runs),
        _cues(related, runs),
        _sources(related, runs),
        _changes(runs),
    ]
    return [table for table in tables if table.rows]


def _summaries(runs: Sequence[RunView], task: Task) -> list[tuple[RunView, TaskSummary]]:
    return [(view, summary) for view in runs for summary in view.summary.tasks if summary.task is task]


def question_table(runs: Sequence[RunView]) -> Table:
    """Return a table of each run's accuracy by task and question type."""
    headings = ("asked", "n", "failed", "excluded", "accuracy, %", "95 % interval", "unparsed", "refused")
    found = {task: _summaries(runs, task) for task in (Task.UNDERSTANDING, Task.REASONING)}
    rows = [
        _question_row(task, each, view, runs)
        for task, summaries in found.items()
        for kind in dict.fromkeys(each.kind for _, summary in summaries for each in summary.questions)
        for view, summary in summaries
        for each in summary.questions
        if each.kind == kind
    ]
    columns = columns_of(runs, ["questions"], headings)
    return Table(tuple(columns), tuple(rows), _QUESTION_NOTE, "Multiple choice by type of question")


def _question_row(
    task: Task, figures: QuestionSummary, view: RunView, runs: Sequence[RunView]
) -> tuple[Cell, ...]:
    share = figures.unparsed_share
    return (
        Cell(figures.kind or task.value, indent=1 if figures.kind else 0, strong=not figures.kind),
        *run_cell(view, runs),
        Cell(str(figures.asked)),
        Cell(str(figures.accuracy.n)),
        Cell(str(figures.failed)),
        Cell(str(figures.excluded)),
        Cell(number(figures.accuracy.value, 1), strong=True, note=_of_answered(figures)),
        Cell(interval(figures.accuracy, 1), note=figures.accuracy.reason),
        Cell(NONE if share is None else f"{figures.unparsed} ({share:.0f} %)"),
        Cell(NONE if share is None else str(figures.refused)),
    )


def _of_answered(figures: QuestionSummary) -> str:
    if not figures.failed:
        return ""
    if figures.of_answered is None:
        return "no question was answered"
    return f"{number(figures.of_answered, 1)} % of the answered questions"


def transcription_table(runs: Sequence[RunView]) -> Table:
    """Return a table of each run's word error rates."""
    headings = ("turns", "n", "mean", "95 % interval", "pooled", "95 % interval")
    rows = [
        (
            Cell(name, strong=how != "raw"),
            *run_cell(view, runs),
            Cell(str(summary.turns)),
            Cell(str(errors.mean.n)),
            Cell(number(errors.mean.value, 2), strong=True),
            Cell(interval(errors.mean, 2), note=errors.mean.reason),
            Cell(number(errors.pooled.value, 2)),
            Cell(interval(errors.pooled, 2), note=errors.pooled.reason),
        )
        for how, name in _ERRORS.items()
        for view, summary in _summaries(runs, Task.TRANSCRIPTION)
        for errors in summary.errors
        if errors.how == how
    ]
    return Table(tuple(columns_of(runs, ["words"], headings)), tuple(rows), _WER_NOTE, "Transcription")


def benchmark_table(runs: Sequence[RunView]) -> Table:
    """Return a table of each run's scores on other benchmarks, by part."""
    headings = (
        *("items", "n", "failed", "official, %", "95 % interval", "guessed"),
        *("ours, %", "95 % interval", "unparsed"),
        *("by a model", "95 % interval"),
    )
    found = [(view, part) for view, summary in _summaries(runs, Task.BENCHMARK) for part in summary.parts]
    rows = [
        _part_row(part, view, runs)
        for name in dict.fromkeys((part.benchmark, part.part) for _, part in found)
        for view, part in found
        if (part.benchmark, part.part) == name
    ]
    return Table(
        tuple(columns_of(runs, ["part"], headings)), tuple(rows), _BENCHMARK_NOTE, "Other benchmarks"
    )


def _part_row(part: PartSummary, view: RunView, runs: Sequence[RunView]) -> tuple[Cell, ...]:
    n = part.ours.n
    return (
        Cell(part.part, strong=True),
        *run_cell(view, runs),
        Cell(str(part.items)),
        Cell(str(n), note=f"{part.unscored} without a score: {part.reason}" if part.unscored else ""),
        Cell(str(part.failed)),
        Cell(number(part.official.value, 1), strong=True, note="" if n else part.reason),
        Cell(interval(part.official, 1), note=part.official.reason),
        Cell(_of_replies(part.official_unparsed, part.official.n and n - part.failed)),
        Cell(number(part.ours.value, 1), strong=True),
        Cell(interval(part.ours, 1), note=part.ours.reason),
        Cell(_of_replies(part.unparsed, n - part.failed)),
        *_by_model(part),
    )


def _by_model(part: PartSummary) -> Iterator[Cell]:
    """Yield a cell with a language model's value, and a cell with its interval."""
    if part.rated is None:
        yield from (Cell(NONE), Cell(NONE))
        return
    percent = part.rule in (ScoringRule.REFERENCE, ScoringRule.RUBRICS)
    digits, unit = (1, "%") if percent else (2, "of 5")
    value = part.rated.value
    text = NONE if value is None else f"{number(value, digits)} {unit}"
    yield Cell(text, strong=True, note=part.rated.reason if value is None else _by_model_note(part))
    yield Cell(interval(part.rated, digits), note=part.rated.reason)


def _by_model_note(part: PartSummary) -> str:
    n = f"n {part.rated.n}" if part.rated is not None else ""
    return n if part.met is None else f"{n}; {number(part.met.value, 1)} % of the criteria are met"


def _of_replies(count: int, replies: int) -> str:
    return f"{count} ({100 * count / replies:.0f} %)" if replies > 0 else NONE


def _relations(levels: Sequence[tuple[RunView, TaskLevels]], runs: Sequence[RunView]) -> Table:
    columns = columns_of(runs, ["levels", "by"], ["correlation", "95 % interval", "n"])
    headings = {column.title: column.heading for column in related_columns()}
    keys = dict.fromkeys(
        (each.first, each.second, each.unit) for _, found in levels for each in found.relations
    )
    rows = tuple(
        (
            Cell(f"{headings[key[0]]} and {headings[key[1]]}"),
            Cell(key[2]),
            *run_cell(view, runs),
            *_with_interval(each.correlation),
            Cell(str(each.correlation.n)),
        )
        for key in keys
        for view, found in levels
        for each in found.relations
        if (each.first, each.second, each.unit) == key
    )
    return Table(tuple(columns), rows, _RELATION_NOTE, "Correlation of the levels")


def _cues(levels: Sequence[tuple[RunView, TaskLevels]], runs: Sequence[RunView]) -> Table:
    columns = columns_of(
        runs, ["replies"], ("recognised", "n", "not recognised", "n", "difference", "95 % interval")
    )
    headings = {column.title: column.heading for column in related_columns()}
    names = dict.fromkeys(each.measure for _, found in levels for each in found.cue_recognised)
    rows = tuple(
        (
            Cell(headings[name]),
            *run_cell(view, runs),
            *(
                cell
                for side in (each.recognised, each.missed)
                for cell in (Cell(number(side.value, 2), note=side.reason), Cell(str(side.n)))
            ),
            *_with_interval(each.difference),
        )
        for name in names
        for view, found in levels
        for each in found.cue_recognised
        if each.measure == name
    )
    return Table(tuple(columns), rows, _CUE_NOTE, "Replies with and without a recognised cue")


def _sources(levels: Sequence[tuple[RunView, TaskLevels]], runs: Sequence[RunView]) -> Table:
    headings = ("synthesis", "human", "difference", "95 % interval", "pairs")
    columns = columns_of(runs, ["score", "task"], headings)
    gaps = [(view, each) for view, found in levels for each in found.speech_source]
    keys = sorted(
        dict.fromkeys((each.task, each.score) for _, each in gaps), key=lambda key: list(Task).index(key[0])
    )
    rows = [
        (
            Cell(each.score),
            Cell(each.task.value),
            *run_cell(view, runs),
            *(Cell(number(mean, 2)) for mean in (each.synthesis, each.human)),
            *_with_interval(each.difference),
            Cell(str(each.difference.n), note=f"{each.unpaired} unpaired" if each.unpaired else ""),
        )
        for key in keys
        for view, each in gaps
        if (each.task, each.score) == key and each.difference.value is not None
    ]
    # Scores that are missing for the same reason share a row.
    missing = [(view, each) for view, each in gaps if each.difference.value is None]
    alike = Counter(
        (view.index, each.task, each.difference.reason, each.difference.n) for view, each in missing
    )
    rows += [
        (
            Cell(counted(count, "score")),
            Cell(task.value),
            *run_cell(next(view for view in runs if view.index == index), runs),
            *(Cell(NONE),) * 3,
            Cell(reason),
            Cell(str(pairs)),
        )
        for (index, task, reason, pairs), count in alike.items()
    ]
    return Table(tuple(columns), tuple(rows), _SOURCE_NOTE, "Human and synthetic speech")


def _changes(runs: Sequence[RunView]) -> Table:
    headings = ("before the change", "at the change", "difference", "95 % interval", "n")
    columns = columns_of(runs, ["replies"], headings)
    found = [(view, figures) for view in runs if (figures := view.summary.dialogues) is not None]
    rows: list[tuple[Cell, ...]] = [
        (
            Cell("followed, % of changes to a cue", strong=True),
            *run_cell(view, runs),
            Cell(NONE),
            Cell(number(figures.followed.value, 1), strong=True, note=figures.followed.reason),
            Cell(NONE),
            Cell(NONE if figures.followed.value is None else interval(figures.followed, 1)),
            Cell(f"{figures.followed.n} of {figures.changes}"),
        )
        for view, figures in found
        if figures.changes
    ]
    rows += [
        (
            Cell(score),
            *run_cell(view, runs),
            Cell(number(each.before.value, 2)),
            Cell(number(each.at.value, 2)),
            *_with_interval(each.difference),
            Cell(f"{each.difference.n} of {figures.changes}"),
        )
        for score in dict.fromkeys(each.score for _, figures in found for each in figures.scores)
        for view, figures in found
        for each in figures.scores
        if each.score == score
    ]
    return Table(tuple(columns), tuple(rows), _CHANGE_NOTE, "Changes of the cue within a dialogue")


def _with_interval(estimate: Estimate) -> Iterator[Cell]:
    """Yield a cell with a value, and a cell with its interval or the reason why it is missing."""
    yield Cell(number(estimate.value, 2, signed=True), strong=True)
    yield Cell(interval(estimate, 2) if estimate.interval is not None else estimate.reason or NONE)
