"""The observer of a run: the progress bar, for example."""

from __future__ import annotations

from live_eval.recording.record import TurnRecord

__all__ = ["Observer"]


class Observer:
    """Follows a run; this base class ignores all events."""

    def preparing(self, done: int, total: int) -> None:
        """Handle that the speech boundaries of `done` of `total` recordings are known."""

    def running(self, total: int, already: int) -> None:
        """Handle the start of a run of `total` turns, of which `already` are recorded."""

    def turn(self, record: TurnRecord) -> None:
        """Handle a turn that has been stored."""

    def waiting(self, seconds: float, why: str) -> None:
        """Handle that the run waits for `seconds`."""

    def note(self, text: str) -> None:
        """Handle a message for the user, such as the start of an outage."""
