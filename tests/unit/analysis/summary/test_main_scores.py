"""The main score of each task, and the notes on missing preferred scores."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from live_eval.analysis.summary.main_scores import MainScore, main_columns
from live_eval.judging import Scored
from live_eval.recording import RunWriter, ScoreStore
from live_eval.registry import judge
from live_eval.types import Case, Task, Variant
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.report.pages import summary_of


def main_of(path: Path, scores: Mapping[str, Mapping[str, float]], task: Task) -> MainScore | None:
    with RunWriter.create(path, {}) as run, ScoreStore.open(path) as store:
        for number in range(9):
            case = Case(
                case_id=f"c{number}",
                script_id=f"s{number}",
                variant=Variant.TARGET,
                audio_path=Path("x.wav"),
                task=task,
            )
            run.commit(spoken_turn(case, TurnPlan(reply_text="yes")))
            for name, values in scores.items():
                store.put(name, judge(name).version, case.case_id, Scored(values))
        run.end(finished=True)
    summary = summary_of(path)
    found = summary.main_scores
    assert main_columns(summary.table, summary.turns) == tuple(each.column for each in found)
    return found[0] if found else None


BLEU = {"bleu": {"": 3.0}}
EMOALIGN = {"emoalign": {"top1": 100.0, "mass": 60.0, "cosine": 0.5}}
RUBRIC = {"rubric": {"c1": 1.0, "c2": 2.0, "c3": 3.0, "c4": 4.0}}


@pytest.mark.parametrize(
    ("scores", "task", "heading", "missing"),
    [
        (RUBRIC | EMOALIGN | BLEU, Task.CONVERSATION, "C4 speech information relevance", ()),
        (EMOALIGN | BLEU, Task.CONVERSATION, "EmoAlign", ("C4", "VES")),
        (BLEU, Task.CONVERSATION, "BLEU", ("C4", "VES", "EmoAlign")),
        ({"mcq": {"accuracy": 100.0, "parsed": 100.0}}, Task.REASONING, "accuracy", ()),
        ({"transcription": {"normalized": 5.0, "raw": 6.0}}, Task.TRANSCRIPTION, "WER", ()),
    ],
)
def test_the_papers_score_comes_first(
    tmp_path: Path,
    scores: Mapping[str, Mapping[str, float]],
    task: Task,
    heading: str,
    missing: tuple[str, ...],
) -> None:
    found = main_of(tmp_path / "run", scores, task)
    assert found is not None
    assert found.column.heading == heading
    assert set(found.missing) == set(missing)
    assert (found.task, found.mean.n, found.mean.clusters) == (task, 9, 9)


def test_a_run_without_scores_has_none(tmp_path: Path) -> None:
    assert main_of(tmp_path / "run", {}, Task.CONVERSATION) is None


def test_a_score_is_defined_with_its_range_direction_and_source(tmp_path: Path) -> None:
    found = main_of(tmp_path / "run", RUBRIC, Task.CONVERSATION)
    assert found is not None
    assert found.column.definition.startswith(
        "C4 speech information relevance (1 to 5, higher is better). Judge rubric"
    )
    assert "EchoMind" in found.column.definition
