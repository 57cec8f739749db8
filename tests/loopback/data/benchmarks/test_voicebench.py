"""A part of VoiceBench, in its exact layout, from the command line to the scores."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.data.benchmarks import BENCHMARKS, FOLDER_VARIABLE, voicebench
from live_eval.recording import RunReader
from tests.support.benchmarks import voicebench_part

QUESTION = "What falls from clouds?\nA. rain\nB. stones\nC. paper\nD. sand"


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def invoke(*arguments: str) -> str:
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.slow
def test_a_part_is_run_over_the_reference_endpoint_and_scored(tmp_path: Path) -> None:
    assert BENCHMARKS["voicebench"].loader.startswith(voicebench.__name__)
    rows = [{"prompt": QUESTION, "reference": "A"}, {"prompt": QUESTION, "reference": "B"}]
    folder = voicebench_part(tmp_path / "vb", "openbookqa", rows)
    invoke("data", "add", "voicebench", "--path", str(folder))
    out = tmp_path / "run"
    invoke("run", "reference", "--data", "voicebench/openbookqa", "--out", str(out), "--word-times", "off")
    with RunReader.open(out) as run:
        turns = list(run.turns())
        assert "under Apache-2.0" in run.manifest["data"]["licence"]
    assert [turn.case.item.answer for turn in turns if turn.case.item] == ["A", "B"]
    assert all(turn.captured for turn in turns)
    part = json.loads(invoke("show", str(out), "--json"))["tasks"]["benchmark"]["parts"]["openbookqa"]
    assert (part["items"], part["official"]["n"], part["unscored"]) == (2, 2, 0)
    shown = invoke("show", str(out))
    assert "openbookqa" in shown
    assert "VoiceBench's, under Apache-2.0" in shown
    assert "s, under Apache-2.0" in (out / "report.html").read_text("utf-8")
