"""Runs and campaigns are found in folders, and campaigns are deleted."""

import json
import re
from pathlib import Path

from click.testing import CliRunner

from live_eval.campaigns.folders import FoundFolder, delete_campaign, find_folders
from live_eval.cli import cli
from live_eval.recording import AUDIO_FOLDER, RUN_FILE, RunWriter, file_stem
from live_eval.recording.contents import FolderForms


def a_run(folder: Path) -> Path:
    RunWriter.create(folder, {}).close()
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_runs_and_campaigns_with_their_runs_are_found(tmp_path: Path) -> None:
    run, campaign = a_run(tmp_path / "c"), tmp_path / "b"
    point = a_run(campaign / "point-1")
    (campaign / "inputs" / "sentinel").mkdir(parents=True)
    (campaign / "campaign.json").write_text(json.dumps({"schema": 1}))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "duplex.json").touch()
    inside = [FoundFolder(campaign, "campaign"), FoundFolder(point, "run", campaign)]
    found = [FoundFolder(run, "run"), *inside, FoundFolder(tmp_path / "a", "duplex")]
    assert find_folders([tmp_path]) == find_folders([tmp_path, tmp_path]) == found
    assert find_folders([campaign]) == inside
    assert find_folders([point]) == [FoundFolder(point, "run")]


def test_the_remains_of_a_run_are_found_but_other_audio_is_not(tmp_path: Path) -> None:
    left = a_run(tmp_path / "left")
    (left / RUN_FILE).unlink()
    (left / AUDIO_FOLDER / f"{file_stem('a', 1)}.reply.flac").touch()
    mine = tmp_path / "mine" / AUDIO_FOLDER / "a.flac"
    mine.parent.mkdir(parents=True)
    mine.touch()
    for root in (tmp_path, left):
        assert find_folders([root]) == [FoundFolder(left, "run")]
    assert find_folders([tmp_path / "mine", tmp_path / "missing"]) == []


def test_a_campaign_that_was_killed_before_its_document_is_found(tmp_path: Path) -> None:
    for name, file in (
        ("latency", "inputs/2.5s/input-1.flac"),
        ("duplex", "stimuli/barge-in-0123abcd.flac.part"),
    ):
        (tmp_path / name / file).parent.mkdir(parents=True)
        (tmp_path / name / file).touch()
    (tmp_path / "mine" / "stimuli").mkdir(parents=True)
    (tmp_path / "mine" / "stimuli" / "mine.wav").touch()
    (tmp_path / "empty" / "inputs").mkdir(parents=True)
    assert find_folders([tmp_path]) == [
        FoundFolder(tmp_path / "latency", "campaign"),
        FoundFolder(tmp_path / "empty", "campaign"),  # killed before its first file
        FoundFolder(tmp_path / "duplex", "duplex"),
    ]


def test_links_in_a_folder_are_not_followed(tmp_path: Path) -> None:
    run = a_run(tmp_path / "elsewhere" / "run")
    campaign = tmp_path / "given" / "campaign"
    campaign.mkdir(parents=True)
    (campaign / "campaign.json").write_text(json.dumps({"schema": 1}))
    (campaign / "point-1").symlink_to(run)
    (tmp_path / "given" / "linked").symlink_to(run)
    assert find_folders([tmp_path / "given"]) == [FoundFolder(campaign, "campaign")]
    assert find_folders([tmp_path / "given" / "linked"]) == [FoundFolder(run, "run")], "named by the user"
    (campaign / "campaign.json").unlink()
    (campaign / "campaign.json").symlink_to(tmp_path / "nothing.json")
    assert find_folders([campaign]) == []


CAMPAIGN_RECORDINGS = (
    "inputs/sentinel/sentinel.flac",
    "inputs/2.5s/input-12.flac",
    "inputs/2.5s/manifest.jsonl",
    "stimuli/could-you-tell-me-0a1b2c3d.flac",
    "stimuli/own-0a1b2c3d-My recording.wav",
    "stimuli/manifest.jsonl",
    "stimuli/manifest.jsonl.part",
)


def test_a_campaign_is_deleted_with_its_runs_and_recordings(tmp_path: Path) -> None:
    campaign = a_run(tmp_path / "campaign" / "point").parent
    for name in ("campaign.json", "words.json.part", *CAMPAIGN_RECORDINGS):
        (campaign / name).parent.mkdir(parents=True, exist_ok=True)
        (campaign / name).touch()
    assert delete_campaign(campaign) == []
    assert not campaign.exists()


def test_files_of_others_stay_in_a_campaign(tmp_path: Path) -> None:
    campaign = a_run(tmp_path / "campaign" / "run").parent
    others = {"stimuli/mine.wav", "inputs/notes.txt", "inputs/mine/talk.flac", "mine.part", "charts/a.wav"}
    for name in ("duplex.json", "page.html", "run/page.html", "charts/b.svg", *CAMPAIGN_RECORDINGS, *others):
        (campaign / name).parent.mkdir(parents=True, exist_ok=True)
        (campaign / name).touch()
    delete_campaign(campaign, ["page.html"], {"charts": FolderForms(re.compile(r"b\.svg"))})
    assert files(campaign) == others


def test_the_command_deletes_what_reports_and_the_reference_endpoint_wrote(tmp_path: Path) -> None:
    campaign = a_run(tmp_path / "campaign" / "point").parent
    pages = ("report.html", "report.html.part", "reference-endpoint.log")
    for name in (
        *("duplex.json", "latency.html", "duplex.html", "sounds/kept-talking-1.both.flac"),
        *(f"point/{page}" for page in pages),
    ):
        (campaign / name).parent.mkdir(exist_ok=True)
        (campaign / name).touch()
    done = CliRunner().invoke(cli, ["runs", "delete", "--yes", str(campaign)])
    assert done.exit_code == 0, done.output
    assert not campaign.exists()
