"""Represent the runs on a board: names, values, and the prompt that represents each model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.analysis.comparison.prompts import averaged, rank_prompts
from live_eval.analysis.comparison.run_settings import NOT_RECORDED, prompt_names, states_cue
from live_eval.analysis.comparison.series import Series, score_series
from live_eval.analysis.leaderboard_columns import BoardColumn, leaderboard_columns
from live_eval.analysis.statistics.intervals import Estimate
from live_eval.analysis.summary.observations import Observation, TurnKey
from live_eval.analysis.summary.run_summary import RunSummary, summarise
from live_eval.analysis.summary.score_table import JudgeFacts
from live_eval.data import SAMPLE, SAMPLE_DIALOGUES
from live_eval.errors import UsageError
from live_eval.judging import LeaderboardTable
from live_eval.recording import RunReader, part_of
from live_eval.redaction import host_of
from live_eval.report.leaderboard.paper_protocol import differences_from_paper, special_conditions
from live_eval.text.wording import counted
from live_eval.types import Task

__all__ = [
    "RUN_COLUMNS",
    "BoardRun",
    "Chosen",
    "Entry",
    "Source",
    "choose_prompts_of",
    "entries_of",
    "read_entries",
    "sources_of",
]

RUN_COLUMNS = ("run", "folder", "endpoint", "prompt", "data", "turns", "differences from the paper")
"""The headings of the run table."""

_BUNDLED = {SAMPLE: "the bundled sample", SAMPLE_DIALOGUES: "the bundled dialogues"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRun:
    """A run, as a row of the run table.

    Args:
        folder: Run folder, unique on the board.
        endpoint: Endpoint with address, model, voice and turn mode, as far as recorded.
        source: Comma-separated kinds of data (``synthesis``, ``human``, ``manifest``, ``folder``).
        total: Number of turns, including failed turns.
        unfinished: Note on an incomplete run; empty if it has ended.
        differences: Differences from the paper's protocol; for other benchmarks, the special conditions.
    """

    number: int
    folder: str
    endpoint: str
    prompt: str
    data: str
    cases: int
    source: str
    total: int
    captured: int
    unfinished: str
    differences: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells under `RUN_COLUMNS`."""
        turns = f"{self.captured} of {self.total} captured"
        return (
            str(self.number),
            self.folder,
            self.endpoint,
            self.prompt,
            f"{self.data}: {', '.join(filter(None, (counted(self.cases, 'case'), self.source)))}",
            f"{turns}; {self.unfinished}" if self.unfinished else turns,
            "; ".join(self.differences) or "none recorded",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A run on the board, with its scores.

    Args:
        label: Model or else endpoint, with the address if the user gave one.
        model: Identity of the model and its data.
        prompt: Conversation prompt, with its hash if different prompts share a name.
        states_cue: Whether the prompt states the cue.
        conditions: See `special_conditions`.
    """

    label: str
    run: BoardRun
    model: tuple[str | None, ...]
    data: str
    prompt: str
    states_cue: bool
    conditions: tuple[str, ...]
    summary: RunSummary

    def turns(self, column: BoardColumn) -> list[Observation]:
        """Return the turns of a column's task, including failed ones."""
        return [turn for turn in self.summary.turns if turn.task is column.task]

    def mean(self, column: BoardColumn, turns: Iterable[Observation]) -> Estimate:
        """Return a column's mean over those of the turns that were scored or left a question unanswered."""
        table = self.summary.table
        score = table.filling(column)
        if score is None:
            return Estimate(None, 0, 0, reason="not judged")
        return table.mean(turns, score)

    def judge(self, column: BoardColumn) -> JudgeFacts | None:
        """Return a column's judge, or None."""
        score = self.summary.table.filling(column)
        if score is None:
            return None
        # Without captured turns, no judge ran, but unanswered questions still count as wrong.
        unasked = JudgeFacts(score.judge, score.version, ())
        return next((judge for judge in self.summary.judges if judge.name == score.judge), unasked)

    def series(self, column: BoardColumn) -> Series | None:
        """Return the scores of a column by turn, or None if no turn is scored."""
        table = self.summary.table
        score = table.filling(column)
        if score is None:
            return None
        about = [turn for turn in self.summary.turns if turn.task in score.tasks]
        found = score_series(about, table, score)
        return found if any(value is not None for value in found.values.values()) else None

    def cases(self, task: Task) -> frozenset[str]:
        """Return the run's cases for a task."""
        return frozenset(turn.case_id for turn in self.summary.turns if turn.task is task)

    @property
    def scripts(self) -> Mapping[TurnKey, str]:
        """The script of each turn."""
        return {turn.key: turn.script_id for turn in self.summary.turns}


def read_entries(paths: Sequence[Path]) -> list[Entry]:
    """Read runs for a board.

    Raises:
        UsageError: A run is repeated.
        StoreError: A folder contains no run.
    """
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise UsageError("expected different runs, got a duplicate run")
    read: list[tuple[Path, RunSummary, Mapping[str, Any]]] = []
    for path in paths:
        with RunReader.open(path) as run:
            read.append((path, summarise(run), run.manifest))
    return entries_of(read)


def entries_of(read: Sequence[tuple[Path, RunSummary, Mapping[str, Any]]]) -> list[Entry]:
    """Return the entries for runs that are given as folder, summary and manifest."""
    folders = Counter(path.resolve().name for path, _, _ in read)
    prompts = prompt_names([manifest for _, _, manifest in read])
    entries: list[Entry] = []
    for number, ((path, summary, manifest), prompt) in enumerate(zip(read, prompts, strict=True), 1):
        name = summary.facts.name
        folder = name if folders[name] == 1 else str(path)
        entries.append(_entry(summary, manifest, number, folder, prompt))
    return entries


def _entry(summary: RunSummary, manifest: Mapping[str, Any], number: int, folder: str, prompt: str) -> Entry:
    facts, data = summary.facts, part_of(manifest, "data")
    given = part_of(part_of(manifest, "config"), "endpoint").get("base_url")
    base_url = given if isinstance(given, str) else ""
    address = host_of(base_url)
    at = f" @ {address}" if address else ""
    # unrecorded data is never equal to other data
    known = str(data.get("fingerprint") or data.get("name") or f"that of {folder}")
    endpoint = f"{facts.endpoint or NOT_RECORDED}{at}"
    turn_mode, history = facts.conditions.turn_mode, facts.conditions.history
    return Entry(
        label=f"{facts.model or facts.endpoint or facts.name}{at}",
        run=BoardRun(
            number=number,
            folder=folder,
            endpoint=", ".join([endpoint, *filter(None, (facts.model, facts.voice, turn_mode, history))]),
            prompt=prompt,
            data=_data_name(manifest),
            cases=len({turn.case_id for turn in summary.turns}),
            source=", ".join(sorted({turn.source for turn in summary.turns})),
            total=summary.total,
            captured=summary.captured,
            unfinished=facts.unfinished,
            differences=tuple(differences_from_paper(manifest, summary.turns)),
        ),
        # A gateway may serve a different model at each path, so the whole address identifies the model.
        model=(facts.endpoint, base_url, facts.model, facts.voice, turn_mode, history, known),
        data=known,
        prompt=prompt,
        states_cue=states_cue(manifest),
        conditions=tuple(special_conditions(manifest)),
        summary=summary,
    )


def _data_name(manifest: Mapping[str, Any]) -> str:
    path = part_of(part_of(manifest, "config"), "data").get("path")
    bundled = _BUNDLED.get(path) if isinstance(path, str) else None
    return bundled or str(part_of(manifest, "data").get("name") or NOT_RECORDED)


@dataclass(frozen=True, slots=True)
class Source:
    """A source of values: a run or the paper.

    Args:
        model: Model or else endpoint, with the address if the user gave one.
        run: The run; None for the paper.
        prompt: Conversation prompt; empty if irrelevant.
        states_cue: Whether the prompt states the cue.
        alone: Whether the name is unique among the sources.
    """

    model: str
    run: BoardRun | None = None
    prompt: str = ""
    states_cue: bool = False
    alone: bool = True

    @property
    def name(self) -> str:
        """The model, with the folder if the name is not unique."""
        return self.model if self.run is None or self.alone else f"{self.model} ({self.run.folder})"

    @property
    def remark(self) -> str:
        """The remark next to the name: "published", or the run's number and special conditions."""
        if self.run is None:
            return "published"
        prompt = f"prompt {self.prompt}" if self.prompt else ""
        stated = "states the cue" if self.states_cue else ""
        return ", ".join(filter(None, (f"run {self.run.number}", prompt, stated, self.run.unfinished)))


def sources_of(entries: Sequence[Entry], *, prompted: bool) -> list[Source]:
    """Return the source for each run."""
    prompts = [entry.prompt if prompted else "" for entry in entries]
    count = Counter((entry.label, prompt) for entry, prompt in zip(entries, prompts, strict=True))
    return [
        Source(entry.label, entry.run, prompt, prompted and entry.states_cue, count[entry.label, prompt] == 1)
        for entry, prompt in zip(entries, prompts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runs that get a row, and notes on how they were chosen."""

    entries: tuple[Entry, ...]
    notes: tuple[str, ...]


def choose_prompts_of(table: LeaderboardTable, entries: Sequence[Entry]) -> Chosen:
    """Return the runs to display in a table; if the table chooses prompts, only each model's best one."""
    for column in leaderboard_columns():
        if column.table is table and column.picks_prompt:
            return _choose_prompts(entries, column)
    return Chosen(tuple(entries), ())


def _choose_prompts(entries: Sequence[Entry], column: BoardColumn) -> Chosen:
    """Return the runs with the best prompt of each model, as in the paper's tables.

    The best prompt has the highest mean over scripts, on the turns that have a value under every prompt.
    Prompts that state the cue (an upper bound) and unrecorded prompts have rows of their own and are not
    ranked. Runs without turns for the task are omitted.
    """
    shown: list[Entry] = []
    notes: list[str] = []
    for model in dict.fromkeys(entry.model for entry in entries):
        there = [entry for entry in entries if entry.model == model and entry.cases(column.task)]
        runs = [entry for entry in there if not entry.states_cue and entry.prompt != NOT_RECORDED]
        others = [entry for entry in there if entry not in runs]
        prompts = list(dict.fromkeys(entry.prompt for entry in runs))
        best = prompts
        if len(prompts) > 1:
            best, why = _best_prompt(runs, column)
            label = f"{runs[0].label}: "
            if why:
                notes.append(f"{label}every prompt has a row, since {why}")
            else:
                notes.append(
                    f"{label}the prompt {best[0]!r} is shown, the best of {', '.join(prompts)} by "
                    f"{column.heading}, as in the paper. Prompts are ranked by their mean over scripts, on "
                    "the turns with a value under every prompt; the table shows means over turns. The best "
                    "of several is biased upwards"
                )
        shown += [entry for entry in runs if entry.prompt in best] + others
    return Chosen(tuple(shown), tuple(notes))


def _best_prompt(runs: Sequence[Entry], column: BoardColumn) -> tuple[list[str], str]:
    """Return the best prompt, or all prompts with the reason why none is best."""
    prompts = list(dict.fromkeys(entry.prompt for entry in runs))
    series = [(entry.prompt, entry.series(column)) for entry in runs]
    if unscored := [prompt for prompt, found in series if found is None]:
        return prompts, f"{column.heading} is missing for {', '.join(dict.fromkeys(unscored))}"
    if len({entry.judge(column) for entry in runs}) > 1:
        return prompts, f"{column.heading} is from different judges, judge models or judge versions"
    # Average the runs of a prompt, so that each prompt counts once.
    of_prompt = {
        prompt: averaged([found for name, found in series if name == prompt and found is not None])
        for prompt in prompts
    }
    ranked = rank_prompts(of_prompt, {key: script for entry in runs for key, script in entry.scripts.items()})
    if ranked is None:
        return prompts, f"no turn has {column.heading} under every prompt"
    if len(ranked.best) > 1:
        return prompts, f"the best means of {column.heading} are equal"
    return list(ranked.best), ""
