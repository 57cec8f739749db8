import json
from pathlib import Path
from typing import Any

import pytest

from live_eval.data import check, load
from live_eval.data.benchmarks import BENCHMARKS, audio_multichallenge
from live_eval.errors import DataError
from live_eval.types import ScoringRule
from tests.support.benchmarks import multichallenge_row as row
from tests.support.benchmarks import write_table


def write(root: Path, *rows: dict[str, Any], shards: int = 1) -> Path:
    names = [name for name in rows[0] if name.endswith("_audio")]
    write_table(root / "data" / f"test-00000-of-{shards:05}.parquet", rows, audio=dict.fromkeys(names, None))
    return root


def test_conversations_are_read_in_their_layout(tmp_path: Path) -> None:
    spec = BENCHMARKS["audio-multichallenge"]
    assert spec.loader.startswith(audio_multichallenge.__name__)
    assert spec.items == 452
    first = row("Where is Lima?", "No, Quito.", rubric=["Names Ecuador."])
    second = row("Hi.", axis="SELF_COHERENCE", rubric=["Greets."])
    data = load(write(tmp_path, first, second))
    assert check(data).ok
    one, two, other = data.cases
    assert (one.case_id, one.dialogue_id, one.reference_text) == (
        "voice_editing/id-2/1",
        "voice_editing/id-2",
        "Sure.",
    )
    assert one.item is not None
    assert two.item is not None
    assert (one.item.rule, two.item.rule) == (ScoringRule.NONE, ScoringRule.RUBRICS)
    assert two.item.details == {"rubrics": ["Names Ecuador."]}
    assert (two.text, two.turn_index, two.reference_text) == ("No, Quito.", 1, None)
    assert other.topic == "self_coherence"
    assert any("--history" in note for note in data.notes)
    assert len(load(tmp_path / "self_coherence").cases) == 1


@pytest.mark.parametrize("rubric", ["A.\nB.", json.dumps(["A.", "B."])])
def test_rubrics_may_be_text(tmp_path: Path, rubric: str) -> None:
    (case,) = load(write(tmp_path, row("Hi.", rubric=rubric))).cases
    assert case.item is not None
    assert case.item.details["rubrics"] == ["A.", "B."]


def test_bad_rows_and_missing_tables_are_named(tmp_path: Path) -> None:
    gap = row("Hi.", "", "Bye.", rubric="A.")
    bad = [row("Hi.", rubric=" "), row("Hi.", axis="MOOD", rubric="A."), gap, row(rubric="A.")]
    problems = [case.problem or "" for case in load(write(tmp_path, *bad)).cases]
    for words in ("expected rubrics, got ' '", "got 'MOOD'", "consecutive user turns"):
        assert any(words in problem for problem in problems)
    assert all(problems)
    with pytest.raises(DataError, match=r"expected 2 tables, got 1; missing: test-00001-of-00002\.parquet"):
        load(write(tmp_path / "half", row("Hi."), shards=2))
    with pytest.raises(DataError, match="no conversation has the axis inference_memory"):
        load(write(tmp_path / "some", row("Hi.")) / "inference_memory")


def test_repeated_ids_and_long_conversations_are_kept(tmp_path: Path) -> None:
    said = [f"Turn {number}." for number in range(1, 11)]
    data = load(write(tmp_path, row(*said, most=10), row(*said, most=10)))
    assert check(data).ok
    assert len({case.case_id for case in data.cases}) == 20
    assert {case.dialogue_id for case in data.cases} == {"voice_editing/id-10", "voice_editing/id-10#2"}
    last = data.cases[9]
    assert last.item is not None
    assert (last.text, last.item.rule) == ("Turn 10.", ScoringRule.RUBRICS)
