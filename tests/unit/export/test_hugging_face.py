"""A folder for Hugging Face datasets; `tests/e2e/test_exports.py` opens one with datasets itself."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
import soundfile
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.errors import UsageError
from live_eval.export.hugging_face import write_dataset
from live_eval.export.table import ExportTable
from live_eval.recording import RunReader

parquet = pytest.importorskip("pyarrow.parquet")


def export(run: Path, folder: Path) -> str:
    arguments = ["export", str(run), "--to", "hf", "--out", str(folder)]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stderr


def turns_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "data").glob("*.parquet"))
    return [row for file in files for row in parquet.read_table(file).to_pylist()]


def test_audio_is_embedded_and_decodes(run_folder: Path, tmp_path: Path) -> None:
    export(run_folder, tmp_path / "set")
    rows = turns_in(tmp_path / "set")
    assert len(rows) == 24
    with RunReader.open(run_folder) as run:
        for row in rows:
            turn = run.turn(row["turn_id"])
            for name, file in (("reply_audio", turn.reply_file), ("both_sides_audio", turn.both_file)):
                if file is None:
                    assert row[name] is None
                    continue
                assert row[name]["path"] == file.name
                samples, rate_hz = soundfile.read(io.BytesIO(row[name]["bytes"]), dtype="int16")
                assert (len(samples), rate_hz) == (
                    soundfile.info(file).frames,
                    soundfile.info(file).samplerate,
                )
    assert sum(row["reply_audio"] is None for row in rows) == 1


def test_features_and_split_are_declared(run_folder: Path, tmp_path: Path) -> None:
    export(run_folder, tmp_path / "set")
    file = tmp_path / "set" / "data" / "test-00000.parquet"
    features = json.loads(parquet.read_schema(file).metadata[b"huggingface"])["info"]["features"]
    assert features == {"reply_audio": {"_type": "Audio"}, "both_sides_audio": {"_type": "Audio"}}
    card = (tmp_path / "set" / "README.md").read_text("utf-8")
    assert "path: data/test-*.parquet" in card.split("---")[1]
    for name in parquet.read_schema(file).names:
        assert f"| `{name}` |" in card
    assert "\nThe audio of both sides contains the data set's recordings, under their licence.\n" in card


def test_many_turns_make_several_files(run_folder: Path, tmp_path: Path) -> None:
    with RunReader.open(run_folder) as run:
        write_dataset(ExportTable(run), tmp_path / "set", shard_bytes=1, rows_at_once=10)
    assert len(list((tmp_path / "set" / "data").iterdir())) == 3
    assert [row["turn_id"] for row in turns_in(tmp_path / "set")] == turn_ids(run_folder)


def turn_ids(folder: Path) -> list[str]:
    with RunReader.open(folder) as run:
        return [turn.turn_id for turn in run.turns()]


def test_only_the_user_can_read_the_folder(run_folder: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        export(run_folder, tmp_path / "set")
    finally:
        os.umask(before)
    for folder in (tmp_path / "set", tmp_path / "set" / "data"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_lost_audio_is_null_and_reported(run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    next((run / "audio").glob("*.reply.flac")).unlink()
    assert "1 turn without audio" in export(run, tmp_path / "set")
    assert sum(row["reply_audio"] is None for row in turns_in(tmp_path / "set")) == 2


def test_a_file_larger_than_a_turns_audio_is_null(run_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run_folder, tmp_path / "run")
    with next((copy / "audio").glob("*.reply.flac")).open("r+b") as file:
        file.truncate(600_000_000)  # sparse
    export(copy, tmp_path / "set")
    assert sum(row["reply_audio"] is None for row in turns_in(tmp_path / "set")) == 2


def test_a_folder_that_is_not_empty_is_refused(run_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for taken in (tmp_path, tmp_path / "mine"):
        with pytest.raises(UsageError, match="expected a new or empty folder"):
            export(run_folder, taken)
