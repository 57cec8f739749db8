"""The studio in a real Chromium: keyboard use, every size and colour scheme, and axe."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Serving
from tests.e2e.helpers import LIVE_EVAL, STRANGERS, told
from tests.support.visited import HOSTILE, REASON, write_visited

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Visited:
    """A studio to visit.

    Args:
        link: The link that it printed.
        finish: Ends the run in progress.
    """

    link: str
    finish: Callable[[], None]


@pytest.fixture
def visited(serving: Serving, tmp_path: Path) -> Iterator[Visited]:
    """A studio that shows the runs of `write_visited`."""
    recordings = tmp_path / "recordings"
    command = [*LIVE_EVAL, "studio", recordings, "--port", "0", "--no-browser"]
    with write_visited(recordings) as finish, serving(command, r"studio: (http\S+)") as link:
        yield Visited(link, finish)


def test_a_visitor_uses_runs_and_turns(node: str, browser: str, visited: Visited) -> None:
    """A run can be reached by keyboard; a value plays its recording; an endpoint's reply is shown as text."""
    command = [node, str(STRANGERS / "studio_visitor.mjs"), browser, visited.link, "use"]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as visitor:
        assert visitor.stdout is not None
        for text in visitor.stdout:
            lines.append(json.loads(text))
            if lines[-1]["type"] == "under way":
                visited.finish()
    by_kind: dict[str, Any] = {line["type"]: line for line in lines}
    assert visitor.returncode == 0, lines
    assert not {"console", "exception", "elsewhere"} & set(by_kind), lines

    assert by_kind["first"]["focused"] == "Skip to the content"
    assert by_kind["run"]["title"] == "amber · live-eval studio"
    assert (by_kind["run"]["rows"], by_kind["run"]["count"]) == (100, "130 of 130 turns")
    assert (by_kind["page"]["rows"], by_kind["page"]["first"]) == (30, "id_100/target")
    assert by_kind["search"]["first"] == "id_017/target"
    assert "filter=bus+id_017" in by_kind["search"]["address"]

    # Voice-to-voice latency of this turn: 517 ms, with 80 ms of lead silence, after 300 ms of speech.
    assert by_kind["figure"]["selected"]
    assert by_kind["figure"]["until"] >= 0.897
    assert by_kind["keys"]["at"] == pytest.approx(1.2)
    assert by_kind["played"]["at"] == pytest.approx(by_kind["played"]["length"], abs=0.1)
    assert 0.5 <= by_kind["dragged"]["share"] < 0.75, "a dragged interval is played to its end"
    assert min(by_kind["drawn"]["colours"]) > 1, "each waveform and spectrogram shows something"

    assert by_kind["hostile"] == {
        "type": "hostile",
        "said": HOSTILE,
        "images": 0,
        "title": "id_001/target · live-eval studio",
    }
    assert REASON in by_kind["reason"]["text"]
    assert by_kind["event"]["body"]["type"]
    assert "200" in by_kind["compared"]["row"]
    assert "finished" in by_kind["ended"]["row"]
    assert "2" in by_kind["ended"]["row"]


@pytest.mark.slow
def test_every_view_is_accessible_and_fits(node: str, browser: str, visited: Visited, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    command: list[str | Path] = [
        node,
        STRANGERS / "studio_visitor.mjs",
        browser,
        visited.link,
        "look",
        pictures,
    ]
    lines = told(command, timeout_s=280)
    looked = [line for line in lines if line["type"] == "looked"]
    assert len(looked) == 68  # 17 pages at two sizes in two colour schemes
    assert len(list(pictures.glob("*.png"))) == 68
    assert [line for line in looked if line["violations"]] == []
    assert [line["view"] for line in looked if line["sideways"] > 0] == []
    assert {line["headings"] for line in looked} == {1}
    assert not [line for line in lines if line["type"] in ("exception", "elsewhere")]
