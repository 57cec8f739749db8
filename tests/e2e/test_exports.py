"""Files of `live-eval export`, opened by their target programs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import soundfile

from live_eval.export.table import ExportTable
from live_eval.recording import RunReader
from live_eval.text.mappings import flattened
from tests.e2e.helpers import STRANGERS
from tests.support.documentation import DOCS, blocks
from tests.unit.conftest import write_run


def run_offline(command: Sequence[str | Path], folder: Path) -> str:
    """Run a command in a folder, check that it succeeds, and return its output."""
    environment = {**os.environ, "HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_datasets_and_inspect_open_the_exports(exports_python: Path, tmp_path: Path, suffix: str) -> None:
    run = write_run(tmp_path / "run")
    folder, log = tmp_path / "set", tmp_path / f"run.{suffix}"
    for command in (
        ["-m", "live_eval", "export", run, "--to", "hf", "--out", folder],
        ["-m", "live_eval", "export", run, "--to", "inspect", "--out", log],
        [STRANGERS / "export_reader.py", folder, log],
    ):
        output = run_offline([exports_python, *command], tmp_path)
    seen = json.loads(output.splitlines()[-1])
    with RunReader.open(run) as reader:
        table = ExportTable(reader)
        check_dataset(seen["datasets"], table)
        check_log(seen["inspect"], table)


def test_the_documented_code_reads_a_dataset(exports_python: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    python = blocks(DOCS / "how-to/export.md", "python")
    [code] = [block.text for block in python if "import datasets" in block.text]
    for command in (
        ["-m", "live_eval", "export", run, "--to", "hf", "--out", "demo-dataset"],
        ["-c", f"{code}\nopen('reply.flac', 'wb').write(flac)"],
    ):
        run_offline([exports_python, *command], tmp_path)
    with RunReader.open(run) as reader:
        expected = next(reader.turns()).reply_file
    assert expected is not None
    assert (tmp_path / "reply.flac").read_bytes() == expected.read_bytes()


def check_dataset(seen: dict[str, Any], table: ExportTable) -> None:
    assert seen["splits"] == ["test"]
    assert seen["features"] == {"reply_audio": "Audio", "both_sides_audio": "Audio"}
    assert seen["columns"] == [column.name for column in table.columns]
    rows = [dict(flattened(row)) for row in table.rows()]
    assert seen["voice_to_voice"] == {row["turn_id"]: row["latency_ms.voice_to_voice"] for row in rows}
    for name, frames in seen["frames"].items():
        files = {row["turn_id"]: row[name] for row in rows if row[name] is not None}
        assert frames == {turn: soundfile.info(table.run.path / file).frames for turn, file in files.items()}


def check_log(seen: dict[str, Any], table: ExportTable) -> None:
    assert seen["status"] == "success"
    assert seen["model"] == "reference/made-up"
    assert len(seen["samples"]) == 24
    for view, row in table.turns():
        sample = seen["samples"][view.turn_id]
        assert sample["scores"] == row["scores"]
        reasons = {name: why for name, why in row["score_reason"].items() if why is not None}
        assert sample["reasons"] == reasons
        assert sample["completion"] == (row["reply_text"] or "")
        failure = row["failure"]
        assert sample["error"] == (f"{failure['kind']}: {failure['message']}" if failure["kind"] else None)
        wav = "data:audio/wav;base64,"
        assert sample["audio"] == [wav] * (2 if view.record.has_reply else 1)
        assert sample["roles"] == ["user", "assistant"][: len(sample["audio"])]
    first = seen["samples"]["id_0/target"]
    assert first["retries"] == ["rate_limited: 429"]
    assert first["epoch"] == 1
    assert seen["means"].keys() == {"bleu", "dnsmos.ovrl", "dnsmos.sig"}
