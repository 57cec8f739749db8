"""What stands on the board: for each table the published rows and ours, with intervals, and heat maps.

A figure of ours is a mean over the turns of its task that were scored, with a 95 % interval resampled by
script. Of several runs of one model with different prompts, the paper shows the best: so does the board, by
C4 for words and by VES for sound, and says which it took and of how many. Where the judge of that choice
gave nothing, every prompt has a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from live_eval.agreement import spearman
from live_eval.comparison import Key, Series, rank_prompts, series_of
from live_eval.leaderboard.published import PUBLISHED
from live_eval.levels import MEASURES, PLOTTED, Measure
from live_eval.statistics import Estimate, estimate_mean
from live_eval.store import RunReader, ScoreReader
from live_eval.summary import RunSummary, ScoreColumn, TurnFacts, summarise
from live_eval.types import Task

__all__ = [
    "Board",
    "BoardCell",
    "BoardColumn",
    "BoardRow",
    "BoardTable",
    "HeatMap",
    "LevelPlot",
    "ModelDot",
    "build_board",
]


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """One figure of a table.

    Args:
        key: The paper's figure, as in `live_eval.leaderboard.published`.
        title: Its heading.
        score: Our score for it.
        task: The turns that it is about.
        higher_is_better: Its direction.
    """

    key: str
    title: str
    score: str
    task: Task
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class BoardCell:
    """A figure with what it rests on; `estimate` is None for a published one.

    Args:
        value: The figure, or None where there is none.
        estimate: Mean, interval and counts.
        turns: Turns of the task, scored or not.
        best: Whether no other of ours is better.
    """

    value: float | None
    estimate: Estimate | None = None
    turns: int = 0
    best: bool = False


@dataclass(frozen=True, slots=True)
class BoardRow:
    """A model.

    Args:
        label: Its name.
        prompt: The prompt of the conversations; empty where that has no part in the table.
        published: Whether the paper says it.
        cells: A cell for each column.
    """

    label: str
    prompt: str
    published: bool
    cells: tuple[BoardCell, ...]


@dataclass(frozen=True, slots=True)
class BoardTable:
    """One of the paper's tables.

    Args:
        title: What it is about.
        columns: Its figures.
        rows: Ours first, then the published ones.
        notes: What to know to read it.
    """

    title: str
    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A figure by attribute or by type of question, for each run.

    Args:
        title: What it shows.
        low: Where the scale begins.
        high: Where it ends.
        columns: The runs.
        rows: Names of the rows.
        cells: For each row, an estimate for each run.
    """

    title: str
    low: float
    high: float
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cells: tuple[tuple[Estimate, ...], ...]


@dataclass(frozen=True, slots=True)
class ModelDot:
    """A model in a plot of two levels."""

    label: str
    published: bool
    across: float
    up: float


@dataclass(frozen=True, slots=True)
class LevelPlot:
    """Two levels against each other over models, as the paper plots them.

    Args:
        across: The one measure.
        up: The other.
        dots: The models that have both.
        correlation: Spearman's over them; None where it is not defined.
    """

    across: Measure
    up: Measure
    dots: tuple[ModelDot, ...]
    correlation: float | None


@dataclass(frozen=True, slots=True)
class Board:
    """The whole."""

    tables: tuple[BoardTable, ...]
    maps: tuple[HeatMap, ...]
    plots: tuple[LevelPlot, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A run that is on the board."""

    label: str
    model: tuple[str | None, ...]
    prompt: str
    summary: RunSummary

    def estimate(self, column: BoardColumn) -> Estimate:
        return self.mean(column.score, [turn for turn in self.summary.turns if turn.task is column.task])

    def mean(self, score: str, turns: Iterable[TurnFacts]) -> Estimate:
        """Return the mean of a score over some turns; of those that were scored."""
        told = next((each for each in self.summary.table.columns if each.name == score), None)
        if told is None:
            return Estimate(None, 0, 0, reason="not judged")
        values = [(value, turn.script_id) for turn in turns if (value := self._value(turn, told)) is not None]
        return estimate_mean([value for value, _ in values], [script for _, script in values])

    @property
    def scripts(self) -> Mapping[Key, str]:
        """The script of each turn."""
        return {(turn.case_id, turn.repeat): turn.script_id for turn in self.summary.turns}

    def series(self, column: BoardColumn) -> Series | None:
        """Return the column's score turn by turn, or None where no turn was scored."""
        found = series_of(self.summary.turns, self.summary.table, by_task=False).get(column.score)
        return found if found is not None and any(v is not None for v in found.values.values()) else None

    def _value(self, turn: TurnFacts, column: ScoreColumn) -> float | None:
        return self.summary.table.cell(turn.turn_id, column).value if turn.captured else None


_CONVERSATION = Task.CONVERSATION
_UNDERSTANDING = (
    BoardColumn("wer", "WER", "transcription.normalized", Task.TRANSCRIPTION, higher_is_better=False),
    BoardColumn("semsim", "SemSim", "transcription_semsim", Task.TRANSCRIPTION),
    BoardColumn("understanding", "understanding", "mcq.accuracy", Task.UNDERSTANDING),
    BoardColumn("reasoning", "reasoning", "mcq.accuracy", Task.REASONING),
)
_AUDIO = (
    BoardColumn("nisqa", "NISQA", "nisqa.mos", _CONVERSATION),
    BoardColumn("dnsmos", "DNSMOS", "dnsmos.p808", _CONVERSATION),
    BoardColumn("utmos", "UTMOS", "utmos", _CONVERSATION),
    BoardColumn("emoalign", "EmoAlign", "emoalign.top1", _CONVERSATION),
    BoardColumn("ves", "VES", "ves", _CONVERSATION),
)
_TEXT = (
    BoardColumn("bleu", "BLEU", "bleu", _CONVERSATION),
    BoardColumn("rouge_l", "ROUGE-L", "rouge_l", _CONVERSATION),
    BoardColumn("meteor", "METEOR", "meteor", _CONVERSATION),
    BoardColumn("bertscore", "BERTScore", "bertscore", _CONVERSATION),
    *(BoardColumn(name, name.upper(), f"rubric.{name}", _CONVERSATION) for name in ("c1", "c2", "c3", "c4")),
)
_C4, _VES = _TEXT[-1], _AUDIO[-1]

_NOTES = (
    "Rows marked as published are the paper's (Zhou et al., ICLR 2026): means over all of EchoMind, without "
    "intervals. A row of ours compares with them only as far as its data, its judges and their versions do.",
    "Figures of ours are means over scored turns; intervals are 95 %, resampled by script. Bold is the best "
    "of our rows, which says nothing of whether it differs from the next: live-eval compare does.",
)
_AUDIO_NOTE = (
    "The paper's table does not say which of DNSMOS's numbers it shows; P.808 fits its values. It publishes "
    "no UTMOS."
)
_WER_NOTE = "WER after Whisper's English normaliser; the paper does not show its own."


def build_board(paths: Sequence[Path], *, all_prompts: bool = False) -> Board:
    """Return the board of some runs.

    Args:
        paths: Their folders.
        all_prompts: Whether every prompt has a row, instead of each model's best.

    Raises:
        StoreError: One is no run.
    """
    entries = _entries(paths)
    tables = [
        _table("Understanding and reasoning", _UNDERSTANDING, entries, None, (_WER_NOTE,)),
        _table("Response: sound", _AUDIO, entries, None if all_prompts else _VES, (_AUDIO_NOTE,)),
        _table("Response: words", _TEXT, entries, None if all_prompts else _C4, ()),
    ]
    return Board(tuple(tables), tuple(_maps(entries)), _plots(entries), _NOTES)


def _entries(paths: Sequence[Path]) -> list[_Entry]:
    entries: list[_Entry] = []
    with ExitStack() as stack:
        for path in paths:
            run = stack.enter_context(RunReader.open(path))
            scores = stack.enter_context(ScoreReader.open(path))
            summary = summarise(run, scores)
            facts = summary.facts
            told = run.manifest.get("prompt")
            prompt = told.get("name") if isinstance(told, Mapping) else None
            label = facts.model or facts.endpoint or facts.name
            model = (facts.endpoint, facts.model, facts.voice, facts.turn_mode, facts.data)
            entries.append(_Entry(label, model, str(prompt or "no"), summary))
    labels = [entry.label for entry in entries]
    if len({(entry.label, entry.prompt) for entry in entries}) < len(labels):
        # Two runs that say the same of themselves are told apart by their folders.
        return [
            _Entry(f"{entry.label} ({entry.summary.facts.name})", entry.model, entry.prompt, entry.summary)
            for entry in entries
        ]
    return entries


def _table(
    title: str,
    columns: tuple[BoardColumn, ...],
    entries: Sequence[_Entry],
    chosen_by: BoardColumn | None,
    notes: tuple[str, ...],
) -> BoardTable:
    shown, said = _best_prompts(entries, chosen_by) if chosen_by is not None else (list(entries), [])
    prompted = any(column.task is _CONVERSATION for column in columns)
    estimates = [[entry.estimate(column) for column in columns] for entry in shown]
    best = [_best([row[place].value for row in estimates], column) for place, column in enumerate(columns)]
    ours = [
        BoardRow(
            entry.label,
            entry.prompt if prompted else "",
            False,
            tuple(
                BoardCell(
                    estimate.value,
                    estimate,
                    sum(turn.task is column.task for turn in entry.summary.turns),
                    best=estimate.value is not None and estimate.value == top,
                )
                for column, estimate, top in zip(columns, row, best, strict=True)
            ),
        )
        for entry, row in zip(shown, estimates, strict=True)
        if any(estimate.value is not None for estimate in row)
    ]
    published = [
        BoardRow(name, "", True, tuple(BoardCell(figures.get(column.key)) for column in columns))
        for name, figures in PUBLISHED.items()
        if any(column.key in figures for column in columns)
    ]
    without = [entry.label for entry, row in zip(shown, estimates, strict=True) if not any(e.n for e in row)]
    if without:
        said = [*said, f"without a figure here, and so without a row: {', '.join(without)}"]
    return BoardTable(title, columns, (*ours, *published), (*notes, *said))


def _best_prompts(entries: Sequence[_Entry], column: BoardColumn) -> tuple[list[_Entry], list[str]]:
    """Return each model's run with the best prompt, and in words how it was chosen."""
    shown: list[_Entry] = []
    said: list[str] = []
    for model in dict.fromkeys(entry.model for entry in entries):
        runs = [entry for entry in entries if entry.model == model]
        prompts = ", ".join(dict.fromkeys(entry.prompt for entry in runs))
        if len({entry.prompt for entry in runs}) < 2:
            shown += runs
            continue
        lacking = [entry.prompt for entry in runs if entry.series(column) is None]
        scripts = {key: script for entry in runs for key, script in entry.scripts.items()}
        ranked = rank_prompts(
            {str(place): series for place, entry in enumerate(runs) if (series := entry.series(column))},
            scripts,
        )
        if lacking or ranked is None:
            shown += runs
            why = f"is lacking for {', '.join(lacking)}" if lacking else "is of no turn under every prompt"
            said.append(f"{runs[0].label}: every prompt has a row, since {column.title} {why}")
            continue
        best = runs[int(next(iter(ranked.means)))].prompt
        shown += [entry for entry in runs if entry.prompt == best]
        said.append(
            f"{runs[0].label}: the prompt {best!r} is shown, the best of {prompts} by {column.title}, as the "
            "paper's table does; the best of several is a little too good"
        )
    return shown, said


def _best(values: Sequence[float | None], column: BoardColumn) -> float | None:
    there = [value for value in values if value is not None]
    if len(there) < 2:
        return None
    return max(there) if column.higher_is_better else min(there)


def _maps(entries: Sequence[_Entry]) -> list[HeatMap]:
    maps = []
    for title, score, task, low, high in (
        ("Accuracy by type: understanding, %", "mcq.accuracy", Task.UNDERSTANDING, 0, 100),
        ("Accuracy by type: reasoning, %", "mcq.accuracy", Task.REASONING, 0, 100),
        ("C4 by attribute", "rubric.c4", _CONVERSATION, 1, 5),
        ("VES by attribute", "ves", _CONVERSATION, 1, 5),
        ("EmoAlign by attribute, %", "emoalign.top1", _CONVERSATION, 0, 100),
    ):
        found = _map(title, score, task, entries)
        if found is not None:
            rows, cells = found
            columns = tuple(
                f"{entry.label} ({entry.prompt})" if task is _CONVERSATION else entry.label
                for entry in entries
            )
            maps.append(HeatMap(title, low, high, columns, rows, cells))
    return maps


def _map(
    title: str, score: str, task: Task, entries: Sequence[_Entry]
) -> tuple[tuple[str, ...], tuple[tuple[Estimate, ...], ...]] | None:
    """Return the rows of a map, or None where no run has the score."""

    def row_of(turn: TurnFacts) -> str | None:
        if task.asks:
            return turn.question_kind
        return (turn.cue.attribute or turn.cue.phrase) if turn.cue is not None else None

    names = sorted(
        {
            name
            for entry in entries
            for turn in entry.summary.turns
            if turn.task is task and (name := row_of(turn))
        }
    )
    cells = [
        tuple(
            entry.mean(
                score, [turn for turn in entry.summary.turns if turn.task is task and row_of(turn) == name]
            )
            for entry in entries
        )
        for name in names
    ]
    kept = [(name, row) for name, row in zip(names, cells, strict=True) if any(each.n for each in row)]
    if not kept:
        return None
    return tuple(name for name, _ in kept), tuple(row for _, row in kept)


def _plots(entries: Sequence[_Entry]) -> tuple[LevelPlot, ...]:
    """Return the paper's plots, with every run as a model of its own."""
    measures = {measure.name: measure for measure in MEASURES}
    models = [(name, True, {key: figures.get(key) for key in figures}) for name, figures in PUBLISHED.items()]
    for entry in entries:
        found = {
            name.lower(): entry.mean(
                measure.score, [turn for turn in entry.summary.turns if turn.task is measure.task]
            ).value
            for name, measure in measures.items()
        }
        models.append((f"{entry.label}, prompt {entry.prompt}", False, found))
    plots = []
    for across, up in PLOTTED:
        dots = tuple(
            ModelDot(label, published, first, second)
            for label, published, figures in models
            if (first := figures.get(across.lower())) is not None
            and (second := figures.get(up.lower())) is not None
        )
        correlation = spearman(
            [dot.across for dot in dots], [dot.up for dot in dots], [dot.label for dot in dots]
        )
        plots.append(LevelPlot(measures[across], measures[up], dots, correlation.value))
    return tuple(plots)
