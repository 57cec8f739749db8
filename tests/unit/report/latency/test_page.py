"""The page of a latency campaign."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

from live_eval.analysis.assertions import CheckedAssertion
from live_eval.analysis.latency.assertions import parse_assertion
from live_eval.analysis.statistics.intervals import Interval
from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.summary import campaign_summary
from live_eval.cli import cli
from live_eval.errors import UsageError
from live_eval.report.latency import write_campaign_page
from live_eval.timing import Latency
from tests.support.campaigns import a_case, point, turns_at, write_campaign
from tests.support.pages import Page
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.latency.conditions import SLOWER, failed, turn_of

TIMES = [500.0 + 7 * number for number in range(40)]


EARLY = spoken_turn(a_case(60), TurnPlan(first_byte_ms=-300.0, endpointing_ms=-350.0))


HOSTILE = "a&b</script><script>alert(1)</script>'\"#? +é"


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
    summary = campaign_summary(read_campaign(folder), definitions=False)
    checked = CheckedAssertion(
        assertion=parse_assertion("voice_to_voice.p50 < 1ms"),
        holds=False,
        value=640.0,
        interval=Interval(600.0, 700.0),
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
    # The sweep, the distributions and the waterfalls together link to every measured turn.
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


def test_an_incomplete_campaign_has_a_page(tmp_path: Path) -> None:
    no_session = Latency(None, "no session")
    unready = [replace(turn, timing=replace(turn.timing, connect=no_session)) for turn in map(failed, (1, 2))]
    entries = [(point("c1"), unready)]
    folder = write_campaign(tmp_path / "campaign", entries, complete=False)
    facts = json.loads((folder / "campaign.json").read_text("utf-8"))
    facts["points"].append(point("c8"))
    (folder / "campaign.json").write_text(json.dumps(facts), "utf-8")
    page = Page(
        write_campaign_page(campaign_summary(read_campaign(folder), definitions=False)).read_text("utf-8")
    )
    assert "The campaign is incomplete" in page.text
    assert "Cannot read c8" in page.text
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
        assert "a campaign's report is latency.html in its folder" in str(refused.exception)


def test_a_page_replaces_a_link(tmp_path: Path) -> None:
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), turns_at(TIMES[:2]))])
    outside = tmp_path / "outside.html"
    outside.write_text("mine", "utf-8")
    (folder / "c1" / "report.html").symlink_to(outside)
    write_campaign_page(campaign_summary(read_campaign(folder), definitions=False))
    assert outside.read_text("utf-8") == "mine"
    assert not (folder / "c1" / "report.html").is_symlink()
