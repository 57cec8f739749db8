"""Parquet files and data frames: the same table as JSON lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import live_eval
from live_eval.cli import cli
from live_eval.errors import StoreError, UsageError
from live_eval.recording import RunReader, RunWriter
from live_eval.redaction import SECRETS
from live_eval.text.mappings import flattened
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.conftest import a_case

pandas = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")


def exported(run: Path, output: Path) -> Path:
    done = CliRunner().invoke(cli, ["export", str(run), "--out", str(output)], catch_exceptions=False)
    assert done.exit_code == 0
    return output


def rows_of(run: Path) -> list[dict[str, Any]]:
    text = CliRunner().invoke(cli, ["export", str(run), "--to", "jsonl"], catch_exceptions=False).stdout
    return [dict(flattened(json.loads(line))) for line in text.splitlines()]


@pytest.fixture(scope="module")
def file(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(run_folder, tmp_path_factory.mktemp("out") / "run.parquet")


def test_a_parquet_file_has_the_rows_with_null_for_missing_values(run_folder: Path, file: Path) -> None:
    rows = parquet.read_table(file).to_pylist()
    for row, expected in zip(rows, rows_of(run_folder), strict=True):
        assert row.pop("started_at").isoformat() == expected.pop("started_at")
        for judgement in row["judgements"]:
            judgement["detail"] = json.loads(judgement["detail"])
        assert row == expected
    failed = [row for row in rows if not row["captured"]]
    assert len(failed) == 2
    assert failed[0]["latency_ms.first_byte"] is None
    assert failed[0]["latency_reason.first_byte"] == "no response"
    assert {row["scores.ves"] for row in rows} == {None}
    assert rows[0]["score_reason.ves"] == "needs the key GEMINI_API_KEY"


def test_a_column_without_values_keeps_its_type(file: Path) -> None:
    schema = parquet.read_schema(file)
    assert {str(schema.field(name).type) for name in ("scores.ves", "latency_ms.barge_in_stop")} == {"double"}
    assert str(schema.field("case.dialogue_id").type) == "string"
    assert b"ms" in schema.field("latency_ms.voice_to_voice").metadata[b"description"]


def test_the_metadata_describes_the_run(run_folder: Path, file: Path) -> None:
    described = json.loads(parquet.read_schema(file).metadata[b"live_eval.run"])
    with RunReader.open(run_folder) as run:
        assert described["manifest"] == run.manifest
        assert described["started_at"] == run.started_at
    assert described["state"] == "finished"


def test_a_run_opens_as_a_data_frame_equal_to_the_file(run_folder: Path, file: Path) -> None:
    turns = live_eval.open_run(run_folder).turns
    assert turns.equals(pandas.read_parquet(file, dtype_backend="pyarrow"))
    assert turns["latency_ms.voice_to_voice"].count() == 23
    assert turns.loc[turns["scores.dnsmos.ovrl"] > 3.2, "turn_id"].count() == 3
    assert turns["scores.ves"].isna().all()
    assert live_eval.open_run(str(run_folder)).manifest["seed"] == 3


def test_a_run_without_turns_is_a_table_without_rows(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}) as run:
        run.end(finished=False)
    assert parquet.read_table(exported(tmp_path / "run", tmp_path / "a.parquet")).num_rows == 0
    assert len(live_eval.open_run(tmp_path / "run").turns) == 0


def test_a_missing_package_names_its_extra(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, form, extra in (("pyarrow", "parquet", "export"), ("inspect_ai", "inspect", "inspect")):
        for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, name, None)
        arguments = ["export", str(run_folder), "--to", form, "--out", str(tmp_path / "a.json")]
        with pytest.raises(UsageError, match=rf"the package {name} .*pip install .*\[{extra}\]"):
            CliRunner().invoke(cli, arguments, catch_exceptions=False)
        monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_errors_name_the_file_and_the_reason(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"found no run\.sqlite"):
        live_eval.open_run(tmp_path)
    for arguments, words in (
        (["--to", "parquet", "--out", "-"], "standard output"),
        (["--to", "parquet", "--out", str(tmp_path)], "got a folder"),
        (["--to", "inspect", "--out", str(tmp_path / "a.log")], "expected the suffix .eval or .json"),
        (["--to", "parquet", "--out", str(tmp_path / "no" / "a.parquet")], "cannot write"),
    ):
        with pytest.raises(UsageError, match=words):
            CliRunner().invoke(cli, ["export", str(run_folder), *arguments], catch_exceptions=False)


def test_secrets_of_an_old_run_are_redacted(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {"note": "mango-4711-lime"}) as run:
        run.commit(spoken_turn(a_case(0), TurnPlan(reply_text="It is mango-4711-lime.")))
        run.end(finished=True)
    SECRETS.learn("mango-4711-lime")
    file = parquet.read_table(exported(tmp_path / "run", tmp_path / "run.parquet"))
    assert file["reply_text"].to_pylist() == ["It is ***."]
    assert b"mango" not in b"".join(file.schema.metadata.values())
