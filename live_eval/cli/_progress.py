"""Progress bars for runs and scoring."""

from __future__ import annotations

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
    TimeRemainingColumn,
)

from live_eval.cli._screen import console
from live_eval.recording.record import TurnRecord
from live_eval.run.observers import Observer


class RunProgress(Observer):
    """The progress bar of a run: turns, rate, failures, time left."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[failures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            refresh_per_second=4,
        )
        self._boundaries = self._progress.add_task(
            "speech boundaries", total=None, rate="", failures="", visible=False
        )
        self._turns = self._progress.add_task("turns", total=None, rate="", failures="", visible=False)
        self._failed = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def preparing(self, done: int, total: int) -> None:
        """Update the bar for finding speech boundaries."""
        self._progress.update(self._boundaries, completed=done, total=total, visible=True)

    def running(self, total: int, already: int) -> None:
        """Start the bar for turns."""
        self._progress.reset(self._turns, total=total, completed=already, visible=True)

    def turn(self, record: TurnRecord) -> None:
        """Count a turn that was stored, and print its failure."""
        failure = record.failure
        if failure is not None:
            self._failed += 1
            self._console.print(
                f"[red]{failure.kind}[/red] {_plain(record.turn_id)}: {_plain(failure.message)}",
                highlight=False,
            )
        self._progress.advance(self._turns)
        speed = self._progress.tasks[self._turns].speed
        self._progress.update(
            self._turns,
            rate=f"{speed * 60:.0f}/min" if speed else "",
            failures=f"{self._failed} failed" if self._failed else "",
        )

    def waiting(self, seconds: float, why: str) -> None:
        """Print the reason for a wait."""
        self.note(f"waiting {seconds:.0f} s {why}")

    def note(self, text: str) -> None:
        """Print a line above the bars."""
        self._console.print(_plain(text), highlight=False)


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
