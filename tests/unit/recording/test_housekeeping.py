"""The leftovers of killed processes are removed from a run folder, and nothing else."""

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from live_eval.errors import FailureKind, StoreError, StoreLockedError
from live_eval.recording import (
    AUDIO_FOLDER,
    RUN_FILE,
    WIRE_FOLDER,
    RunReader,
    RunWriter,
    ScoreStore,
    TurnRecord,
    cassette_name,
    file_stem,
)
from live_eval.recording.contents import holds_recordings, recorded_files
from live_eval.recording.housekeeping import delete_run, leftovers, remove_leftovers
from live_eval.recording.record import turn_id
from live_eval.recording.schema import USER_FOLDER
from live_eval.types import Case, Failure, Variant
from tests.support.records import TurnPlan, spoken_turn

PAGES = ("report.html", "endpoint.log")
DEAD = "process 999999999 on {}"


def a_turn(name: str, attempt: int = 1, *, fails: bool = False) -> TurnRecord:
    case = Case(case_id=name, script_id=name, variant=Variant.TARGET, audio_path=Path("x.wav"))
    failure = Failure(FailureKind.CLOSED, "gone") if fails else None
    return spoken_turn(case, TurnPlan(failure=failure), attempt=attempt)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two turns, one of them retried, with cassettes and scores."""
    folder = tmp_path / "run"
    with RunWriter.create(folder, {"turns": 2}) as writer:
        writer.commit(a_turn("a"))
        writer.commit(a_turn("b", fails=True))
        writer.commit(a_turn("b", attempt=2))
        writer.end(finished=True)
    (folder / WIRE_FOLDER).mkdir()
    for name, attempt in (("a", 1), ("b", 1), ("b", 2)):
        (folder / WIRE_FOLDER / cassette_name(name, attempt)).write_text("{}")
    ScoreStore.open(folder).close()
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def leave(folder: Path) -> set[str]:
    """Create the leftovers of killed processes; return their names."""
    wire = f"{WIRE_FOLDER}/{cassette_name('b', 3)}"
    audio = [
        f"{AUDIO_FOLDER}/{file_stem('c', 1)}.reply.flac",
        f"{AUDIO_FOLDER}/{file_stem('a', 2)}.both.flac.part",
    ]
    names = [wire, *audio, "report.html.part", ".run.lock", ".scores.lock"]
    for name in names:
        (folder / name).write_text(DEAD.format(os.uname().nodename) if name.endswith("lock") else "left")
    return set(names)


OTHERS = {
    "notes.txt",
    "thing.part",
    "audio/mine.wav",
    "audio/mynotes.flac",
    "audio/a.reply.flac",
    "wire/my.jsonl",
}


def plant(run: Path) -> None:
    """Write third-party files with names similar to live-eval's."""
    for name in OTHERS:
        (run / name).write_text("mine")


def test_leftovers_are_found_and_removed_and_nothing_else_is(run: Path) -> None:
    plant(run)
    before = files(run)
    assert leftovers(run) == []
    left = leave(run)
    assert {str(path.relative_to(run)) for path in leftovers(run, PAGES)} == left
    assert files(run) == before | left
    assert {str(path.relative_to(run)) for path in remove_leftovers(run, PAGES)} == left
    assert files(run) == before
    assert remove_leftovers(run) == []
    with RunReader.open(run) as reader:
        assert [turn.turn_id for turn in reader.turns()] == ["a", "b"]
        assert not reader.lost_audio()
        assert all(each.both_file.exists() for each in reader.replaced("b") if each.both_file)


def test_a_log_that_a_killed_process_left_is_taken_into_the_database(run: Path) -> None:
    script = f"""
import os
from pathlib import Path
from live_eval.recording import RunWriter
from tests.unit.recording.test_housekeeping import a_turn
writer = RunWriter.resume(Path({str(run)!r}), ended=True)
writer.commit(a_turn("c"))
os._exit(9)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 9
    logs = {path.name for path in leftovers(run)}
    assert f"{RUN_FILE}-wal" in logs
    assert f"{RUN_FILE}-wal" in {path.name for path in remove_leftovers(run)}
    assert not (run / f"{RUN_FILE}-wal").exists()
    with RunReader.open(run) as reader:
        assert "c" in reader
        assert reader.state == "running", "that it died is not forgotten"


def test_a_run_that_is_being_written_is_not_changed(run: Path) -> None:
    leave(run)
    with RunWriter.resume(run, ended=True):
        (run / AUDIO_FOLDER / "being-written.flac.part").touch()
        assert leftovers(run) == []
        for change in (remove_leftovers, delete_run):
            with pytest.raises(StoreLockedError):
                change(run)
        assert (run / AUDIO_FOLDER / "being-written.flac.part").exists()


def test_a_run_that_is_being_scored_is_not_deleted(run: Path) -> None:
    with ScoreStore.open(run), pytest.raises(StoreLockedError):
        delete_run(run)
    with RunReader.open(run) as reader:
        assert len(reader) == 2


def test_a_run_is_deleted_with_everything_that_was_recorded(run: Path) -> None:
    leave(run)
    for name in PAGES:
        (run / name).touch()
    assert delete_run(run, PAGES) == []
    assert not run.exists()


def test_what_the_user_of_a_live_run_said_is_deleted_with_the_run_only(run: Path) -> None:
    (run / USER_FOLDER).mkdir()
    for name in ("turn-0001.flac", "turn-12345.flac", "turn-0002.flac.part"):
        (run / USER_FOLDER / name).touch()
    assert leftovers(run) == []
    assert delete_run(run) == []
    assert not run.exists()


def test_files_of_others_stay_with_what_a_user_said(run: Path) -> None:
    (run / USER_FOLDER).mkdir()
    for name in ("turn-0001.flac", "mine.flac"):
        (run / USER_FOLDER / name).touch()
    assert delete_run(run) == [run / USER_FOLDER]
    assert files(run) == {f"{USER_FOLDER}/mine.flac"}
    assert not holds_recordings(run)


@pytest.mark.parametrize("repeat", [0, 1])
def test_the_cassette_of_a_dialogue_stays_that_failed_after_its_first_turn(
    tmp_path: Path, repeat: int
) -> None:
    def turn(index: int, attempt: int, *, fails: bool = False) -> TurnRecord:
        record = a_turn("ba"[index], attempt, fails=fails)
        case = replace(record.case, dialogue_id="talk", turn_index=index)
        return replace(record, turn_id=turn_id(case, repeat), case=case, repeat=repeat)

    with RunWriter.create(tmp_path / "run", {"turns": 2}) as writer:
        writer.attempt_failed(turn(1, 1, fails=True))
        for index in (1, 0):
            writer.commit(turn(index, 2))
        writer.end()
    wire = tmp_path / "run" / WIRE_FOLDER
    wire.mkdir()
    first = turn(0, 1)
    for name, attempt in ((first.turn_id, 1), (first.turn_id, 2), (first.turn_id, 3), ("other", 1)):
        (wire / cassette_name(name, attempt)).touch()
    of_no_attempt = {wire / cassette_name(first.turn_id, 3), wire / cassette_name("other", 1)}
    assert set(leftovers(tmp_path / "run")) == of_no_attempt


def test_files_of_others_stay(run: Path) -> None:
    plant(run)
    assert delete_run(run) == [run / name for name in (AUDIO_FOLDER, "notes.txt", "thing.part", WIRE_FOLDER)]
    assert files(run) == OTHERS


def test_links_are_not_followed(run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (run / WIRE_FOLDER).rename(elsewhere)
    (run / WIRE_FOLDER).symlink_to(elsewhere)
    with pytest.raises(StoreError, match="points outside the run folder"):
        leftovers(run)
    assert delete_run(run) == [run / WIRE_FOLDER]
    assert len(files(elsewhere)) == 3


def test_files_of_others_stay_when_a_run_is_resumed_and_ended(run: Path) -> None:
    plant(run)
    lost = run / AUDIO_FOLDER / f"{file_stem('c', 1)}.reply.flac"
    lost.touch()
    before = files(run)
    with RunWriter.resume(run, ended=True) as writer:
        assert not lost.exists()
        writer.end()
    assert files(run) == before - {f"{AUDIO_FOLDER}/{lost.name}"}


def test_the_rest_of_a_damaged_run_is_deleted(run: Path) -> None:
    (run / RUN_FILE).unlink()
    assert remove_leftovers(run) == [], "without a database, nobody knows which audio belongs to no turn"
    assert recorded_files(run)
    assert delete_run(run) == []


def test_folders_of_recordings_are_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        RunWriter.create(tmp_path / "new", {}).close()
    finally:
        os.umask(old)
    for folder in (tmp_path / "new", tmp_path / "new" / AUDIO_FOLDER):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_run_whose_creation_was_killed_only_loses_its_lock(tmp_path: Path) -> None:
    (tmp_path / AUDIO_FOLDER).mkdir()
    (tmp_path / RUN_FILE).touch()
    (tmp_path / ".run.lock").write_text(DEAD.format(os.uname().nodename))
    assert [path.name for path in remove_leftovers(tmp_path)] == [".run.lock"]
