"""Runs killed at random times lose no turn; `benchmarks/kill_runs.py` repeats this many times."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILL_RUNS = Path(__file__).parents[2] / "benchmarks/kill_runs.py"


@pytest.mark.parametrize("repairs", ["0", "1"])
def test_killed_runs_neither_lose_nor_repeat_turns(repairs: str) -> None:
    command = [sys.executable, str(KILL_RUNS), "--kills", "5", "--seed", "5", "--repairs", repairs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, doubled 0, different 0, orphans 0" in done.stdout
