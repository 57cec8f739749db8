"""Progress bars for runs and for scoring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Self

from rich.console import Console
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
from live_eval.text.durations import rounded_duration

_SHOWN = 3
"""Maximum number of failures of each kind to print in full."""

_RATE_AFTER_S = 2.0
"""Elapsed time before the rate is shown."""


class RunProgress(Observer):
    """Progress bars for a run, with rate, remaining time, and waiting and failed turns.

    Args:
        name: Name of the run, if several are shown.
        below: Progress of a simultaneous run, below whose bars this run's bars are shown. Enter only `below`
            as a context, not this object.
    """

    def __init__(self, name: str = "", *, below: RunProgress | None = None) -> None:
        self._name = name
        self._console: Console = console(stderr=True) if below is None else below._console
        self._progress: Progress = (
            below._progress
            if below is not None
            else Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[state]}", markup=False),
                console=self._console,
                refresh_per_second=4,
            )
        )
        self._boundaries, self._turns = (
            self._progress.add_task(
                f"{what} {escape(name)}".rstrip(), total=None, start=False, visible=False, state=""
            )
            for what in ("speech boundaries", "turns")
        )
        self._failures: Counter[str] = Counter()
        self._waiting: dict[str, str] = {}
        self._timed = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def preparing(self, done: int, total: int) -> None:
        """Update the bar for finding speech boundaries; a count that does not increase starts a new bar."""
        task = self._progress.tasks[self._boundaries]
        if not task.started or done <= task.completed:
            self._progress.reset(self._boundaries)
        self._progress.update(self._boundaries, completed=done, total=total, visible=True)

    def running(self, total: int, already: int) -> None:
        """Start the bar for turns; reset the clock unless `total` includes the turns so far."""
        self._waiting.clear()
        if 0 < self._progress.tasks[self._turns].completed <= already:
            self._progress.update(self._turns, total=total, completed=already)
        else:
            self._timed = 0
            self._progress.reset(self._turns, total=total, completed=already, visible=True)
        self._show_state()

    def turn(self, record: TurnRecord) -> None:
        """Count a stored turn; print its failure if it is among the first of its kind."""
        failure = record.failure
        if failure is not None:
            self._failures[failure.kind] += 1
            if self._failures[failure.kind] <= _SHOWN:
                self._console.print(
                    f"{self._prefix}[red]{failure.kind}[/red] {_plain(record.turn_id)}: "
                    f"{_plain(failure.message)}",
                    highlight=False,
                )
        # Turns with unusable recordings take no time, so exclude them from the rate.
        self._timed += failure is None or FAILURE_CAUSES.get(failure.kind) is not FailureCause.DATA
        self._waiting.pop(record.turn_id, None)
        self._progress.advance(self._turns)
        self._show_state()

    def retry_due(self, turn_id: str, attempt: int, attempts: int) -> None:
        """Show that a turn is waiting for its next attempt."""
        self._waiting[turn_id] = f"attempt {attempt} of {attempts}"
        self._show_state()

    def retry_began(self, turn_id: str) -> None:
        """Show that a turn is no longer waiting."""
        self._waiting.pop(turn_id, None)
        self._show_state()

    @property
    def state(self) -> str:
        """The text next to the bar for turns."""
        return str(self._progress.tasks[self._turns].fields["state"])

    def _show_state(self) -> None:
        task = self._progress.tasks[self._turns]
        remaining = int((task.total or 0) - task.completed)
        waiting = list(self._waiting.values())
        state = in_words(self._timed, task.elapsed or 0.0, remaining, waiting, self._failures)
        self._progress.update(self._turns, state=state)

    def waiting(self, seconds: float, why: str) -> None:
        """Print the reason for a wait."""
        self.note(f"waiting {seconds:.0f} s {why}")

    def note(self, text: str) -> None:
        """Print a line above the progress bars."""
        self._console.print(f"{self._prefix}{_plain(text)}", highlight=False)

    @property
    def _prefix(self) -> str:
        return f"{_plain(self._name)}: " if self._name else ""


def in_words(
    done: int, elapsed_s: float, remaining: int, waiting: Sequence[str], failures: Mapping[str, int]
) -> str:
    """Describe the state of a run: mean rate, remaining time, waiting turns, and failures by kind.

    The rate and the remaining time include waits and retries.

    >>> in_words(10, 60, 5, ["attempt 2 of 3"], {"closed": 2})
    '10/min, about 30 s left; 1 waiting, attempt 2 of 3; 2 failed: closed 2'
    """
    parts = []
    if done and elapsed_s >= _RATE_AFTER_S:
        left_s = remaining * elapsed_s / done
        about = rounded_duration(left_s)
        parts.append(f"{60 * done / elapsed_s:.0f}/min" + (f", about {about} left" if remaining else ""))
    if waiting:
        parts.append(f"{len(waiting)} waiting, {max(waiting)}")
    if failures:
        parts.append(f"{sum(failures.values())} failed: {counts_in_words(failures)}")
    return "; ".join(parts)


class Bars:
    """A context manager with a bar per judge or page; implements `live_eval.scoring.scoring_run.Progress`."""

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

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tasks:
            self._bars.stop()

    def __call__(self, judge: str, done: int, total: int) -> None:
        """Show that `done` of `total` turns are scored, or written to a page."""
        if not self._tasks:
            self._bars.start()  # not earlier: without a task, it prints an empty line
        if judge not in self._tasks:
            self._tasks[judge] = self._bars.add_task(judge, total=total)
        self._bars.update(self._tasks[judge], completed=done)


def _plain(text: str) -> str:
    """Escape text from an endpoint so that it cannot send control sequences to the terminal."""
    return escape("".join(character if character.isprintable() else " " for character in text))
