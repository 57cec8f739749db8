"""Read EchoMind's multiple-choice questions: ``MCQ/understanding.json`` and ``MCQ/reasoning.json``.

These fields are public: ``question_id``, ``question``, ``options_text``, ``audio_dir``, ``audio_name``. The
field names for the answer key, the type and the script are not public; `KNOWN_FIELDS` lists the spellings to
try. A question that cannot be asked, because it has no options or its key matches none of them, remains a
case with a problem.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_eval.data._choices import parse_answer, parse_options
from live_eval.data._rows import FieldMap, Row, field_names, inside, read_entries, relative_name, unique
from live_eval.errors import DataError
from live_eval.text.wording import limited
from live_eval.types import Case, Question, Task, Variant

__all__ = [
    "KNOWN_FIELDS",
    "MAPPED",
    "QUESTION_TYPES",
    "QuestionFile",
    "Questions",
    "question_type",
    "read_questions",
]

KNOWN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("question_id", "qid", "id", "uid"),
    "script_id": ("case_id", "script_id", "spoken_id"),
    "question": ("question", "question_text", "query"),
    "options": ("options_text", "options", "choices"),
    "answer": ("answer", "answer_key", "correct_answer", "correct_option", "correct", "label", "gold"),
    "kind": ("question_type", "type", "task", "category"),
    "folder": ("audio_dir", "audio_folder"),
    "audio": ("audio_name", "audio_file", "audio", "input_audio_file", "audio_path"),
    "text": ("script", "script_text", "text", "transcript"),
    "cue": ("spoken_info", "cue", "attribute"),
    "topic": ("topic", "scenario"),
    "language": ("language", "lang"),
}
"""live-eval's field names, each with the spellings to try in order."""

MAPPED = "question."
"""Prefix of the names of question fields in `DataOptions.fields`."""

QUESTION_TYPES: Mapping[Task, Mapping[str, tuple[str, ...]]] = {
    Task.UNDERSTANDING: {
        "coarse-grained": ("coarse",),
        "gender": ("gender",),
        "age group": ("age",),
        "voice style": ("voice style", "style"),
        "speech emotion": ("emotion",),
        "speaking pace": ("pace", "speed"),
        "non-verbal expression": ("nve", "non verbal", "nonverbal"),
        "background sound": ("background",),
    },
    Task.REASONING: {
        "multiple people": ("multiple people",),
        "laughter sentiment": ("laughter", "laugh"),
        "shouting sentiment": ("shout",),
        "audio-text sentiment consistency": ("consistency",),
        "response style matching": ("response style",),
        "personalised recommendation": ("personalised", "personalized", "recommendation"),
        "contextual suggestion": ("contextual", "suggestion"),
        "preceding event": ("preceding", "event"),
        "speaker intent": ("intent",),
        "empathy-aware response selection": ("empathy",),
    },
}
"""The paper's types by task, each with words that identify it in the data's spelling."""

_SCRIPT_ID = re.compile(r"id_\d+")


def question_type(task: Task, spelled: str | None) -> str:
    """Return the paper's name for a question type, or the name in the data if the type is unknown.

    >>> question_type(Task.UNDERSTANDING, "Fine Grained Nve Recognition")
    'non-verbal expression'
    """
    words = " ".join(re.findall(r"[a-z]+", (spelled or "").lower()))
    for name, marks in QUESTION_TYPES[task].items():
        if any(re.search(rf"\b{mark}", words) for mark in marks):
            return name
    return spelled or "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionFile:
    """A file of questions about one part of the data."""

    path: Path
    task: Task
    roots: tuple[Path, ...]  # folders to search for recordings
    source: str  # source of the recordings: synthesis or human
    prefix: str  # prefix of case IDs

    @property
    def where(self) -> str:
        """The file name, for messages."""
        return "/".join(self.path.parts[-3:])


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of a data set, as in `DataSet`."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]
    unread: Mapping[Task, tuple[str, ...]]


def read_questions(
    files: Sequence[QuestionFile],
    conversations: Sequence[Case],
    *,
    mapping: Mapping[str, str],
    taken: set[str],
) -> Questions:
    """Read question files; unreadable files do not affect the others.

    Args:
        conversations: Conversations about the same recordings.
        mapping: The user's field spellings, by names that start with ``question.``.
        taken: Case IDs in use, to which the IDs of the questions are added.

    Raises:
        UsageError: The field mapping does not match the data.
    """
    mine = {name.removeprefix(MAPPED): path for name, path in mapping.items() if name.startswith(MAPPED)}
    fields = FieldMap(KNOWN_FIELDS, mine)
    entries: dict[QuestionFile, list[Any]] = {}
    unread: dict[Task, tuple[str, ...]] = {}
    for file in files:
        try:
            entries[file] = read_entries(file.path)
        except DataError as error:
            unread[file.task] = (*unread.get(file.task, ()), str(error))
    records = [entry for of_file in entries.values() for entry in of_file if isinstance(entry, dict)]
    if records:
        fields.check_mapping(records, ", ".join(file.where for file in entries), prefix=MAPPED)
    notes = [f"{task} questions are excluded: {why}" for task, reasons in unread.items() for why in reasons]
    scripts = _Scripts(conversations)
    cases: list[Case] = []
    for file, of_file in entries.items():
        read = _read_file(file, of_file, fields, scripts, taken)
        notes.extend(_absent_keys(file, of_file, fields, read))
        notes.extend(_repeated_ids(file, read))
        cases.extend(read)
    return Questions(tuple(cases), tuple(notes), unread)


class _Scripts:
    """The conversations of a data set by recording and by script; the first match takes precedence."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.by_recording: dict[Path, Case] = {}
        self.by_variant: dict[tuple[str, str, Variant], Case] = {}
        self.by_script: dict[tuple[str, str], Case] = {}
        for case in cases:
            self.by_recording.setdefault(case.audio_path, case)
            self.by_variant.setdefault((case.source, case.script_id, case.variant), case)
            self.by_script.setdefault((case.source, case.script_id), case)


def _absent_keys(
    file: QuestionFile, entries: Sequence[Any], fields: FieldMap, cases: Sequence[Case]
) -> Iterator[str]:
    """Yield a note on questions without an answer key, with the attempted spellings."""
    records = [entry for entry in entries if isinstance(entry, dict)]
    keyless = [record for record in records if fields.find(record, "answer", Variant.TARGET) is None]
    if keyless:
        tried = ", ".join(fields.paths("answer", Variant.TARGET))
        yield (
            f"{file.where}: the answer key is missing from {len(keyless)} of {len(cases)} questions; tried "
            f"{tried}; the fields are: {', '.join(field_names(keyless[0]))} (--map {MAPPED}answer=NAME)"
        )


def _repeated_ids(file: QuestionFile, cases: Sequence[Case]) -> Iterator[str]:
    ids = Counter(case.question.question_id for case in cases if case.question is not None)
    repeated = [question_id for question_id, count in ids.items() if count > 1]
    if repeated:
        shown = limited(repeated, ", ")
        yield f"{file.where}: several questions have the ID {shown}; repeated IDs are numbered"


def _read_file(
    file: QuestionFile, entries: Sequence[Any], fields: FieldMap, scripts: _Scripts, taken: set[str]
) -> list[Case]:
    cases = []
    for number, entry in enumerate(entries, 1):
        where = f"{file.where}, entry {number}"
        row = Row(fields, entry if isinstance(entry, dict) else {}, Variant.TARGET, where)
        question_id = row.text("id") or f"question_{number}"
        case_id = unique(f"{file.prefix}{file.task}/{question_id}", taken)
        if isinstance(entry, dict):
            cases.append(_case(row, file, scripts, case_id, question_id))
        else:
            row.complain(f"expected an object, got {entry!r:.80}")
            unread = Case(
                case_id=case_id,
                script_id=question_id,
                variant=Variant.TARGET,
                audio_path=file.roots[0],
                source=file.source,
                task=file.task,
                problem=row.problem,
            )
            cases.append(unread)
    return cases


def _case(row: Row, file: QuestionFile, scripts: _Scripts, case_id: str, question_id: str) -> Case:
    """Return a question's case; missing fields come from the conversation with its recording or script."""
    audio = _audio(row, file.roots)
    same = scripts.by_recording.get(audio) if audio is not None else None
    name = row.text("audio") or ""
    inferred = _SCRIPT_ID.search(name) or _SCRIPT_ID.search(question_id)
    usual_id = same.script_id if same is not None else inferred[0] if inferred else question_id
    usual_variant = same.variant if same is not None else Variant.TARGET
    script_id = row.text("script_id") or usual_id
    variant = next((each for each in Variant if f"_{each}" in name.lower()), usual_variant)
    same = same or scripts.by_variant.get((file.source, script_id, variant))
    script = same or scripts.by_script.get((file.source, script_id))
    cue = row.cue() or (same.cue if same is not None else None)
    return Case(
        case_id=case_id,
        script_id=script_id,
        variant=variant,
        audio_path=audio or file.roots[0],
        text=row.text("text") or (script.text if script is not None else None),
        cue=cue,
        script_cue=cue if variant is Variant.TARGET else None,
        topic=row.text("topic") or (script.topic if script is not None else None),
        source=file.source,
        language=row.text("language") or (script.language if script is not None else "en"),
        question=_question(row, file.task, question_id),
        task=file.task,
        problem=row.problem,
        lacks_recording=row.lacks_recording,
    )


def _audio(row: Row, roots: Sequence[Path]) -> Path | None:
    """Return the recording of a question, from the entry's folder if specified; None if missing."""
    folder = row.text("folder")
    if folder is None or relative_name(folder) == ".":
        return row.audio(*roots)
    inner = [path for root in roots if (path := inside(root, folder)) is not None]
    path = row.audio(*inner, *roots)
    # Ignore paths of other machines, since the recording may still be in a local folder.
    if not inner and path is not None and not os.path.isfile(path):
        row.complain(f"the path {folder!r} given as folder is outside {roots[0]}, and {path.name} is missing")
        row.lacks_recording = True
        return None
    return path


def _question(row: Row, task: Task, question_id: str) -> Question:
    """Return the readable parts of a question; its type counts even if the question cannot be asked."""
    if row.value("question") is None:
        row.complain_absent("question", "a question")
    options: tuple[tuple[str, str], ...] = ()
    answer: str | None = None
    if (given := row.value("options")) is None:
        row.complain_absent("options", "options")
    else:
        try:
            options = parse_options(given)
            stated = row.text("answer")
            answer = parse_answer(stated, options) if stated is not None else None
        except ValueError as error:
            row.complain(str(error))
    return Question(
        question_id=question_id,
        text=row.text("question") or "",
        options=options,
        answer=answer,
        kind=question_type(task, row.text("kind")),
    )
