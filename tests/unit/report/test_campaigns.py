"""Campaigns as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.cli import cli
from live_eval.errors import StoreError
from tests.support.campaigns import point, turns_at, write_campaign
from tests.support.duplex_campaigns import barge_in, write_duplex_campaign

TIMES = [500.0 + 7 * number for number in range(10)]


def markdown(folder: Path) -> list[str]:
    done = CliRunner().invoke(cli, ["report", str(folder), "--format", "md"], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout.splitlines()


def test_a_duplex_campaign_has_its_assertions_and_interruptions(tmp_path: Path) -> None:
    trials = [("barge-in", "900 ms", barge_in(f"b-{at}", stop_ms=300)) for at in range(8)]
    stubborn = ("barge-in", "900 ms", barge_in("b-8", stop_ms=None))
    asserts = ["barge_in.yielded >= 80%", "barge_in.stop.p50 < 200ms"]
    folder = write_duplex_campaign(
        tmp_path / "a|b", {"clean": [*trials, stubborn]}, asserts=asserts, complete=False
    )
    lines = markdown(folder)
    assert lines[0] == "# a\\|b"
    assert "**The campaign is incomplete: it was interrupted or stopped.**" in lines
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert [row[:4] for row in rows[1:3]] == [
        ["barge\\_in.yielded &gt;= 80%", "clean", "yes", "9"],
        ["barge\\_in.stop.p50 &lt; 200ms", "clean", "no", "8"],
    ]
    [yields] = [row for row in rows if row[0] == "yields to interruptions, %"]
    assert yields[1] == "9"
    assert yields[2].startswith("89 (")
    [stop] = [row for row in rows if row[0] == "is silent after, ms"]
    assert stop[1:] == ["8", "300", "–"]
    [condition] = [row for row in rows if row[:2] == ["barge-in", "900 ms"]]
    assert condition[3] == "yielded 8, kept talking 1"


def test_a_latency_campaign_has_its_assertions_and_conditions(tmp_path: Path) -> None:
    asserts = ["voice_to_voice.p50 < 400ms"]
    folder = write_campaign(tmp_path / "c", [(point("c1"), turns_at(TIMES))], asserts=asserts)
    lines = markdown(folder)
    assert any(line.startswith("| voice\\_to\\_voice.p50 &lt; 400ms | c1 | no | 10 |") for line in lines)
    assert any(line.startswith("| c1 | ") for line in lines)


def test_an_invalid_assertion_in_a_campaign_is_an_error(tmp_path: Path) -> None:
    duplex = write_duplex_campaign(tmp_path / "d", {"clean": []}, asserts=["barge_in > fast"])
    latency = write_campaign(tmp_path / "l", [], asserts=["p99"])
    for folder in (duplex, latency):
        refused = CliRunner().invoke(cli, ["report", str(folder), "--format", "md"])
        assert isinstance(refused.exception, StoreError)
        assert str(refused.exception).startswith(f"{folder}: assertion ")


@pytest.mark.parametrize("asserts", ["voice_to_voice.p50 < 1s", [1]])
def test_assertions_of_the_wrong_type_are_an_error(tmp_path: Path, asserts: object) -> None:
    folder = write_campaign(tmp_path / "c", [], asserts=asserts)
    refused = CliRunner().invoke(cli, ["report", str(folder), "--format", "md"])
    assert isinstance(refused.exception, StoreError)
    assert "asserts" in str(refused.exception)
