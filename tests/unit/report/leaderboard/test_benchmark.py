import csv
import html
import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.data.benchmarks.published import OVERALL, published_tables
from live_eval.errors import UsageError
from live_eval.judges.specs import BENCHMARK_MODEL, BENCHMARK_RULES
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.report.leaderboard import build_benchmark_board, build_board, render
from live_eval.types import ScoringRule
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.analysis.summary.test_benchmark_parts import case

PARTS = ("commoneval", "mmsu", "mtbench")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as store:
        for number in range(10):
            items = zip(PARTS, (ScoringRule.RATING, ScoringRule.CHOICE, ScoringRule.NONE), strict=True)
            rated, chosen, other = (case(part, number, rule) for part, rule in items)
            for each in (rated, chosen, other):
                run.commit(spoken_turn(each, TurnPlan(reply_text="x")))
            rating = Scored({"rating": 4.0 + number % 2}, {"model": "gpt-x"})
            store.put("benchmark_model", BENCHMARK_MODEL.version, rated.case_id, rating)
            right = {
                "official": 100.0 * (number < 8),
                "ours": 50.0,
                "official_parsed": 100.0 * (number < 7),
                "parsed": 100.0,
            }
            store.put("benchmark_rules", BENCHMARK_RULES.version, chosen.case_id, Scored(right))
    return path


def test_runs_are_above_the_published_rows(run: Path) -> None:
    board = build_benchmark_board([run], "voicebench")
    table, others, latency = board.tables
    assert table.title == "VoiceBench"
    mine, first = table.rows[:2]
    values = dict(zip((column.title for column in table.columns), mine.cells, strict=True))
    assert values["commoneval"].value == pytest.approx(4.5)
    assert values["commoneval"].n_of_turns == "n 10 of 200"
    assert values["mmsu"].value == pytest.approx(80)
    assert values["bbh"].value is None
    assert values[OVERALL].value is None
    assert (first.source.name, first.cells[-1].value) == ("Whisper-v3-large+GPT-4o", 87.8)
    assert any(note.startswith("Published values: https://github.com/MatthewCYM") for note in table.notes)
    (warning,) = (note for note in table.notes if note.startswith("Different judges in commoneval"))
    assert "gpt-4o-mini, three times" in warning
    assert "the published rows were judged by gpt-4o-mini" in warning
    assert "your runs by gpt-x, once per item at temperature 0" in warning
    assert warning.endswith("not with the published rows.")
    guesses = "replies without a readable answer, for which the benchmark's rule guesses: mmsu 3 of 10"
    assert f"{mine.source.name} by live-eval's rule: mmsu 50.0 %; {guesses}." in table.notes
    licence = "The recordings and reference texts are VoiceBench's, under Apache-2.0."
    assert all(licence in html.unescape(render(board, form)) for form in ("html", "md", "latex", "json"))
    assert [column.title for column in others.columns] == ["mtbench"]
    assert others.title == "VoiceBench, published values not included"
    assert latency.title == "Latency, ms"


def test_other_boards_do_not_mention_echominds_paper(run: Path) -> None:
    board = build_benchmark_board([run], "voicebench")
    assert board.run_columns[-1] == "special conditions"
    assert board.runs[0].cells[-1] == "none recorded"
    for form in ("html", "md", "latex", "json"):
        text = render(board, form)
        assert "differences from the paper" not in text
        assert "The paper publishes" not in text
    echomind = render(build_board([run]), "html")
    assert "differences from the paper" in echomind
    assert "The paper publishes no latencies." in echomind


def test_runs_without_a_model_as_judge_have_no_note_on_its_judge(tmp_path: Path) -> None:
    path = tmp_path / "unjudged"
    with RunWriter.create(path, {}) as run:
        run.commit(spoken_turn(case("commoneval", 0, ScoringRule.RATING), TurnPlan(reply_text="x")))
    table, _ = build_benchmark_board([path], "voicebench").tables
    assert table.rows[0].cells[1].value is None
    assert not any("unknown model" in note or note.startswith("Different") for note in table.notes)


def test_one_part_and_whole_parts(run: Path) -> None:
    table, latency = build_benchmark_board([run], "voicebench/mmsu").tables
    assert [column.title for column in table.columns] == ["mmsu"]
    assert [len(row.cells) for row in table.rows] == [1] * 34
    assert any(note.startswith("n of N") for note in table.notes)
    assert latency.title == "Latency, ms"
    with pytest.raises(UsageError, match="got the split voicebench/mmsu/law"):
        build_benchmark_board([run], "voicebench/mmsu/law")
    with pytest.raises(UsageError, match="expected a run with items of voicebench/bbh"):
        build_benchmark_board([run], "voicebench/bbh")


def test_other_runs_are_refused_and_the_command_writes_every_format(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected a run with items of uro-bench"):
        build_benchmark_board([run], "uro-bench")
    for form in ("md", "csv", "json", "latex"):
        found = CliRunner().invoke(cli, ["leaderboard", str(run), "--data", "voicebench", "--format", form])
        assert found.exit_code == 0, found.output
        assert "Kimi-Audio" in found.stdout
    both = CliRunner().invoke(cli, ["leaderboard", str(run), "--data", "voicebench", "--all-prompts"])
    assert isinstance(both.exception, UsageError)
    page = tmp_path / "board.html"
    found = CliRunner().invoke(cli, ["leaderboard", str(run), "--data", "voicebench/mmsu", "-o", str(page)])
    assert found.exit_code == 0, found.output
    assert "Kimi-Audio" in page.read_text("utf-8")


def test_the_board_has_the_benchmarks_title_and_nothing_of_echominds(run: Path) -> None:
    board = build_benchmark_board([run], "voicebench")
    for form in ("html", "md"):
        text = render(board, form)
        assert "VoiceBench leaderboard" in text
        assert "EchoMind" not in text
        assert "Levels against each other" not in text
    rows = list(csv.DictReader(io.StringIO(render(board, "csv"))))
    judges = {row["judge_model"] for row in rows if row["published"] == "True" and row["figure"] == "bbh"}
    assert judges == {published_tables("voicebench")[0].judge}
