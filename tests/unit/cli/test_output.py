"""Output files and streams of commands, and errors when writing fails."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
import warnings
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from live_eval.cli import cli, main
from live_eval.cli._run_command import _prompt_notes
from live_eval.errors import StoreError, UsageError
from live_eval.recording import RunWriter
from live_eval.run.plan import make_plan
from live_eval.run.run_file import validate


@pytest.mark.parametrize(
    ("command", "first_line"),
    [
        (["report"], "<!DOCTYPE html>"),
        (["report", "--format", "csv"], "run,figure,value"),
        (["leaderboard"], "<!DOCTYPE html>"),
        (["export", "--to", "csv"], "turn_id,captured,"),
    ],
)
def test_a_dash_is_standard_output(
    command: list[str], first_line: str, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, [*command, str(run_folder), "-o", "-"], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].startswith(first_line)
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "first_lines"),
    [
        (
            "report",
            {"a.html": "<!DOCTYPE html>", "a.md": "# first", "a.csv": "run,figure,value", "a.json": "{"},
        ),
        (
            "leaderboard",
            {"a.HTM": "<!DOCTYPE html>", "a.md": "# Echo", "a.csv": "table,model,", "a.tex": "% Requires"},
        ),
        ("export", {"a.csv": "turn_id,captured,", "a.jsonl": "{", "a.ndjson": "{", "without": "{"}),
    ],
)
def test_the_name_of_the_file_decides_the_format_unless_the_flag_does(
    command: str, first_lines: dict[str, str], run_folder: Path, tmp_path: Path
) -> None:
    def first_line(file: Path, *flags: str) -> str:
        done = CliRunner().invoke(
            cli, [command, str(run_folder), "-o", str(file), *flags], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        return file.read_text("utf-8").splitlines()[0]

    for name, begins in first_lines.items():
        assert first_line(tmp_path / name).startswith(begins)
    assert first_line(tmp_path / "b.txt", "--format", "csv").startswith(first_lines["a.csv"])
    with pytest.raises(UsageError, match=r"c\.xls: unknown suffix \.xls, expected one of \.\w+, .*\.csv"):
        first_line(tmp_path / "c.xls")
    assert not (tmp_path / "c.xls").exists()


def test_old_names_of_flags_still_do(run_folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["export", str(run_folder), "--to", "csv"], catch_exceptions=False)
    assert done.stdout.startswith("turn_id,captured,")


@pytest.mark.parametrize("base_url", ["ws://u:SECRET#@HOST", "ws://u:SECRET@[bad", "ftp://u:SECRET@HOST/v1"])
def test_an_invalid_base_url_is_reported_without_its_login(
    base_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    with pytest.raises(SystemExit) as end:
        main(["run", "--endpoint", "openai", "--base-url", base_url, "--out", str(tmp_path / "run")])
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert ": expected an address such as" in told
    assert "SECRET" not in told
    assert not (tmp_path / "run").exists()


def test_a_traceback_shows_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "quiet-4711")

    def broken(**_: object) -> None:
        warnings.warn("warned of quiet-4711", UserWarning, stacklevel=1)
        logging.getLogger("x").warning("logged quiet-4711")
        click.echo("printed quiet-4711")
        raise ValueError("raised for quiet-4711")

    monkeypatch.setattr(cli, "main", broken)
    with pytest.warns(UserWarning, match="of quiet"), pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 1
    told = capsys.readouterr()
    assert "quiet-4711" not in told.out + told.err
    assert "printed ***" in told.out
    assert "ValueError: raised for ***" in told.err


def shell(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run live-eval as a shell does, with the shell's own redirections."""
    script = f'"$@" {command}'
    program = [sys.executable, "-m", "live_eval", *arguments]
    return subprocess.run(
        ["sh", "-c", script, "sh", *program], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [["show", "--json"], pytest.param(["export"], marks=pytest.mark.slow)])
def test_a_full_disk_is_one_line(command: list[str], run_folder: Path) -> None:
    done = shell("> /dev/full", *command, str(run_folder))
    assert done.stderr == "error: cannot write output: No space left on device\n"
    assert done.returncode == 1


def test_an_early_interrupt_has_the_status_of_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("live_eval.cli._run_command.make_plan", interrupted)
    done = CliRunner().invoke(cli, ["run", "reference"])
    assert (done.exit_code, done.stderr) == (130, "Interrupted.\n")


@pytest.mark.parametrize(
    ("stop", "status", "said"),
    [
        (
            StoreError("RUN: cannot store turn 'x': [Errno 28] No space left on device"),
            None,
            "kept. To continue",
        ),
        (KeyboardInterrupt(), 130, "Interrupted. To continue"),
    ],
)
def test_a_stopped_run_explains_how_to_continue(
    stop: BaseException, status: int | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(coroutine: Coroutine[Any, Any, Any]) -> None:
        coroutine.close()
        raise stop

    monkeypatch.setattr("live_eval.cli._run_command.run_loop", stopped)
    out = tmp_path / "run"
    done = CliRunner().invoke(cli, ["run", "reference", "--limit", "1", "--out", str(out)])
    message = done.stderr if status is not None else str(done.exception)
    assert f"{said}, rerun with --out {out} --resume" in message
    assert done.exit_code == (status or 1)
    RunWriter.resume(out).close()


def test_standard_output_that_is_closed_is_one_line(run_folder: Path) -> None:
    done = shell(">&-", "export", str(run_folder))
    assert done.stderr == "error: standard output is closed; redirect it to /dev/null to discard output\n"
    assert done.returncode == 2


def test_a_reader_that_closes_early_is_not_an_error(run_folder: Path) -> None:
    done = shell("| true", "show", str(run_folder))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_of_several_runs_is_next_to_the_first_and_keeps_their_own(
    run_folder: Path, slower_run_folder: Path, tmp_path: Path
) -> None:
    runs = [
        shutil.copytree(run_folder, tmp_path / "runs" / "a"),
        shutil.copytree(slower_run_folder, tmp_path / "b"),
        shutil.copytree(slower_run_folder, tmp_path / "c"),
    ]
    for some, name in ((runs[:2], "report-a-b.html"), (runs, "report-a-b-and-1-more.html")):
        arguments = ["report", *map(str, some), "--audio-mb", "0"]
        done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        page = tmp_path / "runs" / name
        assert done.stderr == f"report: {page}\n"
        assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not any((run / "report.html").exists() for run in runs)


def test_scores_missing_from_the_page_are_noted(run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    hint = f"live-eval report {run}\n"
    done = CliRunner().invoke(cli, ["score", str(run), "--judges", "bleu", "--json"])
    assert not done.stderr.endswith(hint)
    (run / "report.html").write_text("old")
    done = CliRunner().invoke(cli, ["score", str(run), "--judges", "bleu", "--json"])
    assert done.stderr.endswith(f"{run / 'report.html'} may not show these scores yet; to update it: {hint}")


@pytest.mark.parametrize(
    ("task", "prompt", "notes"),
    [
        ("understanding", "upper-bound", ["upper-bound"]),
        ("understanding", "no", []),
        ("all", "upper-bound", []),
        ("conversation", "basic", []),
    ],
)
def test_a_prompt_that_no_session_receives_is_noted(task: str, prompt: str, notes: list[str]) -> None:
    plan = make_plan(validate({"data": {"path": "sample"}, "task": {"name": task, "prompt": prompt}}))
    words = [f"the prompt {name} is used only in conversations, not in the task {task}" for name in notes]
    assert list(_prompt_notes(plan)) == words
