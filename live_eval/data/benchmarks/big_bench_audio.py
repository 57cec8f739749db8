"""Read Big Bench Audio: a list of items, ``metadata.jsonl``, next to a folder of MP3 files.

The layout matches ``ArtificialAnalysis/big_bench_audio`` on the Hugging Face hub. Each line of the list has
the fields ``category``, ``official_answer``, ``file_name`` (relative to the list) and ``id``. The text of the
questions is not published.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from live_eval.data._rows import FieldMap, Row, read_json_lines
from live_eval.data.benchmarks import BenchmarkSpec, PlacedBenchmark, benchmark_set
from live_eval.data.dataset import DataOptions, DataSet
from live_eval.errors import DataError
from live_eval.files import read_text
from live_eval.types import BenchmarkItem, Case, ScoringRule, Task, Variant

__all__ = ["ANSWERS", "find"]

ANSWERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "formal_fallacies": ("valid", "invalid"),
        "navigate": ("yes", "no"),
        "object_counting": (),
        "web_of_lies": ("yes", "no"),
    }
)
"""The possible answers by category; none for a number."""


def find(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    """Return Big Bench Audio at a path, its folder or a category below it; None for any other path."""
    root, part = path, ""
    if path.name in spec.parts and not os.path.isdir(path):
        root, part = path.parent, path.name
    listed = root / spec.metadata
    if not os.path.isfile(listed):
        return None
    if "official_answer" not in read_text(listed, links=True, errors="replace"):
        return None
    return PlacedBenchmark(spec=spec, root=root, part=part, read=partial(_read, root, part, spec))


def _read(root: Path, part: str, spec: BenchmarkSpec, options: DataOptions) -> DataSet:
    listed = root / spec.metadata
    fields = FieldMap(spec.fields, options.fields)
    entries = list(read_json_lines(listed))
    records = [entry for _, entry in entries if isinstance(entry, dict)]
    if not records:
        raise DataError(f"{listed}: expected an object per line, found none")
    fields.check_mapping(records, str(listed), row="line")
    cases = [
        case
        for number, entry in entries
        for case in _cases(number, entry, root, spec, fields, options)
        if not part or case.topic in (part, None)  # None: the line is damaged or has no category
    ]
    if part and not any(case.topic == part for case in cases):
        raise DataError(f"{listed}: no item has the category {part}")
    found = Counter(case.topic for case in cases)
    counts = {category: found[category] for category in spec.parts if part in ("", category)}
    return benchmark_set(spec, root, part, cases, counts)


def _cases(
    number: int, entry: Any, root: Path, spec: BenchmarkSpec, fields: FieldMap, options: DataOptions
) -> Iterator[Case]:
    where = f"{spec.metadata}, line {number}"
    row = Row(fields, entry if isinstance(entry, dict) else {}, Variant.TARGET, where)
    category, answer = row.text("category") or "", row.text("answer")
    if not isinstance(entry, dict):
        row.complain_no_object(entry)
    elif category not in ANSWERS:
        row.complain(f"expected one of {', '.join(ANSWERS)} as category, got {category!r:.40}")
    elif answer is None or not _fits(answer, ANSWERS[category]):
        wanted = " or ".join(ANSWERS[category]) or "a whole number"
        row.complain(f"expected {wanted} as official_answer, got {answer!r:.40}")
    audio = row.audio(options.audio_root or root)
    name = f"{category or 'unknown'}/{row.text('id') or number}"
    yield Case(
        case_id=name,
        script_id=name,
        variant=Variant.TARGET,
        audio_path=audio or root,
        text=row.text("text"),
        topic=category or None,
        source=spec.name,
        task=Task.BENCHMARK,
        problem=row.problem,
        lacks_recording=row.lacks_recording,
        item=BenchmarkItem(
            benchmark=spec.name,
            part=category,
            rule=ScoringRule.FINAL_ANSWER,
            answer=answer,
            details={"answers": list(ANSWERS.get(category, ()))},
        ),
    )


def _fits(answer: str, answers: Sequence[str]) -> bool:
    return answer.lower() in answers if answers else answer.strip().isdecimal()
