"""What `live-eval export` writes, opened by the programs that it is written for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import soundfile

from live_eval.export.table import TurnTable
from live_eval.recording import RunReader, ScoreReader
from live_eval.text.files import flattened
from tests.e2e.helpers import STRANGERS
from tests.unit.conftest import write_run


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_datasets_and_inspect_open_the_exports(exports_python: Path, tmp_path: Path, suffix: str) -> None:
    run = write_run(tmp_path / "run")
    folder, log = tmp_path / "set", tmp_path / f"run.{suffix}"
    offline = {**os.environ, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    for command in (
        ["-m", "live_eval", "export", run, "--to", "hf", "--out", folder],
        ["-m", "live_eval", "export", run, "--to", "inspect", "--out", log],
        [STRANGERS / "export_reader.py", folder, log],
    ):
        done = subprocess.run(
            [exports_python, *map(str, command)], env=offline, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    with RunReader.open(run) as reader, ScoreReader.open(run) as scores:
        table = TurnTable(reader, scores)
        check_dataset(seen["datasets"], table)
        check_log(seen["inspect"], table)


def check_dataset(seen: dict[str, Any], table: TurnTable) -> None:
    assert seen["splits"] == ["test"]
    assert seen["features"] == {"reply_audio": "Audio", "both_sides_audio": "Audio"}
    assert seen["columns"] == [column.name for column in table.columns]
    rows = [dict(flattened(row)) for row in table.rows()]
    assert seen["voice_to_voice"] == {row["turn_id"]: row["latency_ms.voice_to_voice"] for row in rows}
    for name, frames in seen["frames"].items():
        files = {row["turn_id"]: row[name] for row in rows if row[name] is not None}
        assert frames == {turn: soundfile.info(table.run.path / file).frames for turn, file in files.items()}


def check_log(seen: dict[str, Any], table: TurnTable) -> None:
    assert seen["status"] == "success"
    assert seen["model"] == "reference/made-up"
    assert len(seen["samples"]) == 24
    for turn, row in table.turns():
        sample = seen["samples"][turn.turn_id]
        assert sample["scores"] == row["scores"]
        reasons = {name: why for name, why in row["score_reason"].items() if why is not None}
        assert sample["reasons"] == reasons
        assert sample["completion"] == (row["reply_text"] or "")
        failure = row["failure"]
        assert sample["error"] == (f"{failure['kind']}: {failure['message']}" if failure["kind"] else None)
        wav = "data:audio/wav;base64,"
        assert sample["audio"] == [wav] * (2 if turn.has_reply else 1)
        assert sample["roles"] == ["user", "assistant"][: len(sample["audio"])]
    first = seen["samples"]["id_0/target"]
    assert first["retries"] == ["rate_limited: 429"]
    assert first["epoch"] == 1
    assert seen["means"].keys() == {"bleu", "dnsmos.ovrl", "dnsmos.sig"}
