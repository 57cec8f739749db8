"""Untrusted databases: reading terminates and changes nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.errors import StoreError
from live_eval.judging import Unscored
from live_eval.recording import RUN_FILE, SCORES_FILE, RunReader, RunWriter, ScoreReader, ScoreStore
from live_eval.studio.library import Library
from live_eval.studio.runs_api import folder_facts
from tests.support.records import spoken_turn
from tests.unit.conftest import MANIFEST, a_case

PAGE = 4096
CHILDREN, LEVELS = 200, 16


def tangled(database: Path, table: str) -> None:
    """Make each page of a table refer 200 times to the next one, 16 levels deep."""
    with closing(sqlite3.connect(database)) as db:
        [root] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    pages = bytearray(database.read_bytes())
    leaf = bytes(pages[(root - 1) * PAGE : root * PAGE])
    assert leaf[0] == 13, "a leaf with all rows"
    first = len(pages) // PAGE + 1
    for page, child in zip(
        (root, *range(first, first + LEVELS)), range(first, first + LEVELS + 1), strict=True
    ):
        cell = struct.pack(">I", child) + b"\x7f"
        places = [PAGE - len(cell) * (number + 1) for number in range(CHILDREN)]
        head = struct.pack(">BHHHBI", 5, 0, CHILDREN, places[-1], 0, child)
        made = head + struct.pack(f">{CHILDREN}H", *places)
        made = made.ljust(places[-1], b"\0") + cell * CHILDREN
        pages[(page - 1) * PAGE : page * PAGE] = made
    pages += leaf
    pages[28:32] = struct.pack(">I", len(pages) // PAGE)
    pages[24:28] = pages[92:96]  # so that the length in the header counts
    database.write_bytes(pages)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and modification time of everything in a folder."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in [folder, *folder.rglob("*")]
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one turn, with one score."""
    folder = tmp_path / "runs" / "one"
    with RunWriter.create(folder, MANIFEST) as writer:
        writer.commit(spoken_turn(a_case(0)))
        writer.end()
    ScoreStore.open(folder).close()
    return folder


@pytest.mark.timeout(30)
@pytest.mark.parametrize("table", ["run", "turns"])
def test_a_list_of_runs_names_one_without_end_and_continues(
    run: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr("live_eval.recording._database._STATEMENT_STEPS", 1_000_000)
    shutil.copytree(run, run.parent / "bad")
    tangled(run.parent / "bad" / RUN_FILE, table)
    listed = CliRunner().invoke(cli, ["runs", "list", str(run.parent)])
    assert listed.exit_code == 0, listed.output
    assert "1 of 26" in listed.stdout, "the other run"
    assert f"bad/{RUN_FILE}" in listed.stderr
    assert "it is damaged: delete it" in listed.stderr
    problems = {
        folder.path.name: folder_facts(folder)["problem"] for folder in Library([run.parent]).folders()
    }
    assert problems["one"] is None
    assert "it is damaged: delete it" in problems["bad"]
    assert CliRunner().invoke(cli, ["show", str(run.parent / "bad")]).exit_code == 1


def test_a_statement_returns_no_more_than_its_file_contains(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.recording._database._STATEMENT_STEPS", 10**12)
    tangled(run / RUN_FILE, "run")
    with pytest.raises(StoreError, match="a query returned more data than the file contains"):
        RunReader.open(run)


KILLED = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("INSERT INTO scores VALUES (7, 'bleu', '1', 'late', 'scored', '{}', '', '{}')")
if sys.argv[2] == "empty":
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
os._exit(9)
"""


def in_wal_mode(run: Path, ended: str) -> None:
    """Add a score, and leave the database in WAL mode."""
    file = run / SCORES_FILE
    subprocess.run([sys.executable, "-c", KILLED, file, ended], check=False)
    assert (run / f"{SCORES_FILE}-shm").exists()
    if ended == "closed":
        with closing(sqlite3.connect(file)) as db:
            db.execute("SELECT 1 FROM scores")
        assert not (run / f"{SCORES_FILE}-wal").exists()
    elif ended != "killed":
        (run / f"{SCORES_FILE}-shm").unlink()


@pytest.mark.parametrize("ended", ["killed", "closed", "empty", "moved"])
def test_what_reads_runs_leaves_their_folders_as_they_were(run: Path, tmp_path: Path, ended: str) -> None:
    in_wal_mode(run, ended)
    shutil.copy(run / SCORES_FILE, tmp_path / "kept")
    before = listing(run.parent)
    with ScoreReader.open(run) as scores:
        assert [row.turn_id for row in scores.read()] == ["late"]
        assert [row.turn_id for row in scores.read()] == ["late"], "from the same connection"
    for arguments in (
        ["runs", "list", run.parent],
        ["runs", "gc", "--dry-run", run],
        ["show", run],
        ["report", run, "-o", tmp_path / "report.html"],
        ["export", run, "--format", "jsonl", "-o", tmp_path / "out.jsonl"],
    ):
        done = CliRunner().invoke(cli, list(map(str, arguments)))
        assert done.exit_code == 0, done.output
        assert listing(run.parent) == before, arguments


@pytest.mark.parametrize("ended", ["killed", "closed", "empty", "moved"])
def test_the_writer_continues_what_was_left_in_wal_mode(run: Path, ended: str) -> None:
    in_wal_mode(run, ended)
    with ScoreReader.open(run) as reader:
        assert [row.turn_id for row in reader.read()] == ["late"]
    with ScoreStore.open(run) as store:
        store.put("bleu", "1", "later", Unscored("no reference text"))
    with ScoreReader.open(run) as reader:
        assert [row.turn_id for row in reader.read()] == ["late", "later"]
    assert sorted(path.name for path in run.glob("scores*")) == [SCORES_FILE]


@pytest.mark.parametrize("size", [3 << 30, 1 << 40])
def test_a_private_copy_has_the_holes_of_its_source(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    in_wal_mode(run, "moved")
    with (run / SCORES_FILE).open("rb+") as file:
        file.truncate(size)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ScoreReader.open(run) as scores:
        assert [row.turn_id for row in scores.read()] == ["late"]
    monkeypatch.setattr("live_eval.recording._database._MAX_COPIED_BYTES", 4096)
    with pytest.raises(StoreError, match=rf"{SCORES_FILE} is too large to copy: the limit is 0 GiB"):
        ScoreReader.open(run)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"], "no copies"


def test_the_files_next_to_a_linked_database_are_checked(run: Path) -> None:
    (run / SCORES_FILE).rename(run / "other.sqlite")
    (run / SCORES_FILE).symlink_to("other.sqlite")
    os.mkfifo(run / "other.sqlite-journal")
    for opened in (ScoreReader.open, ScoreStore.open):
        with pytest.raises(StoreError, match=r"other\.sqlite-journal: expected a file, found a pipe"):
            opened(run)
