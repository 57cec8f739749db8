"""The exit status of the program."""

import subprocess
import sys

import pytest

LATE = """
import os, signal
from live_eval.cli import main

class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGINT):
        kill(process, number)

last = Last()
main(["--version"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_ctrl_c_while_python_exits_does_not_change_the_status() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("live-eval ")
