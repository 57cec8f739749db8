"""Recording a turn again deletes its scores, even if the process is killed at any moment."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from live_eval.errors import SchemaVersionError, StoreLockedError
from live_eval.judging import Scored
from live_eval.recording import RUN_FILE, SCORES_FILE, RunReader, RunWriter, ScoreReader, ScoreStore
from tests.support.records import spoken_turn
from tests.unit.conftest import a_case

# Commits a turn again and dies before statement 1, 2, 3, … of SQLite, each time in a copy of the run, until
# the commit comes to its end.
KILLED_AT_EVERY_STATEMENT = """
import os, shutil, sqlite3, sys
from pathlib import Path
from live_eval.recording import RunWriter
from tests.support.records import spoken_turn
from tests.unit.conftest import a_case

run, killed = Path(sys.argv[1]), Path(sys.argv[2])


def replace_turn(folder, at):
    statements = -1_000_000

    def count(_):
        nonlocal statements
        statements += 1
        if statements == at:
            os._exit(9)

    def watched(*arguments, **options):
        db = connect(*arguments, **options)
        db.set_trace_callback(count)
        return db

    connect, sqlite3.connect = sqlite3.connect, watched
    writer = RunWriter.resume(folder, ended=True)
    statements = 0
    writer.commit(spoken_turn(a_case(0), attempt=2))
    os._exit(0)


at, status = 0, 9
while status == 9:
    at += 1
    shutil.copytree(run, killed / f"{at}")
    child = os.fork()
    if not child:
        replace_turn(killed / f"{at}", at)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 0, status
"""


@pytest.fixture
def scored_run(tmp_path: Path) -> Path:
    """Write a finished and scored run of two turns."""
    path = tmp_path / "run"
    with RunWriter.create(path, {}) as run:
        for number in (0, 1):
            run.commit(spoken_turn(a_case(number)))
        run.end()
    with ScoreStore.open(path) as scores:
        for number in (0, 1):
            scores.put("bleu", "1", a_case(number).case_id, Scored({"": float(number)}))
    return path


def scored(path: Path) -> list[str]:
    with ScoreReader.open(path) as scores:
        return [row.turn_id for row in scores.read()]


def attempt_at_first(path: Path) -> int:
    with RunReader.open(path) as run:
        return run.turn(a_case(0).case_id).attempt


@pytest.mark.slow
def test_a_replaced_turn_never_has_the_scores_of_another_attempt(scored_run: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED_AT_EVERY_STATEMENT, str(scored_run), str(killed)]
    subprocess.run(command, check=True)
    first, second = (a_case(number).case_id for number in (0, 1))
    found = set()
    for path in killed.iterdir():
        attempt, still_scored = attempt_at_first(path), scored(path)
        assert second in still_scored
        found.add((attempt, first in still_scored))
    assert found == {(1, True), (1, False), (2, False)}
    assert len(list(killed.iterdir())) > 20


def test_a_run_that_is_being_scored_is_refused_before_a_turn_is_played(scored_run: Path) -> None:
    before = (scored_run / RUN_FILE).read_bytes()
    with ScoreStore.open(scored_run), pytest.raises(StoreLockedError, match="is being written by process"):
        RunWriter.resume(scored_run, ended=True)
    assert (scored_run / RUN_FILE).read_bytes() == before
    assert {path.name for path in scored_run.iterdir()} == {"audio", RUN_FILE, SCORES_FILE}
    with RunWriter.resume(scored_run, ended=True) as run:
        with pytest.raises(StoreLockedError, match="is being written by process"):
            ScoreStore.open(scored_run)
        run.end()
    ScoreStore.open(scored_run).close()


def test_scores_of_another_version_are_refused_before_a_turn_is_played(scored_run: Path) -> None:
    with closing(sqlite3.connect(scored_run / SCORES_FILE)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaVersionError, match="got 99"):
        RunWriter.resume(scored_run, ended=True)


def test_a_turn_that_is_replaced_without_a_resumption_loses_its_scores_too(tmp_path: Path) -> None:
    first = a_case(0).case_id
    with RunWriter.create(tmp_path, {}) as run:
        run.commit(spoken_turn(a_case(0)))
        with ScoreStore.open(tmp_path) as scores:
            scores.put("bleu", "1", first, Scored({"": 1.0}))
            with pytest.raises(StoreLockedError):
                run.commit(spoken_turn(a_case(0), attempt=2))
        assert (attempt_at_first(tmp_path), scored(tmp_path)) == (1, [first])
        run.commit(spoken_turn(a_case(0), attempt=2))
        assert (attempt_at_first(tmp_path), scored(tmp_path)) == (2, [])
        run.end()
    ScoreStore.open(tmp_path).close()
