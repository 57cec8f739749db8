"""Progress bars for runs and scoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Self

from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from live_eval.cli._listing import counts_in_words
from live_eval.cli._screen import console
from live_eval.errors import FAILURE_CAUSES, FailureCause
from live_eval.recording.record import TurnRecord
from live_eval.run.observers import Observer

_SHOWN = 3
"""Failures of one kind that are printed in full."""

_LEAST_S = 2.0
"""Time before which a rate would be guessed."""


class RunProgress(Observer):
    """The progress bar of a run: turns, rate, waiting and failed turns, time left."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=self._console,
            refresh_per_second=4,
        )
        self._boundaries, self._turns = (
            self._progress.add_task(name, total=None, start=False, visible=False, state="")
            for name in ("speech boundaries", "turns")
        )
        self._failures: Counter[str] = Counter()
        self._waiting: dict[str, str] = {}
        self._played = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def preparing(self, done: int, total: int) -> None:
        """Update the bar for finding speech boundaries."""
        if not self._progress.tasks[self._boundaries].started or done == 0:
            self._progress.reset(self._boundaries)
        self._progress.update(self._boundaries, completed=done, total=total, visible=True)

    def running(self, total: int, already: int) -> None:
        """Start the bar for turns, with its time at 0."""
        self._played = 0
        self._waiting.clear()
        self._progress.reset(self._turns, total=total, completed=already, visible=True)
        self._show_state()

    def turn(self, record: TurnRecord) -> None:
        """Count a turn that was stored, and print its failure unless its kind has failed often."""
        failure = record.failure
        if failure is not None:
            self._failures[failure.kind] += 1
            if self._failures[failure.kind] <= _SHOWN:
                self._console.print(
                    f"[red]{failure.kind}[/red] {_plain(record.turn_id)}: {_plain(failure.message)}",
                    highlight=False,
                )
        # A recording that cannot be used takes no time.
        self._played += failure is None or FAILURE_CAUSES.get(failure.kind) is not FailureCause.DATA
        self._waiting.pop(record.turn_id, None)
        self._progress.advance(self._turns)
        self._show_state()

    def retry_due(self, turn_id: str, attempt: int, attempts: int) -> None:
        """Show that a turn waits for its next attempt."""
        self._waiting[turn_id] = f"attempt {attempt} of {attempts}"
        self._show_state()

    def retry_began(self, turn_id: str) -> None:
        """Show that a turn no longer waits."""
        self._waiting.pop(turn_id, None)
        self._show_state()

    @property
    def state(self) -> str:
        """The text next to the bar for turns."""
        return str(self._progress.tasks[self._turns].fields["state"])

    def _show_state(self) -> None:
        task = self._progress.tasks[self._turns]
        left = int((task.total or 0) - task.completed)
        state = in_words(self._played, task.elapsed or 0.0, left, [*self._waiting.values()], self._failures)
        self._progress.update(self._turns, state=state)

    def waiting(self, seconds: float, why: str) -> None:
        """Print the reason for a wait."""
        self.note(f"waiting {seconds:.0f} s {why}")

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(_plain(text), highlight=False)


def in_words(
    played: int, elapsed_s: float, left: int, waiting: Sequence[str], failures: Mapping[str, int]
) -> str:
    """Return the state of a run: overall rate, time left, waiting turns, failures by kind.

    The rate is the mean since the first turn began, so that waits and retries lengthen the estimate.

    >>> in_words(10, 60, 5, ["attempt 2 of 3"], {"closed": 2})
    '10/min, about 30 s left; 1 waiting, attempt 2 of 3; 2 failed: closed 2'
    """
    parts = []
    if played and elapsed_s >= _LEAST_S:
        left_s = left * elapsed_s / played
        about = f"{left_s / 60:.0f} min" if left_s >= 120 else f"{left_s:.0f} s"
        parts.append(f"{60 * played / elapsed_s:.0f}/min" + (f", about {about} left" if left else ""))
    if waiting:
        parts.append(f"{len(waiting)} waiting, {max(waiting)}")
    if failures:
        parts.append(f"{sum(failures.values())} failed: {counts_in_words(failures)}")
    return "; ".join(parts)


class ScoringProgress:
    """One bar per judge, as a context manager. Implements `live_eval.scoring.scoring_run.Progress`."""

    def __init__(self) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console(stderr=True),
            refresh_per_second=4,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> ScoringProgress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, judge: str, done: int, total: int) -> None:
        """Show that a judge has finished `done` of `total` turns."""
        if judge not in self._tasks:
            self._tasks[judge] = self._bars.add_task(judge, total=total)
        self._bars.update(self._tasks[judge], completed=done)


def _plain(text: str) -> str:
    """Escape text from an endpoint, so that it cannot send control sequences to the terminal."""
    return escape("".join(character if character.isprintable() else " " for character in text))
