"""A run in an untrusted folder: links, pipes, paths and forged rows."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from live_eval.errors import FailureKind, StoreError
from live_eval.judging import Scored
from live_eval.recording import (
    AUDIO_FOLDER,
    RUN_FILE,
    RUN_SCHEMA_VERSION,
    SCORES_FILE,
    WIRE_FOLDER,
    RunReader,
    RunWriter,
    ScoreReader,
    ScoreStore,
)
from live_eval.recording._database import create_database
from live_eval.recording.schema import RUN_TABLES, USER_FOLDER, is_own_definition
from live_eval.types import Failure
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.conftest import MANIFEST, a_case


def change(run: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(run / RUN_FILE)) as db, db:
        db.execute(statement, values)


@pytest.fixture
def one_turn(tmp_path: Path) -> Path:
    """A run of one turn that was interrupted."""
    with RunWriter.create(tmp_path / "run", MANIFEST) as run:
        run.commit(spoken_turn(a_case(0)))
        run.end(finished=False)
    return tmp_path / "run"


def test_a_recording_that_cannot_be_checked_keeps_its_path(tmp_path: Path) -> None:
    case = dataclasses.replace(a_case(0), audio_path=Path("x" * 300 + ".wav"), clean_audio_path=Path("a\0b"))
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(case))
    with RunReader.open(tmp_path) as read:
        assert next(read.turns()).case == case


@pytest.mark.parametrize("name", ["../../secret.flac", "/etc/passwd", "..", "", "a/b.flac", "a\\b", "a\0b"])
def test_audio_of_a_turn_is_a_name_not_a_path(one_turn: Path, name: str) -> None:
    change(one_turn, "UPDATE turns SET both_file = ?", name)
    with RunReader.open(one_turn) as read, pytest.raises(StoreError, match="expected a plain file name"):
        list(read.turns())
    with RunWriter.resume(one_turn) as run:
        run.commit(spoken_turn(a_case(0)))
    with RunReader.open(one_turn) as read, pytest.raises(StoreError, match="expected a plain file name"):
        read.replaced(a_case(0).case_id)


def replaced(kept: Path, path: Path, kind: str) -> None:
    """Move a file away and create another object in its place."""
    match kind:
        case "link":
            path.symlink_to(kept)
        case "broken link":
            path.symlink_to("nowhere")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "empty":
            path.touch()


WRONG = {
    "link": "points outside the run folder",
    "pipe": "found a pipe",
    "folder": "found a folder",
    "nothing": "is missing",
}


@pytest.mark.timeout(5)
@pytest.mark.parametrize("kind", WRONG)
def test_audio_that_is_not_a_file_of_the_run_is_refused(one_turn: Path, kind: str) -> None:
    for file in list((one_turn / AUDIO_FOLDER).iterdir()):
        replaced(file.rename(one_turn.parent / file.name), file, kind)
    with RunReader.open(one_turn) as read:
        [turn] = read.turns()
        with pytest.raises(StoreError, match=rf"reply\.flac:? .*{WRONG[kind]}"):
            read.reply(turn)
        assert list(read.lost_audio()) == [turn.turn_id]
        assert WRONG[kind] in read.lost_audio()[turn.turn_id]
        assert str(one_turn) not in read.lost_audio()[turn.turn_id]


@pytest.mark.timeout(5)
@pytest.mark.parametrize("kind", [*WRONG, "side"])
@pytest.mark.parametrize("file", [RUN_FILE, SCORES_FILE])
def test_a_database_that_is_not_a_file_of_the_run_is_refused(one_turn: Path, file: str, kind: str) -> None:
    ScoreStore.open(one_turn).close()
    path = one_turn / file
    if kind == "side":
        os.mkfifo(path.with_name(f"{file}-wal"))
    else:
        path.rename(one_turn.parent / file)
        replaced(one_turn.parent / file, path, "broken link" if kind == "nothing" else kind)
    opened = (RunReader.open, RunWriter.resume) if file == RUN_FILE else (ScoreReader.open, ScoreStore.open)
    for use in opened:
        with pytest.raises(StoreError, match="pipe" if kind == "side" else WRONG[kind]):
            use(one_turn)


@pytest.mark.parametrize("lock", [".run.lock", ".scores.lock"])
def test_a_lock_that_is_a_symlink_is_not_written_through(one_turn: Path, lock: str) -> None:
    diary = one_turn.parent / "diary"
    diary.write_text("dear diary")
    (one_turn / lock).symlink_to(diary)
    with pytest.raises(StoreError, match=rf"{lock}: expected a file, found a link"):
        (RunWriter.resume if lock == ".run.lock" else ScoreStore.open)(one_turn)
    assert diary.read_text() == "dear diary"
    (one_turn / lock).unlink()
    os.mkfifo(one_turn / lock)
    with pytest.raises(StoreError, match="expected a file"):
        (RunWriter.resume if lock == ".run.lock" else ScoreStore.open)(one_turn)


@pytest.mark.parametrize("name", [WIRE_FOLDER, USER_FOLDER])
def test_nothing_is_written_through_a_symlinked_folder(one_turn: Path, name: str) -> None:
    other = one_turn.parent / "letters"
    other.mkdir()
    (one_turn / name).symlink_to(other)
    with pytest.raises(StoreError, match="points outside the run folder"):
        RunWriter.resume(one_turn)


def test_nothing_is_removed_from_a_symlinked_folder(one_turn: Path) -> None:
    other = one_turn.parent / "music"
    (one_turn / AUDIO_FOLDER).rename(other)
    (other / "song.flac").touch()
    (one_turn / AUDIO_FOLDER).symlink_to(other)
    with pytest.raises(StoreError, match="points outside the run folder"):
        RunWriter.resume(one_turn)
    assert (other / "song.flac").exists()


def test_an_oversized_row_is_not_read(one_turn: Path) -> None:
    change(one_turn, "UPDATE turns SET envelope = zeroblob(?)", 70_000_000)
    with RunReader.open(one_turn) as read, pytest.raises(StoreError, match="too big"):
        list(read.turns())


def test_views_and_virtual_tables_are_refused(one_turn: Path) -> None:
    change(one_turn, "DROP TABLE failures")
    endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS id FROM c"
    change(one_turn, f"CREATE VIEW failures AS {endless}")
    with pytest.raises(StoreError, match=r"expected only the tables of a run, found another 'failures'"):
        RunReader.open(one_turn)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE failures ADD COLUMN slow TEXT AS (hex(zeroblob(300000000)))",
        "CREATE INDEX slow ON failures (hex(zeroblob(attempt)))",
        "CREATE TRIGGER slow AFTER INSERT ON failures BEGIN SELECT zeroblob(300000000); END",
        "CREATE TABLE more (id INTEGER CHECK (id < length(hex(zeroblob(300000000)))))",
    ],
)
def test_a_schema_that_computes_is_refused(one_turn: Path, statement: str) -> None:
    """SQLite's step limit does not apply inside a function."""
    change(one_turn, statement)
    with pytest.raises(StoreError, match="expected only the tables of a run"):
        RunReader.open(one_turn)


def test_a_comment_does_not_hide_a_definition() -> None:
    (own,) = (each for each in RUN_TABLES if "CREATE TABLE run (" in each)
    assert is_own_definition(own.replace("-- the", "-- another comment: the").strip())
    assert not is_own_definition(own.replace("'running'", "'--' || x ||\n 'running'"))
    assert not is_own_definition(own.replace("'running'", "'run--\nning'"))
    assert not is_own_definition(own.replace("id = 1", "id = 1 /* -- */ OR x()"))


def test_audio_longer_than_a_turn_can_be_is_refused(one_turn: Path) -> None:
    (audio,) = (one_turn / AUDIO_FOLDER).glob("id_0*.both.flac")
    data = bytearray(audio.read_bytes())
    data[22:26] = (1 << 28).to_bytes(4)  # the number of samples in FLAC's first block (RFC 9639, 8.2)
    audio.write_bytes(data)
    with RunReader.open(one_turn) as read, pytest.raises(StoreError, match="more than a turn can have"):
        read.both_sides("id_0/target")


# -- resume ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nothing", "empty", "link"])
def test_a_captured_turn_without_its_audio_is_played_again(one_turn: Path, kind: str) -> None:
    with RunWriter.resume(one_turn) as run:
        assert run.to_repeat() == []
        failure = Failure(FailureKind.NO_RESPONSE, "no response within 15 s")
        run.commit(spoken_turn(a_case(4), TurnPlan(first_byte_ms=None, failure=failure)))
        run.end(finished=False)
    with ScoreStore.open(one_turn) as scores:
        for turn_id in ("id_0/target", "id_2/target"):
            scores.put("bleu", "1", turn_id, Scored({"": 1.0}))
    file = next((one_turn / AUDIO_FOLDER).glob("id_0*.both.flac"))
    replaced(file.rename(one_turn.parent / file.name), file, kind)
    for file in (one_turn / AUDIO_FOLDER).glob("id_2*"):
        file.unlink()
    with RunWriter.resume(one_turn) as run:
        assert run.to_repeat() == ["id_0/target"]  # a failed turn stays failed
        run.commit(spoken_turn(a_case(0)))
        assert run.to_repeat() == []
    with ScoreReader.open(one_turn) as read:
        assert [row.turn_id for row in read.read()] == ["id_2/target"]


def test_a_run_that_is_locked_or_cannot_be_created_is_reported(
    one_turn: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("live_eval.recording._database._BUSY_TIMEOUT_S", 0)
    with closing(sqlite3.connect(one_turn / RUN_FILE, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(
            StoreError, match=r"run\.sqlite: .*the database is locked by another program; close that program"
        ):
            RunWriter.resume(one_turn)
    full = ("PRAGMA max_page_count = 1", *RUN_TABLES)
    with pytest.raises(StoreError, match=r"cannot create .*new\.sqlite: no space left on the device"):
        create_database(one_turn / "new.sqlite", full, RUN_SCHEMA_VERSION)


@pytest.mark.parametrize("apart_ns", [36_000 * 10**9, 2**62])
def test_a_response_that_is_heard_over_many_hours_is_not_timed_again(one_turn: Path, apart_ns: int) -> None:
    arrivals, samples = (np.array(each, "<i8").tobytes() for each in ([0, apart_ns], [1_000, 1_000]))
    change(one_turn, "UPDATE responses SET chunk_arrival_ns = ?, chunk_samples = ?", arrivals, samples)
    with RunReader.open(one_turn) as read, pytest.raises(StoreError, match="expected audio of at most"):
        read.turn("id_0/target", retime=True)
