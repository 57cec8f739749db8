"""live-eval's files are distinguished from others, and no run is created among other files."""

import os
import re
from pathlib import Path

import pytest

from live_eval.errors import StoreError
from live_eval.recording import AUDIO_FOLDER, RUN_FILE, WIRE_FOLDER, RunWriter, cassette_name
from live_eval.recording.contents import FolderForms, check_new, recorded_files
from live_eval.types import Case, Variant
from tests.support.records import spoken_turn

INPUTS = FolderForms(
    re.compile(r"[0-9.]+s/input-[0-9]+\.flac(\.part)?"), re.compile(r"[0-9.]+s/manifest\.jsonl")
)


@pytest.mark.parametrize("turn_id", ["a", "id_355/target", "Grüße, 你好" * 30, "../..", "-" * 99])
def test_every_file_of_a_turn_is_recognised(tmp_path: Path, turn_id: str) -> None:
    case = Case(case_id=turn_id, script_id="a", variant=Variant.TARGET, audio_path=Path("x.wav"))
    with RunWriter.create(tmp_path / "run", {}) as writer:
        for attempt in (1, 2):
            writer.commit(spoken_turn(case, attempt=attempt))
        writer.end()
    wire = tmp_path / "run" / WIRE_FOLDER / cassette_name(turn_id, 1)
    wire.parent.mkdir()
    wire.touch()
    assert len(recorded_files(tmp_path / "run")) == 5


@pytest.mark.parametrize(
    "theirs", ["audio/a.flac", "wire/a.jsonl", "manifest.jsonl", "scores.sqlite", ".git/config"]
)
def test_a_run_does_not_begin_where_something_else_is(tmp_path: Path, theirs: str) -> None:
    file = tmp_path / "mine" / theirs
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    name = theirs.split("/")[0]
    expected = rf"mine: expected a new or empty folder for a run, found {re.escape(name)}/?; choose another"
    with pytest.raises(StoreError, match=expected):
        RunWriter.create(tmp_path / "mine", {})
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]
    assert file.read_text() == "mine"


def test_a_run_begins_where_a_creation_was_killed(tmp_path: Path) -> None:
    (tmp_path / AUDIO_FOLDER).mkdir()
    (tmp_path / RUN_FILE).touch()
    (tmp_path / ".run.lock").write_text(f"process 999999999 on {os.uname().nodename}")
    RunWriter.create(tmp_path, {}).close()


@pytest.mark.parametrize("name", [AUDIO_FOLDER, WIRE_FOLDER])
def test_a_run_does_not_begin_with_a_link_to_an_empty_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "empty")
    with pytest.raises(StoreError, match=f"found {name}/; choose another"):
        RunWriter.create(tmp_path / "run", {})


@pytest.mark.parametrize(
    "made",
    [
        [],
        ["2.5s/input-1.flac", "2.5s/input-2.flac.part"],
        ["2.5s/input-1.flac", "2.5s/manifest.jsonl"],
    ],
)
def test_a_campaign_can_begin_in_a_folder_with_its_own_recordings(tmp_path: Path, made: list[str]) -> None:
    fill(tmp_path / "inputs", made)
    check_new(tmp_path, "a campaign", made={"inputs": INPUTS})


@pytest.mark.parametrize(
    "theirs",
    [
        ["2.5s/manifest.jsonl"],
        ["2.5s/input-1.flac", "3s/manifest.jsonl"],
        ["2.5s/input-1.flac", "2.5s/speech.flac"],
        ["input-1.flac"],
    ],
)
def test_a_campaign_does_not_begin_among_recordings_of_others(tmp_path: Path, theirs: list[str]) -> None:
    fill(tmp_path / "inputs", theirs)
    with pytest.raises(StoreError, match="found inputs/; choose another folder"):
        check_new(tmp_path, "a campaign", made={"inputs": INPUTS})


@pytest.mark.parametrize(
    "link", ["inputs", "inputs/2.5s", "inputs/2.5s/input-1.flac", "inputs/2.5s/manifest.jsonl"]
)
def test_a_campaign_does_not_begin_where_a_link_leads_elsewhere(tmp_path: Path, link: str) -> None:
    fill(tmp_path / "theirs" / "inputs", ["2.5s/input-1.flac", "2.5s/manifest.jsonl"])
    fill(tmp_path / "c" / "inputs", ["2.5s/input-1.flac", "2.5s/manifest.jsonl"])
    linked = tmp_path / "c" / link
    linked.rename(tmp_path / "before")
    linked.symlink_to(tmp_path / "theirs" / link)
    with pytest.raises(StoreError, match="found inputs"):
        check_new(tmp_path / "c", "a campaign", made={"inputs": INPUTS})


def fill(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
