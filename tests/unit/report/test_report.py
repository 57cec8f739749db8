"""Reports: self-contained, complete, and safe against hostile text."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from live_eval.analysis.comparison.series import read_runs
from live_eval.analysis.summary.run import RunSummary, summarise
from live_eval.cli import cli
from live_eval.errors import StoreError, UsageError
from live_eval.recording import RunReader, RunWriter, ScoreReader
from live_eval.report import open_runs, write_report
from live_eval.report.audio import clips
from live_eval.report.bars import waterfall
from live_eval.report.definitions import licence_note
from live_eval.report.pages import script_json
from live_eval.report.plots import Axis, curve_plot
from live_eval.report.tables import Cell, cue_tables, latency_table
from live_eval.report.turns import turn_order
from live_eval.testing.records import TurnPlan, spoken_turn
from live_eval.types import Case, Cue, Variant
from tests.support.pages import Page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \u2028 'quoted\""


def page_of(*runs: Path, audio_mb: float = 40.0) -> Page:
    text = write_report(runs, audio_mb=audio_mb)
    assert text is not None
    return Page(text)


@pytest.fixture(scope="module")
def page(run_folder: Path) -> Page:
    return page_of(run_folder)


def summary_of(path: Path) -> RunSummary:
    with RunReader.open(path) as run, ScoreReader.open(path) as scores:
        return summarise(run, scores)


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


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "\u2028\u2029", "&lt;", HOSTILE])
def test_json_in_a_page_cannot_end_its_element(text: str) -> None:
    made = script_json({"said": text})
    assert not re.search("[<>&\u2028\u2029]", made)
    assert json.loads(made) == {"said": text}


def test_the_page_is_well_formed(page: Page) -> None:
    assert page.unbalanced == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in page.elements if (a.get("href") or "").startswith("#")}  # type: ignore[index]
    assert targets <= set(ids)


def test_every_turn_is_there_with_what_is_known_of_it(page: Page) -> None:
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
    scores = {score[0]: score[1:] for score in first["scores"]}  # type: ignore[attr-defined]
    assert scores["ves"][2] == "needs the key GEMINI_API_KEY"
    envelope = first["envelope"]
    assert isinstance(envelope, dict)
    user = np.frombuffer(base64.b64decode(envelope["user"]), np.uint8)
    quiet = user[round(0.8 / envelope["step"]) :]
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


# -- sound -------------------------------------------------------------------------------------------------


def sounds_of(page: Page) -> list[tuple[str, bytes]]:
    return [
        (attributes["data-mime"] or "", base64.b64decode(text))
        for attributes, text in page.scripts
        if attributes.get("type") == "text/plain"
    ]


def test_audio_that_fits_is_lossless(page: Page, run_folder: Path) -> None:
    sounds = sounds_of(page)
    assert len(sounds) == 24
    assert {mime for mime, _ in sounds} == {"audio/flac"}
    with RunReader.open(run_folder) as run:
        kept = run.both_sides("id_0/target")
    assert kept is not None
    samples, rate_hz = soundfile.read(io.BytesIO(sounds[0][1]), dtype="int16")
    np.testing.assert_array_equal(samples, kept[0])
    assert rate_hz == kept[1]


def test_audio_beyond_the_limit_is_compressed_then_omitted_with_a_note(run_folder: Path) -> None:
    small = page_of(run_folder, audio_mb=0.1)
    sounds = sounds_of(small)
    assert 0 < len(sounds) < 24
    assert {mime for mime, _ in sounds} == {"audio/ogg"}
    assert sum(len(base64.b64encode(data)) for _, data in sounds) <= 100_000
    samples, _ = soundfile.read(io.BytesIO(sounds[0][1]))
    assert samples.shape[1] == 2
    assert f"audio of {len(sounds)} of 24 recorded turns; the rest exceeds its limit" in " ".join(
        small.text.split()
    )
    none = page_of(run_folder, audio_mb=0)
    assert sounds_of(none) == []
    assert "This page contains no audio" in none.text


def test_a_missing_file_is_skipped(tmp_path: Path) -> None:
    there = tmp_path / "a.flac"
    soundfile.write(there, np.zeros((100, 2), np.int16), 8000, format="FLAC")
    assert [clip.key for clip in clips([("x", tmp_path / "gone.flac"), ("y", there)], 10**6)] == ["y"]
    assert list(clips([("y", there)], 0)) == []
    (tmp_path / "broken.flac").write_bytes(b"no sound" * 100)
    with pytest.raises(StoreError, match=r"broken\.flac: expected the audio of a turn"):
        list(clips([("x", tmp_path / "broken.flac")], 500))


def test_only_files_of_the_run_get_into_the_page(run_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(run_folder, run)
    files = sorted((run / "audio").glob("*.both.flac"))
    secret = files[0].rename(tmp_path / "secret.flac")
    files[0].symlink_to(secret)
    files[1].unlink()
    (run / "report.html").symlink_to(tmp_path / "diary")
    (tmp_path / "diary").write_text("dear diary")
    page = page_of(run)
    assert len(sounds_of(page)) == 22
    assert "the audio of 2 turns is missing" in " ".join(page.text.split())
    written = write_report([run])
    assert written is not None
    assert base64.b64encode(secret.read_bytes()).decode() not in written
    assert "points outside the run's folder" in written
    done = CliRunner().invoke(cli, ["report", str(run)])
    assert done.exit_code == 0
    assert not (run / "report.html").is_symlink()
    assert (tmp_path / "diary").read_text() == "dear diary"


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


def small_run(path: Path, *, mode: str = "server_vad", data: str = "x") -> Path:
    with RunWriter.create(path, {"endpoint": {"turn_mode": mode}, "data": {"kind": data}, "turns": 3}) as run:
        for number in (10, 9):
            case = Case(
                case_id=f"c{number}", script_id=f"c{number}", variant=Variant.TARGET, audio_path=Path("a.wav")
            )
            run.commit(spoken_turn(case, TurnPlan(reply_ms=200)))
    return path


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
    assert "bleu is not compared: judged by version 1 in first and by 2 in run" in comparison.notes


def test_runs_without_a_case_in_common_have_no_differences(run_folder: Path, tmp_path: Path) -> None:
    with open_runs([run_folder, small_run(tmp_path / "run")]) as opened:
        comparison = opened[1].view.comparison
        assert comparison is not None
        assert comparison.problem == "first and run cannot be compared: they have no case in common"
        assert comparison.latencies == comparison.scores == {}


# -- odd runs ----------------------------------------------------------------------------------------------


def test_an_unfinished_run_is_marked_and_numbers_sort_as_numbers(tmp_path: Path) -> None:
    page = page_of(small_run(tmp_path / "run"))
    assert "run incomplete: 2 of 3 turns recorded." in page.text
    assert [details["id"] for details in page.details()] == ["c9", "c10"]
    assert "no intervals: fewer than 8 scripts" in " ".join(page.text.split()).lower()


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
    with pytest.raises(UsageError, match="is named twice"):
        write_report([run_folder, run_folder / ".." / run_folder.name])
    with pytest.raises(StoreError, match=r"there is no run\.sqlite"):
        write_report([tmp_path])
    with pytest.raises(UsageError, match="cannot be written"):
        write_report([run_folder], tmp_path / "no" / "report.html")


def test_the_licence_of_the_recordings_is_shown() -> None:
    kind = {"kind": "echomind"}
    assert "CC BY-NC-SA 4.0" in licence_note({"data": kind, "config": {"data": {"path": "/x"}}})
    assert "Apache-2.0" in licence_note({"data": kind, "config": {"data": {"path": "sample"}}})
    assert "licence of their data set" in licence_note({})


# -- tables and charts -------------------------------------------------------------------------------------


def test_the_cue_table_is_an_outline_without_repetition(run_folder: Path) -> None:
    with open_runs([run_folder]) as opened:
        [table] = cue_tables([opened[0].view])
    assert [(row[0].text, row[0].indent) for row in table.rows] == [
        ("all target", 0),
        ("all neutral", 0),
        ("environment", 0),
        ("weather: wind", 1),
        ("paralinguistic", 0),
        ("emotion: happy", 1),
        ("speaker", 0),
        ("age: elderly", 1),
        ("neutral", 0),
        ("unlabelled", 0),
        ("a voice nobody named", 2),
    ]
    assert [int(row[1].text) for row in table.rows][:3] == [12, 12, 3]


def test_a_curve_rises_to_the_share_of_answered_turns() -> None:
    plot = curve_plot("x", [(Cell("a"), [100.0, 200.0, 400.0], 4)])
    assert plot is not None
    [curve] = plot.paths
    assert curve.d == "M0 400H250.0V300.0H500.0V200.0H1000.0V100.0H1000"
    assert [tick.label for tick in plot.across_ticks] == ["0", "100", "200", "300", "400"]
    assert curve_plot("x", [(Cell("a"), [], 4)]) is None


def test_outliers_are_beyond_the_axis_and_counted() -> None:
    values = [*np.linspace(300, 500, 99).tolist(), 20_000.0]
    plot = curve_plot("x", [(Cell("a"), values, 100), (Cell("b", run=1), [-50.0], 1)])
    assert plot is not None
    assert [name.note for name in plot.legend] == ["1 beyond the axis", ""]
    assert float(plot.across_ticks[-1].label) < 1000
    assert plot.across_ticks[0].label.startswith("−"), "an early reply is to the left of zero"
    many = curve_plot("x", [(Cell("a"), np.linspace(1, 2, 5000).tolist(), 5000)])
    assert many is not None
    assert len(many.paths[0].d) < 10_000


def test_the_stages_of_a_waterfall_add_up(run_folder: Path) -> None:
    summary = summary_of(run_folder)
    keys = {turn.turn_id: turn.turn_id for turn in summary.turns}
    chart = waterfall(summary, keys)
    assert chart is not None
    assert chart.axis.startswith("Turns from the fastest")
    totals = [float(row.cells[0].text) for row in chart.rows]
    assert (len(totals), totals) == (19, sorted(totals))
    last = chart.rows[-1].bars[-1]
    scale = totals[-1] / (last.left + last.width - chart.zero)
    for row, total in zip(chart.rows, totals, strict=True):
        assert [each.kind for each in row.bars] == ["s-endpointing", "s-response", "s-silence"]
        assert sum(each.width for each in row.bars) * scale == pytest.approx(total, abs=1)


def run_of(path: Path, plans: dict[str, TurnPlan]) -> RunSummary:
    with RunWriter.create(path, {}) as run:
        for name, plan in plans.items():
            case = Case(
                case_id=name,
                script_id=name,
                variant=Variant.TARGET,
                audio_path=Path("a.wav"),
                cue=Cue("x"),
            )
            run.commit(spoken_turn(case, plan))
    return summary_of(path)


def test_a_waterfall_with_disordered_marks_and_early_replies(tmp_path: Path) -> None:
    summary = run_of(
        tmp_path / "run",
        {
            "late": TurnPlan(endpointing_ms=900, first_byte_ms=300),
            "none": TurnPlan(endpointing_ms=None, first_byte_ms=400),
            "early": TurnPlan(endpointing_ms=None, first_byte_ms=-300, lead_silence_ms=0),
        },
    )
    chart = waterfall(summary, {name: name for name in ("late", "none", "early")})
    assert chart is not None
    rows = {row.label.text: row for row in chart.rows}
    assert [each.kind for each in rows["early"].bars] == ["s-early"]
    assert [each.kind for each in rows["none"].bars] == ["s-response", "s-silence"]
    assert [each.kind for each in rows["late"].bars] == ["s-response", "s-silence"]
    assert rows["early"].bars[0].left < chart.zero
    assert all(
        each.left >= 0 and each.left + each.width <= 100.001 for row in chart.rows for each in row.bars
    )


def test_many_turns_are_drawn_evenly_by_rank(tmp_path: Path) -> None:
    plans = {f"c{n}": TurnPlan(first_byte_ms=300 + n, reply_ms=60) for n in range(50)}
    summary = run_of(tmp_path / "run", plans)
    chart = waterfall(summary, {name: name for name in plans})
    assert chart is not None
    assert len(chart.rows) == 36
    assert chart.axis.startswith("36 of 50 turns")
    assert [row.label.href for row in (chart.rows[0], chart.rows[-1])] == ["#c0", "#c49"]


def test_turns_sort_by_script_variant_and_repetition(run_folder: Path) -> None:
    ordered = sorted(summary_of(run_folder).turns, key=turn_order)
    assert [turn.turn_id for turn in ordered[:3]] == ["id_0/target", "id_0/neutral", "id_1/target"]
    assert ordered[-1].turn_id == "id_11/neutral"


# -- the other forms ---------------------------------------------------------------------------------------


def report(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["report", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


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


def test_the_page_is_written_to_the_runs_folder_by_default(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    done = CliRunner().invoke(cli, ["report", str(run)], catch_exceptions=False)
    assert done.exit_code == 0
    assert (run / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not list(run.glob("*.part"))
    report(str(run), "-o", str(tmp_path / "page.html"), "--audio-mb", "0")
    assert (tmp_path / "page.html").stat().st_size < (run / "report.html").stat().st_size


def test_several_runs_show_each_score_against_latency(run_folder: Path, slower_run_folder: Path) -> None:
    page = page_of(run_folder, slower_run_folder)
    assert not page.unbalanced
    text = page.text
    assert "dnsmos.sig MOS ↑ against voice to voice; on the front: first" in " ".join(text.split())
    dots = [
        attributes for tag, attributes in page.elements if (attributes.get("class") or "").startswith("dot ")
    ]
    links = [attributes for attributes in dots if "href" in attributes]
    keys = {attributes.get("id") for tag, attributes in page.elements if tag == "tr"}
    assert links
    assert all((attributes["href"] or "")[1:] in keys for attributes in links)
    assert any((attributes.get("title") or "").startswith("first: median ") for attributes in dots)
    assert any(attributes.get("id") == "trade-offs" for _, attributes in page.elements)


def test_one_run_shows_no_trade_offs(page: Page) -> None:
    assert not [tag for tag, attributes in page.elements if attributes.get("id") == "trade-offs"]


def test_scores_against_latency_are_in_the_json_of_several_runs(
    run_folder: Path, slower_run_folder: Path
) -> None:
    value = json.loads(write_report([run_folder, slower_run_folder], form="json") or "")
    assert [each["score"] for each in value["trade_offs"]] == ["bleu", "dnsmos.ovrl", "dnsmos.sig"]
    assert json.loads(write_report([run_folder], form="json") or "")["trade_offs"] == []


def test_an_axis_between_values_may_exclude_zero() -> None:
    axis = Axis.between(3.02, 3.41)
    assert axis.low <= 3.02
    assert axis.high >= 3.41
    assert axis.low > 2.9
    assert Axis.between(4.0, 4.0).ticks()[0].label == "4"
