"""The progress of a run: rate, time left, waiting turns, failures."""

from __future__ import annotations

import pytest
from rich.console import Console

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


def test_the_clock_covers_every_counted_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A duplex campaign runs its drift check first, and then all trials."""
    now = [0.0]
    monkeypatch.setattr(
        "live_eval.cli._progress.console", lambda stderr: Console(stderr=stderr, get_time=lambda: now[0])
    )
    progress = RunProgress()
    progress.preparing(1, 1)
    progress.running(2, 0)
    for number in range(2):
        now[0] += 30
        progress.turn(spoken_turn(a_case(number)))
    assert progress.state == "2/min"
    progress.running(4, 2)
    now[0] += 60
    progress.turn(spoken_turn(a_case(2)))
    assert progress.state == "2/min, about 40 s left"  # 3 turns in 2 minutes
    progress.preparing(1, 2)
    now[0] += 5
    progress.preparing(2, 2)
    assert progress._progress.tasks[progress._boundaries].elapsed == 5
    progress.running(4, 0)  # other turns
    now[0] += 10
    progress.turn(spoken_turn(a_case(3)))
    assert progress.state == "6/min, about 30 s left"
