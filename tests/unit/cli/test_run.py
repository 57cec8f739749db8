"""``live-eval run`` checks its judges before the first turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval import registry
from live_eval.cli import cli
from live_eval.cli.run import _with_able_judges
from live_eval.errors import UsageError
from live_eval.run.run_file import validate


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)


def test_a_named_judge_without_its_key_stops_the_run_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["run", "reference", "--judges", "bleu,ves"])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).splitlines()[1:] == ["  ves: key in GEMINI_API_KEY"]
    assert not (tmp_path / "recordings").exists()


def test_a_default_judge_without_its_key_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    config = validate({"judges": {"names": ["bleu", "ves"]}})
    specs = [registry.judge(name) for name in config.judges.names]
    assert _with_able_judges(config, specs, named=False).judges.names == ("bleu",)
    assert capsys.readouterr().err == (
        "note: judges left out, because something is missing here: ves (key in GEMINI_API_KEY)\n"
    )
