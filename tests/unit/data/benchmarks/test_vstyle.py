import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli.data import command
from live_eval.data import DataKind, load
from live_eval.data.benchmarks.vstyle import rated_replies
from live_eval.errors import DataError, UsageError
from live_eval.run.plan import make_plan
from live_eval.run.run_file import RunConfig
from tests.support.benchmarks import recordings_below, vstyle
from tests.support.benchmarks import write_lines as lines


def test_replies_are_joined_with_their_ratings(tmp_path: Path) -> None:
    anger, age, *_ = rated_replies(vstyle(tmp_path))
    assert (anger.case.case_id, anger.case.script_id, anger.ratings) == ("en/0_0", "en/0", {"p1": 1, "p2": 1})
    assert anger.case.cue is not None
    assert (anger.case.cue.phrase, age.case.cue, age.published) == ("anger", None, 4)
    assert anger.audio is not None
    assert anger.audio.is_file()


@pytest.mark.parametrize("named", ["/etc/hostname", "../../../elsewhere.wav", "x" * 300, "\ud800"])
def test_a_recording_outside_the_folder_is_not_read(tmp_path: Path, named: str) -> None:
    root = vstyle(tmp_path / "set", items=2)
    recordings_below(tmp_path, "elsewhere.wav")
    table = root / "VStyle-responses/en/metadata.jsonl"
    rows = [json.loads(line) for line in table.read_text("utf-8").splitlines()]
    lines(table, [row | {"response_audio_path": named} for row in rows])
    audio = [reply.audio for reply in rated_replies(root)]
    assert all(path is None or (path.is_relative_to(root) and not os.path.isfile(path)) for path in audio)


def test_bad_rows_are_left_out_and_missing_files_named(tmp_path: Path) -> None:
    root = vstyle(tmp_path)
    lines(root / "VStyle-eval-results/human_eval_res/en/p1.jsonl", [{"id": 0, "instruct_id": 0, "mos": "?"}])
    lines(root / "VStyle-eval-results/human_eval_res/en/p2.jsonl", [{"id": 1, "instruct_id": 0, "mos": 2}])
    (reply,) = rated_replies(root)
    assert reply.ratings == {"p2": 2}
    with pytest.raises(DataError, match="expected replies in VStyle-responses/LANGUAGE"):
        rated_replies(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("file", "left"),
    [("VStyle-responses/en/metadata.jsonl", 3), ("VStyle-eval-results/human_eval_res/en/p1.jsonl", 4)],
)
def test_damaged_lines_are_named_and_the_others_read(tmp_path: Path, file: str, left: int) -> None:
    root = vstyle(tmp_path)
    rows = (root / file).read_text("utf-8").splitlines()
    (root / file).write_text("\n".join(["{not JSON", *rows[1:]]), "utf-8")
    data = load(root)
    assert data.notes[-1].startswith(f"{left} replies with human ratings")
    assert f"{root / file}, line 1, column 2: invalid JSON" in " ".join(data.omissions)


def test_only_numbers_from_1_to_5_are_ratings(tmp_path: Path) -> None:
    root = vstyle(tmp_path)
    given = [0, 100, 10**400, True, "4.5"]
    rows = [{"id": n % 4, "instruct_id": n % 4 // 2, "mos": mos} for n, mos in enumerate(given)]
    lines(root / "VStyle-eval-results/human_eval_res/en/p1.jsonl", rows)
    assert [reply.ratings.get("p1") for reply in rated_replies(root)] == [4.5, None, None, None]


def test_one_language_can_be_selected(tmp_path: Path) -> None:
    root = vstyle(vstyle(tmp_path), language="zh")
    assert len(rated_replies(root)) == 8
    assert {reply.case.language for reply in rated_replies(root, "zh")} == {"zh"}


def test_the_replies_are_no_cases_to_run(tmp_path: Path) -> None:
    data = load(vstyle(tmp_path))
    assert (data.cases, data.kind) == ((), DataKind.BENCHMARK)
    assert data.notes[-1] == "4 replies with human ratings, for live-eval audit JUDGE --data vstyle"
    endpoint = {"endpoint": {"name": "reference"}, "data": {"path": str(tmp_path)}}
    with pytest.raises(UsageError, match="vstyle has no items to run: 4 replies with human ratings"):
        make_plan(RunConfig.model_validate(endpoint))


def test_data_check_names_the_command_that_reads_the_replies(tmp_path: Path) -> None:
    refused = CliRunner().invoke(command, ["check", str(vstyle(tmp_path))])
    assert isinstance(refused.exception, UsageError)
    assert "live-eval audit JUDGE --data vstyle reports those that cannot be used" in str(refused.exception)
