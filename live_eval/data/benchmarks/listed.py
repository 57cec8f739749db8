"""Read benchmarks that list each part's items in a JSON file, with paths of recordings.

A part's file (`BenchmarkPart.file`) is a list of objects or has one object per line; the benchmark's
specification contains the names of its fields. An object with a list under the field ``turns`` is a dialogue.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from live_eval.data._choices import parse_answer, parse_options
from live_eval.data._rows import FieldMap, Row, read_entries, read_json_lines, unique
from live_eval.data.benchmarks import (
    BenchmarkPart,
    BenchmarkSpec,
    PlacedBenchmark,
    benchmark_set,
    find_parts,
    read_parts,
)
from live_eval.data.dataset import DataOptions, DataSet
from live_eval.errors import DataError
from live_eval.types import BenchmarkItem, Case, ScoringRule, Task, Variant

__all__ = ["find"]

_REFERENCES = " / "  # between alternative reference answers, as in URO-Bench
_ANSWERED = frozenset({ScoringRule.REFERENCE, ScoringRule.OPTION})


def find(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    """Return the benchmark at a path (its root, or a part's name below it), or None."""
    return find_parts(path, spec, os.path.isfile, _read)


def _read(root: Path, selected: str, spec: BenchmarkSpec, options: DataOptions) -> DataSet:
    fields = FieldMap(spec.fields, options.fields)
    here = [name for name in spec.parts if os.path.isfile(root / spec.parts[name].file)]
    cases: list[Case] = []
    everything: list[Mapping[str, Any]] = []
    counts: dict[str, int] = {}
    taken: set[str] = set()
    damaged: dict[str, str] = {}

    def read(name: str) -> list[tuple[str, Any]]:
        entries = list(_entries(root / spec.parts[name].file))
        if not any(isinstance(entry, dict) for _, entry in entries):
            raise DataError(f"{root / spec.parts[name].file}: expected a list of objects, found none")
        return entries

    for name, entries in read_parts([selected] if selected else here, read, damaged):
        everything += _flat([entry for _, entry in entries if isinstance(entry, dict)], fields)
        counts[name] = len(entries)
        for where, entry in entries:
            cases.extend(_cases(name, where, entry, root, spec, fields, options, taken))
    fields.check_mapping(everything, str(root / selected), row="item")
    return benchmark_set(spec, root, selected, cases, counts, damaged=damaged)


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield each entry of a list, with its place in the file."""
    if path.suffix == ".json":
        for number, entry in enumerate(read_entries(path)):
            yield f"{path.name}, entry {number}", entry
        return
    for number, entry in read_json_lines(path):
        yield f"{path.name}, line {number}", entry


def _flat(records: list[dict[str, Any]], fields: FieldMap) -> list[Mapping[str, Any]]:
    """Return the records that may contain mapped fields: items, and turns with the fields of their item."""
    found: list[Mapping[str, Any]] = []
    for record in records:
        turns = fields.find(record, "turns", Variant.TARGET)
        inner = [each for each in turns if isinstance(each, dict)] if isinstance(turns, list) else []
        found.extend([{**record, **turn} for turn in inner] or [record])
    return found


def _cases(
    part: str,
    where: str,
    entry: Any,
    root: Path,
    spec: BenchmarkSpec,
    fields: FieldMap,
    options: DataOptions,
    taken: set[str],
) -> Iterator[Case]:
    number = where.rpartition(" ")[2]
    record = entry if isinstance(entry, dict) else {}
    whole = Row(fields, record, Variant.TARGET, where)
    problem = ""
    turns = whole.value("turns")
    if turns is not None and not (isinstance(turns, list) and all(isinstance(each, dict) for each in turns)):
        problem = f"expected a list of turns, got {turns!r:.80}"
    rows = turns if turns is not None and not problem else [{}]
    name = unique(f"{part}/{whole.text('id') or number}", taken)
    folders = (
        (options.audio_root,) if options.audio_root else (root / Path(spec.parts[part].file).parent, root)
    )
    scored = _scored_turn(rows, record, spec.parts[part], fields)
    for index, turn in enumerate(rows):
        merged = _with_recording({**record, **turn}, spec, part, fields)
        row = Row(fields, merged, Variant.TARGET, f"{where}, turn {index + 1}" if turn else where)
        if not isinstance(entry, dict):
            row.complain_no_object(entry)
        if problem:
            row.complain(problem)
        audio = row.audio(*folders)
        text, answer, hint = row.text("text"), _answer(row), row.text("hint")
        rule = spec.parts[part].rule if index == scored else ScoringRule.NONE
        if not text:
            row.complain_absent("text", "a transcript with words")
        if rule in _ANSWERED and answer is None:
            row.complain_absent("answer", "a reference answer")
        if rule is ScoringRule.REPETITION:
            answer = answer or text
        considered = spec.parts[part].hint
        if rule is ScoringRule.NONE:
            considered = ""
        elif considered.endswith(":"):
            if hint is None:
                row.complain_absent("hint", considered.rstrip(":"))
            considered = f"{considered} {hint}"
        details = _details(rule, considered, spec.parts[part].language)
        if rule is ScoringRule.OPTION:
            details |= _asked(row, answer)
        yield Case(
            case_id=f"{name}/{index + 1}" if turn else name,
            script_id=name,
            variant=Variant.TARGET,
            audio_path=audio or root,
            text=text,
            topic=part,
            source=spec.name,
            language=spec.parts[part].language,
            task=Task.BENCHMARK,
            problem=row.problem,
            lacks_recording=row.lacks_recording,
            dialogue_id=name if turn else None,
            turn_index=index,
            item=BenchmarkItem(
                benchmark=spec.name,
                part=part,
                rule=rule,
                answer=answer,
                details=details,
            ),
        )


def _with_recording(
    record: dict[str, Any], spec: BenchmarkSpec, part: str, fields: FieldMap
) -> dict[str, Any]:
    """Return an item with the path of its recording, if the path follows from its other fields."""
    values = {name: fields.find(record, name, Variant.TARGET) for name in ("audio", "id", "turn")}
    if not spec.recording or values["audio"] is not None or values["id"] is None or values["turn"] is None:
        return record
    return {**record, "audio": spec.recording.format(**values, file=Path(spec.parts[part].file).stem)}


def _scored_turn(
    rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any], part: BenchmarkPart, fields: FieldMap
) -> int:
    """Return the index of the turn that the benchmark scores: the last, or the second turn with an emotion.

    HumDial-EIBench rates the reply to the second turn whose emotion is not neutral; -1 without such a turn.
    """
    if not part.second_emotion:
        return len(rows) - 1
    felt = [
        index
        for index, turn in enumerate(rows)
        if str(fields.find({**record, **turn}, "hint", Variant.TARGET) or "").lower() != "neutral"
    ]
    return felt[1] if len(felt) > 1 else -1


def _details(rule: ScoringRule, hint: str, language: str) -> dict[str, Any]:
    details = {"language": language} if rule is ScoringRule.REPETITION else {}
    return {**details, "hint": hint} if hint else details


def _asked(row: Row, answer: str | None) -> dict[str, Any]:
    """Return a question with its options; the row gets a problem if one or the answer key is invalid."""
    question = row.text("question")
    if not question:
        row.complain_absent("question", "a question")
    try:
        options = parse_options(row.value("options"))
        key = parse_answer(answer or "", options)
        return {"question": question, "options": [list(each) for each in options], "key": key}
    except ValueError as error:
        row.complain(str(error))
        return {}


def _answer(row: Row) -> str | None:
    """Return the reference answer, with alternatives joined; None if missing or invalid."""
    value = row.value("answer")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return _REFERENCES.join(value)
    return row.text("answer")
