"""A run that is interrupted on the command line and resumed."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.helpers import LIVE_EVAL, live_eval, shown

pytest.importorskip("faster_whisper", reason="needs the extra `local`")
pytest.importorskip("hibari", reason="needs the extra `local`")
pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]


@pytest.mark.slow
def test_ctrl_c_ends_cleanly_and_resume_continues(tmp_path: Path) -> None:
    out = tmp_path / "run"
    usual = ("--limit", "5", "--word-times", "off", "--judges", "none", "--no-report")
    command = ["run", "reference", *usual, "--concurrency", "1", "--out", str(out)]
    process = subprocess.Popen([*LIVE_EVAL, *command], stderr=subprocess.PIPE, text=True)
    database = out / "run.sqlite"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (database.exists() and shown(out)["turns"]["captured"] >= 1):
        time.sleep(1)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "--resume" in said
    captured = shown(out)["turns"]["captured"]
    assert 1 <= captured < 5
    live_eval(*command, "--resume", "--concurrency", "4")  # the later one counts
    assert shown(out)["turns"].items() >= {"total": 5, "captured": 5, "failed": 0}.items()
