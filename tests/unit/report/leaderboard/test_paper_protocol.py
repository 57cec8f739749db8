"""Differences between a run and the paper's protocol."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from live_eval.analysis.summary.observations import Observation
from live_eval.analysis.summary.run_summary import summarise
from live_eval.recording import RunReader
from live_eval.report.leaderboard.paper_protocol import differences_from_paper, special_conditions
from live_eval.types import Task
from tests.unit.report.leaderboard.boards import written

OF_THE_PAPER = {"prompt": {"name": "basic"}, "impairment": None, "judges_left_out": {}}


def conversations(folder: Path, number: int, source: str = "synthesis") -> Iterator[Observation]:
    """Return this many conversations, each a copy of one turn of a run."""
    with RunReader.open(written(folder)) as run:
        [turn, *_] = [turn for turn in summarise(run).turns if turn.task is Task.CONVERSATION]
    for place in range(number):
        yield replace(turn, case_id=f"id_{place}/target", source=source)


def test_the_papers_own_protocol_has_no_differences(tmp_path: Path) -> None:
    turns = list(conversations(tmp_path / "run", 3_356))
    assert list(differences_from_paper(OF_THE_PAPER, turns)) == []


def test_fewer_cases_a_prompt_an_impairment_and_missing_judges_are_named(tmp_path: Path) -> None:
    manifest = {
        "prompt": {"name": "mine.txt"},
        "impairment": {"spec": "babble snr=5dB"},
        "judges_left_out": {"ves": "no key", "utmos": "no weights"},
    }
    turns = list(conversations(tmp_path / "run", 20))
    assert list(differences_from_paper(manifest, turns)) == [
        "20 of 3,356 conversations",
        "custom prompt",
        "impairment: babble snr=5dB",
        "without utmos, ves",
    ]
    assert list(special_conditions(manifest)) == ["impairment: babble snr=5dB", "without utmos, ves"]


def test_other_recordings_are_named_instead_of_counted(tmp_path: Path) -> None:
    turns = list(conversations(tmp_path / "run", 3, "human"))
    assert list(differences_from_paper(OF_THE_PAPER, turns)) == ["recordings: human"]
    assert list(differences_from_paper({}, [])) == ["recordings: none"]
