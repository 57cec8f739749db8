"""Read Audio MultiChallenge: Parquet tables with one conversation per row.

The layout matches ``ScaleAI/audiomc`` on the Hugging Face hub: ``data/test-00000-of-00001.parquet`` with the
columns ``id``, ``axis``, ``user_turn_N_audio``, ``user_turn_N_transcript``, ``assistant_turn_N_transcript``
and ``rubric``, as several independent loaders read them. The benchmark gives its own assistant turns to the
model and scores only the last reply. By default, the earlier replies are the endpoint's own here
(`live_eval.types.History`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from live_eval.audio.parquet import TableRow, rows_of
from live_eval.data._rows import unique
from live_eval.data.benchmarks import BenchmarkSpec, PlacedBenchmark, benchmark_set, read_parts
from live_eval.data.benchmarks.voicebench import complete_tables, tables_in
from live_eval.data.dataset import DataOptions, DataSet
from live_eval.errors import DataError
from live_eval.types import BenchmarkItem, Case, ScoringRule, Task, Variant

__all__ = ["find"]

_FOLDER = "data"
_FIRST_TEXT = "user_turn_1_transcript"
_USER_TURN = re.compile(r"user_turn_(\d{1,3})_transcript")
_NOTE = (
    "by default, the dialogues continue from the endpoint's own replies, not from the published assistant "
    "turns, so results are not comparable with published ones; --history inject-audio or inject-text sends "
    "those"
)


def find(path: Path, spec: BenchmarkSpec) -> PlacedBenchmark | None:
    """Return the benchmark at a path, its root or an axis below it; None for any other path."""
    for root, part in ((path, ""), (path.parent, path.name)):
        tables = tables_in(root / _FOLDER) if not part or part in spec.parts else []
        try:
            columns = next((names for _, names in read_parts(tables, _columns, {})), [])
        except DataError:
            columns = [_FIRST_TEXT]  # reading the items reports the damage
        if _FIRST_TEXT in columns:
            return PlacedBenchmark(spec=spec, root=root, part=part, read=partial(_read, root, part, spec))
    return None


def _columns(table: Path) -> list[str]:
    return rows_of(table, ["id"])[0]


def _read(root: Path, part: str, spec: BenchmarkSpec, options: DataOptions) -> DataSet:
    cases: list[Case] = []
    counts = dict.fromkeys(spec.parts, 0)
    taken: set[str] = set()
    damaged: dict[str, str] = {}
    tables = {shard.path.name: shard.path for shard in complete_tables(root, _FOLDER, "")}
    for table, records in read_parts([*tables], lambda name: list(rows_of(tables[name])[1]), damaged):
        for row, record in enumerate(records):
            axis = str(record.get("axis") or "").lower()
            counts[axis] = counts.get(axis, 0) + 1
            if part in ("", axis):
                name = unique(f"{axis or 'unknown'}/{record.get('id') or row}", taken)
                cases.extend(_cases(tables[table], row, record, axis, name, spec))
    if not cases:
        raise DataError(f"{root / _FOLDER}: no conversation{f' has the axis {part}' if part else ''}")
    here = {axis: counts[axis] for axis in spec.parts if part in ("", axis)}
    return benchmark_set(spec, root, part, cases, here, [_NOTE], damaged)


def _cases(
    table: Path, row: int, record: Mapping[str, Any], axis: str, name: str, spec: BenchmarkSpec
) -> Iterator[Case]:
    turns = sorted(
        (int(found[1]), text)
        for column, text in record.items()
        if (found := _USER_TURN.fullmatch(column)) and isinstance(text, str) and text.strip()
    )
    rubrics = _rubrics(record.get("rubric"))
    problem = None
    if axis not in spec.parts:
        problem = f"expected one of {', '.join(spec.parts)} as axis, got {record.get('axis')!r:.40}"
    elif not turns or [number for number, _ in turns] != list(range(1, len(turns) + 1)):
        problem = "expected transcripts of consecutive user turns from 1"
    elif not rubrics:
        problem = f"expected rubrics, got {record.get('rubric')!r:.80}"
    for index, (number, text) in enumerate(turns or [(1, "")]):
        last = number == max(len(turns), 1)
        reply = record.get(f"assistant_turn_{number}_transcript")
        yield Case(
            case_id=f"{name}/{number}",
            script_id=name,
            variant=Variant.TARGET,
            audio_path=TableRow(table, f"user_turn_{number}_audio", row).path,
            text=text or None,
            topic=axis,
            reference_text=reply if isinstance(reply, str) and not last else None,
            source=spec.name,
            task=Task.BENCHMARK,
            problem=f"{table.name}, row {row}: {problem}" if problem else None,
            dialogue_id=name,
            turn_index=index,
            item=BenchmarkItem(
                benchmark=spec.name,
                part=axis,
                rule=ScoringRule.RUBRICS if last else ScoringRule.NONE,
                details={"rubrics": rubrics} if last else {},
            ),
        )


def _rubrics(value: Any) -> list[str]:
    """Return the rubrics: a list, as a value or as JSON, or one per line; none if an entry is not text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (RecursionError, ValueError):
            value = value.splitlines()
    if not isinstance(value, list):
        return []
    texts = [each.strip() for each in value if isinstance(each, str) and each.strip()]
    return texts if len(texts) == len(value) else []
