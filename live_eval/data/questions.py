"""EchoMind's multiple-choice questions: ``MCQ/understanding.json`` and ``MCQ/reasoning.json``.

Known of an entry: ``question_id``, ``question``, ``options_text``, ``audio_dir``, ``audio_name``. The names
of the answer key, of the type and of the script are not public; `KNOWN_FIELDS` lists the spellings that are
tried. A question that cannot be asked (no options, a key that is none of them) stays among the cases with its
problem.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from live_eval.data._rows import FieldMap, Row, unique
from live_eval.data.taxonomy import cue_of
from live_eval.types import Case, Question, Task, Variant

__all__ = ["KNOWN_FIELDS", "MAPPED", "QUESTION_TYPES", "parse_options", "question_type", "read_questions"]

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

_OPTION = re.compile(r"^\s*\(?([A-Za-z])\s*[.):\uff0e\uff1a]\s*(.*)$")
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


def parse_options(value: Any) -> tuple[tuple[str, str], ...]:
    """Return options in their order, each with its letter.

    Args:
        value: Text with a line for each ("A. Yes"), which may go on over further lines; a list of texts, with
            letters or without; or an object of letters and texts.

    Raises:
        ValueError: There are fewer than two, or they are not lettered one after the other.

    >>> parse_options("A. Yes\\nB. No")
    (('A', 'Yes'), ('B', 'No'))
    """
    if isinstance(value, Mapping):
        found = [(str(letter).strip().upper(), str(text).strip()) for letter, text in value.items()]
    elif isinstance(value, str):
        found = _lettered(value.splitlines())
    elif isinstance(value, Sequence):
        lines = [str(line) for line in value]
        found = _lettered(lines) if lines and all(map(_OPTION.match, lines)) else list(_counted(lines))
    else:
        raise ValueError(f"expected options, but they are {value!r:.80}")
    letters = "".join(letter for letter, _ in found)
    if len(found) < 2 or letters != "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(found)]:
        raise ValueError(f"expected at least two options, lettered from A on, but they are {value!r:.200}")
    if blank := [letter for letter, text in found if not text]:
        raise ValueError(f"the option {blank[0]} is empty")
    return tuple(found)


def _lettered(lines: Sequence[str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in lines:
        if (option := _OPTION.match(line)) is not None and ord(option[1].upper()) == ord("A") + len(found):
            found.append((option[1].upper(), option[2].strip()))
        elif found and line.strip():
            letter, text = found[-1]
            found[-1] = (letter, f"{text} {line.strip()}".strip())
    return found


def _counted(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        yield chr(ord("A") + number), line.strip()


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
    for number, entry in enumerate(entries, 1):
        row = Row(
            fields, entry if isinstance(entry, dict) else {}, Variant.TARGET, f"{where}, entry {number}"
        )
        if not isinstance(entry, dict):
            row.complain(f"expected an object, but it is {entry!r:.80}")
        cases.append(_case(row, fields, entry, task, number, roots, source, prefix, taken))
    return cases


def _case(
    row: Row,
    fields: FieldMap,
    entry: Any,
    task: Task,
    number: int,
    roots: Sequence[Path],
    source: str,
    prefix: str,
    taken: set[str],
) -> Case:
    question_id = row.text("id") or f"question_{number}"
    audio = _audio(row, roots)
    name = row.text("audio") or ""
    inferred = _SCRIPT_ID.search(name) or _SCRIPT_ID.search(question_id)
    phrase = row.text("cue")
    cue = cue_of(phrase) if phrase else None
    variant = next((each for each in Variant if f"_{each}" in name.lower()), Variant.TARGET)
    return Case(
        case_id=unique(f"{prefix}{task}/{question_id}", taken),
        script_id=row.text("script_id") or (inferred[0] if inferred else question_id),
        variant=variant,
        audio_path=audio or roots[0],
        text=row.text("text"),
        cue=cue,
        script_cue=cue if variant is Variant.TARGET else None,
        topic=row.text("topic"),
        source=source,
        language=row.text("language") or "en",
        question=_question(row, fields, entry, task, question_id),
        task=task,
        problem=row.problem,
    )


def _audio(row: Row, roots: Sequence[Path]) -> Path | None:
    """Return the recording that a question is about: in the folder that the entry names, where it does."""
    folder = row.text("folder")
    inner = [root / folder for root in roots] if folder and ".." not in Path(folder).parts else []
    return row.audio(*inner, *roots)


def _question(row: Row, fields: FieldMap, entry: Any, task: Task, question_id: str) -> Question | None:
    text = row.text("question")
    if text is None:
        row.complain("expected a question")
        return None
    record = entry if isinstance(entry, dict) else {}
    try:
        options = parse_options(fields.find(record, "options", Variant.TARGET))
    except ValueError as error:
        row.complain(str(error))
        return None
    stated = row.text("answer")
    answer = _answer(stated, options)
    if stated is not None and answer is None:
        letters = ", ".join(letter for letter, _ in options)
        row.complain(f"expected one of {letters} as the answer, but it is {stated!r}")
        return None
    return Question(
        question_id=question_id,
        text=text,
        options=options,
        answer=answer,
        kind=question_type(task, row.text("kind")),
    )


def _answer(stated: str | None, options: Sequence[tuple[str, str]]) -> str | None:
    """Return the letter that an answer key means: it is the letter, "B. No", or the option's text."""
    if stated is None:
        return None
    letters = {letter for letter, _ in options}
    lettered = _OPTION.match(stated)
    for candidate in (stated.strip(" .()").upper(), lettered[1].upper() if lettered else ""):
        if candidate in letters:
            return candidate
    same = [letter for letter, text in options if text.casefold() == stated.strip().casefold()]
    return same[0] if len(same) == 1 else None
