"""A board as a page, CSV and LaTeX."""

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.report import write_report
from live_eval.report.leaderboard import build_board, render
from live_eval.report.leaderboard.paper import JUDGES, PUBLISHED
from live_eval.report.leaderboard.render import table_in_words
from tests.unit.report.leaderboard.boards import at, figure, named, written


def test_csv_has_every_value_with_its_interval(runs: Mapping[str, Path]) -> None:
    made = render(build_board([runs["basic"]]), "csv")
    found = list(csv.DictReader(io.StringIO(made)))
    [c4] = [row for row in found if row["figure"] == "C4" and row["published"] == "False"]
    assert float(c4["low"]) < float(c4["value"]) < float(c4["high"])
    assert (c4["n"], c4["turns"]) == ("9", "10")
    [laughter] = [
        row
        for row in found
        if (row["table"], row["figure"]) == ("C4 speech information relevance by attribute", "laughter")
    ]
    assert (laughter["n"], laughter["turns"]) == ("4", "5"), "the turns that were put, in maps too"
    published = [row for row in found if row["published"] == "True"]
    assert len(published) == sum(len(figures) for figures in PUBLISHED.values())
    assert all(row["low"] == "" for row in published)
    assert {row["figure"]: row["judge_model"] for row in published if row["judge_model"]} == {
        key.upper(): model for key, model in JUDGES.items()
    }


def test_json_has_the_values_of_the_csv_file(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    found = json.loads(render(board, "json"))
    from_json = [
        (each["title"], row["model"], name, f"{cell['value']:.6g}", str(cell["n"] or ""))
        for each in (*found["tables"], *found["maps"])
        for row in each["rows"]
        for name, cell in row["values"].items()
    ]
    rows = csv.DictReader(io.StringIO(render(board, "csv")))
    from_csv = [(row["table"], row["model"], row["figure"], row["value"], row["n"]) for row in rows]
    assert sorted(from_json) == sorted(from_csv)


def test_csv_has_the_same_keys_for_tables_and_maps(runs: Mapping[str, Path], tmp_path: Path) -> None:
    again = written(tmp_path / "again", prompt="basic")
    told = written(tmp_path / "told", prompt="upper-bound")
    board = build_board([runs["basic"], again, told], all_prompts=True)
    found = [row for row in csv.DictReader(io.StringIO(render(board, "csv"))) if row["run"]]
    assert {row["model"] for row in found} == {"made-up"}, "two of one name are told apart by their run"
    assert {row["published"] for row in found} == {"False"}
    for table in ("Response: text", "C4 speech information relevance by attribute"):
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


def test_latex_is_complete_and_escaped(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"], runs["enhance"]], all_prompts=True)
    made = render(named(board, '[a] my_model & co 100% <"b">'), "latex")
    assert "\n{[a] my" in made, "a bracket after a row's end would be its space"
    assert "\\textless{}\\textquotedbl{}b\\textquotedbl{}\\textgreater{}" in made
    assert "my\\_model \\& co 100\\%" in made
    assert made.count("\\begin{tabular}") == made.count("\\end{tabular}") == 8
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
    [by_attribute] = [
        found for found in board.maps if found.title == "C4 speech information relevance by attribute"
    ]
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


def test_the_table_of_runs_shows_data_turns_and_completion(runs: Mapping[str, Path], tmp_path: Path) -> None:
    cut = written(tmp_path / "cut", manifest=at(None), unanswered=3, ended=False)
    board = build_board([runs["basic"], cut])
    assert [run.cells for run in board.runs] == [
        (
            *("1", "basic", "reference, made-up", "basic", "sample: 20 cases, manifest", "20 of 20 captured"),
            "recordings: manifest",
        ),
        (
            *("2", "cut", "openai, made-up", "basic", "the bundled sample: 20 cases, manifest"),
            "17 of 20 captured; incomplete: 20 of 30 turns recorded",
            "recordings: manifest",
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


def test_runs_have_a_page_without_their_judges_installed(
    runs: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.registry.find_plugins", lambda group: ())
    board = build_board([runs["basic"]])
    assert all(table.columns == () for table in board.tables[:3]), "only latencies need no judge"
    assert board.plots == ()
    assert "made-up" in render(board, "html")
    shown = write_report([runs["basic"]], form="json")
    assert shown is not None
    assert "rubric.c4" in json.loads(shown)["runs"][0]["scores"]


def test_a_table_for_a_script_has_the_page_s_numbers_and_definitions(runs: Mapping[str, Path]) -> None:
    board = build_board([runs["basic"]])
    [table] = [each for each in board.tables if each.title == "Response: text"]
    made = table_in_words(table)
    [ours] = [row for row in made["rows"] if not row["published"]]
    place = [column["title"] for column in made["columns"]].index("C4 speech information relevance")
    cell = table.rows[0].cells[place]
    assert ours["cells"][place]["value"] == f"{cell.value:.2f}"
    assert ours["cells"][place]["extras"][-1] == "n 9 of 10"
    assert made["columns"][place]["definition"].startswith("C4 speech information relevance (1 to 5, higher")
    assert json.loads(json.dumps(made))["notes"] == list(table.notes)


def test_every_heading_of_the_page_has_a_definition_to_open(runs: Mapping[str, Path]) -> None:
    page = render(build_board([runs["basic"]]), "html")
    targets = re.findall(r'popovertarget="([^"]+)"', page)
    assert len(targets) == len(set(targets)) > 15
    assert set(targets) == set(re.findall(r'<div popover id="([^"]+)"', page))
