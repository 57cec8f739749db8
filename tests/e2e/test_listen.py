"""A listener votes on ten pairs in a real Chromium, and `live-eval arena` imports the votes."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Serving
from tests.e2e.helpers import STRANGERS, told
from tests.support.listening import write_listened_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_ten_pairs_are_voted_on_and_imported_into_the_arena(
    node: str, browser: str, serving: Serving, tmp_path: Path
) -> None:
    recordings, pictures = tmp_path / "recordings", tmp_path / "pictures"
    pictures.mkdir()
    runs = [write_listened_run(recordings / name, hz=hz) for name, hz in (("amber", 220), ("birch", 330))]
    studio: list[str | Path] = [sys.executable, "-m", "live_eval", "studio", recordings, "--port", "0"]
    with serving([*studio, "--no-browser"], r"studio: (http\S+)") as link:
        lines = told([node, STRANGERS / "listener.mjs", browser, link, pictures], timeout_s=240)
    by_kind = {line["type"]: line for line in lines}
    assert not {"console", "exception"} & set(by_kind), lines
    assert by_kind["disabled"]["all"], "a vote needs both replies heard"
    assert "amber" not in by_kind["received"]["text"]
    assert "birch" not in by_kind["received"]["text"]
    assert "10 of 10" in by_kind["results"]["text"]
    assert by_kind["results"]["wide"] == 0, "the page fits a phone"

    votes = tmp_path / "votes.csv"
    votes.write_text(by_kind["csv"]["text"], "utf-8", newline="")
    rows = list(csv.DictReader(by_kind["csv"]["text"].splitlines()))
    assert sum(row["first"] == "amber" for row in rows) == 5
    chosen = [
        "tie" if row["winner"] == "tie" else "1" if row["winner"] == row["first"] else "2" for row in rows
    ]
    assert chosen == ["1", "2", "tie", "1", "2", "tie", "1", "2", "tie", "1"]
    command = [sys.executable, "-m", "live_eval", "arena", *map(str, runs), "--votes", str(votes)]
    done = subprocess.run(
        [*command, "--no-judge", "--json", "--output", str(tmp_path / "arena.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )
    people = json.loads(done.stdout)["people"]
    assert (people["votes"], people["raters"], people["n_other"], people["n_unknown"]) == (10, 1, 0, 0)
