"""A short soak: no turn fails, no file stays open, and memory stays flat; `make soak` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# Memory varies by megabytes, which is a lot for so few turns; a leaked session takes at least 60 kB.
GROWTH_KB = "20"
SOAK = Path(__file__).parents[2] / "benchmarks/soak.py"


@pytest.mark.parametrize(
    ("endpoint", "turns", "sessions"), [("reference", 2_000, 50), ("openai-webrtc", 400, 10)]
)
def test_a_soak_releases_all_resources(endpoint: str, turns: int, sessions: int, tmp_path: Path) -> None:
    rows = tmp_path / "soak.csv"
    command = [sys.executable, str(SOAK), endpoint, "--turns", str(turns), "--sessions", str(sessions)]
    command += ["--growth-kb", GROWTH_KB, "--out", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{turns} turns: 0 failed" in done.stdout
    assert "0 files left open" in done.stdout
    assert rows.read_text("utf-8").splitlines()[-1].split(",")[2] == str(turns)
