"""Scores of several runs against their latencies."""

from __future__ import annotations

import json
from pathlib import Path

from live_eval.report import write_report
from tests.support.pages import Page
from tests.unit.report.pages import page_of


def test_several_runs_show_each_score_against_latency(run_folder: Path, slower_run_folder: Path) -> None:
    page = page_of(run_folder, slower_run_folder)
    assert not page.unbalanced
    text = page.text
    assert "quality of the speech (P.835) MOS ↑ against voice to voice; on the front: first" in " ".join(
        text.split()
    )
    dots = [
        attributes for tag, attributes in page.elements if (attributes.get("class") or "").startswith("dot ")
    ]
    links = [attributes for attributes in dots if "href" in attributes]
    keys = {attributes.get("id") for tag, attributes in page.elements if tag == "tr"}
    assert links
    assert all((attributes["href"] or "")[1:] in keys for attributes in links)
    assert any((attributes.get("title") or "").startswith("first: median ") for attributes in dots)
    assert any(attributes.get("id") == "trade-offs" for _, attributes in page.elements)


def test_one_run_shows_its_main_score_against_latency(page: Page) -> None:
    text = " ".join(page.text.split())
    assert "BLEU ↑ against voice to voice" in text
    assert "quality of the speech (P.835) MOS ↑ against voice to voice" not in text


def test_scores_against_latency_are_in_the_json_of_several_runs(
    run_folder: Path, slower_run_folder: Path
) -> None:
    value = json.loads(write_report([run_folder, slower_run_folder], form="json") or "")
    assert [each["score"] for each in value["trade_offs"]] == ["bleu", "dnsmos.ovrl", "dnsmos.sig"]
    alone = json.loads(write_report([run_folder], form="json") or "")
    assert [each["score"] for each in alone["trade_offs"]] == ["bleu"]
