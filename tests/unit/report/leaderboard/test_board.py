"""Rows, cells and the best row of a board."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from live_eval.analysis.summary.run_summary import summarise
from live_eval.errors import UsageError
from live_eval.judging import (
    JudgeKind,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    OutputSpec,
    Scored,
)
from live_eval.recording import RunReader, ScoreStore
from live_eval.registry import JUDGES as JUDGE_GROUP
from live_eval.registry import Plugin, find_plugins
from live_eval.report.leaderboard import BoardFormat, build_board, render
from live_eval.report.leaderboard.board import Rival, find_best
from tests.unit.report.leaderboard.boards import figure, notes, ours, written


def test_a_value_is_the_mean_over_scored_turns_of_its_task(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    understanding, sound, words, _ = board.tables
    row = understanding.rows[0]
    figures = {column.title: cell for column, cell in zip(understanding.columns, row.cells, strict=True)}
    assert figures["understanding"].value == 50.0
    assert figures["reasoning"].value is None
    ves = sound.rows[0].cells[-1]
    assert ves.estimate is not None
    assert (ves.turns, ves.estimate.n, ves.estimate.clusters) == (10, 9, 9)
    assert ves.estimate.interval is not None
    assert not any(cell.best for cell in words.rows[0].cells), "one row has nobody to be better than"
    assert [row.published for row in words.rows] == [False] + [True] * 13
    assert [row.source.name for row in sound.rows if row.published][-1] == "EchoX"


def test_latencies_are_those_of_the_runs_summary(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"], runs["enhance"]])
    table = board.tables[3]
    assert table.title == "Latency, ms"
    assert [row.source.name for row in table.rows] == ["made-up", "made-up"], "one row per run"
    with RunReader.open(runs["basic"]) as run:
        expected = summarise(run).latencies["voice_to_voice"].measured
    p50, p95, first_byte = table.rows[0].cells
    assert (p50.value, p50.turns) == (expected["p50"].value, 20)
    assert (p50.estimate, p95.estimate) == (expected["p50"], expected["p95"])
    assert first_byte.value is not None
    assert f"{p50.value or 0:.0f}" in render(board, "md"), "without decimals"


def test_the_best_of_several_prompts_is_shown_with_a_note(runs: Mapping[str, Path]) -> None:
    both = [runs["basic"], runs["enhance"]]
    assert ours(both, 1) == [("made-up", "basic")], "by VES"
    assert ours(both, 2) == [("made-up", "enhance")], "by C4"
    assert "the best of basic, enhance by C4" in " ".join(build_board(both).tables[2].notes)
    assert len(ours(both, 2, all_prompts=True)) == 2
    assert ours(both, 0) == [("made-up (basic)", ""), ("made-up (enhance)", "")], "questions have their own"


def test_a_prompt_that_states_the_cue_has_its_own_row_and_is_not_the_best(
    runs: Mapping[str, Path], tmp_path: Path
) -> None:
    told = written(tmp_path / "told", prompt="upper-bound", c4=4.4, ves=4.4)
    three = [runs["basic"], told, runs["enhance"]]
    assert ours(three, 2) == [("made-up", "enhance"), ("made-up", "upper-bound, states the cue")]
    words = build_board(three).tables[2]
    assert "the best of basic, enhance by C4" in " ".join(words.notes)
    assert not any(cell.best for cell in words.rows[1].cells)


def test_repetitions_of_a_prompt_all_count(runs: Mapping[str, Path], tmp_path: Path) -> None:
    for c4, best in ((4.2, "basic"), (3.9, "enhance")):
        again = written(tmp_path / f"again-{c4}", prompt="basic", c4=c4)
        for several in ([runs["basic"], again, runs["enhance"]], [again, runs["basic"], runs["enhance"]]):
            assert {prompt for _, prompt in ours(several, 2)} == {best}, "by the mean of its repetitions"
            assert len(ours(several, 2)) == (2 if best == "basic" else 1)
            assert f"the prompt {best!r} is shown" in notes(build_board(several), 2)


def test_prompts_are_distinguished_by_text_and_data_by_hash(tmp_path: Path) -> None:
    manifests = [
        {"endpoint": {"name": "e"}, "data": {"name": "d", "fingerprint": data}, "prompt": prompt}
        for data, prompt in (
            ("1", {"name": "p.txt", "sha256": "a" * 64}),
            ("1", {"name": "p.txt", "sha256": "b" * 64}),
            ("2", {"name": "no", "sha256": "c" * 64}),
        )
    ]
    paths = [
        written(tmp_path / f"run{number}", manifest=manifest) for number, manifest in enumerate(manifests)
    ]
    assert ours(paths[:2], 2) == [
        ("made-up", f"p.txt ({'a' * 12})"),
        ("made-up", f"p.txt ({'b' * 12})"),
    ]
    words = build_board(paths[:2]).tables[2]
    assert (
        "every prompt has a row, since the best means of C4 speech information relevance are equal"
        in " ".join(words.notes)
    )
    assert [prompt for _, prompt in ours([paths[0], paths[2]], 2)] == ["p.txt", "no"], "not of one data set"
    words = build_board([paths[0], paths[2]]).tables[2]
    assert (
        "C3 colloquialism degree, C4 speech information relevance: the runs have different data or cases"
        in " ".join(words.notes)
    )
    assert not any(cell.best for row in words.rows for cell in row.cells)
    with pytest.raises(UsageError, match="got a duplicate"):
        build_board([paths[0], paths[0]])


def test_a_run_of_questions_does_not_affect_the_choice_of_prompts(
    runs: Mapping[str, Path], tmp_path: Path
) -> None:
    alone = written(tmp_path / "questions", prompt="no", conversations=0)
    three = [runs["basic"], alone, runs["enhance"]]
    assert ours(three, 2) == [("made-up", "enhance")]
    assert "the best of basic, enhance by C4" in " ".join(build_board(three).tables[2].notes)


def test_rows_of_different_cases_have_no_best(runs: Mapping[str, Path], tmp_path: Path) -> None:
    few = written(tmp_path / "few", prompt="basic", c4=4.0, conversations=4)
    words = build_board([runs["basic"], few]).tables[2]
    assert (
        "C3 colloquialism degree, C4 speech information relevance: the runs have different data or cases"
        in " ".join(words.notes)
    )
    assert not any(cell.best for row in words.rows for cell in row.cells)


def test_a_run_without_a_recorded_prompt_does_not_compete(runs: Mapping[str, Path], tmp_path: Path) -> None:
    manifest = {"endpoint": {"name": "reference"}, "data": {"name": "sample"}}
    old = written(tmp_path / "old", c4=4.9, manifest=manifest)
    assert ours([runs["basic"], old, runs["enhance"]], 2) == [
        ("made-up", "enhance"),
        ("made-up", "not recorded"),
    ]


def test_an_unanswered_question_is_wrong(tmp_path: Path) -> None:
    board = build_board([written(tmp_path / "run", unanswered=4)])
    estimate = board.tables[0].rows[0].cells[2].estimate
    assert estimate is not None
    assert (estimate.value, estimate.n) == (30.0, 10)


def test_every_prompt_has_a_row_without_scores_to_rank_them(runs: Mapping[str, Path]) -> None:
    three = list(runs.values())
    assert [prompt for _, prompt in ours(three, 2)] == ["basic", "enhance"]
    notes = " ".join(build_board(three).tables[2].notes)
    assert "every prompt has a row, since C4 speech information relevance is missing for no" in notes
    assert "omitted, without values in this table" in notes


def test_heat_maps_by_type_and_by_attribute(runs: Mapping[str, Path]) -> None:
    maps = {found.title: found for found in build_board([runs["basic"]]).maps}
    by_type = maps["Accuracy by type: understanding, %"]
    assert by_type.rows == ("gender", "voice style")
    assert [row[0].value for row in by_type.cells] == [100.0, 0.0]
    assert maps["C4 speech information relevance by attribute"].rows == ("laughter", "sigh")
    assert "Accuracy by type: reasoning, %" not in maps


def rival(row: int, value: float, share: float = 1.0) -> Rival:
    return Rival(row, value, share, ("data", frozenset({"case"})), None)


def test_means_that_are_equal_up_to_rounding_are_both_the_best() -> None:
    tied = [rival(0, 0.1 + 0.2), rival(1, 0.3), rival(2, 0.2)]
    assert 0.1 + 0.2 != 0.3
    assert find_best(tied, higher_is_better=True).rows == {0, 1}
    assert find_best(tied, higher_is_better=False).rows == {2}
    assert find_best([rival(0, 0.0), rival(1, 0.0)], higher_is_better=False).rows == {0, 1}
    assert find_best([rival(0, 1.0)], higher_is_better=True).rows == set(), "nobody to be better than"


def test_a_row_with_a_smaller_share_of_its_turns_is_not_the_best() -> None:
    ahead = find_best([rival(0, 4.0, 0.5), rival(1, 3.0)], higher_is_better=True)
    assert not ahead.rows
    assert "smaller share" in ahead.reason
    assert find_best([rival(0, 4.0), rival(1, 3.0, 0.5)], higher_is_better=True).rows == {0}
    assert find_best([rival(0, 4.0, 0.5), rival(1, 4.0)], higher_is_better=True).rows == {1}
    assert find_best([rival(0, 4.0, 9 / 10), rival(1, 3.0, 18 / 20)], higher_is_better=True).rows == {0}


@pytest.mark.parametrize("other", [{"version": "1+other@host:1"}, {"model": "another-model"}])
def test_judges_are_named_and_no_row_is_best_across_them(
    runs: Mapping[str, Path], tmp_path: Path, other: Mapping[str, Any]
) -> None:
    same = build_board([runs["basic"], runs["enhance"]], all_prompts=True)
    assert figure(same, 2, "C4", 1).best
    assert {figure(same, 2, "C4", row).mark for row in (0, 1)} == {"a"}, "not the judge of the published rows"
    assert figure(same, 0, "understanding").mark == "", "one judge, and the paper's was none"
    assert (
        "C4 speech information relevance: a) rubric by judge-model, version 1 (published: by GPT-4o)"
        in notes(same, 2)
    )
    assert "understanding: mcq, version 1" in notes(same, 0)
    apart = written(tmp_path / "apart", prompt="enhance", c4=3.5, **other)
    board = build_board([runs["basic"], apart])
    assert ours([runs["basic"], apart], 2) == [("made-up", "basic"), ("made-up", "enhance")]
    assert "every prompt has a row, since C4 speech information relevance is from different judges" in notes(
        board, 2
    )
    assert [figure(board, 2, "C4", row).mark for row in (0, 1)] == ["a", "b"]
    assert not any(figure(board, 2, "C4", row).best for row in (0, 1))
    assert (
        "C3 colloquialism degree, C4 speech information relevance: the runs were scored by different judges"
        in notes(board, 2)
    )
    named = f"b) rubric by {other.get('model', 'judge-model')}, version {other.get('version', '1')}"
    marked: Mapping[BoardFormat, str] = {
        "html": "<sup>b</sup>",
        "md": "<sup>b</sup>",
        "latex": "\\textsuperscript{b}",
    }
    for form, mark in marked.items():
        made = render(board, form)
        assert mark in made
        assert named in made
    found = csv.DictReader(io.StringIO(render(board, "csv")))
    by = {(row["judge"], row["judge_version"], row["judge_model"]) for row in found if row["run"] == "apart"}
    assert ("rubric", other.get("version", "1"), other.get("model", "judge-model")) in by


def test_the_note_on_the_best_prompt_names_its_means(runs: Mapping[str, Path]) -> None:
    said = notes(build_board([runs["basic"], runs["enhance"]]), 2)
    assert "ranked by their mean over scripts" in said
    assert "the table shows means over turns" in said


def test_a_judge_of_your_own_fills_a_column(
    runs: Mapping[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = LeaderboardColumn(table=LeaderboardTable.RESPONSE_WORDS, title="Wit")
    mine = JudgeSpec(
        name="wit",
        version="1",
        title="wit",
        kind=JudgeKind.LOCAL,
        implementation="mine:Wit",
        outputs=(OutputSpec(name="", title="wit", columns=(column,)),),
        needs=frozenset(),
    )
    known = find_plugins(JUDGE_GROUP)
    plugin = Plugin(JUDGE_GROUP, "wit", "mine", mine, None)
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda group: (*known, plugin))
    run = written(tmp_path / "run")
    with RunReader.open(run) as reader, ScoreStore.open(run) as store:
        for turn in reader.turns():
            store.put("wit", "1", turn.turn_id, Scored({"": 0.5}))
    words = build_board([run]).tables[2]
    assert [column.title for column in words.columns][-2:] == ["C4", "Wit"]
    assert words.rows[0].cells[-1].value == 0.5


def test_the_licences_of_the_data_are_named_once(tmp_path: Path) -> None:
    data = {"name": "sd-eval", "licence": "Under L."}
    runs = [written(tmp_path / name, manifest={"data": data}) for name in "ab"]
    assert build_board([*runs, written(tmp_path / "c")]).notes.count("Under L.") == 1
