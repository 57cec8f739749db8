"""``live-eval leaderboard`` in the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli


def test_the_tables_are_printed_with_intervals_and_published_rows(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["leaderboard", str(run_folder)])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    [heading] = [place for place, line in enumerate(lines) if line == "Response: text"]
    assert lines[heading + 1].split()[:3] == ["model", "BLEU", "ROUGE-L"]
    ours, low, high, published = lines[heading + 2 : heading + 6]
    assert low.startswith("  95 % interval from ")
    assert high.startswith("  to ")
    assert published.split() == ["published:"]

    from_, to = low.removeprefix("  95 % interval from"), high.removeprefix("  to")
    assert float(from_.split()[0]) < float(to.split()[0])
    assert ours.strip()
    assert lines[heading + 6].startswith("GPT-4o-Audio ")
    assert (tmp_path / "leaderboard.html").exists()
