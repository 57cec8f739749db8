from pathlib import Path
from typing import Any

import pytest

from live_eval.data import DataKind, DataOptions, DataSet, check, load
from live_eval.data.benchmarks import BENCHMARKS
from live_eval.errors import DataError, UsageError
from live_eval.types import ScoringRule, Task
from tests.support.benchmarks import VOICEBENCH_ROWS, voicebench, voicebench_part, write_table

QUESTION = VOICEBENCH_ROWS["openbookqa"]


def test_all_eleven_parts_are_read(tmp_path: Path) -> None:
    data = load(voicebench(tmp_path))
    spec = BENCHMARKS["voicebench"]
    assert set(VOICEBENCH_ROWS) == set(spec.parts)
    assert (data.kind, data.name, len(data.cases)) == (DataKind.BENCHMARK, "voicebench", 22)
    assert check(data).ok
    for case in data.cases:
        assert case.problem is None
        assert case.item is not None
        assert (case.task, case.source) == (Task.BENCHMARK, "voicebench")
        assert case.item.rule is spec.parts[case.item.part].rule
    assert data.notes[0] == "The recordings and reference texts are VoiceBench's, under Apache-2.0"
    assert "alpacaeval 2 of 199" in data.notes[-1]
    assert data.licence.endswith("under Apache-2.0")


def test_ids_and_answers(tmp_path: Path) -> None:
    by_id = {case.case_id: case for case in load(voicebench(tmp_path)).cases}
    choice = by_id["openbookqa/1"]
    assert choice.item is not None
    assert (choice.item.answer, choice.topic, choice.script_id) == ("A", None, "openbookqa/1")
    assert choice.item.details["options"][1] == ["B", "stones"]
    assert (by_id["mmsu/law/0"].topic, by_id["sd-qa/usa/1"].script_id) == ("law", "sd-qa/1")
    spoken = by_id["mtbench/0"]
    assert spoken.text == "Write a poem.\nShorten it."
    bbh, ifeval = by_id["bbh/0"].item, by_id["ifeval/0"].item
    assert bbh is not None
    assert bbh.details == {"id": "navigate_7"}
    assert ifeval is not None
    assert ifeval.details["instruction_id_list"] == ["change_case:english_lowercase"]


def part(path: Path, **options: Any) -> DataSet:
    return load(path, DataOptions(**options))


def test_a_part_is_read_by_its_folder_and_a_split_by_its_name(tmp_path: Path) -> None:
    voicebench(tmp_path)
    voicebench_part(tmp_path, "sd-qa", [VOICEBENCH_ROWS["sd-qa"]] * 3, split="aus")
    assert [case.case_id for case in part(tmp_path / "openbookqa").cases] == ["openbookqa/0", "openbookqa/1"]
    assert {case.topic for case in part(tmp_path / "sd-qa").cases} == {"usa"}
    assert len(part(tmp_path / "sd-qa" / "aus").cases) == 3
    with pytest.raises(DataError, match=r"expected the split irl, got aus, usa"):
        part(tmp_path / "sd-qa" / "irl")


def test_a_part_of_several_tables_is_numbered_through(tmp_path: Path) -> None:
    rows = [{"prompt": f"Question {number}"} for number in range(5)]
    voicebench_part(tmp_path, "wildvoice", rows, shards=3)
    cases = part(tmp_path / "wildvoice").cases
    assert [(case.case_id, case.text) for case in cases] == [
        (f"wildvoice/{number}", f"Question {number}") for number in range(5)
    ]


def test_a_half_downloaded_part_is_named(tmp_path: Path) -> None:
    folder = voicebench_part(tmp_path, "wildvoice", [{"prompt": "x"}] * 4, shards=2)
    (folder / "test-00001-of-00002.parquet").rename(folder / "test-00001-of-00002.parquet.part")
    with pytest.raises(DataError, match=r"expected 2 tables, got 1; missing: test-00001-of-00002\.parquet"):
        part(folder)


def test_rows_with_problems_are_kept(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [QUESTION, QUESTION | {"prompt": " "}, {**QUESTION, "reference": None}]
    good, empty, keyless = part(voicebench_part(tmp_path, "openbookqa", rows)).cases
    assert good.problem is None
    assert empty.problem is not None
    assert "row 1: expected a prompt with words" in empty.problem
    assert keyless.problem is not None
    assert "expected a reference answer" in keyless.problem


@pytest.mark.parametrize(
    ("name", "changes", "problem"),
    [
        ("openbookqa", {"reference": "E"}, "expected A, B, C or D as the reference, got 'E'"),
        ("mmsu", {"reference": "stones"}, "expected A, B, C or D as the reference, got 'stones'"),
        ("bbh", {"reference": "maybe"}, "expected yes, no, (a) or (b) as the reference, got 'maybe'"),
        ("bbh", {"id": "snarks_1"}, "expected an ID that contains one of sports_understanding"),
        ("ifeval", {"instruction_id_list": ["nope:what"]}, "unknown instruction 'nope:what'"),
        ("ifeval", {"instruction_id_list": ["punctuation:no_comma"] * 2}, "got 2 and 1 values"),
        ("ifeval", {"kwargs": ["x"]}, "expected kwargs to be a list of objects"),
        (
            "ifeval",
            {"instruction_id_list": ["length_constraints:number_words"], "kwargs": [{"num_words": 9}]},
            "number_words: expected 'less than' or 'at least' as relation, got None",
        ),
    ],
)
def test_items_that_no_rule_can_score_are_named(
    tmp_path: Path, name: str, changes: dict[str, Any], problem: str
) -> None:
    split = {"mmsu": "law"}.get(name, "test")
    folder = voicebench_part(tmp_path, name, [VOICEBENCH_ROWS[name] | changes], split=split)
    report = check(part(folder))
    assert not report.ok
    (case,) = report.dataset.cases
    assert case.problem is not None
    assert problem in case.problem


def test_fields_are_mapped(tmp_path: Path) -> None:
    rows = [{"question": "Where is Lima?", "reference": "Peru"}]
    folder = voicebench_part(tmp_path, "sd-qa", rows, split="usa")
    (case,) = part(folder).cases
    assert case.problem is not None
    (case,) = part(folder, fields={"text": "question"}).cases
    assert (case.text, case.problem) == ("Where is Lima?", None)
    with pytest.raises(UsageError, match="no row has the field 'wrong'"):
        part(folder, fields={"text": "wrong"})


def test_a_table_without_audio_is_named(tmp_path: Path) -> None:
    folder = voicebench_part(tmp_path, "advbench", [{"prompt": "x"}])
    write_table(folder / "test-00000-of-00001.parquet", [{"prompt": "x"}], audio={})
    with pytest.raises(DataError, match="expected a column audio, got prompt"):
        part(folder)


def test_every_rule_is_known() -> None:
    assert {each.rule for each in BENCHMARKS["voicebench"].parts.values()} <= set(ScoringRule)
    assert BENCHMARKS["voicebench"].items == 8_028
