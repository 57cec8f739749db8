"""Reading runs: other versions, missing files and old turns."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from live_eval.errors import SchemaVersionError, StoreError
from live_eval.recording import (
    RUN_FILE,
    RUN_SCHEMA_VERSION,
    RunReader,
    RunWriter,
    TurnRecord,
)
from live_eval.types import Case, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.recording.written import a_case, vars_of

MANIFEST = {"endpoint": {"name": "reference", "model": "made-up", "key": "***"}, "seed": 7}


def test_a_reader_reads_while_the_writer_writes(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a")))
        with RunReader.open(tmp_path) as read:
            turns = read.turns()
            assert next(turns).turn_id == "a"
            run.commit(spoken_turn(a_case("b")))
            assert len(read) == 2


def test_an_open_reader_does_not_block_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a")))
        with RunReader.open(tmp_path) as read:
            assert len(read) == 1
            started = time.monotonic()
            run.end(finished=True)
            assert time.monotonic() - started < 10
    with RunReader.open(tmp_path) as read:
        assert read.ended


def test_a_database_without_tables_is_reported_as_one_that_is_being_created(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / RUN_FILE)) as db:
        db.execute("PRAGMA journal_mode = WAL")  # the first step of `RunWriter.create`
    with pytest.raises(StoreError, match=f"{RUN_FILE} is empty: it is being created"):
        RunReader.open(tmp_path)


def test_another_schema_version_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.end(finished=False)
    with sqlite3.connect(tmp_path / RUN_FILE) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    for use in (RunReader.open, RunWriter.resume):
        with pytest.raises(
            SchemaVersionError, match=f"expected schema version 2 or {RUN_SCHEMA_VERSION}, got 99"
        ):
            use(tmp_path)


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / RUN_FILE)) as db:
        db.execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match=f"{RUN_FILE}: expected a database of live-eval, found tables of an"):
        RunReader.open(tmp_path)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere: not found; `live-eval runs list` lists runs"):
        RunReader.open(tmp_path / "nowhere")
    with pytest.raises(StoreError, match=r"found no run\.sqlite"):
        RunReader.open(tmp_path)
    with pytest.raises(StoreError, match="expected a run to resume"):
        RunWriter.resume(tmp_path)
    (tmp_path / RUN_FILE).write_text("this is no database, it is a text of some length" * 40)
    with pytest.raises(StoreError, match="expected a database of live-eval"):
        RunReader.open(tmp_path)
    with pytest.raises(StoreError):
        RunWriter.create(tmp_path, MANIFEST)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="as a run folder"):
        RunWriter.create(tmp_path / "file", MANIFEST)


def test_damage_is_a_store_error(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a")))
    with sqlite3.connect(tmp_path / RUN_FILE) as db:
        db.execute("UPDATE turns SET trace = '{}'")
    db.close()
    with RunReader.open(tmp_path) as read, pytest.raises(StoreError, match="turn 'a' is damaged"):
        read.turn("a")


def test_missing_audio_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, MANIFEST) as run:
        run.commit(spoken_turn(a_case("a")))
    with RunReader.open(tmp_path) as read:
        file = read.turn("a").reply_file
        assert file is not None
        file.unlink()
        with pytest.raises(StoreError, match=file.name):
            read.reply("a")


def test_paths_are_found_from_any_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.wav").touch()
    monkeypatch.chdir(tmp_path)
    relative = dataclasses.replace(a_case("a"), audio_path=Path("data/a.wav"))
    absolute = dataclasses.replace(a_case("b"), audio_path=tmp_path / "data" / "a.wav")
    with RunWriter.create(Path("recordings/run"), MANIFEST) as run:
        run.commit(spoken_turn(relative))
        run.commit(spoken_turn(absolute))
    with RunReader.open(Path("recordings/run")) as read:
        assert [turn.case.audio_path for turn in read.turns()] == [Path("data/a.wav")] * 2
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with RunReader.open(Path("../recordings/run")) as read:
        assert all(turn.case.audio_path.is_file() for turn in read.turns())
        assert {turn.case.audio_path for turn in read.turns(finds_data=False)} == {Path("data/a.wav")}


def test_a_turn_recorded_without_speech_boundaries_is_read(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", MANIFEST) as run:
        run.commit(spoken_turn(a_case()))
        run.end(finished=True)
    with closing(sqlite3.connect(tmp_path / "run" / RUN_FILE)) as db, db:
        db.execute("UPDATE turns SET trace = json_remove(trace, '$.boundaries')")
    with RunReader.open(tmp_path / "run") as read:
        [turn] = read.turns()
        assert turn.trace.boundaries is None
        assert vars_of(turn.timing) == vars_of(read.turn(turn.turn_id, retime=True).timing)


def test_the_earlier_texts_of_a_dialogue_are_in_order_and_of_the_same_repeat(tmp_path: Path) -> None:
    def turn(index: int, dialogue: str, repeat: int = 0) -> TurnRecord:
        case = Case(
            case_id=f"{dialogue}/{index}",
            script_id=dialogue,
            variant=Variant.TARGET,
            audio_path=Path("x.wav"),
            text=f"said {index}",
            dialogue_id=dialogue,
            turn_index=index,
        )
        return spoken_turn(case, TurnPlan(reply_text=f"{dialogue} {index} {repeat}"), repeat=repeat)

    with RunWriter.create(tmp_path / "run", {}) as run:
        for index in (2, 0, 1):
            run.commit(turn(index, "a"))
            run.commit(turn(index, "b"))
            run.commit(turn(index, "a", repeat=1))
    with RunReader.open(tmp_path / "run") as reader:
        last = next(each for each in reader.turns() if each.case.case_id == "a/2" and each.repeat == 1)
        assert list(reader.earlier_texts(last)) == [("said 0", "a 0 1"), ("said 1", "a 1 1")]


def test_the_earlier_texts_of_a_turn_are_those_of_its_history(tmp_path: Path) -> None:
    said = (("Where is Lima?", "In Peru."),)
    case = Case(case_id="a/1", script_id="a", variant=Variant.TARGET, audio_path=Path("x.wav"), history=said)
    with RunWriter.create(tmp_path / "run", {}) as run:
        run.commit(spoken_turn(case))
    with RunReader.open(tmp_path / "run") as reader:
        (turn,) = reader.turns()
        assert tuple(reader.earlier_texts(turn)) == turn.case.history == said
