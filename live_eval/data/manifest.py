"""Read the user's recordings from a manifest (JSONL, CSV or TSV) or a folder.

A manifest has one row per recording or, in JSONL, per dialogue, with the dialogue's recordings under
``turns``. `KNOWN_FIELDS` lists the columns with their known spellings; only ``audio`` is required. Paths are
relative to the manifest's folder, or to `DataOptions.audio_root`, and must be inside it.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from live_eval.data._rows import FieldMap, Row, parse_json, unique
from live_eval.data.dataset import DataKind, DataOptions, DataSet
from live_eval.data.taxonomy import NEUTRAL
from live_eval.errors import DataError, UsageError
from live_eval.files import read_text
from live_eval.types import Case, Variant

__all__ = [
    "KNOWN_FIELDS",
    "MANIFEST_SUFFIXES",
    "load_folder",
    "load_manifest",
    "recordings",
]

MANIFEST_SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv")

_AUDIO_SUFFIXES = frozenset(
    {".aac", ".aif", ".aifc", ".aiff", ".amr", ".au", ".caf", ".flac", ".m4a", ".mp3", ".mp4", ".oga", ".ogg"}
    | {".opus", ".rf64", ".w64", ".wav", ".wave", ".webm", ".wma"}
)
"""Audio file suffixes, including formats that libsndfile cannot read, so that such files are reported."""

KNOWN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "audio": (
        *("audio", "audio_file", "audio_path", "audio_filepath", "file", "file_name", "filename"),
        *("path", "wav", "recording"),
    ),
    "id": ("id", "case_id", "uid", "utt_id", "utterance_id"),
    "script_id": ("script_id",),
    "variant": ("variant",),
    "text": ("text", "transcript", "transcription", "sentence", "spoken_text", "script"),
    "cue": ("cue", "spoken_info", "voice_style"),
    "script_cue": ("script_cue",),
    "topic": ("topic", "scenario"),
    "reference_text": ("reference_text", "reference", "response_text", "reply_text", "reply"),
    "reference_audio": ("reference_audio", "response_audio_file"),
    "clean_audio": ("clean_audio", "clean_audio_file"),
    "language": ("language", "lang", "locale"),
    "onset_ms": ("onset_ms",),
    "voice_end_ms": ("voice_end_ms",),
    "words_end_ms": ("words_end_ms",),
    "speech": ("speech",),
    "anchor": ("anchor",),
    "parts": ("parts",),
}
"""live-eval's field names, each with the spellings to try in order, in any letter case."""

_TURNS = "turns"


@dataclass(frozen=True, slots=True)
class _Line:
    """The fields of a row or of a turn in a dialogue row, or the problem with them."""

    where: str
    record: Mapping[str, Any]
    problem: str | None = None
    dialogue: Mapping[str, Any] | None = None
    turn: int = 0


def load_manifest(path: Path, options: DataOptions) -> DataSet:
    """Read a manifest.

    The file must be UTF-8: ``.jsonl`` (one object per line), ``.csv`` or ``.tsv`` (a header, then one row per
    line; semicolons are also accepted as separators). EchoMind's neutral rule does not apply.

    Returns:
        One case per row or turn, including unreadable rows. A missing row ID is derived from script and
        variant or from the recording; a missing turn ID is derived from dialogue and position.

    Raises:
        DataError: The file cannot be read, has no rows, or no row refers to a recording.
        UsageError: The field mapping does not match the data.
    """
    fields = FieldMap(KNOWN_FIELDS, options.fields)
    lines = list(_json_lines(path) if path.suffix.lower() in (".jsonl", ".ndjson") else _csv_lines(path))
    if not lines:
        raise DataError(f"{path}: expected a row for each recording, found none")
    records = [line.record for line in lines if line.record]
    if not records:
        raise DataError(
            f"{path}: no row is readable; first problem: "
            + str(lines[0].problem).removeprefix(f"{path.name}, ")
        )
    fields.check_mapping(records, str(path), row="row")
    fields.check_recordings(records, str(path), row="row")
    root = options.audio_root or path.parent
    taken: set[str] = set()
    ids: Counter[str] = Counter()
    dialogues: dict[str, str] = {}
    cases = [_case(line, fields, root, taken, ids, dialogues) for line in lines]
    return DataSet(
        name=path.stem,
        root=path,
        kind=DataKind.MANIFEST,
        cases=tuple(_with_script_cues(cases)),
        notes=tuple(_notes(lines, cases, fields)),
        syntax_errors=tuple(line.problem for line in lines if line.problem is not None and not line.record),
    )


def _notes(lines: Sequence[_Line], cases: Sequence[Case], fields: FieldMap) -> Iterator[str]:
    read = {
        path.partition(".")[0].casefold()
        for name in KNOWN_FIELDS
        for path in fields.paths(name, Variant.TARGET)
    }
    unread = sorted({key for line in lines for key in line.record if key.casefold() not in read})
    if unread:
        yield f"unused fields: {', '.join(unread)} (map a field with --map OURS=THEIRS)"
    mute = sum(not case.text for case in cases)
    if mute:
        yield f"{mute} of {len(cases)} cases have no text"


def load_folder(path: Path, options: DataOptions) -> DataSet:
    """Read all recordings below a folder, in name order.

    A ``.txt`` file with the same name as a recording is its transcript. Options do not apply to folders.

    Raises:
        DataError: The folder contains no recordings.
        UsageError: A field mapping was given.
    """
    if options.fields:
        raise UsageError(f"{path}: a folder of recordings has no fields, but a field mapping was given")
    found = recordings(path)
    if not found:
        raise DataError(f"{path}: expected recordings ({', '.join(sorted(_AUDIO_SUFFIXES))}), found none")
    taken: set[str] = set()
    cases = []
    for file in found:
        case_id = unique(file.relative_to(path).with_suffix("").as_posix(), taken)
        text, problem = _text_beside(file)
        cases.append(
            Case(
                case_id=case_id,
                script_id=case_id,
                variant=Variant.TARGET,
                audio_path=file,
                text=text,
                source=DataKind.FOLDER,
                problem=problem,
            )
        )
    return DataSet(name=path.resolve().name, root=path, kind=DataKind.FOLDER, cases=tuple(cases))


def recordings(folder: Path) -> list[Path]:
    """Return every recording below a folder, sorted by path, ignoring hidden files and folders."""
    found: list[Path] = []
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found.extend(
            Path(base, name)
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in _AUDIO_SUFFIXES
        )
    return sorted(found)


def _text_beside(recording: Path) -> tuple[str | None, str | None]:
    """Return the transcript next to a recording, and a problem if it is unreadable."""
    path = recording.with_suffix(".txt")
    if not os.path.isfile(path):  # `Path.is_file` raises if the name is too long
        return None, None
    try:
        return read_text(path, links=True).strip() or None, None
    except DataError as error:
        return None, str(error)


def _json_lines(path: Path) -> Iterator[_Line]:
    for number, text in enumerate(read_text(path, links=True).split("\n"), 1):
        if not text.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            record = parse_json(text, path.name, line=number)
        except DataError as error:
            yield _Line(where, {}, str(error))
            continue
        if not isinstance(record, dict):
            yield _Line(where, {}, f"{where}: expected an object, got {record!r:.80}")
        elif _TURNS in record:
            yield from _turns(where, record)
        else:
            yield _Line(where, record)


def _turns(where: str, row: Mapping[str, Any]) -> Iterator[_Line]:
    """Yield the turns of a dialogue row, whose other fields are defaults for the turns."""
    shared = {name: value for name, value in row.items() if name != _TURNS}
    turns = row[_TURNS]
    if not isinstance(turns, list) or not turns:
        problem = f"{where}: expected a list of turns under {_TURNS!r}, got {turns!r:.80}"
        yield _Line(where, shared, problem, row)
        return
    for number, turn in enumerate(turns):
        if isinstance(turn, Mapping):
            yield _Line(where, {**shared, **turn}, None, row, number)
        else:
            problem = f"{where}: expected turn {number + 1} to be an object, got {turn!r:.80}"
            yield _Line(where, shared, problem, row, number)


def _csv_lines(path: Path) -> Iterator[_Line]:
    text = read_text(path, links=True)
    header = next((line for line in text.split("\n") if line.strip()), "")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=header.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise DataError(f"{path}: duplicate column {', '.join(map(repr, twice))}")
        reader.fieldnames = names
        for record in reader:
            where = f"{path.name}, line {reader.line_num}"
            if record.pop(None, None) is not None:  # DictReader stores surplus cells under the key None
                yield _Line(where, record, f"{where}: more cells than columns ({len(names)})")
            else:
                yield _Line(where, record)
    except csv.Error as error:
        # Unlike DictReader's line number, the underlying reader's includes the failed line.
        raise DataError(f"{path}, line {reader.reader.line_num}: invalid CSV: {error}") from None


def _case(
    line: _Line, fields: FieldMap, root: Path, taken: set[str], ids: Counter[str], dialogues: dict[str, str]
) -> Case:
    if line.problem is not None and not line.record:
        name = unique(line.where, taken)
        return Case(
            case_id=name, script_id=name, variant=Variant.TARGET, audio_path=root, problem=line.problem
        )
    row = Row(fields, line.record, Variant.TARGET, line.where)
    if line.problem is not None:
        row.problems.append(line.problem)
    variant, speech, anchor, parts = _variant(row), row.speech(), row.anchor(), row.parts()
    if anchor is not None and not line.turn:
        row.complain(
            f"the anchor {anchor} requires an earlier utterance, but this is "
            + ("not a turn of a dialogue" if line.dialogue is None else "the first turn of its dialogue")
        )
    audio = row.audio(root)
    whole = row if line.dialogue is None else Row(fields, line.dialogue, Variant.TARGET, line.where)
    stated_id, script_id = whole.text("id"), row.text("script_id")
    if stated_id is not None:
        ids[stated_id] += not line.turn
        if ids[stated_id] > 1:
            row.complain(f"the ID {stated_id} was used by an earlier row; give each row a unique ID, or none")
    dialogue_id: str | None = None
    if line.dialogue is None:
        name = audio.relative_to(root).with_suffix("").as_posix() if audio is not None else line.where
        usual = f"{script_id}/{variant}" if script_id else name
        case_id = unique(stated_id or usual, taken)
    else:
        if line.where not in dialogues:
            dialogues[line.where] = unique(stated_id or script_id or line.where, taken)
        dialogue_id = dialogues[line.where]
        case_id = unique(f"{dialogue_id}/{line.turn + 1}", taken)
    return Case(
        case_id=case_id,
        script_id=script_id or dialogue_id or case_id,
        variant=variant,
        audio_path=audio or root,
        text=row.text("text"),
        cue=row.cue() or (NEUTRAL if variant is Variant.NEUTRAL else None),
        script_cue=row.cue("script_cue"),
        topic=row.text("topic"),
        reference_text=row.text("reference_text"),
        reference_audio_path=row.path("reference_audio", root),
        clean_audio_path=row.path("clean_audio", root),
        boundaries=row.boundaries(parts),
        source=DataKind.MANIFEST,
        language=row.text("language") or "en",
        problem=row.problem,
        lacks_recording=row.lacks_recording,
        dialogue_id=dialogue_id,
        turn_index=line.turn,
        speech=speech,
        anchor=anchor,
        parts=parts,
    )


def _variant(row: Row) -> Variant:
    stated = row.text("variant")
    if stated is None:
        return Variant.TARGET
    try:
        return Variant(stated.casefold())
    except ValueError:
        row.complain(f"expected variant to be one of {', '.join(Variant)}, got {stated!r}")
        return Variant.TARGET


def _with_script_cues(cases: list[Case]) -> Iterator[Case]:
    """Yield the cases with their script's cue: the given cue, or the target variant's cue."""
    of_target = {case.script_id: case.cue for case in cases if case.variant is Variant.TARGET}
    for case in cases:
        of_script = of_target.get(case.script_id) if case.dialogue_id is None else case.cue
        yield replace(case, script_cue=case.script_cue or of_script)
