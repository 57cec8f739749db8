import json
from pathlib import Path
from typing import Any

import pytest

from live_eval.data import DataKind, DataOptions, check, load
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.data.benchmarks.big_bench_audio import ANSWERS
from live_eval.errors import DataError, UsageError
from live_eval.types import ScoringRule, Task
from tests.support.benchmarks import BIG_BENCH_ANSWERS, big_bench_audio


def test_the_items_are_read(tmp_path: Path) -> None:
    root = big_bench_audio(tmp_path / "bba", items=2)
    data = load(root)
    assert (data.kind, data.name, len(data.cases)) == (DataKind.BENCHMARK, "big-bench-audio", 8)
    assert check(data).ok
    first = data.cases[0]
    assert first.item is not None
    assert (first.case_id, first.topic, first.text) == ("formal_fallacies/0", "formal_fallacies", None)
    assert (first.task, first.item.rule) == (Task.BENCHMARK, ScoringRule.FINAL_ANSWER)
    assert (first.item.answer, first.item.details) == ("valid", {"answers": ["valid", "invalid"]})
    assert data.notes[0].endswith("under MIT")
    assert "navigate 2 of 250" in data.notes[-1]


def test_a_category_is_selected(tmp_path: Path) -> None:
    root = big_bench_audio(tmp_path / "bba", items=2)
    assert [case.case_id for case in load(root / "object_counting").cases] == [
        "object_counting/4",
        "object_counting/5",
    ]


def test_the_categories_are_the_published_ones() -> None:
    spec = BENCHMARKS["big-bench-audio"]
    assert tuple(spec.parts) == tuple(ANSWERS) == tuple(BIG_BENCH_ANSWERS)
    assert spec.items == 1_000
    assert ANSWERS["object_counting"] == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"official_answer": "maybe"}, "expected yes or no as official_answer, got 'maybe'"),
        ({"official_answer": None}, "expected yes or no as official_answer"),
        ({"category": "snarks"}, "expected one of formal_fallacies, .* as category, got 'snarks'"),
        ({"file_name": None}, "expected a recording"),
        ({"file_name": "../x.mp3"}, "is outside"),
    ],
)
def test_rows_with_problems_are_kept(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    root = big_bench_audio(tmp_path / "bba")
    listed = root / "metadata.jsonl"
    lines = [json.loads(line) for line in listed.read_text("utf-8").splitlines()]
    lines[1] |= change
    listed.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    cases = load(root).cases
    assert [case.problem is None for case in cases] == [True, False, True, True]
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(cases[1].problem)


def test_other_lists_are_not_mistaken_for_it(tmp_path: Path) -> None:
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "a.wav"}\n')
    with pytest.raises(DataError):
        load(tmp_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 0, "file_na', "line {}, column 11: invalid JSON: Unterminated string starting at"),
        (b'{"id": "\xff"}', "line {}: expected UTF-8, got an invalid byte"),
        (b'{"id": 0}', "line {}: expected one of formal_fallacies, navigate, "),
    ],
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_damaged_line_is_reported_and_the_others_are_read(
    tmp_path: Path, line: bytes, reason: str, place: int
) -> None:
    root = big_bench_audio(tmp_path / "bba")
    listed = root / "metadata.jsonl"
    lines = listed.read_bytes().splitlines()
    lines[place] = line
    listed.write_bytes(b"\n".join(lines))
    data = load(root)
    assert data.name == "big-bench-audio"
    assert [case.problem is None for case in data.cases] == [number != place for number in range(4)]
    assert f"metadata.jsonl, {reason.format(place + 1)}" in (data.cases[place].problem or "")
    assert len(load(root / "web_of_lies").cases) == 2


def test_fields_are_mapped(tmp_path: Path) -> None:
    root = big_bench_audio(tmp_path / "bba")
    listed = root / "metadata.jsonl"
    listed.write_text(listed.read_text("utf-8").replace('"category"', '"kind_of_official_answer"'), "utf-8")
    assert load(root, DataOptions(fields={"category": "kind_of_official_answer"})).cases[0].problem is None
    with pytest.raises(UsageError, match="no line has the field 'wrong'"):
        load(root, DataOptions(fields={"category": "wrong"}))
