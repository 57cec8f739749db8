import json
import os
from pathlib import Path
from typing import Any

import pytest

from live_eval.data.benchmarks.vstyle import rated_replies
from live_eval.errors import DataError
from tests.support.benchmarks import recordings_below

ABILITIES = ("empathy/anger", "acoustic_attributes/age")


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def vstyle(root: Path, count: int = 4, language: str = "en") -> Path:
    """Write replies whose ratings by two people rise with their number, and the publisher's reversed."""
    keys = [{"id": n, "instruct_id": n // 2, "ability": ABILITIES[n % 2]} for n in range(count)]
    answers = [
        key | {"instruct_text": f"Say {key['id']}.", "model_name": "m", "response_audio_path": f"{n}.mp3"}
        for n, key in enumerate(keys)
    ]
    lines(
        root / "VStyle-responses" / language / "metadata.jsonl",
        [row | {"response_text": f"{n % 5 + 1}"} for n, row in enumerate(answers)],
    )
    results = root / "VStyle-eval-results"
    for rater in ("p1", "p2"):
        ratings = [key | {"mos": str(n % 5 + 1)} for n, key in enumerate(keys)]
        lines(results / "human_eval_res" / language / f"{rater}.jsonl", ratings)
    lines(
        results / "model_eval_res" / f"{language}_res.jsonl",
        [key | {"gemini_score": 5 - n % 5} for n, key in enumerate(keys)],
    )
    recordings_below(root / "VStyle-responses" / language / "wav", *(f"{n}.mp3" for n in range(count)))
    return root


def test_replies_are_joined_with_their_ratings(tmp_path: Path) -> None:
    anger, age, *_ = rated_replies(vstyle(tmp_path))
    assert (anger.case.case_id, anger.case.script_id, anger.ratings) == ("en/0_0", "en/0", {"p1": 1, "p2": 1})
    assert anger.case.cue is not None
    assert (anger.case.cue.phrase, age.case.cue, age.published) == ("anger", None, 4)
    assert anger.audio is not None
    assert anger.audio.is_file()


@pytest.mark.parametrize("named", ["/etc/hostname", "../../../elsewhere.wav", "x" * 300, "\ud800"])
def test_a_recording_outside_the_folder_is_not_read(tmp_path: Path, named: str) -> None:
    root = vstyle(tmp_path / "set", count=2)
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
