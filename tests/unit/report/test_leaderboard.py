"""The leaderboard: rows, values, the choice of the prompt, and each format."""

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from live_eval.cli import cli
from live_eval.data import cue_of
from live_eval.errors import FailureKind, UsageError
from live_eval.judging import (
    Failed,
    JudgeKind,
    JudgeSpec,
    LeaderboardColumn,
    LeaderboardTable,
    OutputSpec,
    Scored,
    Unscored,
)
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.registry import JUDGES as JUDGE_GROUP
from live_eval.registry import Plugin, find_plugins
from live_eval.report import write_report
from live_eval.report.leaderboard import BoardFormat, build_board, render
from live_eval.report.leaderboard.board import Board, BoardCell, Rival, find_best
from live_eval.report.leaderboard.published import COLUMNS, JUDGES, PUBLISHED
from live_eval.testing.records import TurnPlan, spoken_turn
from live_eval.types import Case, Failure, Question, Task, Variant

FORMS: tuple[BoardFormat, ...] = ("html", "md", "csv", "latex")


def conversation(number: int) -> Case:
    return Case(
        case_id=f"id_{number}/target",
        script_id=f"id_{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        cue=cue_of("sigh sound" if number % 2 else "laughter sound"),
    )


def question(number: int, task: Task) -> Case:
    asked = Question(
        question_id=f"q{number}",
        text="What?",
        options=(("A", "this"), ("B", "that")),
        answer="A",
        kind="gender" if number % 2 else "voice style",
    )
    return Case(
        case_id=f"{task}/q{number}",
        script_id=f"id_{number}",
        variant=Variant.TARGET,
        audio_path=Path("x.wav"),
        task=task,
        question=asked,
    )


def written(
    path: Path,
    *,
    prompt: str = "basic",
    c4: float | None = 3.0,
    ves: float = 2.0,
    unanswered: int = 0,
    conversations: int = 10,
    manifest: Mapping[str, Any] | None = None,
    version: str = "1",
    model: str = "judge-model",
    ended: bool = True,
) -> Path:
    """A run of ten scripts: conversations with C4 and VES, and questions, half of them answered correctly."""
    manifest = manifest or {
        "endpoint": {"name": "reference"},
        "data": {"name": "sample"},
        "prompt": {"name": prompt, "text": "You hear {cue}." if prompt == "upper-bound" else ""},
    }
    cases = [conversation(number) for number in range(conversations)]
    asked = [question(number, Task.UNDERSTANDING) for number in range(10)]
    with RunWriter.create(path, manifest) as run:
        for case in (*cases, *asked[unanswered:]):
            run.commit(spoken_turn(case, TurnPlan(reply_ms=300)))
        for case in asked[:unanswered]:
            failure = Failure(FailureKind.NO_RESPONSE, "none came")
            run.commit(spoken_turn(case, TurnPlan(first_byte_ms=None, failure=failure)))
        run.end(finished=ended)
    with ScoreStore.open(path) as store:
        for number, case in enumerate(cases):
            step = 0.1 * (number - 4.5)
            if c4 is not None:
                values = {"c1": 4.0, "c2": 4.0, "c3": 4.0, "c4": c4 + step}
                judged = Scored(values, {"answered_by": model}) if number else Unscored("no reply text")
                store.put("rubric", version, case.case_id, judged)
            store.put("ves", "1", case.case_id, Scored({"": ves + step}) if number else Failed("quota"))
        for number, case in list(enumerate(asked))[unanswered:]:
            store.put("mcq", "1", case.case_id, Scored({"accuracy": 100.0 * (number % 2), "parsed": 100.0}))
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "basic": written(folder / "basic", prompt="basic", c4=3.0, ves=2.5),
        "enhance": written(folder / "enhance", prompt="enhance", c4=3.5, ves=2.0),
        "unjudged": written(folder / "unjudged", prompt="no", c4=None),
    }


def ours(path_or_paths: list[Path], table: int, **options: bool) -> list[tuple[str, str]]:
    board = build_board(path_or_paths, **options)
    sources = [row.source for row in board.tables[table].rows if not row.published]
    return [(source.name, f"{source.prompt}{', states the cue' * source.states_cue}") for source in sources]


def figure(board: Board, table: int, title: str, row: int = 0) -> BoardCell:
    found = board.tables[table]
    [cell] = [
        cell
        for column, cell in zip(found.columns, found.rows[row].cells, strict=True)
        if column.title == title
    ]
    return cell


def notes(board: Board, table: int) -> str:
    return " ".join(board.tables[table].notes)


def at(base_url: str | None, prompt: str = "basic") -> Mapping[str, Any]:
    """The manifest of a run at an address; None for the vendor's."""
    return {
        "endpoint": {"name": "openai"},
        "data": {"name": "sample"},
        "prompt": {"name": prompt, "text": ""},
        "config": {"endpoint": {"base_url": base_url}, "data": {"path": "sample"}},
        "turns": 30,
    }


def test_every_published_value_is_shown() -> None:
    assert len(PUBLISHED) == 13
    assert (
        sum(len(figures) for figures in PUBLISHED.values()) == 13 * len(COLUMNS) - 3 - 4 - 4 - 2 - 4 - 3 + 1
    )
    assert PUBLISHED["GPT-4o-Audio"]["C4"] == 3.42
    assert PUBLISHED["Audio-Flamingo3"]["WER"] == 2.93
    assert "VES" not in PUBLISHED["DeSTA2.5-Audio"]


def test_a_value_is_the_mean_over_scored_turns_of_its_task(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    understanding, sound, words = board.tables
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
    assert "every prompt has a row, since the best means of C4 are equal" in " ".join(words.notes)
    assert [prompt for _, prompt in ours([paths[0], paths[2]], 2)] == ["p.txt", "no"], "not of one data set"
    words = build_board([paths[0], paths[2]]).tables[2]
    assert "no row is bold in C1, C2, C3, C4: our rows are of different data or cases" in " ".join(
        words.notes
    )
    assert not any(cell.best for row in words.rows for cell in row.cells)
    with pytest.raises(UsageError, match="the same one twice"):
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
    assert "no row is bold in C1, C2, C3, C4: our rows are of different data or cases" in " ".join(
        words.notes
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
    assert "every prompt has a row, since C4 is missing for no" in notes
    assert "without a value here" in notes


def test_runs_with_equal_descriptions_are_distinguished(runs: Mapping[str, Path], tmp_path: Path) -> None:
    again = written(tmp_path / "again", prompt="basic", c4=3.0)
    assert ours([runs["basic"], again], 2) == [("made-up (basic)", "basic"), ("made-up (again)", "basic")]


def test_heat_maps_by_type_and_by_attribute(runs: Mapping[str, Path]) -> None:
    maps = {found.title: found for found in build_board([runs["basic"]]).maps}
    by_type = maps["Accuracy by type: understanding, %"]
    assert by_type.rows == ("gender", "voice style")
    assert [row[0].value for row in by_type.cells] == [100.0, 0.0]
    assert maps["C4 by attribute"].rows == ("laughter", "sigh")
    assert "Accuracy by type: reasoning, %" not in maps


def test_csv_has_every_value_with_its_interval(runs: Mapping[str, Path]) -> None:
    made = render(build_board([runs["basic"]]), "csv")
    found = list(csv.DictReader(io.StringIO(made)))
    [c4] = [row for row in found if row["figure"] == "C4" and row["published"] == "False"]
    assert float(c4["low"]) < float(c4["value"]) < float(c4["high"])
    assert (c4["n"], c4["turns"]) == ("9", "10")
    [laughter] = [row for row in found if (row["table"], row["figure"]) == ("C4 by attribute", "laughter")]
    assert (laughter["n"], laughter["turns"]) == ("4", "5"), "the turns that were put, in maps too"
    published = [row for row in found if row["published"] == "True"]
    assert len(published) == sum(len(figures) for figures in PUBLISHED.values())
    assert all(row["low"] == "" for row in published)
    assert {row["figure"]: row["judge_model"] for row in published if row["judge_model"]} == {
        key.upper(): model for key, model in JUDGES.items()
    }


def test_csv_has_the_same_keys_for_tables_and_maps(runs: Mapping[str, Path], tmp_path: Path) -> None:
    again = written(tmp_path / "again", prompt="basic")
    told = written(tmp_path / "told", prompt="upper-bound")
    board = build_board([runs["basic"], again, told], all_prompts=True)
    found = [row for row in csv.DictReader(io.StringIO(render(board, "csv"))) if row["run"]]
    assert {row["model"] for row in found} == {"made-up"}, "two of one name are told apart by their run"
    assert {row["published"] for row in found} == {"False"}
    for table in ("Response: text", "C4 by attribute"):
        assert {(row["run"], row["prompt"], row["tells_cue"]) for row in found if row["table"] == table} == {
            ("basic", "basic", "False"),
            ("again", "basic", "False"),
            ("told", "upper-bound", "True"),
        }
    for table in ("Understanding and reasoning", "Accuracy by type: understanding, %"):
        assert {(row["run"], row["prompt"], row["tells_cue"]) for row in found if row["table"] == table} == {
            ("basic", "", ""),
            ("again", "", ""),
            ("told", "", ""),
        }, "questions have prompts of their own"


def named(board: Board, label: str) -> Board:
    """The board with another name for our first row."""
    tables = [
        replace(
            table,
            rows=(
                replace(table.rows[0], source=replace(table.rows[0].source, model=label)),
                *table.rows[1:],
            ),
        )
        for table in board.tables
    ]
    return replace(board, tables=tuple(tables))


def test_latex_is_complete_and_escaped(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"], runs["enhance"]], all_prompts=True)
    made = render(named(board, '[a] my_model & co 100% <"b">'), "latex")
    assert "\n{[a] my" in made, "a bracket after a row's end would be its space"
    assert "\\textless{}\\textquotedbl{}b\\textquotedbl{}\\textgreater{}" in made
    assert "my\\_model \\& co 100\\%" in made
    assert made.count("\\begin{tabular}") == made.count("\\end{tabular}") == 7
    assert "\\textbf{" in made
    for block in re.findall(r"\\begin\{tabular\}\{(lr+)\}(.*?)\\end\{tabular\}", made, re.DOTALL):
        rows = [line for line in block[1].splitlines() if line.endswith("\\\\")]
        assert {re.sub(r"\\&", "", line).count("&") for line in rows} == {len(block[0]) - 1}


def test_a_hostile_model_name_is_escaped(runs: Mapping[str, Path]) -> None:
    board = named(build_board([runs["basic"]]), "=HYPERLINK(1)\r\n\n|a\\b_c&lt;~$^\x00")
    rows = list(csv.DictReader(io.StringIO(render(board, "csv"), newline=""), strict=True))
    assert rows[0]["model"] == "'=HYPERLINK(1)\r\n\n|a\\b_c&lt;~$^\x00"
    assert {len(row) for row in rows} == {len(rows[0])}
    assert "\n| =HYPERLINK(1) \\|a\\\\b\\_c&amp;lt;\\~\\$^, run 1" in render(board, "md")
    text = r"\textbar{}a\textbackslash{}b\_c\&lt;\textasciitilde{}\$\textasciicircum{}"
    assert f"\n{{=HYPERLINK(1) {text}" in render(board, "latex")


def test_latex_numbers_runs_and_splits_wide_heat_maps(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    [by_attribute] = [found for found in board.maps if found.title == "C4 by attribute"]
    [source] = by_attribute.columns
    assert source.run is not None
    wide = replace(
        by_attribute,
        columns=tuple(
            replace(source, model=f"model_{number}", run=replace(source.run, number=number))
            for number in range(2, 12)
        ),
        cells=tuple(row * 10 for row in by_attribute.cells),
    )
    made = render(replace(board, tables=(), maps=(wide,)), "latex")
    heads = [line.removesuffix(" \\\\") for line in made.splitlines() if line.startswith("{} & ")]
    assert [re.findall(r" (\d+)\\textsuperscript\{a\}", head) for head in heads] == [
        [str(number) for number in range(2, 10)],
        ["10", "11"],
    ], "by their numbers in the table of runs"
    assert "model\\_2, run 2, prompt basic; model\\_3, run 3, prompt basic" in made
    assert "model\\_10, run 10, prompt basic; model\\_11, run 11, prompt basic" in made
    assert [line.count("&") for line in made.splitlines() if line.startswith("{sigh}")] == [8, 2]


def test_the_page_marks_published_rows_and_escapes_text(runs: Mapping[str, Path]) -> None:
    page = render(named(build_board([runs["basic"]]), "<script>"), "html")
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<small>published</small>") == 13 + 10 + 13
    assert "n 9 of 10 turns" in page


def test_the_command_writes_each_format(runs: Mapping[str, Path], tmp_path: Path) -> None:
    runner = CliRunner()
    done = runner.invoke(cli, ["leaderboard", str(runs["basic"]), "--format", "md"])
    assert done.exit_code == 0, done.output
    assert "| made-up, run 1, prompt basic |" in done.stdout
    page = tmp_path / "board.html"
    done = runner.invoke(cli, ["leaderboard", str(runs["basic"]), "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!DOCTYPE html>")


# -- turns and judges of a value ----------------------------------------------------------------------------


def test_every_format_shows_n_of_total_if_turns_are_missing(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    assert figure(board, 2, "C4").n_of_turns == "n 9 of 10"
    assert figure(board, 0, "understanding").n_of_turns == ""
    page, text, latex = (render(board, form) for form in ("html", "md", "latex"))
    assert page.count('<small class="short">n 9 of 10</small>') == 5, "C1 to C4 and VES"
    assert page.count('<small class="short">n 4 of 5</small>') == 2, "in the maps of C4 and VES"
    assert re.search(r"\d\.\d\d to \d\.\d\d; n 9 of 10\)", text)
    assert re.search(r"\| laughter \| \d\.\d\d \(n 4 of 5\) \|", text)
    assert "\\scriptsize n 9 of 10 " in latex
    assert re.search(r"\{laughter\} & \d\.\d\d \{\\scriptsize n 4 of 5\}", latex)
    assert re.search(r"\{gender\} & 100\.00 \{\\scriptsize n 5\}", latex)
    for made in (page, text, latex):
        assert "the mean is over n of N turns" in made
    whole = build_board([runs["basic"]]).tables[0]
    assert not any("n of N" in note for note in whole.notes), "nothing to explain there"


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
    assert "C1, C2, C3, C4: a) rubric by judge-model, version 1 (published: by GPT-4o)" in notes(same, 2)
    assert "understanding: mcq, version 1" in notes(same, 0)
    apart = written(tmp_path / "apart", prompt="enhance", c4=3.5, **other)
    board = build_board([runs["basic"], apart])
    assert ours([runs["basic"], apart], 2) == [("made-up", "basic"), ("made-up", "enhance")]
    assert "every prompt has a row, since C4 is by different judges" in notes(board, 2)
    assert [figure(board, 2, "C4", row).mark for row in (0, 1)] == ["a", "b"]
    assert not any(figure(board, 2, "C4", row).best for row in (0, 1))
    assert "no row is bold in C1, C2, C3, C4: our rows are by different judges" in notes(board, 2)
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


def test_runs_at_different_addresses_are_different_models(tmp_path: Path) -> None:
    first = written(tmp_path / "first", manifest=at("wss://me:secret@127.0.0.1:18777/v1?key=hidden"))
    second = written(tmp_path / "second", manifest=at("ws://127.0.0.1:18778/v1", "enhance"), c4=3.5)
    vendor = written(tmp_path / "vendor", manifest=at(None, "enhance"), c4=4.0)
    three = [first, second, vendor]
    assert ours(three, 2) == [
        ("made-up @ 127.0.0.1:18777", "basic"),
        ("made-up @ 127.0.0.1:18778", "enhance"),
        ("made-up", "enhance"),
    ], "none takes the place of another as the better prompt"
    board = build_board(three)
    assert "is shown" not in notes(board, 2)
    dots = {dot.label for plot in board.plots for dot in plot.dots if not dot.published}
    assert dots == {name for name, _ in ours(three, 2)}
    for form in FORMS:
        made = render(board, form)
        assert "made-up @ 127.0.0.1:18777" in made
        assert "secret" not in made
        assert "hidden" not in made


def test_a_run_without_turns_has_no_kind_of_data(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "empty", at(None)).close()
    [run] = build_board([tmp_path / "empty"]).runs
    assert run.cells[-2:] == (
        "the bundled sample: 0 cases",
        "0 of 0 captured; incomplete: 0 of 30 turns recorded",
    )


def test_paths_of_a_gateway_are_different_models(tmp_path: Path) -> None:
    first = written(tmp_path / "first", manifest=at("ws://gateway:1/model-a/v1"))
    second = written(tmp_path / "second", manifest=at("ws://gateway:1/model-b/v1", "enhance"), c4=3.5)
    assert ours([first, second], 2) == [
        ("made-up @ gateway:1", "basic"),
        ("made-up @ gateway:1", "enhance"),
    ], "none takes the place of another as the better prompt"


def test_the_table_of_runs_shows_data_turns_and_completion(runs: Mapping[str, Path], tmp_path: Path) -> None:
    cut = written(tmp_path / "cut", manifest=at(None), unanswered=3, ended=False)
    board = build_board([runs["basic"], cut])
    assert [run.cells for run in board.runs] == [
        ("1", "basic", "reference, made-up", "basic", "sample: 20 cases, manifest", "20 of 20 captured"),
        (
            *("2", "cut", "openai, made-up", "basic", "the bundled sample: 20 cases, manifest"),
            "17 of 20 captured; incomplete: 20 of 30 turns recorded",
        ),
    ]
    page, text, latex = (render(board, form) for form in ("html", "md", "latex"))
    for made in (page, text, latex):
        assert made.count("incomplete: 20 of 30 turns recorded") > 4, "at its rows, not among runs alone"
        assert "the bundled sample: 20 cases" in made
    rows = list(csv.DictReader(io.StringIO(render(board, "csv"))))
    told = {(row["run"], row["data"], row["cases"], row["source"], row["ended"]) for row in rows}
    assert told == {
        ("basic", "sample", "20", "manifest", "True"),
        ("cut", "the bundled sample", "20", "manifest", "False"),
        ("", "", "", "", ""),
    }


def test_the_note_on_the_best_prompt_names_its_means(runs: Mapping[str, Path]) -> None:
    said = notes(build_board([runs["basic"], runs["enhance"]]), 2)
    assert "ranked by their mean over scripts" in said
    assert "the table shows means over turns" in said


# -- levels ------------------------------------------------------------------------------------------------


def test_levels_are_plotted_over_models_as_in_the_paper(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    plots = {(plot.across.title, plot.up.title): plot for plot in board.plots}
    assert list(plots) == [
        ("understanding", "reasoning"),
        ("understanding", "C4"),
        ("understanding", "VES"),
        ("reasoning", "C1"),
        ("reasoning", "VES"),
    ]
    published = [row for row in PUBLISHED.values() if {"understanding", "reasoning"} <= row.keys()]
    alone = plots["understanding", "reasoning"]
    expected = spearmanr(
        [row["understanding"] for row in published], [row["reasoning"] for row in published]
    ).statistic
    assert len(alone.dots) == len(published) == 13
    assert alone.correlation == pytest.approx(expected)
    ours = [dot for dot in plots["understanding", "C4"].dots if not dot.published]
    assert [(dot.across, dot.label) for dot in ours] == [(50.0, "made-up")]
    assert alone.published == alone.correlation
    several = build_board([runs["basic"], runs["enhance"]])
    for plot, value in ((several.plots[1], 3.5), (several.plots[2], 2.5)):
        [dot] = [dot for dot in plot.dots if not dot.published]
        assert dot.up == pytest.approx(value, abs=0.06), "under the prompt that the table shows"
    page = render(board, "html")
    assert page.count('class="dot mine"') == 2, "with C4 and with VES; it was not asked to reason"
    assert "| C4 by understanding | " in render(board, "md")


def test_runs_have_a_page_without_their_judges_installed(
    runs: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda group: ())
    board = build_board([runs["basic"]])
    assert all(table.columns == () for table in board.tables)
    assert board.plots == ()
    assert "made-up" in render(board, "html")
    shown = write_report([runs["basic"]], form="json")
    assert shown is not None
    assert "rubric.c4" in json.loads(shown)["runs"][0]["scores"]


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
