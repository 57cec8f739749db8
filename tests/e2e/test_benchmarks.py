"""Each benchmark starts from the root of the project, as the documentation runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted(path.name for path in (ROOT / "benchmarks").glob("[a-z]*.py"))


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"benchmarks/{name}", *arguments]
    environment = {**os.environ, "PYTHONPATH": ""}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_describes_a_benchmark(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0, done.stderr
    described = (ROOT / "benchmarks" / name).read_text("utf-8").partition("\n")[0].strip('"')
    assert described in done.stdout


def test_an_error_is_one_line() -> None:
    done = run("calibration.py", "unknown-client", "--turns", "1")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
