"""Runs and campaigns are found in folders."""

import json
from pathlib import Path

from live_eval.recording import AUDIO_FOLDER, RUN_FILE, RunWriter, file_stem
from live_eval.recording.folders import FoundFolder, find_folders


def a_run(folder: Path) -> Path:
    RunWriter.create(folder, {}).close()
    return folder


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


def test_what_is_left_of_a_run_is_found_and_other_audio_is_not(tmp_path: Path) -> None:
    left = a_run(tmp_path / "left")
    (left / RUN_FILE).unlink()
    (left / AUDIO_FOLDER / f"{file_stem('a', 1)}.reply.flac").touch()
    mine = tmp_path / "mine" / AUDIO_FOLDER / "a.flac"
    mine.parent.mkdir(parents=True)
    mine.touch()
    for root in (tmp_path, left):
        assert find_folders([root]) == [FoundFolder(left, "run")]
    assert find_folders([tmp_path / "mine", tmp_path / "missing"]) == []
