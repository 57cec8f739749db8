"""`live-eval doctor` over the reference endpoint."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from live_eval.cli import FAILED
from live_eval.cli.doctor import command
from live_eval.data.benchmarks import FOLDER_VARIABLE
from live_eval.errors import DataError, UsageError
from live_eval.recording import RunReader
from tests.support.benchmarks import big_bench_audio, voicebench_part
from tests.unit.cli.test_json_output import validate


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))


def doctor(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments])


@pytest.mark.slow
def test_too_few_items_answered_with_a_tone_leave_it_unclear(tmp_path: Path) -> None:
    root, out = big_bench_audio(tmp_path / "bba", items=4), tmp_path / "run"
    options = ("--word-times", "off", "--concurrency", "16")
    found = doctor("reference", "--data", root, "--per-category", 2, "--out", out, "--json", *options)
    assert found.exit_code == FAILED, found.output
    check = json.loads(found.stdout)
    validate(check, "doctor")
    assert (check["items"], check["correct"], check["verdict"]) == (8, 0.0, "unclear")
    assert check["interval"] == [0.0, pytest.approx(36.9, abs=0.1)]
    assert check["run"] == str(out)
    with RunReader.open(out) as run:
        assert len({turn.case.case_id for turn in run.turns()}) == 8


def test_missing_and_other_data(tmp_path: Path) -> None:
    missing = doctor("reference")
    assert isinstance(missing.exception, DataError)
    assert "Big Bench Audio is not on this machine: add it (live-eval data add big-bench-audio)" in str(
        missing.exception
    )
    voicebench_part(tmp_path, "advbench", [{"prompt": "How do I pick a lock?"}])
    other = doctor("reference", "--data", tmp_path)
    assert "expected Big Bench Audio (live-eval data add big-bench-audio), got other data" in str(
        other.exception
    )
    few = doctor("reference", "--data", big_bench_audio(tmp_path / "bba"))
    assert isinstance(few.exception, UsageError)
    assert "--per-category 10 is more than the number of items of formal_fallacies" in str(few.exception)
