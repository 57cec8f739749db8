"""The runs on the board: what each calls itself, its figures, and which prompts of a model are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.comparison import NOT_TOLD, Key, Series, prompt_names, rank_prompts, score_series, tells_cue
from live_eval.errors import UsageError
from live_eval.leaderboard.columns import BoardColumn
from live_eval.statistics import Estimate, estimate_mean, estimate_share
from live_eval.store import RunReader, ScoreReader, part_of
from live_eval.summary import ACCURACY, RunSummary, TurnFacts, summarise
from live_eval.types import Task

__all__ = ["Chosen", "Entry", "Source", "choose_prompts", "read_entries", "sources_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A run that is on the board.

    Args:
        label: Its model, or else its endpoint.
        folder: Its folder, unique on the board.
        model: What makes runs those of one model on the same data.
        data: What tells its data from other data.
        prompt: The prompt of its conversations; with its hash where two of one name say different things.
        told: Whether that prompt tells the cue.
        summary: Its figures.
    """

    label: str
    folder: str
    model: tuple[str | None, ...]
    data: str
    prompt: str
    told: bool
    summary: RunSummary

    def estimate(self, column: BoardColumn) -> Estimate:
        """Return a figure of a table."""
        return self.mean(column.score, [turn for turn in self.summary.turns if turn.task is column.task])

    def mean(self, score: str, turns: Iterable[TurnFacts]) -> Estimate:
        """Return the mean of a score over some turns: those that were scored, and questions not answered."""
        table = self.summary.table
        column = table.column(score)
        if column is None:
            return Estimate(None, 0, 0, reason="not judged")
        values = [
            (value, turn.script_id) for turn in turns if (value := table.value(turn, column)) is not None
        ]
        estimate = estimate_share if score == ACCURACY else estimate_mean
        return estimate([value for value, _ in values], [script for _, script in values])

    def series(self, column: BoardColumn) -> Series | None:
        """Return the column's score turn by turn, or None where no turn was scored."""
        table = self.summary.table
        score = table.column(column.score)
        if score is None:
            return None
        about = [turn for turn in self.summary.turns if turn.task in score.tasks]
        found = score_series(about, table, score, score.name)
        return found if any(value is not None for value in found.values.values()) else None

    def cases(self, task: Task) -> frozenset[str]:
        """Return which cases of a task it has, so that figures of the same ones can be told."""
        return frozenset(turn.case_id for turn in self.summary.turns if turn.task is task)

    @property
    def scripts(self) -> Mapping[Key, str]:
        """The script of each turn."""
        return {(turn.case_id, turn.repeat): turn.script_id for turn in self.summary.turns}


def read_entries(paths: Sequence[Path]) -> list[Entry]:
    """Read runs.

    Raises:
        UsageError: One is named twice.
        StoreError: One is no run.
    """
    resolved = [path.resolve() for path in paths]
    if len(set(resolved)) < len(resolved):
        raise UsageError("a run was named twice, expected different ones")
    folders = Counter(path.name for path in resolved)
    read: list[tuple[Path, RunSummary, Mapping[str, Any]]] = []
    for path in paths:
        with RunReader.open(path) as run, ScoreReader.open(path) as scores:
            read.append((path, summarise(run, scores), run.manifest))
    prompts = prompt_names([manifest for _, _, manifest in read])
    entries: list[Entry] = []
    for (path, summary, manifest), prompt in zip(read, prompts, strict=True):
        facts = summary.facts
        folder = facts.name if folders[facts.name] == 1 else str(path)
        data = part_of(manifest, "data")
        # Data that is not told may be any: it is like no other.
        known = str(data.get("fingerprint") or data.get("name") or f"that of {folder}")
        entries.append(
            Entry(
                label=facts.model or facts.endpoint or facts.name,
                folder=folder,
                model=(facts.endpoint, facts.model, facts.voice, facts.turn_mode, known),
                data=known,
                prompt=prompt,
                told=tells_cue(manifest),
                summary=summary,
            )
        )
    return entries


@dataclass(frozen=True, slots=True)
class Source:
    """Where figures come from: one of our runs, or the paper.

    Args:
        model: The model, or else the endpoint.
        folder: The run's folder; None for the paper.
        prompt: The prompt of its conversations; empty where it has no part in the figures.
        told: Whether that prompt tells the cue.
        alone: Whether no other source reads the same.
    """

    model: str
    folder: str | None = None
    prompt: str = ""
    told: bool = False
    alone: bool = True

    @property
    def name(self) -> str:
        """The model, with the folder where another source would read the same."""
        return self.model if self.alone else f"{self.model} ({self.folder})"

    @property
    def remark(self) -> str:
        """What to say beside the name: that it is published, or the prompt; may be empty."""
        if self.folder is None:
            return "published"
        return f"prompt {self.prompt}{', tells the cue' if self.told else ''}" if self.prompt else ""


def sources_of(entries: Sequence[Entry], *, prompted: bool) -> list[Source]:
    """Return runs as sources.

    Args:
        entries: The runs.
        prompted: Whether their prompt has a part in the figures.
    """
    prompts = [entry.prompt if prompted else "" for entry in entries]
    count = Counter((entry.label, prompt) for entry, prompt in zip(entries, prompts, strict=True))
    return [
        Source(entry.label, entry.folder, prompt, prompted and entry.told, count[entry.label, prompt] == 1)
        for entry, prompt in zip(entries, prompts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runs that have a row, and in words how they were chosen."""

    entries: tuple[Entry, ...]
    said: tuple[str, ...]


def choose_prompts(entries: Sequence[Entry], column: BoardColumn) -> Chosen:
    """Return each model's runs with the best prompt, as the paper's tables show them.

    The best is that with the highest mean over scripts, over the turns with a value under every prompt. A
    prompt that tells the cue is an upper bound: it has a row of its own and is no candidate, nor is one that
    the run does not tell. Runs without such turns (of questions alone) have no part in it.

    Args:
        entries: The runs.
        column: What to choose by.
    """
    shown: list[Entry] = []
    said: list[str] = []
    for model in dict.fromkeys(entry.model for entry in entries):
        there = [entry for entry in entries if entry.model == model and entry.cases(column.task)]
        runs = [entry for entry in there if not entry.told and entry.prompt != NOT_TOLD]
        others = [entry for entry in there if entry not in runs]
        prompts = list(dict.fromkeys(entry.prompt for entry in runs))
        best = prompts
        if len(prompts) > 1:
            best, why = _best_prompt(runs, column)
            label = f"{runs[0].label}: "
            if why:
                said.append(f"{label}every prompt has a row, since {why}")
            else:
                said.append(
                    f"{label}the prompt {best[0]!r} is shown, the best of {', '.join(prompts)} by "
                    f"{column.title}, as the paper's table does; the best of several is a little too good"
                )
        shown += [entry for entry in runs if entry.prompt in best] + others
    return Chosen(tuple(shown), tuple(said))


def _best_prompt(runs: Sequence[Entry], column: BoardColumn) -> tuple[list[str], str]:
    """Return the best prompt, or all of them and why none is the best."""
    prompts = list(dict.fromkeys(entry.prompt for entry in runs))
    series = {str(place): found for place, entry in enumerate(runs) if (found := entry.series(column))}
    if lacking := [entry.prompt for place, entry in enumerate(runs) if str(place) not in series]:
        return prompts, f"{column.title} is lacking for {', '.join(lacking)}"
    if len({each.version for each in series.values()}) > 1:
        return prompts, f"{column.title} is of different versions of its judge"
    ranked = rank_prompts(series, {key: script for entry in runs for key, script in entry.scripts.items()})
    if ranked is None:
        return prompts, f"no turn has {column.title} under every prompt"
    best = list(dict.fromkeys(runs[int(place)].prompt for place in ranked.best))
    if len(best) > 1:
        return prompts, f"the best means of {column.title} are equal"
    return best, ""
