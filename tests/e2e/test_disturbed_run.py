"""A run continues or can be resumed after interference by users, disks and other programs."""

import contextlib
import os
import resource
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.disturbed import commanding, endpoint, recorded, run_arguments, speech, until
from tests.e2e.helpers import live_eval

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform == "win32", reason="signals and limits are POSIX"),
]

TURNS = 6


def test_a_suspended_run_continues(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with endpoint(tmp_path) as one:
        with commanding(*run_arguments(one.base_url, speech(tmp_path, TURNS), out)) as run:
            for turns in (2, 4):
                until(lambda turns=turns: recorded(out)[0] >= turns)  # type: ignore[misc]
                run.signal(signal.SIGSTOP)
                time.sleep(3)
                run.signal(signal.SIGCONT)
            status, said = run.end()
        assert status == 0, said
    assert recorded(out) == (TURNS, TURNS)


def test_a_run_on_a_full_disk_stops_with_a_message_and_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "run"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))

    with endpoint(tmp_path) as one:
        arguments = run_arguments(one.base_url, speech(tmp_path, TURNS), out)
        with commanding(*arguments, before=little_room) as run:
            status, said = run.end()
        assert status == 2, said
        assert "--resume" in said
        before = recorded(out)[0]
        assert before < TURNS
        live_eval(*arguments, "--resume")
    assert recorded(out) == (TURNS, TURNS)


def test_a_run_waits_for_a_program_that_locks_its_database(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with endpoint(tmp_path) as one:
        with commanding(*run_arguments(one.base_url, speech(tmp_path, TURNS), out)) as run:
            until(lambda: recorded(out)[0] >= 2)
            with contextlib.closing(sqlite3.connect(out / "run.sqlite", isolation_level=None)) as db:
                db.execute("PRAGMA busy_timeout = 10000")
                db.execute("BEGIN IMMEDIATE")
                time.sleep(4)
                db.execute("ROLLBACK")
            status, said = run.end()
        assert status == 0, said
    assert recorded(out) == (TURNS, TURNS)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused_before_the_first_turn(tmp_path: Path) -> None:
    manifest = speech(tmp_path, 1)
    tmp_path.chmod(0o500)
    try:
        with commanding(*run_arguments("ws://127.0.0.1:9/v1", manifest, tmp_path / "run")) as run:
            status, said = run.end()
    finally:
        tmp_path.chmod(0o700)
    assert status == 2
    assert "as a run folder" in said
