"""Read VoiceBench: a folder of Parquet tables per part, with one row per item.

The layout matches ``hlt-lab/voicebench`` on the Hugging Face hub: ``PART/SPLIT-00000-of-00001.parquet``, with
the columns ``audio`` (the bytes of a file), ``prompt`` and, by part, ``reference``; ``id`` in bbh; ``key``,
``instruction_id_list`` and ``kwargs`` in ifeval. A split is ``test``, a domain (mmsu) or a region (sd-qa).
The fields of mtbench are unverified, so its items are run but not scored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from live_eval.audio.parquet import TABLE_SUFFIX, TableRow, rows_of
from live_eval.data._choices import parse_options
from live_eval.data._rows import FieldMap, Row
from live_eval.data.benchmarks import BenchmarkSpec, PlacedBenchmark, benchmark_set, read_parts
from live_eval.data.dataset import DataOptions, DataSet
from live_eval.errors import DataError
from live_eval.text.wording import limited
from live_eval.types import BenchmarkItem, Case, ScoringRule, Task, Variant

__all__ = [
    "ANSWERS",
    "BBH_TASKS",
    "INSTRUCTIONS",
    "complete_tables",
    "find",
    "splits_of",
    "tables_in",
    "unusable_values",
]

ANSWERS: Mapping[ScoringRule, tuple[str, ...]] = MappingProxyType(
    {ScoringRule.CHOICE: ("A", "B", "C", "D"), ScoringRule.BBH: ("yes", "no", "(a)", "(b)")}
)
"""Reference answers that a rule can score, in any case."""

BBH_TASKS = ("sports_understanding", "hyperbaton", "navigate", "web_of_lies")
"""The tasks of bbh, one of which is in the ID of each item."""

INSTRUCTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "change_case:capital_word_frequency": {"capital_frequency": "number", "capital_relation": "relation"},
        "change_case:english_capital": {},
        "change_case:english_lowercase": {},
        "combination:repeat_prompt": {"prompt_to_repeat": "text"},
        "combination:two_responses": {},
        "detectable_content:number_placeholders": {"num_placeholders": "number"},
        "detectable_content:postscript": {"postscript_marker": "pattern"},
        "detectable_format:constrained_response": {},
        "detectable_format:json_format": {},
        "detectable_format:multiple_sections": {"section_spliter": "pattern", "num_sections": "number"},
        "detectable_format:number_bullet_lists": {"num_bullets": "number"},
        "detectable_format:number_highlighted_sections": {"num_highlights": "number"},
        "detectable_format:title": {},
        "keywords:existence": {"keywords": "patterns"},
        "keywords:forbidden_words": {"forbidden_words": "patterns"},
        "keywords:frequency": {"keyword": "pattern", "frequency": "number", "relation": "relation"},
        "keywords:letter_frequency": {
            "letter": "text",
            "let_frequency": "number",
            "let_relation": "relation",
        },
        "language:response_language": {"language": "text"},
        "length_constraints:nth_paragraph_first_word": {
            "num_paragraphs": "number",
            "nth_paragraph": "whole number",
            "first_word": "text",
        },
        "length_constraints:number_paragraphs": {"num_paragraphs": "number"},
        "length_constraints:number_sentences": {"num_sentences": "number", "relation": "relation"},
        "length_constraints:number_words": {"num_words": "number", "relation": "relation"},
        "punctuation:no_comma": {},
        "startend:end_checker": {"end_phrase": "text"},
        "startend:quotation": {},
    }
)
"""The instructions of ifeval that the rules can check, and the kinds of their values."""

_KINDS = {
    "number": "a number",
    "whole number": "a whole number",
    "relation": "'less than' or 'at least'",
    "text": "text",
    "pattern": "a regular expression",
    "patterns": "a list of regular expressions",
}
_AUDIO = "audio"
_TEST = "test"
_BOARD_REGION = "usa"  # presumably the region in the leaderboard's sd-qa column
_REGIONS = "sd-qa"
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})")
_ANSWERED = frozenset({ScoringRule.CHOICE, ScoringRule.BBH, ScoringRule.REFERENCE})
_OPTION_LINE = re.compile(r"^\s*\(?A[.):]", re.MULTILINE)
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Shard:
    path: Path
    part: str
    split: str
    number: int
    count: int


def find(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    """Return VoiceBench at a path (its root, a part's folder, or a split of a part), or None."""
    for root, part in (
        (path, ""),
        (path.parent, path.name),
        (path.parent.parent, f"{path.parent.name}/{path.name}"),
    ):
        name = part.partition("/")[0]
        if part and name not in spec.parts:
            continue
        parts = [name] if part else _parts_in(root, spec)
        if any(tables_in(root / each) for each in parts):
            return PlacedBenchmark(spec=spec, root=root, part=part, read=partial(_read, root, part, spec))
    return None


def _parts_in(root: Path, spec: BenchmarkSpec) -> list[str]:
    return [name for name in spec.parts if tables_in(root / name)]


def tables_in(folder: Path) -> list[Path]:
    """Return the tables in a folder, by name; empty if it does not exist."""
    if not os.path.isdir(folder):
        return []
    return sorted(path for path in folder.glob(f"*{TABLE_SUFFIX}") if _SHARD.fullmatch(path.stem))


def splits_of(tables: Sequence[Path]) -> list[str]:
    """Return the splits of tables, by their names."""
    return list(dict.fromkeys(found["split"] for path in tables if (found := _SHARD.fullmatch(path.stem))))


def _read(root: Path, selected: str, spec: BenchmarkSpec, options: DataOptions) -> DataSet:
    part, _, split = selected.partition("/")
    parts = [part] if part else _parts_in(root, spec)
    fields = FieldMap(spec.fields, options.fields)
    cases: list[Case] = []
    records: list[Mapping[str, Any]] = []
    counts: dict[str, int] = {}
    notes: list[str] = []
    damaged: dict[str, str] = {}

    def read(name: str) -> tuple[list[_Shard], list[Case]]:
        shards = complete_tables(root, name, split)
        return shards, list(_cases(shards, spec, fields, records))

    for name, (shards, found) in read_parts(parts, read, damaged):
        cases.extend(found)
        if name == _REGIONS:
            notes.append(f"{name}: region {', '.join(dict.fromkeys(shard.split for shard in shards))}")
        if name == _REGIONS or not split:
            counts[name] = len(found)
    if records:
        fields.check_mapping(records, str(root / selected), row="row")
    return benchmark_set(spec, root, selected, cases, counts, notes, damaged)


def complete_tables(root: Path, part: str, split: str) -> list[_Shard]:
    """Return the tables of a part, or of one of its splits.

    Raises:
        DataError: The split does not exist, or a table of the part is missing.
    """
    shards = []
    for path in tables_in(root / part):
        found = _SHARD.fullmatch(path.stem)
        assert found is not None
        shards.append(_Shard(path, part, found["split"], int(found["number"]), int(found["count"])))
    splits = list(dict.fromkeys(shard.split for shard in shards))
    wanted = split or (_BOARD_REGION if part == _REGIONS else "")
    if wanted and wanted not in splits:
        raise DataError(
            f"{root / part}: expected the split {wanted}, got {', '.join(splits) or 'none'} "
            f"(live-eval data add downloads whole parts; select a split with {part}/SPLIT)"
        )
    chosen = [shard for shard in shards if shard.split == wanted or not wanted]
    for name in dict.fromkeys(shard.split for shard in chosen):
        here = {shard.number for shard in chosen if shard.split == name}
        count = next(shard.count for shard in chosen if shard.split == name)
        if missing := [number for number in range(count) if number not in here]:
            shown = ", ".join(
                f"{name}-{number:05}-of-{count:05}{TABLE_SUFFIX}" for number in missing[:_NAMED]
            )
            raise DataError(
                f"{root / part}: expected {count} tables, got {len(here)}; missing: {shown}"
                f"{', …' if len(missing) > _NAMED else ''} (live-eval data add resumes a download)"
            )
    return chosen


def _cases(
    shards: Sequence[_Shard], spec: BenchmarkSpec, fields: FieldMap, records: list[Mapping[str, Any]]
) -> Iterator[Case]:
    """Yield the items of tables, and append their rows to `records`."""
    numbers: dict[str, int] = {}
    for shard in shards:
        names, rows = rows_of(shard.path)
        if _AUDIO not in names:
            raise DataError(f"{shard.path}: expected a column {_AUDIO}, got {', '.join(names) or 'none'}")
        for row, record in enumerate(rows):
            number = numbers[shard.split] = numbers.get(shard.split, -1) + 1
            records.append(record)
            yield _case(shard, row, number, record, spec, fields)


def _case(
    shard: _Shard, row: int, number: int, record: Mapping[str, Any], spec: BenchmarkSpec, fields: FieldMap
) -> Case:
    rule = spec.parts[shard.part].rule
    read = Row(fields, record, Variant.TARGET, f"{shard.path.name}, row {row}")
    prompts = read.value("text")
    text = (
        "\n".join(prompts) if isinstance(prompts, list) and all(map(_is_text, prompts)) else read.text("text")
    )
    if not text:
        read.complain_absent("text", "a prompt with words")
    answer = read.text("answer")
    if rule in _ANSWERED and answer is None:
        read.complain_absent("answer", "a reference answer")
    elif (known := ANSWERS.get(rule)) and answer and answer.lower() not in map(str.lower, known):
        read.complain(f"expected {', '.join(known[:-1])} or {known[-1]} as the reference, got {answer!r:.40}")
    details: dict[str, Any] = {}
    if rule is ScoringRule.CHOICE:
        details["options"] = _options(text or "")
    elif rule is ScoringRule.BBH:
        details["id"] = read.text("id")
        if details["id"] is None:
            read.complain_absent("id", "the task's ID")
        elif not any(task in details["id"] for task in BBH_TASKS):
            read.complain(
                f"expected an ID that contains one of {', '.join(BBH_TASKS)}, got {details['id']!r:.80}"
            )
    elif rule is ScoringRule.INSTRUCTIONS:
        details |= {name: record.get(name) for name in ("key", "instruction_id_list", "kwargs")}
        _check_instructions(read, details["instruction_id_list"], details["kwargs"])
    name = shard.part if shard.split == _TEST else f"{shard.part}/{shard.split}"
    return Case(
        case_id=f"{name}/{number}",
        # The same questions occur in all regions of sd-qa, so their items are not independent.
        script_id=f"{shard.part}/{number}" if shard.part == _REGIONS else f"{name}/{number}",
        variant=Variant.TARGET,
        audio_path=TableRow(shard.path, _AUDIO, row).path,
        text=text,
        topic=None if shard.split == _TEST else shard.split,
        source=spec.name,
        task=Task.BENCHMARK,
        problem=read.problem,
        item=BenchmarkItem(benchmark=spec.name, part=shard.part, rule=rule, answer=answer, details=details),
    )


def _check_instructions(read: Row, names: Any, values: Any) -> None:
    """Record instructions that no rule can check as problems."""
    if not isinstance(names, list) or not isinstance(values, list):
        read.complain("expected lists as instruction_id_list and kwargs")
        return
    if not names or len(names) != len(values):
        read.complain(f"expected instructions with a value each, got {len(names)} and {len(values)} values")
    if unknown := [name for name in names if not _is_text(name) or name not in INSTRUCTIONS]:
        read.complain(f"unknown instruction {limited([f'{name!r:.60}' for name in unknown], ', ', _NAMED)}")
    if not all(value is None or isinstance(value, dict) for value in values):
        read.complain("expected kwargs to be a list of objects")
    elif not unknown:
        for name, given in zip(names, values, strict=False):
            for problem in unusable_values(name, given or {}):
                read.complain(problem)


def unusable_values(instruction: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each value that an instruction needs and that is missing or cannot be used."""
    for name, kind in INSTRUCTIONS[instruction].items():
        if not _is_of_kind(found := values.get(name), kind):
            yield f"instruction {instruction}: expected {_KINDS[kind]} as {name}, got {found!r:.60}"


def _is_of_kind(value: Any, kind: str) -> bool:
    """Return whether a value of an instruction can be used; zero and empty values count as missing."""
    match kind:
        case "number" | "whole number":
            types = (int,) if kind == "whole number" else (int, float)
            return isinstance(value, types) and not isinstance(value, bool) and value > 0
        case "relation":
            return value in ("less than", "at least")
        case "patterns":
            return (
                isinstance(value, list)
                and bool(value)
                and all(_is_of_kind(each, "pattern") for each in value)
            )
    if not _is_text(value) or not value.strip():
        return False
    if kind == "pattern":
        try:
            re.compile(value)
        except re.error:
            return False
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _options(prompt: str) -> list[list[str]]:
    """Return the options that a question reads aloud, each with its letter; empty if they have no letters."""
    found = _OPTION_LINE.search(prompt)
    if found is None:
        return []
    try:
        return [list(option) for option in parse_options(prompt[found.start() :])]
    except ValueError:
        return []
