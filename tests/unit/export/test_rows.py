"""Rows as text: JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

from live_eval.analysis.summary.latencies import LATENCIES
from live_eval.analysis.summary.vocal_sounds import VOCAL_SOUND_TITLES
from live_eval.cli import cli
from live_eval.export.rows import csv_rows, write_rows
from live_eval.export.table import ExportTable
from live_eval.judging import Scored
from live_eval.recording import RunReader, RunWriter, ScoreStore
from live_eval.types import Task
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.conftest import a_case


def rows_of(folder: Path, form: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(cli, ["export", str(folder), "--format", form], catch_exceptions=False)
    assert done.exit_code == 0
    if form == "jsonl":
        return [json.loads(line) for line in done.stdout.splitlines()]
    return [dict(row) for row in csv.DictReader(io.StringIO(done.stdout, newline=""))]


def test_every_turn_has_a_row_including_failed_ones(run_folder: Path) -> None:
    rows = rows_of(run_folder, "jsonl")
    assert len(rows) == 24
    assert [row["captured"] for row in rows].count(False) == 2
    assert all(list(row) == list(rows[0]) for row in rows)
    first = rows[0]
    assert first["latency_ms"]["first_byte"] == 400.0  # type: ignore[index]
    assert list(first["latency_ms"]) == [*LATENCIES, *VOCAL_SOUND_TITLES]  # type: ignore[call-overload]
    assert first["latency_reason"]["barge_in_stop"] == "the user did not speak over the reply"  # type: ignore[index]
    assert first["scores"] == {"bleu": 0.0, "dnsmos.ovrl": 3.0, "dnsmos.sig": 4.0, "ves": None}
    assert first["score_reason"]["ves"] == "needs the key GEMINI_API_KEY"  # type: ignore[index]
    assert first["case"]["cue"]["coarse"] == "paralinguistic"  # type: ignore[index]
    assert first["usage"] == {"input_tokens": 100, "output_tokens": 50}
    silent = rows[5]
    assert silent["failure"] == {"kind": "no_response", "message": "nothing for 15 s"}
    assert silent["reply_audio"] is None
    assert silent["usage"] == {"input_tokens": None, "output_tokens": None}
    for row in rows:
        for key in ("reply_audio", "both_sides_audio"):
            if row[key] is not None:
                assert (run_folder / str(row[key])).is_file()


def test_csv_and_json_lines_agree(run_folder: Path) -> None:
    nested, flat = rows_of(run_folder, "jsonl"), rows_of(run_folder, "csv")
    assert len(flat) == len(nested)
    for row, expected in zip(flat, nested, strict=True):
        assert row["turn_id"] == expected["turn_id"]
        value = expected["latency_ms"]["voice_to_voice"]  # type: ignore[index]
        assert row["latency_ms.voice_to_voice"] == ("" if value is None else str(value))
        assert row["reply_text"] == (expected["reply_text"] or "")
    assert flat[11]["warnings"] == '["unknown_event"]'
    assert flat[0]["warnings"] == ""


def test_lists_in_csv_keep_their_separators() -> None:
    labels = ["too slow", 'a, "b"; c', "line\u2028end"]
    lines = "".join(csv_rows(["labels"], [{"labels": labels}, {"labels": []}]))
    rows = list(csv.DictReader(io.StringIO(lines, newline="")))
    assert [row["labels"] for row in rows][1:] == [""]
    assert json.loads(rows[0]["labels"]) == labels


def test_csv_escapes_line_ends_and_formulas(tmp_path: Path) -> None:
    replies = ["=1+1", "one\r=HYPERLINK(1)", 'two\n"three"', "-1"]
    with RunWriter.create(tmp_path / "run", {}) as run:
        for number, reply in enumerate(replies):
            run.commit(spoken_turn(a_case(number), TurnPlan(reply_text=reply)))
        run.end(finished=True)
    rows = rows_of(tmp_path / "run", "csv")
    assert [row["reply_text"] for row in rows] == ["'=1+1", *replies[1:]]
    assert [row["turn_id"] for row in rows] == [a_case(number).case_id for number in range(4)]


def test_rows_are_written_to_a_file(run_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    done = CliRunner().invoke(cli, ["export", str(run_folder), "--to", "csv", "-o", str(file)])
    assert done.exit_code == 0
    assert "24 turns" in done.stderr
    with file.open(encoding="utf-8", newline="") as opened:
        assert len(list(csv.DictReader(opened))) == 24
    missing = CliRunner().invoke(cli, ["export", str(run_folder), "-o", str(tmp_path / "no" / "rows")])
    assert "cannot write" in str(missing.exception)


def test_a_score_of_another_task_is_not_applicable(tmp_path: Path) -> None:
    question = replace(a_case(1), task=Task.UNDERSTANDING)
    with RunWriter.create(tmp_path / "run", {}) as run:
        for case in (a_case(0), question, a_case(2)):
            run.commit(spoken_turn(case))
        run.end(finished=True)
    with ScoreStore.open(tmp_path / "run") as scores:
        scores.put("bleu", "1", a_case(0).case_id, Scored({"": 1.0}))
    reasons = [row["score_reason"]["bleu"] for row in rows_of(tmp_path / "run", "jsonl")]  # type: ignore[index]
    assert reasons == [None, "not applicable to the task understanding", "not judged yet"]


def test_a_run_without_turns_has_no_rows(run_folder: Path) -> None:
    with RunReader.open(run_folder) as run:
        to = io.StringIO()
        assert write_rows(ExportTable(run), "csv", to) == 24
    assert CliRunner().invoke(cli, ["export", str(run_folder / "audio")]).exception is not None
