"""A report as JSON, CSV and Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.unit.report.pages import report, small_run, summary_of


def test_json_equals_show(run_folder: Path, slower_run_folder: Path) -> None:
    printed = json.loads(report(str(run_folder), str(slower_run_folder), "--format", "json"))
    assert [run["label"] for run in printed["runs"]] == ["first", "second"]
    shown = summary_of(run_folder).as_json()
    assert {key: printed["runs"][0][key] for key in shown} == json.loads(json.dumps(shown))
    [comparison] = printed["comparisons"]
    assert comparison["latency_ms"]["first_byte"]["mean"] == pytest.approx(101, abs=0.2)


def test_csv_has_every_value(run_folder: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(report(str(run_folder), "--format", "csv"))))
    figures = {row["figure"]: row["value"] for row in rows}
    assert figures["turns.captured"] == "22"
    assert float(figures["latency_ms.first_byte.p50"]) == 540
    assert figures["scores.bleu.n_failed"] == "1"


def test_csv_escapes_formulas_and_line_ends(tmp_path: Path) -> None:
    for name in ("=HYPERLINK(1)", "a\rb"):
        text = report(str(small_run(tmp_path / name)), "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        assert {row["run"] for row in rows} == {name.replace("=", "'=")}


def test_markdown_has_the_tables_and_escapes_markup(run_folder: Path, slower_run_folder: Path) -> None:
    text = report(str(run_folder), str(slower_run_folder), "--format", "md")
    assert "# first and second" in text
    assert "22 of 24 turns captured, 2 failed." in text
    assert "**ves** could not run: needs the key GEMINI\\_API\\_KEY" in text
    for lines in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines.splitlines()}
        assert len(widths) == 1
    assert "<" not in text
