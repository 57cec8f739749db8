"""``live-eval runs``: list, delete, gc."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from live_eval.cli import cli
from live_eval.clock import SystemClock
from live_eval.errors import FailureKind, UsageError
from live_eval.recording import RUN_FILE, RunWriter, file_stem
from live_eval.run.plan import Job
from live_eval.run.session_attempt import skipped_turns
from live_eval.speech.boundaries import BoundaryCache
from live_eval.types import Failure, SpeechBoundaries
from tests.support.campaigns import a_case
from tests.support.records import spoken_turn

ORPHAN = f"{file_stem('orphan', 1)}.reply.flac"


def runs(*arguments: object, answer: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["runs", *map(str, arguments)], input=answer)


@pytest.fixture
def died(tmp_path: Path) -> Path:
    """A killed run, with audio of a turn that was not committed."""
    folder = tmp_path / "recordings" / "died"
    writer = RunWriter.create(
        folder, {"turns": 3, "endpoint": {"name": "reference"}, "data": {"name": "mine"}}
    )
    writer.close()
    (folder / "audio" / ORPHAN).write_bytes(b"fLaC")
    return folder


def test_the_list_shows_the_state_of_each_run(died: Path, run_folder: Path) -> None:
    done = runs("list", died.parent, run_folder, "--json")
    assert done.exit_code == 0, done.output
    rows = {Path(row["path"]).name: row for row in json.loads(done.stdout)["folders"]}
    facts = {"kind": "run", "state": "died", "endpoint": "reference", "data": "mine"}
    assert rows[died.name].items() >= {**facts, "turns": 0, "planned": 3, "failed": 0}.items()
    assert rows[run_folder.name]["state"] == "finished"
    assert rows[run_folder.name]["bytes"] > 0
    assert "died" in runs("list", died.parent).stdout


@pytest.mark.parametrize("name", ["x[/bold]", "[link=http://evil.example/]openai[/link]"])
def test_names_that_look_like_markup_are_listed_as_they_are(tmp_path: Path, name: str) -> None:
    RunWriter.create(
        tmp_path / "run[a]", {"turns": 3, "endpoint": {"name": name}, "data": {"name": "d"}}
    ).close()
    listed = runs("list", tmp_path)
    assert listed.exit_code == 0, listed.output
    assert name in listed.stdout
    assert "run[a]" in listed.stdout


def test_a_folder_that_cannot_be_read_is_listed_with_the_reason(died: Path) -> None:
    (died / "run.sqlite").write_bytes(b"this is no database")
    (row,) = json.loads(runs("list", died, "--json").stdout)["folders"]
    assert row["state"] == "unreadable"
    assert "expected a database" in row["problem"]
    shown = runs("list", died.parent)
    assert "expected a database" not in shown.stdout, "a reason stretches no column"
    assert "expected a database" in shown.stderr


def test_the_rest_of_a_damaged_run_is_listed_and_deleted(died: Path) -> None:
    (died / RUN_FILE).unlink()
    for folder in (died, died.parent):
        (row,) = json.loads(runs("list", folder, "--json").stdout)["folders"]
        assert row["state"] == "unreadable"
    assert runs("delete", died, answer="n\n").exit_code == 1
    assert died.exists()
    assert runs("delete", died, answer="y\n").exit_code == 0
    assert not died.exists()


def test_a_folder_of_other_audio_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "mine" / "audio").mkdir(parents=True)
    (tmp_path / "mine" / "audio" / "a.flac").touch()
    assert json.loads(runs("list", tmp_path, "--json").stdout)["folders"] == []
    assert runs("delete", tmp_path / "mine", "--yes").exit_code != 0
    assert (tmp_path / "mine" / "audio" / "a.flac").exists()


def test_gc_shows_what_it_would_remove_and_removes_it(died: Path) -> None:
    orphan = died / "audio" / ORPHAN
    dry = runs("gc", died.parent, "--dry-run")
    assert f"would remove {orphan}" in dry.stdout
    assert orphan.exists()
    assert f"removed {orphan}" in runs("gc", died.parent).stdout
    assert not orphan.exists()
    assert runs("gc", died.parent).stdout == "1 run: 0 files removed\n"


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_gc_does_not_change_a_run_that_is_being_written(died: Path, flags: tuple[str, ...]) -> None:
    with RunWriter.resume(died):
        done = runs("gc", died.parent, "--json", *flags)
        shown = runs("gc", died.parent, *flags)
    assert done.exit_code == shown.exit_code == 0
    (row,) = json.loads(done.stdout)["folders"]
    assert row == {"path": str(died), "removed": [], "being_written": True, "problem": None}
    assert shown.stderr == f"skipped: {died} is being written\n"


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_gc_fails_if_a_run_cannot_be_read(died: Path, flags: tuple[str, ...]) -> None:
    (died / RUN_FILE).write_bytes(b"this is no database")
    done = runs("gc", died.parent, *flags)
    assert done.exit_code == 3
    assert "expected a database" in done.stderr


def test_nothing_is_deleted_without_a_yes(died: Path) -> None:
    refused = runs("delete", died, answer="n\n")
    assert refused.exit_code == 1
    assert died.exists()
    assert runs("delete", died, answer="y\n").exit_code == 0
    assert not died.exists()


def test_neither_a_link_nor_its_target_is_deleted(died: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(died)
    refused = runs("delete", link, "--yes")
    assert isinstance(refused.exception, UsageError)
    assert f"to delete its target, pass {died}" in str(refused.exception)
    assert link.is_symlink()
    assert died.exists()


def test_gc_does_not_clean_up_a_run_that_a_folder_links_to(died: Path, tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "run").symlink_to(died)
    assert runs("gc", tmp_path / "given").stdout == "0 runs: 0 files removed\n"
    assert (died / "audio" / ORPHAN).exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device"])
def test_an_endless_recording_does_not_block_deletion(tmp_path: Path, kind: str) -> None:
    recording = tmp_path / "recording.wav"
    if kind == "pipe":
        os.mkfifo(recording)
    elif kind == "device":
        recording = Path("/dev/zero")
    else:
        recording.symlink_to("/dev/zero")
    folder = tmp_path / "recordings" / "foreign"
    with RunWriter.create(folder, {}) as run:
        run.commit(spoken_turn(replace(a_case(0), audio_path=recording)))
        run.end()
    done = runs("delete", folder, "--yes")
    assert done.exit_code == 0, done.output
    assert not folder.exists()


def test_a_duplex_campaign_that_was_killed_before_its_document_is_deleted(tmp_path: Path) -> None:
    stimuli = tmp_path / "recordings" / "killed" / "stimuli"
    stimuli.mkdir(parents=True)
    (stimuli / "barge-in-0123abcd.flac").touch()
    (stimuli / "manifest.jsonl").touch()
    assert runs("delete", stimuli.parent, "--yes").exit_code == 0
    assert not stimuli.parent.exists()


def test_a_campaign_that_was_killed_before_its_first_file_is_deleted(tmp_path: Path) -> None:
    killed, other = tmp_path / "killed", tmp_path / "other"
    for folder in (killed, other):
        (folder / "stimuli").mkdir(parents=True)
    (other / "notes").touch()
    assert runs("delete", killed, "--yes").exit_code == 0
    assert not killed.exists()
    assert runs("delete", other, "--yes").exit_code == 2
    assert (other / "stimuli").is_dir()


def test_boundaries_of_recordings_that_no_other_run_has_played_are_forgotten(
    tmp_path: Path, own_cache: None
) -> None:
    cache, names = BoundaryCache(), ("shared", "own")
    for name in names:
        (tmp_path / name).write_text(name)
        case = replace(a_case(1), audio_path=tmp_path / name)
        cache.put(cache.key(case, "1", "hearing"), SpeechBoundaries(onset_ns=0, voice_end_ns=1))
    for run, played in (("first", names), ("second", names[:1])):
        a_run_that_played(tmp_path / "recordings" / run, tmp_path, *played)
    assert len(list((tmp_path / "cache").rglob("*.json"))) == 2
    assert runs("delete", tmp_path / "recordings" / "first", "--yes").exit_code == 0
    (left,) = (tmp_path / "cache").rglob("*.json")
    assert cache.entries(replace(a_case(1), audio_path=tmp_path / "shared")) == [left]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [(".", {"outside"}), ("first", {"both", "second", "outside"}), ("first second", {"outside"})],
)
def test_boundaries_of_a_campaign_and_of_its_conditions_are_forgotten(
    tmp_path: Path, own_cache: None, chosen: str, left: set[str]
) -> None:
    cache = BoundaryCache()
    campaign = tmp_path / "recordings" / "campaign"
    a_run_that_played(campaign / "first", tmp_path, "first", "both")
    a_run_that_played(campaign / "second", tmp_path, "second", "both")
    a_run_that_played(campaign.parent / "outside", tmp_path, "outside")
    (campaign / "campaign.json").write_text(json.dumps({"schema": 1}))
    cases = {}
    for name in ("first", "second", "both", "outside"):
        cases[name] = replace(a_case(1), audio_path=tmp_path / name)
        cache.put(cache.key(cases[name], "1", "hearing"), SpeechBoundaries(onset_ns=0, voice_end_ns=1))
    done = runs("delete", *(campaign / name for name in chosen.split()), "--yes")
    assert done.exit_code == 0, done.output
    assert {name for name, case in cases.items() if cache.entries(case)} == left


def a_run_that_played(folder: Path, recordings: Path, *names: str) -> None:
    """Record a run of failed turns with these recordings."""
    with RunWriter.create(folder, {}) as writer:
        for name in names:
            (recordings / name).write_text(name)
            job = Job(replace(a_case(1), case_id=name, audio_path=recordings / name), 0)
            (record,) = skipped_turns([job], 1, Failure(FailureKind.CLOSED, "gone"), SystemClock())
            writer.commit(record)
        writer.end()


def test_a_folder_that_is_not_a_run_is_not_deleted(tmp_path: Path, died: Path) -> None:
    done = runs("delete", tmp_path, "--yes")
    assert "expected a run or campaign folder" in done.stderr
    assert died.exists()


def test_files_that_stay_and_pages_with_its_audio_are_named(died: Path) -> None:
    for name in ("notes.txt", "audio/mine.wav"):
        (died / name).write_text("mine")
    page = died.parent / "report-died-other.html"
    page.write_text("<audio>")
    done = runs("delete", died, "--yes")
    assert done.exit_code == 0, done.output
    assert (
        f"{died} is kept because of files that live-eval did not write: audio/mine.wav, notes.txt"
        in done.stderr
    )
    assert f"{page} may contain its audio" in done.stderr
    assert page.exists()
