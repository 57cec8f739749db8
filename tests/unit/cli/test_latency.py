"""The output of `live-eval latency`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.campaigns.latency.campaign_file import read_campaign
from live_eval.campaigns.latency.summary import campaign_summary
from live_eval.cli import cli
from live_eval.cli._latency_command import print_campaign
from live_eval.errors import DataError, FailureKind, UsageError
from live_eval.recording import TurnRecord
from live_eval.types import Failure
from tests.support.campaigns import a_case, point, turns_at, write_campaign
from tests.support.records import TurnPlan, spoken_turn


def printed(folder: Path, turns: list[TurnRecord], capsys: pytest.CaptureFixture[str]) -> list[str]:
    folder = write_campaign(folder, [(point("c1"), turns)])
    print_campaign(campaign_summary(read_campaign(folder), definitions=False))
    return capsys.readouterr().out.splitlines()


def test_a_value_names_the_turns_it_excludes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unsure = [spoken_turn(a_case(number), TurnPlan(uncertain=True)) for number in (20, 21)]
    lines = printed(tmp_path / "c", turns_at([500.0] * 9) + unsure, capsys)
    for name in ("voice to voice", "first byte"):
        assert f"c1: {name}: n 9 of 11 turns; missing: uncertain end of speech 2" in lines


def test_a_campaign_without_captured_turns_prints_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = TurnPlan(first_byte_ms=None, failure=Failure(FailureKind.NO_SESSION, "refused"))
    lines = printed(tmp_path / "c", [spoken_turn(a_case(0), lost)], capsys)
    assert "c1: 1 failed: no_session" in lines
    assert not any("–" in line or "definition" in line for line in lines)


@pytest.mark.parametrize("arguments", [["show"], ["score"], ["export"], ["report", "{other}"]])
def test_a_campaign_where_a_run_is_expected_names_its_runs(tmp_path: Path, arguments: list[str]) -> None:
    folder = write_campaign(tmp_path / "campaign", [(point("c1"), []), (point("c4"), [])])
    asked = [each.format(other=folder / "c1") for each in arguments]
    result = CliRunner().invoke(cli, [*asked, str(folder)])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        f"{folder} is a latency campaign, not a run; its runs: {folder / 'c1'} {folder / 'c4'}. For its "
        f"results: live-eval report {folder}"
    )


def test_settings_of_a_detector_may_end_with_a_comma() -> None:
    flags = ["--turn-detection", "silence_duration_ms=200,", "--data", "absent"]
    with pytest.raises(DataError, match="absent: not found"):  # the settings were read before
        CliRunner().invoke(cli, ["latency", "reference", *flags], catch_exceptions=False)
