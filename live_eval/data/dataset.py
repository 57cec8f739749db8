"""Define a data set, the options for reading it, and the selection of its cases."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from live_eval.audio.parquet import recording_exists, recording_size
from live_eval.data.taxonomy import cue_of
from live_eval.errors import DataError, UsageError
from live_eval.text.suggestions import did_you_mean
from live_eval.text.wording import counted, limited
from live_eval.types import Case, SpeechKind, Task, Variant

__all__ = ["DataKind", "DataOptions", "DataSet", "select"]


class DataKind(StrEnum):
    """The supported layouts."""

    ECHOMIND = "echomind"
    """EchoMind's layout: script_info and an ``audio`` folder, for synthesis, human, or both."""
    MANIFEST = "manifest"
    """A JSONL or CSV file that lists recordings."""
    FOLDER = "folder"
    """A folder of recordings."""
    BENCHMARK = "benchmark"
    """Another benchmark in its published layout."""
    LIVE = "live"
    """No files: a person speaks live."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataOptions:
    """Options for reading a data set.

    Args:
        neutral_rule: Whether to skip the neutral variant of scripts whose cue is male, female, child, adult
            or elderly, as in EchoMind's own evaluation, because its voice reveals the cue.
        fields: Mapping from live-eval's field names to names in the data; takes precedence over the known
            spellings. A dot selects a nested field, and ``{variant}`` is replaced with target, neutral or
            alternative: ``{"text": "script.en", "audio": "{variant}.wav"}``.
        audio_root: Base folder for paths in the data; defaults to ``audio`` next to script_info, or to the
            manifest's folder. Paths in the data must be inside this folder.
        flawed_takes: Whether to include performed takes that the performer accepted despite problems.
        verify: Whether to compare the hashes of all of a benchmark's recorded files, which takes time.
    """

    neutral_rule: bool = True
    fields: Mapping[str, str] = field(default_factory=dict)
    audio_root: Path | None = None
    flawed_takes: bool = True
    verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """The conversations and multiple-choice questions of a data set, including those with a problem.

    `unread` contains the problems of unreadable question files, by task; `syntax_errors` contains the
    problems of rows that are not JSON objects. `licence` is a note on the licence of a benchmark's
    recordings, or on a performer's consent. `damaged` contains the reasons why its parts, or other files,
    cannot be read. `differences` are notes on files of another revision, or changed since they were added.
    """

    name: str  # the data set's folder or file
    root: Path
    kind: DataKind
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()  # one sentence per note
    questions: tuple[Case, ...] = ()
    unread: Mapping[Task, tuple[str, ...]] = field(default_factory=dict)
    syntax_errors: tuple[str, ...] = ()
    licence: str = ""
    damaged: Mapping[str, str] = field(default_factory=dict)
    differences: tuple[str, ...] = ()

    @property
    def omissions(self) -> list[str]:
        """A sentence for each part or file in `damaged`."""
        return [f"{name} is left out, because it cannot be read: {why}" for name, why in self.damaged.items()]

    @property
    def question_counts(self) -> dict[str, int]:
        """The number of questions for each task."""
        return dict(Counter(str(case.task) for case in self.questions))

    def of(self, task: Task, *, transcribe: Collection[Variant] = tuple(Variant)) -> tuple[Case, ...]:
        """Return the cases of a task; `transcribe` selects the variants to transcribe.

        For transcription, each dialogue turn gets its own session.
        """
        if task.asks:
            return tuple(case for case in self.questions if case.task is task)
        if task is Task.CONVERSATION:
            return self.cases  # a benchmark's items define their own task
        alone: dict[str, Any] = {
            "dialogue_id": None,
            "turn_index": 0,
            "anchor": None,
            "speech": SpeechKind.TURN,
        }
        return tuple(
            replace(case, case_id=f"{task}/{case.case_id}", task=task, **alone)
            for case in self.cases
            if case.variant in transcribe
        )

    def absence(self, task: Task) -> str:
        """Return why a task has no cases."""
        if not task.asks:
            return "no recording was selected"
        if self.unread.get(task):
            return "; ".join(self.unread[task])
        if self.kind is DataKind.BENCHMARK:
            return "a benchmark's items are replied to as conversations (--task conversation)"
        if self.kind is DataKind.ECHOMIND:
            return f"expected multiple-choice questions in MCQ/{task}.json next to script_info, found none"
        return f"a {self.kind} has no multiple-choice questions"

    def check_syntax(self) -> None:
        """Raise a `DataError` if rows could not be parsed, since a run would count each as a failed turn."""
        if self.syntax_errors:
            raise DataError(limited(self.syntax_errors, "\n"))

    def check_recordings(self, cases: Sequence[Case]) -> list[str]:
        """Check that recordings of the selected cases exist; return a note if some are missing.

        Raises:
            DataError: All recordings are missing.
        """
        missing = [case for case in cases if case.lacks_recording or not recording_exists(case.audio_path)]
        if not missing:
            return []
        first = missing[0]
        why = (first.problem if first.lacks_recording else None) or f"{first.audio_path} does not exist"
        if len(missing) == len(cases):
            of = f"recording out of {len(cases)}" if len(cases) > 1 else "recording"
            raise DataError(f"{self.root}: found no {of}: {why}")
        return [
            f"{self.root}: {len(missing)} of {counted(len(cases), 'recording')} missing, so their turns will "
            f"fail: {why}"
        ]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the conversations' IDs, texts and recording sizes; equal for runs of the same data."""
        return _digest([case.case_id, case.text, recording_size(case.audio_path)] for case in self.cases)

    @property
    def questions_fingerprint(self) -> str | None:
        """SHA-256 of the questions with their options and answer keys; None without questions."""
        asked = [(case, case.question) for case in self.questions if case.question is not None]
        if not asked:
            return None
        return _digest(
            [case.case_id, recording_size(case.audio_path), question.text, question.options, question.answer]
            for case, question in asked
        )


def _digest(lines: Iterable[Sequence[object]]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(json.dumps(line).encode() + b"\n")
    return digest.hexdigest()


def select(
    cases: Iterable[Case],
    *,
    part: str | None = None,
    cues: Sequence[str] = (),
    topics: Sequence[str] = (),
    variants: Sequence[str | Variant] = (),
    case_ids: Sequence[str] = (),
    limit: int | None = None,
) -> list[Case]:
    """Return the selected cases, in data order.

    A case must match at least one value of each given criterion, ignoring letter case. Selecting a turn
    selects its whole dialogue, because the turns depend on each other.

    Args:
        part: Part of EchoMind, ``synthesis`` or ``human``.
        cues: Cues of the case itself (not of its script): an attribute ("rain"), a label in the data ("sound
            of raining"), a fine dimension ("weather") or a coarse dimension ("environment").
        case_ids: Case IDs, or script IDs for all variants of a script.
        limit: Maximum number of cases per task, in data order.

    Raises:
        UsageError: A value matches no case, no case matches all criteria, or the limit is not positive.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"expected a limit of at least 1, got {limit}")
    chosen = everything = list(cases)
    criteria: list[tuple[str, Sequence[str], Callable[[Case], list[str]]]] = [
        ("part", [part] if part else [], lambda case: [case.source]),
        ("cue", [cue_of(value).attribute or value for value in cues], _cue_names),
        ("topic", topics, lambda case: [case.topic or ""]),
        ("variant", variants, lambda case: [case.variant]),
        ("case ID", case_ids, lambda case: [case.case_id, case.script_id]),
    ]
    for what, wanted, names_of in criteria:
        if not wanted:
            continue
        present = Counter(name.casefold() for case in everything for name in names_of(case) if name)
        unknown = [value for value in wanted if value.casefold() not in present]
        if unknown:
            spelled = list(dict.fromkeys(name for case in everything for name in names_of(case) if name))
            most = 5 if what == "case ID" else 60
            folder = f" (data_{unknown[0]})" if what == "part" else ""
            raise UsageError(
                f"no case with the {what} {', '.join(map(repr, unknown))}{folder}"
                f"{did_you_mean(unknown[0], spelled)}; expected one of {limited(spelled, ', ', most)}"
            )
        keys = {value.casefold() for value in wanted}
        chosen = [case for case in chosen if any(name.casefold() in keys for name in names_of(case))]
    if not chosen:
        asked = "; ".join(f"{what} {', '.join(wanted)}" for what, wanted, _ in criteria if wanted)
        raise UsageError(f"no case matches all of: {asked}" if asked else "the data set has no cases")
    wanted_sessions = {_session(case) for case in _first_of_each_task(chosen, limit)}
    return [case for case in everything if _session(case) in wanted_sessions]


def _session(case: Case) -> str:
    """Return the ID of a case's dialogue, or the case ID if it belongs to none."""
    return case.dialogue_id or case.case_id


def _first_of_each_task(cases: Sequence[Case], limit: int | None) -> list[Case]:
    taken: Counter[Task] = Counter()
    first = []
    for case in cases:
        if limit is None or taken[case.task] < limit:
            taken[case.task] += 1
            first.append(case)
    return first


def _cue_names(case: Case) -> list[str]:
    cue = case.cue
    return [name for name in (cue.attribute, cue.phrase, cue.fine, cue.coarse) if name] if cue else []
