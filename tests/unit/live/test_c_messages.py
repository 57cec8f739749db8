"""Suppression of messages from C libraries."""

import ctypes
import os
import subprocess
import sys

import pytest

from live_eval.live.c_messages import no_c_messages

libc = ctypes.CDLL(None) if sys.platform == "linux" else None
pytestmark = pytest.mark.skipif(not hasattr(libc, "gnu_get_libc_version"), reason="needs glibc")


def say_in_c(text: str) -> None:
    assert libc is not None
    libc.fputs(text.encode(), ctypes.c_void_p.in_dll(libc, "stderr"))


def test_only_messages_of_c_libraries_are_discarded(capfd: pytest.CaptureFixture[str]) -> None:
    with no_c_messages():
        say_in_c("ALSA lib pcm.c: underrun occurred\n")
        sys.stderr.write("of Python\n")
        sys.stderr.flush()
        os.write(2, b"of the descriptor\n")
        subprocess.run(["sh", "-c", "echo of a child >&2"], check=True)
    say_in_c("of C, afterwards\n")
    assert sorted(capfd.readouterr().err.splitlines()) == [
        "of C, afterwards",
        "of Python",
        "of a child",
        "of the descriptor",
    ]


def test_messages_of_c_are_restored_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError, match="gone"), no_c_messages():
        raise OSError("gone")
    say_in_c("still here")
    assert capfd.readouterr().err == "still here"
