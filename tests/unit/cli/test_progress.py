"""The progress of a run: rate, time left, waiting turns, failures."""

from __future__ import annotations

import pytest

from live_eval.cli._progress import RunProgress, in_words
from live_eval.errors import FailureKind
from live_eval.types import Failure
from tests.support.records import TurnPlan, spoken_turn
from tests.unit.conftest import a_case


@pytest.mark.parametrize(
    ("played", "elapsed_s", "left", "words"),
    [
        (0, 55.0, 4, ""),
        (3, 1.0, 4, ""),  # too early for a rate
        (2, 60.0, 4, "2/min, about 2.0 min left"),
        (4, 60.0, 2, "4/min, about 30 s left"),
        (4, 60.0, 0, "4/min"),
    ],
)
def test_the_rate_is_the_mean_over_the_whole_run(
    played: int, elapsed_s: float, left: int, words: str
) -> None:
    assert in_words(played, elapsed_s, left, [], {}) == words


def test_waiting_turns_and_failures_by_kind_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress()
    progress.running(10, 0)
    progress.retry_due("a", 2, 3)
    progress.retry_due("b", 3, 3)
    assert progress.state == "2 waiting, attempt 3 of 3"
    progress.retry_began("b")
    for number in range(5):
        failed = TurnPlan(failure=Failure(FailureKind.CLOSED, "gone"))
        progress.turn(spoken_turn(a_case(number), failed))
    assert progress.state == "1 waiting, attempt 2 of 3; 5 failed: closed 5"
    assert capsys.readouterr().err.count("closed") == 3
    progress.running(10, 0)
    assert progress.state == "5 failed: closed 5"
