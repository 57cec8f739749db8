"""Ctrl-C ends the process while foreign code keeps Python from handling it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BLOCKED = """
import ctypes, os, signal, threading
from live_eval.cluster import prompt_exit
from live_eval.run.stop_signals import StopSignals

prompt_exit._GRACE_S = 0.1
with StopSignals(), prompt_exit.prompt_exit():
    threading.Timer(0.2, os.kill, (os.getpid(), signal.{number})).start()
    {wait}
"""
IN_C = "c = ctypes.CDLL(None); m = ctypes.create_string_buffer(64); [c.pthread_mutex_lock(m) for _ in 'ab']"
IN_PYTHON = "threading.Event().wait(60)"


@pytest.mark.skipif(sys.platform != "linux", reason="locks a mutex of the C library twice")
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("wait", [IN_C, IN_PYTHON], ids=["in C", "in Python"])
def test_a_signal_ends_the_process_even_if_it_does_not_return_to_python(number: str, wait: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(number=number, wait=wait)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")


def test_without_a_signal_the_process_continues() -> None:
    code = "from live_eval.cluster.prompt_exit import prompt_exit\nwith prompt_exit(): pass\nprint('on')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "on\n"
