"""The table of turns: rows match columns."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from live_eval.export.columns import ExportColumn, export_columns
from live_eval.export.table import ExportTable
from live_eval.recording import ReviewChange, RunReader, keep_review
from live_eval.text.mappings import flattened

TYPES: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "integer": int,
    "number": (float, int),
    "boolean": bool,
    "time": datetime,
    "texts": list,
    "numbers": list,
    "json": dict,
}


def check(value: object, column: ExportColumn) -> None:
    if isinstance(column.kind, tuple):
        assert isinstance(value, list)
        for record in value:
            assert list(record) == [field.name for field in column.kind]
            for field in column.kind:
                check(record[field.name], field)
    else:
        assert value is None or isinstance(value, TYPES[column.kind]), column.name


def test_each_row_has_the_columns_in_their_order_and_types(run_folder: Path) -> None:
    with RunReader.open(run_folder) as run:
        table = ExportTable(run)
        rows = [dict(flattened(row)) for row in table.rows()]
    assert len(rows) == 24
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    for row in rows:
        assert list(row) == names
        for column in table.columns:
            check(row[column.name], column)
    for column in table.columns:
        assert column.meaning
        assert not column.name.split(".")[0].endswith("_ms") or "ms" in column.meaning


def test_rows_have_the_labels_and_notes_of_reviewers(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "run")
    with RunReader.open(tmp_path / "run") as run:
        first = next(ExportTable(run).rows())
        assert (first["labels"], first["note"]) == ([], None)
        keep_review(run.path, first["turn_id"], ReviewChange(["cold", "late"], note="Bored."))
        rows = list(ExportTable(run).rows())
    assert (rows[0]["labels"], rows[0]["note"]) == (["cold", "late"], "Bored.")
    assert rows[1]["labels"] == []


def test_marks_count_from_dialling(run_folder: Path) -> None:
    with RunReader.open(run_folder) as run:
        row = next(ExportTable(run).rows())
        turn = next(run.turns())
    marks, response = row["marks_ms"], row["responses"][0]
    assert marks["ready"] == row["latency_ms"]["connect"] == 90.0
    assert marks["audio_start"] == 150.0
    assert response["first_audio_ms"] - marks["speech_end"] == row["latency_ms"]["first_byte"]
    assert marks["speech_stopped"] == [marks["speech_end"] + row["latency_ms"]["endpointing"]]
    assert marks["committed"] is None
    assert response["audio_ms"] == 1080.0
    assert row["started_at"].timestamp() * 1e9 == turn.wall_ns


def test_the_documentation_lists_the_columns() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/export-columns.md").read_text("utf-8")
    listed = [line for line in page.splitlines() if line.startswith("| `")]
    since = ", ms since `started_at`"
    assert "are in milliseconds since `started_at`" in page
    fields = [
        column for column in export_columns(()) if isinstance(column.kind, tuple) for column in column.kind
    ]
    for column in (*export_columns(()), *fields):
        kind = "list of records" if isinstance(column.kind, tuple) else column.kind
        if column.name.startswith("latency_reason."):
            assert "| `latency_reason.LATENCY` | text | why it is null |" in listed
        else:
            assert f"| `{column.name}` | {kind} | {column.meaning.removesuffix(since)} |" in listed
