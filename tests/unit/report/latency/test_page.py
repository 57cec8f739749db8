"""The page of a latency campaign: links, charts, and incomplete campaigns."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from click.testing import CliRunner

from live_eval.analysis.statistics.intervals import Interval
from live_eval.campaigns.latency.assertions import CheckedAssertion, parse_assertion
from live_eval.campaigns.latency.campaign_file import PointRecord, StoredPoint, read_campaign
from live_eval.campaigns.latency.point_metrics import point_metrics
from live_eval.campaigns.latency.summary import campaign_summary
from live_eval.cli import cli
from live_eval.errors import FailureKind, UsageError
from live_eval.recording import TurnRecord
from live_eval.report.latency import write_campaign_page
from live_eval.report.latency.bars import mean_waterfall, sweep, turn_waterfall
from live_eval.report.latency.curves import latency_curves, latency_tails
from live_eval.report.latency.points import PointView, load_in_words
from live_eval.testing.records import TurnPlan, spoken_turn
from live_eval.timing import Latency
from live_eval.types import Failure
from tests.support.campaigns import a_case, point, turns_at, write_campaign
from tests.support.pages import Page

TIMES = [500.0 + 7 * number for number in range(40)]
SLOWER = [at + 200 + number for number, at in enumerate(TIMES)]
EARLY = spoken_turn(a_case(60), TurnPlan(first_byte_ms=-300.0, endpointing_ms=-350.0))
HOSTILE = "a&b</script><script>alert(1)</script>'\"#? +é"


def failed(number: int) -> TurnRecord:
    return spoken_turn(
        a_case(number), TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_RESPONSE, HOSTILE))
    )


def view_of(entry: dict[str, Any], turns: Sequence[TurnRecord]) -> PointView:
    """A condition of a page without a folder."""
    record = PointRecord(
        stored=StoredPoint.model_validate(entry),
        path=Path("campaign") / str(entry["run"]),
        turns=tuple(turns),
    )
    return PointView(0, record, point_metrics(record))


@pytest.fixture(scope="module")
def c1() -> PointView:
    return view_of(point("c1"), [*turns_at(TIMES), failed(50), EARLY])


@pytest.fixture(scope="module")
def c8() -> PointView:
    return view_of(point("c8", concurrency=8), turns_at(SLOWER))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_campaign(
        tmp_path_factory.mktemp("page") / "campaign",
        [
            (point("sentinel-start", "sentinel"), turns_at(TIMES[:2])),
            (point("c1"), [*turns_at(TIMES[:8]), failed(50), EARLY]),
            (point("c8", concurrency=8, turn_detection={"eagerness": HOSTILE}), turns_at(SLOWER[:8])),
            (point("manual", "endpointing", turn_mode="manual"), turns_at(TIMES[:3])),
            (point("vad", "endpointing"), turns_at(SLOWER[:3])),
            (point("sentinel-end", "sentinel"), turns_at(SLOWER[:2])),
        ],
        notes=[HOSTILE],
    )
    summary = campaign_summary(read_campaign(folder), words=False)
    checked = CheckedAssertion(
        assertion=parse_assertion("voice_to_voice.p50 < 1ms"),
        holds=False,
        value_ms=640.0,
        interval_ms=Interval(600.0, 700.0),
        error_bar_ms=0.3,
        n=8,
        point="c8",
    )
    write_campaign_page(replace(summary, asserts=[checked]))
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page((folder / "latency.html").read_text("utf-8"))


def links(page: Page) -> list[str]:
    return [href for tag, found in page.elements if tag == "a" and (href := found.get("href")) is not None]


def turn_of(href: str) -> str:
    return parse_qs(urlsplit(href).fragment)["turn"][0]


def test_every_link_has_a_target(folder: Path, page: Page) -> None:
    sections = {found["id"] for _, found in page.elements if "id" in found}
    turns: dict[str, set[str]] = {}
    for href in links(page):
        path, fragment = urlsplit(href).path, urlsplit(href).fragment
        if not path:
            assert fragment in sections
            continue
        if path not in turns:
            report = Page((folder / unquote(path)).read_text("utf-8"))
            turns[path] = {str(details["id"]) for details in report.details()}
        if fragment.startswith("turn="):
            assert turn_of(href) in turns[path], href
        else:
            assert fragment in ("", "failures")
    assert {f"{name}/report.html" for name in ("c1", "c8", "manual", "vad", "sentinel-end")} <= turns.keys()
    # The sweep, the distributions and the waterfalls together lead to every measured turn.
    reached = {turn_of(href) for href in links(page) if href.startswith("c1/") and "#turn=" in href}
    assert reached == {f"case-{number:03}" for number in (*range(8), 50, 60)}


def test_the_page_runs_no_script_and_loads_nothing(page: Page) -> None:
    assert page.unbalanced == []
    assert page.scripts == []
    assert not [found for tag, found in page.elements if "src" in found or tag in ("img", "iframe", "object")]
    assert not re.search(r"@import|url\s*\(|https?:", page.styles)
    policy = next(found["content"] for tag, found in page.elements if "http-equiv" in found)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy
    assert "600 to 700" in page.text
    assert page.text.count(HOSTILE) >= 2  # the note and the detector's setting, as text


def test_a_percentile_links_to_the_turn_at_its_rank(c8: PointView) -> None:
    chart = sweep([c8], "voice_to_voice")
    assert chart is not None
    (row,) = chart.rows
    marks = {mark.kind: mark for mark in row.marks}
    median = marks["p50"]
    assert turn_of(median.href) == "case-019"
    voice_ns = next(turn.timing.voice_to_voice.ns for turn in c8.record.turns if turn.turn_id == "case-019")
    assert voice_ns is not None
    assert float(median.title.split()[1]) == pytest.approx(voice_ns / 1e6, abs=5)
    assert turn_of(marks["p95"].href) == "case-037"
    assert "p99" not in marks  # 40 turns have none
    assert [bar.kind for bar in row.bars] == ["range", "interval"]


def test_a_curve_has_a_dot_for_each_turn_at_its_height(c1: PointView, c8: PointView) -> None:
    found = latency_curves("Voice to voice", "voice_to_voice", [c1])
    assert found is not None
    assert len(found.dots) == 41
    quickest, slowest = found.dots[0], found.dots[-1]
    assert turn_of(quickest.href) == "case-060"
    zero = next(tick.at for tick in found.across_ticks if tick.label == "0")
    assert quickest.across < zero
    assert slowest.up == pytest.approx(100 * 41 / 42)  # the failed turn is not on the curve
    both = latency_curves("Voice to voice", "voice_to_voice", [c1, c8])
    assert both is not None
    assert [name.href for name in both.legend] == ["c1/report.html", "c8/report.html"]


def test_the_slowest_of_many_turns_have_dots() -> None:
    view = view_of(point("c1"), turns_at([300.0 + number for number in range(200)]))
    found = latency_curves("First byte", "first_byte", [view])
    assert found is not None
    assert len(found.dots) <= 60
    assert [turn_of(dot.href) for dot in found.dots[-10:]] == [f"case-{place}" for place in range(190, 200)]
    tail = latency_tails("First byte", "first_byte", [view])
    assert tail is not None
    assert [tick.label for tick in tail.across_ticks] == ["p0", "p50", "p90", "p99"]


def test_the_bars_of_a_waterfall_add_up_to_its_total(c1: PointView, c8: PointView) -> None:
    for chart in (mean_waterfall([c8]), turn_waterfall(c8)):
        assert chart is not None
        end = float(chart.ticks[-1].label)
        for row in chart.rows:
            width_ms = sum(bar.width for bar in row.bars) * end / 100
            assert width_ms == pytest.approx(float(row.cells[-1].text), abs=0.6)
            assert row.bars[0].left == 0
    turns = turn_waterfall(c1)
    assert turns is not None
    early = turns.rows[0]
    assert early.label.text == "case-060"
    assert "s-early" in [bar.kind for bar in early.bars]


def test_the_load_of_a_condition_in_words() -> None:
    facts = StoredPoint.model_validate(
        point("c4", concurrency=4, arrivals="poisson:2", input_s=2.5, turn_detection={"ms": 200})
    )
    assert load_in_words(facts) == "4 concurrent sessions, poisson:2, 2.5 s of speech, ms=200"
    facts = StoredPoint.model_validate(point("c1", turn_mode="manual", sessions="warm"))
    assert load_in_words(facts) == "1 concurrent session, manual turns, warm sessions"


def test_an_incomplete_campaign_has_a_page(tmp_path: Path) -> None:
    no_session = Latency(None, "no session")
    unready = [replace(turn, timing=replace(turn.timing, connect=no_session)) for turn in map(failed, (1, 2))]
    entries = [(point("c1"), unready)]
    folder = write_campaign(tmp_path / "campaign", entries, complete=False)
    facts = json.loads((folder / "campaign.json").read_text("utf-8"))
    facts["points"].append(point("c8"))
    (folder / "campaign.json").write_text(json.dumps(facts), "utf-8")
    page = Page(write_campaign_page(campaign_summary(read_campaign(folder), words=False)).read_text("utf-8"))
    assert "The campaign is incomplete" in page.text
    assert "c8 cannot be read" in page.text
    assert "No turn of the sweep was measured." in page.text
    assert {href for href in links(page) if "/" in href} == {"c1/report.html", "c1/report.html#failures"}
    empty = write_campaign(tmp_path / "empty", [], complete=False)
    assert write_campaign_page(campaign_summary(read_campaign(empty))).is_file()


def test_report_writes_the_pages_of_a_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("live_eval.campaigns.latency.summary.available", lambda: "no recogniser in this test")
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), turns_at(TIMES[:2]))])
    result = CliRunner().invoke(cli, ["report", str(folder)])
    assert result.exit_code == 0, result.output
    assert f"report: {folder / 'latency.html'}" in result.stderr
    assert (folder / "c1" / "report.html").is_file()
    for more in (["--format", "csv"], ["--output", str(tmp_path / "other.html")]):
        refused = CliRunner().invoke(cli, ["report", str(folder), *more])
        assert isinstance(refused.exception, UsageError)
        assert "the report of a campaign is latency.html in its folder" in str(refused.exception)


def test_a_page_replaces_a_link(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), turns_at(TIMES[:2]))])
    outside = tmp_path / "outside.html"
    outside.write_text("mine", "utf-8")
    (folder / "c1" / "report.html").symlink_to(outside)
    write_campaign_page(campaign_summary(read_campaign(folder), words=False))
    assert outside.read_text("utf-8") == "mine"
    assert not (folder / "c1" / "report.html").is_symlink()
