"""Untrusted campaign folders."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from live_eval.audio import Audio
from live_eval.campaigns.latency.campaign_file import read_campaign, read_campaign_file
from live_eval.campaigns.latency.reply_words import WORDS_FILE, ReplyWords
from live_eval.cli import cli
from live_eval.errors import StoreError
from live_eval.speech.recognition import Recogniser, Transcript, Word
from tests.support.campaigns import point, turns_at, write_campaign

REPLY = Audio(np.zeros(1_600, np.float32), 16_000)


class Hears(Recogniser):
    """A recogniser that returns one word for everything."""

    identity = "hears"

    def __init__(self) -> None:
        self.asked = 0

    def transcribe(self, audio: Audio, *, words: bool = True, language: str | None = None) -> Transcript:
        self.asked += 1
        return Transcript("hello", (Word("hello", 0, 100_000_000, 1.0),), "en")


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    return write_campaign(tmp_path / "campaign", [(point("c1"), turns_at([100.0]))])


def test_words_are_not_written_through_a_link(campaign: Path, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_text("dear diary")
    (campaign / WORDS_FILE).symlink_to(diary)
    recogniser = Hears()
    words = ReplyWords(campaign, recogniser)
    words.of(("c1", "turn"), REPLY)
    words.keep()
    assert diary.read_text() == "dear diary"
    assert not (campaign / WORDS_FILE).is_symlink()
    ReplyWords(campaign, recogniser).of(("c1", "turn"), REPLY)
    assert recogniser.asked == 1, "they were kept"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(10)
def test_words_are_not_awaited_from_a_pipe(campaign: Path) -> None:
    os.mkfifo(campaign / WORDS_FILE)
    words = ReplyWords(campaign, Hears())
    assert words.of(("c1", "turn"), REPLY)[0].text == "hello"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(campaign: Path, number: str) -> None:
    path = campaign / "campaign.json"
    path.write_text(path.read_text().replace('"schema": 1', f'"schema": 1, "price": {number}'))
    with pytest.raises(StoreError, match="expected JSON"):
        read_campaign_file(campaign)


@pytest.mark.parametrize("run", ["..", ".", "", "../c1", "/tmp"])
def test_runs_are_folders_in_the_campaign(campaign: Path, run: str) -> None:
    path = campaign / "campaign.json"
    facts = json.loads(path.read_text())
    facts["points"][0]["run"] = run
    path.write_text(json.dumps(facts))
    with pytest.raises(StoreError, match="expected a list of points, each with the folder name of its run"):
        read_campaign_file(campaign)


def test_many_conditions_with_one_run_are_refused(campaign: Path) -> None:
    path = campaign / "campaign.json"
    facts = json.loads(path.read_text())
    facts["points"] *= 2
    path.write_text(json.dumps(facts))
    with pytest.raises(StoreError, match="got a duplicate"):
        read_campaign(campaign)


def test_a_campaign_has_a_limited_number_of_conditions(campaign: Path) -> None:
    path = campaign / "campaign.json"
    facts = json.loads(path.read_text())
    facts["points"] = [facts["points"][0] | {"run": f"c{number}"} for number in range(1_001)]
    path.write_text(json.dumps(facts))
    with pytest.raises(StoreError, match=r"campaign\.json: expected at most 1000 points, got 1001"):
        read_campaign(campaign)


def test_a_run_that_is_a_link_is_not_read(campaign: Path, tmp_path: Path) -> None:
    (campaign / "c1").rename(tmp_path / "other")
    (campaign / "c1").symlink_to(tmp_path / "other")
    (found,) = read_campaign(campaign).points
    assert (found.turns, found.error) == (
        (),
        f"{campaign / 'c1'}: expected a run folder, found a link",
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["latency.html", "c1/report.html"])
def test_a_page_replaces_a_pipe(campaign: Path, name: str) -> None:
    os.mkfifo(campaign / name)
    done = CliRunner().invoke(cli, ["report", str(campaign)])
    assert done.exception is None
    assert (campaign / name).is_file()


@pytest.mark.parametrize(
    ("name", "value"),
    [("concurrency", "x"), ("turn_detection", 7), ("input_s", "x"), ("name", []), ("role", {})],
)
def test_a_condition_with_a_value_of_another_type_is_refused(
    campaign: Path, name: str, value: object
) -> None:
    path = campaign / "campaign.json"
    facts = json.loads(path.read_text())
    facts["points"][0][name] = value
    path.write_text(json.dumps(facts))
    with pytest.raises(StoreError, match=rf"campaign\.json: points\.0\.{name}: "):
        read_campaign_file(campaign)
