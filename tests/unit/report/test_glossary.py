"""Notes below a report."""

from __future__ import annotations

import re
from pathlib import Path

from live_eval import studio
from live_eval.analysis.summary.latencies import LATENCY_TITLES
from live_eval.report.glossary import defined_terms, licence_note, studio_terms


def test_the_licence_of_the_recordings_is_shown() -> None:
    kind = {"kind": "echomind"}
    assert "CC BY-NC-SA 4.0" in licence_note({"data": kind, "config": {"data": {"path": "/x"}}})
    assert "Apache-2.0" in licence_note({"data": kind, "config": {"data": {"path": "sample"}}})
    assert "licence of their data set" in licence_note({})
    assert "their consent" in licence_note({"data": {"kind": "live"}})


def test_every_latency_is_defined() -> None:
    terms = defined_terms()
    assert set(LATENCY_TITLES.values()) <= terms.keys()
    assert terms["lead silence"] == "From the first byte to the first audible sample."


def test_every_term_of_the_studio_is_defined() -> None:
    """`term` creates no button for an unknown term."""
    names = {
        name
        for script in Path(studio.__file__).parent.glob("static/*.js")
        for name in re.findall(r'\bterm\("([^"]+)"', script.read_text("utf-8"))
    }
    assert {"turn", "protocol messages", "by ear"} <= names
    assert names <= studio_terms().keys()
