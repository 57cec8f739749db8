"""A run's metrics in the terminal and as JSON."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console

from live_eval.analysis.summary.run_summary import summarise
from live_eval.cli import cli
from live_eval.cli.show import print_summary
from live_eval.judging import Scored
from live_eval.recording import SCORES_FILE, RunReader, RunWriter, ScoreStore
from tests.support.records import spoken_turn
from tests.unit.conftest import a_case


def test_show_cuts_no_name(tmp_path: Path) -> None:
    name = "a_judge_of_one_thing_or_another.with_an_output_whose_name_is_as_long_as_a_line_of_the_terminal_is"
    judge, _, output = name.partition(".")
    with RunWriter.create(tmp_path / "run", {}) as run:
        run.commit(spoken_turn(a_case(0)))
        run.end(finished=True)
    with ScoreStore.open(tmp_path / "run") as scores:
        scores.put(judge, "1", a_case(0).case_id, Scored({output: 1.0}))
    piped = CliRunner().invoke(cli, ["show", str(tmp_path / "run")], catch_exceptions=False)
    assert any(line.startswith(name) for line in piped.stdout.splitlines())
    console = Console(file=io.StringIO(), width=80)
    with RunReader.open(tmp_path / "run") as reader:
        print_summary(summarise(reader), console=console)
    file = console.file
    assert isinstance(file, io.StringIO)
    text = file.getvalue()
    assert "…" not in text
    assert name in "".join(text.split())


def test_show_prints_json_that_is_stable(run_folder: Path) -> None:
    done = CliRunner().invoke(cli, ["show", str(run_folder), "--json"], catch_exceptions=False)
    told = json.loads(done.stdout)
    assert told["turns"]["total"] == told["turns"]["captured"] + told["turns"]["failed"] == 24
    again = CliRunner().invoke(cli, ["show", str(run_folder), "--json", "--retime"], catch_exceptions=False)
    assert json.loads(again.stdout) == told


def test_show_prints_what_matters(run_folder: Path) -> None:
    console = Console(file=io.StringIO(), width=120)
    with RunReader.open(run_folder) as run:
        print_summary(summarise(run), console=console)
    file = console.file
    assert isinstance(file, io.StringIO)
    text = file.getvalue()
    for told in (
        "22 of 24 turns captured, 2 failed: no_response 1, closed 1",
        "retried attempts: rate_limited 1",
        "voice to voice",
        "1 turn with a lag above 20 ms",
        "ves could not run: needs the key GEMINI_API_KEY",
        "dnsmos.ovrl",
    ):
        assert told in text
    assert "barge in stop" not in text


def test_show_of_a_folder_with_runs_names_one(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "mine", {}).end()
    done = CliRunner().invoke(cli, ["show", str(tmp_path)])
    assert f"expected a run folder, got a folder with 1 run, such as {tmp_path / 'mine'}" in done.stderr


def test_commands_use_the_turns_of_a_run_with_damaged_scores(run_folder: Path, tmp_path: Path) -> None:
    damaged, sound = tmp_path / "damaged", tmp_path / "sound"
    for copy in (damaged, sound):
        shutil.copytree(run_folder, copy)
    (damaged / SCORES_FILE).write_bytes(b"no database" * 100)

    def output_of(*arguments: str | Path) -> tuple[str, str]:
        done = CliRunner().invoke(cli, list(map(str, arguments)))
        words = " ".join(f"{done.stdout} {done.stderr} {done.exception}".split())
        assert (
            f"to score again, delete {SCORES_FILE} in the run folder, and run live-eval score damaged"
            in words
        )
        return done.stdout, words

    assert "22 of 24 turns captured" in output_of("show", damaged)[0]
    shown = json.loads(output_of("show", damaged, "--json")[0])
    assert (shown["turns"]["captured"], shown["scores"]) == (22, {})
    assert output_of("export", damaged, "--format", "jsonl")[0].count("\n") == 24
    assert "not compared: missing from damaged" in output_of("compare", sound, damaged)[1]
    output_of("compare", damaged, sound, "--metric", "bleu")
    output_of("leaderboard", damaged, "--json")
    output_of("cue-sensitivity", damaged, "--words")
