"""``live-eval leaderboard`` in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.cli.leaderboard import _with_other_prompts
from live_eval.recording import RunWriter


def test_the_tables_are_printed_with_intervals_and_published_rows(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["leaderboard", str(run_folder)])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    [heading] = [place for place, line in enumerate(lines) if line == "Response: text"]
    assert lines[heading + 1].split()[:5] == ["model", "BLEU", "↑", "ROUGE-L", "↑"]
    ours, low, high, n, published = lines[heading + 2 : heading + 7]
    assert low.startswith("  95 % interval from ")
    assert high.startswith("  to ")
    assert n.split()[:3] == ["n", "19", "of"]
    assert published.split() == ["published:"]

    from_, to = low.removeprefix("  95 % interval from"), high.removeprefix("  to")
    assert float(from_.split()[0]) < float(to.split()[0])
    assert ours.strip()
    assert lines[heading + 7].startswith("GPT-4o-Audio ")
    [runs] = [place for place, line in enumerate(lines) if line == "Runs"]
    assert lines[runs + 1].startswith(f"run 1; folder {run_folder.name}; endpoint ")
    assert "; differences from the paper " in lines[runs + 1]
    assert (tmp_path / "leaderboard.html").exists()


def test_one_run_of_a_preset_brings_its_other_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stored(name: str, prompt: str, preset: str = "echomind") -> Path:
        manifest = {"preset": preset, "config": {"task": {"prompt": prompt}}}
        RunWriter.create(tmp_path / name, manifest).end()
        return tmp_path / name

    first, newest = stored("paper-no", "no"), stored("paper-enhance", "enhance")
    stored("paper-basic", "basic", preset="")
    assert _with_other_prompts(newest) == (first, newest)
    assert f"note: all prompts of --preset echomind: {first}, {newest}" in capsys.readouterr().err
    alone = stored("mine", "no")
    assert _with_other_prompts(alone) == (alone,)
    assert capsys.readouterr().err == ""
