"""The conditions of a run in its headers, and in the list of runs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from live_eval.analysis.run_conditions import conditions_of
from live_eval.cli import cli
from live_eval.recording import RunWriter
from live_eval.studio.library import Library
from live_eval.studio.runs_api import folder_facts
from tests.support.records import spoken_turn
from tests.unit.conftest import a_case
from tests.unit.report.pages import page_of

MANIFEST = {
    "endpoint": {"name": "openai", "turn_mode": "server_vad"},
    "prompt": {"name": "enhance"},
    "impairment": {"spec": "babble:snr=5"},
    "config": {"turns": {"concurrency": 4}},
}
IN_WORDS = (
    "turn mode server_vad",
    "prompt enhance",
    "4 concurrent sessions",
    "impaired: babble:snr=5",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with RunWriter.create(tmp_path / "run", MANIFEST) as run:
        run.commit(spoken_turn(a_case(0)))
        run.end(finished=True)
    return tmp_path / "run"


def test_recorded_conditions_are_reported() -> None:
    assert conditions_of(MANIFEST).in_words == IN_WORDS
    phone = MANIFEST | {"endpoint": {"turn_mode": "full_duplex", "line": "8 kHz µ-law"}}
    assert conditions_of(phone).in_words == ("turn mode full_duplex", "8 kHz µ-law", *IN_WORDS[1:])
    turns = MANIFEST["config"]["turns"]  # type: ignore[index]
    injected = MANIFEST | {"config": {"turns": {**turns, "history": "inject-text"}}}
    assert "history inject-text" in conditions_of(injected).in_words
    own = MANIFEST | {"config": {"turns": {**turns, "history": "own"}}}
    assert conditions_of(own) == conditions_of(MANIFEST)
    assert conditions_of({}).in_words == ()
    assert conditions_of(MANIFEST | {"source": "live"}).in_words == (*IN_WORDS[:2], IN_WORDS[3])
    hostile = {"impairment": "x", "prompt": {"name": 5}, "config": {"turns": [{}]}}
    assert conditions_of(hostile).in_words == ()


def test_every_header_shows_them(folder: Path) -> None:
    for text in (
        " ".join(page_of(folder).text.split()),
        CliRunner().invoke(cli, ["show", str(folder)]).stdout.replace("\n", " "),
        CliRunner().invoke(cli, ["report", str(folder), "--format", "md"]).stdout.replace("\\", ""),
    ):
        assert " · ".join(IN_WORDS) in text
    (listed,) = Library([folder.parent]).folders()
    assert folder_facts(listed)["conditions"] == IN_WORDS
    printed = json.loads(CliRunner().invoke(cli, ["show", str(folder), "--json"]).stdout)["run"]
    assert (printed["prompt"], printed["impairment"], printed["concurrency"]) == (
        "enhance",
        "babble:snr=5",
        4,
    )
