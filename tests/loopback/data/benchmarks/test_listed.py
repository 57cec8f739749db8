"""Parts of a benchmark that lists its items, from the command line to the scores."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.data.benchmarks import BENCHMARKS, FOLDER_VARIABLE, listed
from tests.support.benchmarks import listed_part, recordings_below


def invoke(*arguments: str) -> str:
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.slow
def test_a_repetition_and_a_rated_item_are_run_and_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec = BENCHMARKS["uro-bench"]
    assert spec.loader.startswith(listed.__name__)
    row = {"source_wav": "0.wav", "source_text": "I see. Please tell me more."}
    listed_part(spec, tmp_path / "uro", "Repeat", [row])
    listed_part(spec, tmp_path / "uro", "UnderEmotion-en", [row | {"target_text": "Oh.", "emotion": "sad"}])
    recordings_below(tmp_path / "uro", "basic/Repeat/0.wav", "pro/UnderEmotion-en/0.wav")
    invoke("data", "add", "uro-bench", "--path", str(tmp_path / "uro"))
    out = tmp_path / "run"
    invoke("run", "reference", "--data", "uro-bench", "--out", str(out), "--word-times", "off")
    parts = json.loads(invoke("show", str(out), "--json"))["tasks"]["benchmark"]["parts"]
    assert parts["Repeat"]["official"]["n"] == 1
    assert parts["Repeat"]["rule"] == "repetition"
    assert parts["UnderEmotion-en"]["rule"] == "guided rating"
    assert "URO-Bench's fields" in invoke("data", "check", "uro-bench")
