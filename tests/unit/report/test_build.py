"""The page of one run and of several."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from live_eval.analysis.comparison.series import read_runs
from live_eval.cli import cli
from live_eval.errors import StoreError, UsageError
from live_eval.recording import RUN_FILE, SCORES_FILE, RunReader, RunWriter
from live_eval.report import open_runs, write_report
from live_eval.report.tables import latency_table
from tests.support.pages import Page
from tests.unit.report.pages import page_of, report, small_run, sounds_of, summary_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 'quoted\""


# -- the page ----------------------------------------------------------------------------------------------


def test_the_page_loads_nothing_from_other_hosts(page: Page) -> None:
    for tag, attributes in page.elements:
        for name in ("src", "srcset", "data", "action", "poster", "background"):
            assert name not in attributes, (tag, name)
        href = attributes.get("href")
        assert href is None or href.startswith(("#", "data:,")), href
    assert not re.search(r"@import|url\s*\(|https?:", page.styles)
    code = next(text for attributes, text in page.scripts if not attributes)
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|eval\(|document\.write", code)
    assert not re.search(r"https?:", code)


def test_the_page_runs_only_its_own_script(page: Page) -> None:
    policy = next(a["content"] for tag, a in page.elements if tag == "meta" and "http-equiv" in a)
    assert policy is not None
    running = [text for attributes, text in page.scripts if attributes.get("type") is None]
    assert len(running) == 1
    digest = base64.b64encode(hashlib.sha256(running[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_text_of_an_endpoint_is_never_markup(page: Page) -> None:
    assert not [tag for tag, _ in page.elements if tag in ("img", "iframe", "object", "embed", "audio")]
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    hostile = next(details for details in page.details() if details["id"] == "id_1/neutral")
    assert ["Reply", HOSTILE] in hostile["texts"]  # type: ignore[operator]
    failed = next(details for details in page.details() if details["id"] == "id_3/target")
    assert failed["failure"] == ["closed", HOSTILE]
    assert any("onerror=alert(2)" in (row["data-search"] or "") for row in page.rows())


def test_the_page_is_well_formed(page: Page) -> None:
    assert page.unbalanced == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in page.elements if (a.get("href") or "").startswith("#")}  # type: ignore[index]
    assert targets <= set(ids)


def test_every_turn_is_listed_with_its_values(page: Page) -> None:
    rows, details = page.rows(), page.details()
    assert len(rows) == len(details) == 24
    assert [row["data-status"] for row in rows].count("captured") == 17, "22, of which 5 have a badge"
    failed = [row for row in rows if (row["data-status"] or "").startswith("failed")]
    assert len(failed) == 2
    for row in failed:
        assert (row["data-values"] or "").strip() == "", "a failed turn has no figure"
    first = details[0]
    assert first["id"] == "id_0/target"
    assert [mark[0] for mark in first["marks"]] == ["end", "endpointing", "byte", "done", "audible"]  # type: ignore[attr-defined]
    marks = {mark[0]: mark[2] for mark in first["marks"]}  # type: ignore[attr-defined]
    assert marks["end"] == pytest.approx(0.8)
    assert marks["byte"] == pytest.approx(1.2)
    assert marks["audible"] == pytest.approx(1.28, abs=1e-3)
    latencies = {name: value for name, value, _ in first["latencies"]}  # type: ignore[attr-defined]
    assert latencies["voice to voice"] == pytest.approx(480, abs=0.1)
    [columns] = [text for attributes, text in page.scripts if attributes.get("id") == "score-columns"]
    names = [column["name"] for column in json.loads(columns)[0]]
    scores = dict(zip(names, first["scores"], strict=True))  # type: ignore[call-overload]
    assert scores["ves"] == [None, "needs the key GEMINI_API_KEY"]
    [clip] = [attributes for attributes, _ in page.scripts if attributes.get("id") == "sound-t0"]
    user = np.frombuffer(base64.b64decode(clip["data-user"] or ""), np.uint8)
    quiet = user[round(0.8 / float(clip["data-step"] or 0)) :]
    assert user[:40].min() > 100
    assert quiet.max() == 0


def test_the_page_shows_the_main_values(page: Page) -> None:
    for told in (
        "22 of 24",
        "ves could not run: needs the key GEMINI_API_KEY. It is not replaced by another judge.",
        "voice to voice",
        "This page contains the audio of 24 of 24 recorded turns",
        "Definitions",
        "endpoint.turn_mode",
        "packages.numpy",
    ):
        assert told in " ".join(page.text.split()), told


def test_tables_are_read_without_scripts(page: Page) -> None:
    assert page.text.count("id_0/target") >= 1
    assert "540" in page.text
    assert "I hear you, 12." in page.text


def test_the_notes_of_cells_are_shown_by_a_switch(page: Page) -> None:
    """A tooltip alone is not accessible by keyboard or touch."""
    noted = [
        attributes["title"] for tag, attributes in page.elements if tag == "td" and attributes.get("title")
    ]
    assert sum("95 % interval" in (note or "") for note in noted) > 10
    assert all(note in page.text for note in noted if note)
    assert "Show intervals, n and reasons in the cells" in page.text
    assert "notes-too" in page.styles


# -- several runs ------------------------------------------------------------------------------------------


def test_several_runs_are_compared_with_the_first(run_folder: Path, slower_run_folder: Path) -> None:
    with open_runs([run_folder, slower_run_folder]) as opened:
        first, second = (run.view for run in opened)
        assert first.comparison is None
        assert second.comparison is not None
        moved = second.comparison.latencies["first_byte"]
        assert moved.n == 19
        assert moved.value == pytest.approx(101, abs=0.2)
        assert moved.interval is not None
        assert 100 <= moved.interval.low <= moved.interval.high <= 102
        assert second.comparison.latencies["connect"].value == 0
        assert second.comparison.scores["dnsmos.sig"].value == pytest.approx(-0.1)
        assert second.comparison.scores["ves"].value is None
        table = latency_table([first, second])
    assert [column.label for column in table.columns[-2:]] == [
        "against first, paired, mean over scripts",
        "difference without flagged turns",
    ]
    clear = second.comparison.without_flagged["first_byte"]
    assert clear.n == 18
    assert clear.value == pytest.approx(101, abs=0.2)
    assert second.comparison.as_json()["latency_ms"]["first_byte"]["without_flagged"]["n"] == 18
    assert any("1 turn in first, 1 in second; latency" in note for note in second.comparison.notes)
    assert "+101 (+101 to +101)" in [cell.text for row in table.rows for cell in row]


def test_several_runs_make_one_page(run_folder: Path, slower_run_folder: Path) -> None:
    page = page_of(run_folder, slower_run_folder)
    assert page.unbalanced == []
    assert len(page.rows()) == 48
    assert [row["data-run"] for row in page.rows()[:4]] == ["0", "1", "0", "1"], "side by side, by case"
    assert len(sounds_of(page)) == 48


def test_turns_ended_by_different_hands_are_not_compared(tmp_path: Path) -> None:
    one, two = small_run(tmp_path / "a" / "run"), small_run(tmp_path / "b" / "run", mode="manual")
    with open_runs([one, two]) as opened:
        assert [run.view.label for run in opened] == ["a/run", "b/run"]
        comparison = opened[1].view.comparison
        assert comparison is not None
        assert comparison.latencies == {}
        assert comparison.notes == (
            "latencies are not compared: the user's turns were ended by server_vad in a/run and by manual "
            "in b/run",
        )
    assert "are not compared" in page_of(one, two).text


def test_scores_of_different_versions_are_not_compared(run_folder: Path, tmp_path: Path) -> None:
    from live_eval.judging import Scored
    from live_eval.recording import ScoreStore
    from live_eval.report.compare import compare

    other = Path(shutil.copytree(run_folder, tmp_path / "run"))
    with RunReader.open(other) as run, ScoreStore.open(other) as scores:
        for turn in run.turns():
            scores.put("bleu", "2", turn.turn_id, Scored({"": 1.0}))
    first, second = read_runs([run_folder, other])
    comparison = compare((first, second), (summary_of(run_folder), summary_of(other)))
    assert "bleu" not in comparison.scores
    assert "BLEU is not compared: judged by version 1 in first and by 2 in run" in comparison.notes


def test_runs_without_a_case_in_common_have_no_differences(run_folder: Path, tmp_path: Path) -> None:
    with open_runs([run_folder, small_run(tmp_path / "run")]) as opened:
        comparison = opened[1].view.comparison
        assert comparison is not None
        assert comparison.problem == "cannot compare first and run: they have no case in common"
        assert comparison.latencies == comparison.scores == {}


# -- odd runs ----------------------------------------------------------------------------------------------


def test_an_unfinished_run_is_marked_and_numbers_sort_as_numbers(tmp_path: Path) -> None:
    page = page_of(small_run(tmp_path / "run"))
    assert "run incomplete: 2 of 3 turns recorded." in page.text
    assert [details["id"] for details in page.details()] == ["c9", "c10"]
    assert "no intervals: fewer than 8 scripts" in " ".join(page.text.split()).lower()


def test_the_details_of_retimed_turns_are_retimed(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    with sqlite3.connect(folder / RUN_FILE) as db:
        db.execute("UPDATE turns SET timing = json_set(timing, '$.lag_ns', 99000000)")
    db.close()
    assert [details["lag"] for details in page_of(folder).details()] == [[99.0, False]] * 2
    assert [details["lag"] for details in page_of(folder, retime=True).details()] == [[0.3, False]] * 2


def test_a_run_without_turns_has_a_page(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", {}) as run:
        run.end(finished=True)
    page = page_of(tmp_path / "run")
    assert page.unbalanced == []
    assert page.rows() == []
    assert "Every turn was captured" not in page.text or "0 of 0" in page.text


def test_a_pipe_as_output_is_not_replaced(run_folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text, "utf-8")
        write_report([run_folder], pipe, form="md", links=True)
        assert read.result(10) == write_report([run_folder], form="md")
    assert pipe.is_fifo()


def test_invalid_arguments_are_refused(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one run"):
        write_report([])
    with pytest.raises(UsageError, match="is given twice"):
        write_report([run_folder, run_folder / ".." / run_folder.name])
    with pytest.raises(StoreError, match=r"found no run\.sqlite"):
        write_report([tmp_path])
    with pytest.raises(UsageError, match="cannot write"):
        write_report([run_folder], tmp_path / "no" / "report.html")


def test_the_short_page_has_the_headline_and_every_turn(run_folder: Path, tmp_path: Path) -> None:
    written = tmp_path / "short.html"
    report(str(run_folder), "-o", str(written), "--short")
    whole = tmp_path / "whole.html"
    report(str(run_folder), "-o", str(whole))
    short, full = (Page(path.read_text("utf-8")) for path in (written, whole))
    test_the_page_is_well_formed(short)
    test_the_page_loads_nothing_from_other_hosts(short)
    assert short.details() == full.details()
    sections = [attributes["id"] for tag, attributes in short.elements if tag == "section"]
    assert sections == ["headline", "turns", "paper", "definitions"]
    refused = CliRunner().invoke(cli, ["report", str(run_folder), "--short", "--format", "csv"])
    assert "--short and --format csv: expected the format html" in str(refused.exception)


def test_the_page_is_written_to_the_runs_folder_by_default(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    done = CliRunner().invoke(cli, ["report", str(run)], catch_exceptions=False)
    assert done.exit_code == 0
    assert (run / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not list(run.glob("*.part"))
    report(str(run), "-o", str(tmp_path / "page.html"), "--audio-mb", "0")
    assert (tmp_path / "page.html").stat().st_size < (run / "report.html").stat().st_size


def test_the_paper_has_a_row_for_the_run_and_its_main_score_is_plotted(run_folder: Path) -> None:
    page = page_of(run_folder)
    [row] = [
        attributes for tag, attributes in page.elements if tag == "tr" and attributes.get("class") == "ours"
    ]
    assert row
    assert "GPT-4o-Audio" in page.text
    assert "This run and the paper" in page.text
    assert "BLEU" in page.text.split("Scores against latency")[1]


def test_scores_are_defined_where_a_button_asks(page: Page) -> None:
    defined = {
        attributes["id"] for tag, attributes in page.elements if tag == "div" and "popover" in attributes
    }
    asked = {
        attributes["popovertarget"] for tag, attributes in page.elements if "popovertarget" in attributes
    }
    assert asked
    assert asked <= defined
    links = {
        attributes["href"]
        for tag, attributes in page.elements
        if attributes.get("class") == "about" and tag == "a"
    }
    ids = {f"#{attributes['id']}" for _, attributes in page.elements if "id" in attributes}
    assert len(links) >= 5
    assert links <= ids, "each heading links to a definition of the page"


def test_both_estimators_have_their_names(run_folder: Path, slower_run_folder: Path) -> None:
    page = page_of(run_folder, slower_run_folder)
    assert "voice to voice, p50, all turns" in page.text
    assert "against first, paired, mean over scripts" in page.text
    shown = json.loads(CliRunner().invoke(cli, ["show", str(run_folder), "--json"]).stdout)
    compared = CliRunner().invoke(cli, ["compare", str(run_folder), str(slower_run_folder), "--json"])
    assert (shown["estimator"], json.loads(compared.stdout)["estimator"]) == (
        "all turns",
        "mean over scripts",
    )


def test_a_report_is_written_without_damaged_scores(run_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_folder, tmp_path / "run")
    scores = (run / SCORES_FILE).read_bytes()
    (run / SCORES_FILE).write_bytes(scores[: len(scores) // 2])
    done = CliRunner().invoke(cli, ["report", str(run), "--format", "md"])
    assert done.exit_code == 0
    for text in (done.stdout, done.stderr):
        assert "live-eval score run" in text
        assert str(tmp_path) not in text
    assert summary_of(run_folder).total > 0
    assert f"{summary_of(run_folder).total}" in done.stdout
    warnings: list[str] = []
    assert "live-eval score run" in (write_report([run], form="json") or "")
    assert write_report([run], form="csv", warn=warnings.append)
    assert "live-eval score run" in warnings[0]
