"""EchoMind's multiple-choice questions: ``MCQ/understanding.json`` and ``MCQ/reasoning.json``.

Known of an entry: ``question_id``, ``question``, ``options_text``, ``audio_dir``, ``audio_name``. The names
of the answer key, of the type and of the script are not public; `KNOWN_FIELDS` lists the spellings that are
tried. A question that cannot be asked (no options, a key that is none of them) stays among the cases with its
problem.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from live_eval.data._options import parse_answer, parse_options
from live_eval.data._rows import FieldMap, Row, inside, relative_name, unique
from live_eval.data.taxonomy import cue_of
from live_eval.types import Case, Question, Task, Variant

__all__ = ["KNOWN_FIELDS", "MAPPED", "QUESTION_TYPES", "question_type", "read_questions"]

KNOWN_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
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
)
"""Our field names, and for each the spellings that are tried in this order."""

MAPPED = "question."
"""What names of our fields of questions begin with in `DataOptions.fields`."""

QUESTION_TYPES: Mapping[Task, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        Task.UNDERSTANDING: MappingProxyType(
            {
                "coarse-grained": ("coarse",),
                "gender": ("gender",),
                "age group": ("age",),
                "voice style": ("voice style", "style"),
                "speech emotion": ("emotion",),
                "speaking pace": ("pace", "speed"),
                "non-verbal expression": ("nve", "non verbal", "nonverbal"),
                "background sound": ("background",),
            }
        ),
        Task.REASONING: MappingProxyType(
            {
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
            }
        ),
    }
)
"""The types of the paper by task, each with words by which the data's spelling is told."""

_SCRIPT_ID = re.compile(r"id_\d+")


def question_type(task: Task, spelled: str | None) -> str:
    """Return a question's type by the name that the paper gives it, or as the data spells it.

    >>> question_type(Task.UNDERSTANDING, "Fine Grained Nve Recognition")
    'non-verbal expression'
    """
    words = " ".join(re.findall(r"[a-z]+", (spelled or "").lower()))
    for name, marks in QUESTION_TYPES[task].items():
        if any(re.search(rf"\b{mark}", words) for mark in marks):
            return name
    return spelled or "unknown"


def read_questions(
    entries: Sequence[Any],
    task: Task,
    *,
    where: str,
    roots: Sequence[Path],
    source: str,
    prefix: str,
    mapping: Mapping[str, str],
    taken: set[str],
) -> list[Case]:
    """Return a case for each entry of a file of questions.

    Args:
        entries: The entries.
        task: Understanding or reasoning.
        where: The file's name, for messages.
        roots: Folders that recordings are looked for in.
        source: Which recordings they are about: ``synthesis`` or ``human``.
        prefix: What the ids of this part of the data begin with.
        mapping: What the user says of fields: ours, after ``question.``, and the data's.
        taken: Case ids that are taken; those of the questions are added.
    """
    mine = {name.removeprefix(MAPPED): path for name, path in mapping.items() if name.startswith(MAPPED)}
    fields = FieldMap(KNOWN_FIELDS, mine)
    cases = []
    ids: Counter[str] = Counter()
    for number, entry in enumerate(entries, 1):
        row = Row(
            fields, entry if isinstance(entry, dict) else {}, Variant.TARGET, f"{where}, entry {number}"
        )
        question_id = row.text("id") or f"question_{number}"
        ids[question_id] += row.value("id") is not None
        if ids[question_id] > 1:
            row.complain(f"the id {question_id} was used by an earlier entry; give each entry its own")
        case_id = unique(f"{prefix}{task}/{question_id}", taken)
        if isinstance(entry, dict):
            cases.append(_case(row, task, case_id, question_id, roots, source))
        else:
            row.complain(f"expected an object, but it is {entry!r:.80}")
            cases.append(_unreadable(row, task, case_id, question_id, roots, source))
    return cases


def _case(row: Row, task: Task, case_id: str, question_id: str, roots: Sequence[Path], source: str) -> Case:
    audio = _audio(row, roots)
    name = row.text("audio") or ""
    inferred = _SCRIPT_ID.search(name) or _SCRIPT_ID.search(question_id)
    phrase = row.text("cue")
    cue = cue_of(phrase) if phrase else None
    variant = next((each for each in Variant if f"_{each}" in name.lower()), Variant.TARGET)
    return Case(
        case_id=case_id,
        script_id=row.text("script_id") or (inferred[0] if inferred else question_id),
        variant=variant,
        audio_path=audio or roots[0],
        text=row.text("text"),
        cue=cue,
        script_cue=cue if variant is Variant.TARGET else None,
        topic=row.text("topic"),
        source=source,
        language=row.text("language") or "en",
        question=_question(row, task, question_id),
        task=task,
        problem=row.problem,
        lacks_recording=row.lacks_recording,
    )


def _unreadable(
    row: Row, task: Task, case_id: str, question_id: str, roots: Sequence[Path], source: str
) -> Case:
    return Case(
        case_id=case_id,
        script_id=question_id,
        variant=Variant.TARGET,
        audio_path=roots[0],
        source=source,
        task=task,
        problem=row.problem,
    )


def _audio(row: Row, roots: Sequence[Path]) -> Path | None:
    """Return the recording that a question is about: in the folder that the entry names, where it does."""
    folder = row.text("folder")
    if folder is None or relative_name(folder) == ".":
        return row.audio(*roots)
    inner = [path for root in roots if (path := inside(root, folder)) is not None]
    if not inner:
        row.complain(f"the path {folder!r} as folder leads out of {roots[0]}")
        row.lacks_recording = True
        return None
    return row.audio(*inner, *roots)


def _question(row: Row, task: Task, question_id: str) -> Question:
    """Return the question as far as it can be read: its type is counted also where it cannot be asked."""
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
