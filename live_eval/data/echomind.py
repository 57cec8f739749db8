"""Read EchoMind's layout: ``script_info_*.json`` next to an ``audio`` folder.

These fields are public: ``case_id``, ``spoken_info``, ``topic`` and ``{variant}_audio_info`` with
``{variant}_input_audio_file``. The field names for the script text and the reference replies are not public;
`KNOWN_FIELDS` lists the spellings to try, and `DataOptions.fields` overrides them.

We add two optional sources: ``edges.json`` next to script_info maps recordings to annotated speech
boundaries, and the field ``{variant}_clean_audio_file`` names the take without background of a mixed
recording, by default the neutral recording. A root that contains ``consent.json`` was performed by a person;
see `live_eval.data.performing`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from live_eval.data._rows import (
    FieldMap,
    Row,
    parse_json,
    read_entries,
    relative_name,
    speech_boundaries,
    unique,
)
from live_eval.data.dataset import DataKind, DataOptions, DataSet
from live_eval.data.questions import MAPPED, QuestionFile, read_questions
from live_eval.data.taxonomy import NEUTRAL
from live_eval.errors import DataError
from live_eval.files import read_text
from live_eval.text.wording import counted
from live_eval.types import Case, CoarseDimension, SpeechBoundaries, Task, Variant

__all__ = ["CONSENT", "KNOWN_FIELDS", "PARTS", "PERFORMED", "TAKE_PROBLEMS", "load_echomind", "parts_of"]

PARTS = ("synthesis", "human")
"""The two kinds of recordings, each in a folder ``data_{part}``."""
CONSENT = "consent.json"
"""The file with the performer's consent."""
PERFORMED = (
    "The user's recordings are of the person who performed the scripts: share them only with that person's "
    "consent. Scripts and reference replies keep the licence of their own data set"
)
"""The licence note of a performed data set, without a full stop."""

TAKE_PROBLEMS = "take_problems"
"""Name, after the variant, of a performed take's field with the problems that its check found."""

_BLOCK = "{variant}_audio_info"


def _of_variant(*names: str) -> tuple[str, ...]:
    """Return all possible paths of a variant's fields."""
    inner = [f"{_BLOCK}.{{variant}}_{name}" for name in names] + [f"{_BLOCK}.{name}" for name in names]
    return (*inner, *(f"{{variant}}_{name}" for name in names))


KNOWN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "id": ("case_id", "script_id", "id", "uid"),
    "text": (
        *("script", "script_text", "text", "transcript", "spoken_text", "content", "sentence"),
        *("utterance", "user_text", "input_text", f"{_BLOCK}.{{variant}}_text", f"{_BLOCK}.text"),
    ),
    "cue": _of_variant("spoken_info", "cue", "voice_style"),
    "script_cue": ("spoken_info", "cue", "vocal_cue", "speech_info", "attribute"),
    "topic": ("topic", "scenario", "domain"),
    "audio": _of_variant("input_audio_file", "audio_file", "audio"),
    "reference_text": _of_variant("response_text", "response", "reply_text", "reply", "output_text"),
    "reference_audio": _of_variant("response_audio_file", "response_audio", "output_audio_file"),
    "clean_audio": _of_variant("clean_audio_file"),
    "language": ("language", "lang"),
    "onset_ms": (),
    "voice_end_ms": (),
    "words_end_ms": (),
}
"""live-eval's field names, each with the spellings to try in order."""

_OPTIONAL = ("text", "script_cue", "topic", "reference_text", "reference_audio")


@dataclass(frozen=True, slots=True)
class _Part:
    """A script_info file and its recordings folder."""

    name: str
    script_info: Path
    audio_root: Path
    prefix: str


def parts_of(path: Path) -> list[Path]:
    """Return the script_info files, if any, at a path: a root, one of its folders, or a file."""
    if path.is_file():
        return [path] if path.name.startswith("script_info") and path.suffix == ".json" else []
    return [
        file for folder in _folders_of(path) or [path] for file in sorted(folder.glob("script_info*.json"))
    ]


def load_echomind(path: Path, options: DataOptions) -> DataSet:
    """Read EchoMind's layout, with one case for each recording that an entry lists, readable or not.

    `path` is a root that contains ``data_synthesis``, ``data_human`` or both, one of these folders, or a
    script_info file. If a root contains both, IDs of human cases start with ``human:``; a script and its
    human version share a script ID, since they are not independent.

    Raises:
        DataError: A file is not a JSON list of entries, or no entry refers to a recording.
        UsageError: The field mapping does not match the data.
    """
    files = parts_of(path)
    parts = [_part(file, options, alone=len(files) == 1) for file in files]
    if not parts:
        raise DataError(f"{path}: expected script_info_*.json in data_synthesis or data_human")
    mapped = {name: path for name, path in options.fields.items() if not name.startswith(MAPPED)}
    fields = FieldMap(KNOWN_FIELDS, mapped, tuple(Variant))
    taken: set[str] = set()
    cases: list[Case] = []
    with_info = {part.script_info.parent for part in parts}
    notes = [f"{folder.name} has no script_info" for folder in _folders_of(path) if folder not in with_info]
    for part in parts:
        read, part_notes = _load_part(part, fields, options, taken)
        cases.extend(read)
        notes.extend(f"{part.script_info.name}: {note}" for note in part_notes)
    questions = {file.path: file for part in parts for file in _question_files(part)}
    asked = read_questions(list(questions.values()), cases, mapping=options.fields, taken=taken)
    return DataSet(
        name=path.stem if path.is_file() else path.resolve().name,
        root=path,
        kind=DataKind.ECHOMIND,
        cases=tuple(cases),
        notes=(*notes, *asked.notes),
        questions=asked.cases,
        unread=asked.unread,
        licence=PERFORMED if (path / CONSENT).is_file() else "",
    )


def _folders_of(root: Path) -> list[Path]:
    return [folder for part in PARTS if (folder := root / f"data_{part}").is_dir()]


def _part(script_info: Path, options: DataOptions, *, alone: bool) -> _Part:
    folder = script_info.parent
    name = next(
        (part for part in PARTS if part in script_info.stem or folder.name == f"data_{part}"), PARTS[0]
    )
    prefix = "" if alone or name == PARTS[0] else f"{name}:"
    return _Part(name, script_info, options.audio_root or folder / "audio", prefix)


def _load_part(
    part: _Part, fields: FieldMap, options: DataOptions, taken: set[str]
) -> tuple[list[Case], list[str]]:
    entries = read_entries(part.script_info)
    records = [entry for entry in entries if isinstance(entry, dict)]
    fields.check_mapping(records, str(part.script_info))
    fields.check_recordings(records, str(part.script_info))
    annotated = _Annotations(part)
    cases: list[Case] = []
    ids: Counter[str] = Counter()
    skipped = 0
    flawed: dict[str, str] = {}  # problems of performed takes by case
    for number, entry in enumerate(entries, 1):
        where = f"{part.script_info.name}, entry {number}"
        if not isinstance(entry, dict):
            unread = Case(
                case_id=unique(f"{part.prefix}entry_{number}/{Variant.TARGET}", taken),
                script_id=f"entry_{number}",
                variant=Variant.TARGET,
                audio_path=part.audio_root,
                source=part.name,
                problem=f"{where}: expected an object, got {entry!r:.80}",
            )
            cases.append(unread)
            continue
        script_id = Row(fields, entry, Variant.TARGET, where).text("id") or f"entry_{number}"
        ids[script_id] += 1
        variants = [variant for variant in Variant if fields.offers(entry, variant)]
        of_entry = []
        for variant in variants or [Variant.TARGET]:
            row = Row(fields, entry, variant, f"{where} ({script_id}, {variant})")
            if ids[script_id] > 1:
                row.complain(f"the ID {script_id} was used by an earlier entry; give each entry a unique ID")
            of_entry.append(_case(row, part, annotated, script_id, variant, taken))
        kept = [case for case in of_entry if not (options.neutral_rule and _skipped_by_neutral_rule(case))]
        skipped += len(of_entry) - len(kept)
        problems = {case.case_id: _take_problems(entry, case.variant) for case in kept}
        flawed |= {name: problem for name, problem in problems.items() if problem}
        cases.extend(
            _with_clean_take(case, of_entry)
            for case in kept
            if options.flawed_takes or not problems[case.case_id]
        )
    notes = _missing_variants(fields, records) + _absences(cases) + _flawed(flawed, options)
    if skipped:
        notes.append(
            f"{skipped} of {len(entries)} scripts without their neutral variant, as in the benchmark: their "
            "cue is the speaker's sex or age, which every voice has ('data.neutral_rule = false' includes it)"
        )
    return cases, notes + annotated.notes()


def _case(
    row: Row, part: _Part, annotated: _Annotations, script_id: str, variant: Variant, taken: set[str]
) -> Case:
    roots = (part.audio_root, part.script_info.parent)
    audio = row.audio(*roots)
    reference, clean = row.path("reference_audio", *roots), row.path("clean_audio", *roots)
    script_cue = row.cue("script_cue")
    usual_cue = {Variant.TARGET: script_cue, Variant.NEUTRAL: NEUTRAL}.get(variant)
    return Case(
        case_id=unique(f"{part.prefix}{script_id}/{variant}", taken),
        script_id=script_id,
        variant=variant,
        audio_path=audio or part.audio_root,
        text=row.text("text"),
        cue=row.cue() or usual_cue,
        script_cue=script_cue,
        topic=row.text("topic"),
        reference_text=row.text("reference_text"),
        reference_audio_path=reference,
        clean_audio_path=clean,
        boundaries=annotated.of(row) or row.boundaries(),
        source=part.name,
        language=row.text("language") or "en",
        problem=row.problem,
        lacks_recording=row.lacks_recording,
    )


def _with_clean_take(case: Case, of_entry: list[Case]) -> Case:
    """Use the neutral recording as the clean take of a case with a background, unless the data specifies one.

    In EchoMind's public demonstration, backgrounds are mixed with the neutral recording in sample-exact
    alignment. Other data may differ, so check that the recording contains the clean take before using it.
    """
    if case.clean_audio_path is not None or case.cue is None:
        return case
    if case.cue.coarse is not CoarseDimension.ENVIRONMENT:
        return case
    neutral = next((each.audio_path for each in of_entry if each.variant is Variant.NEUTRAL), None)
    if neutral is None or neutral == case.audio_path or not os.path.isfile(neutral):
        return case
    return replace(case, clean_audio_path=neutral)


def _take_problems(entry: Mapping[str, Any], variant: Variant) -> str:
    """Return the problems of a performed take, which a person accepted nevertheless."""
    block = entry.get(_BLOCK.format(variant=variant))
    stated = block.get(f"{variant}_{TAKE_PROBLEMS}") if isinstance(block, dict) else None
    return "; ".join(str(each) for each in stated) if isinstance(stated, list) else ""


def _flawed(problems: Mapping[str, str], options: DataOptions) -> list[str]:
    named = [f"{name} ({problem})" for name, problem in problems.items()]
    takes = f"{counted(len(named), 'take')} with problems that the performer accepted: {'; '.join(named)}"
    hint = " ('data.flawed_takes = false' excludes them)" if options.flawed_takes else ": excluded"
    return [f"{takes}{hint}"] if named else []


def _skipped_by_neutral_rule(case: Case) -> bool:
    cue = case.script_cue
    return case.variant is Variant.NEUTRAL and cue is not None and cue.coarse is CoarseDimension.SPEAKER


def _missing_variants(fields: FieldMap, records: list[dict[str, Any]]) -> list[str]:
    absent = Counter(
        variant for record in records for variant in Variant if not fields.offers(record, variant)
    )
    return [
        f"{variant} is missing from {count} of {len(records)} scripts" for variant, count in absent.items()
    ]


def _absences(cases: list[Case]) -> list[str]:
    notes = []
    for name in _OPTIONAL:
        attribute = "reference_audio_path" if name == "reference_audio" else name
        absent = sum(getattr(case, attribute) is None for case in cases)
        if absent:
            tried = "" if absent < len(cases) else f"; tried {', '.join(KNOWN_FIELDS[name])}"
            notes.append(f"{name} is missing from {absent} of {len(cases)} cases{tried}")
    return notes


class _Annotations:
    """The annotated speech boundaries in ``edges.json`` next to a script_info file, if present."""

    def __init__(self, part: _Part) -> None:
        self._path = part.script_info.with_name("edges.json")
        self._boundaries: dict[str, Any] = {}
        self._used: set[str] = set()
        if not self._path.is_file():
            return
        content = parse_json(read_text(self._path, links=True), str(self._path))
        if not isinstance(content, dict):
            raise DataError(f"{self._path}: expected an object that maps recordings to their boundaries")
        self._boundaries = {relative_name(name): marks for name, marks in content.items()}

    def of(self, row: Row) -> SpeechBoundaries | None:
        """Return the boundaries of the row's recording, or None; invalid ones become a problem of the row."""
        stated = row.text("audio")
        name = relative_name(stated) if stated else ""
        if name not in self._boundaries:
            return None
        self._used.add(name)
        marks = self._boundaries[name]
        try:
            if not isinstance(marks, dict):
                raise ValueError(f"expected an object with onset_ms and voice_end_ms, got {marks!r:.80}")
            return speech_boundaries(marks)
        except ValueError as error:
            row.complain(f"{self._path.name}, {name}: {error}")
            return None

    def notes(self) -> list[str]:
        """Return a note on annotations of recordings that no entry refers to."""
        unused = ", ".join(sorted(set(self._boundaries) - self._used))
        return [f"{self._path.name}: no entry for the annotated recordings {unused}"] if unused else []


def _question_files(part: _Part) -> Iterator[QuestionFile]:
    folder = part.script_info.parent
    for task in (Task.UNDERSTANDING, Task.REASONING):
        path = folder / "MCQ" / f"{task}.json"
        if os.path.isfile(path):
            roots = (part.audio_root, folder)
            yield QuestionFile(path=path, task=task, roots=roots, source=part.name, prefix=part.prefix)
