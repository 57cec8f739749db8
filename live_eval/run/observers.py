"""Define the interface of run observers, such as the progress bar."""

from __future__ import annotations

from live_eval.recording.record import TurnRecord

__all__ = ["Observer"]


class Observer:
    """An observer of a run. The base class ignores all events."""

    def preparing(self, done: int, total: int) -> None:
        """Handle preparation progress: speech boundaries found in `done` of `total` recordings."""

    def running(self, total: int, already: int) -> None:
        """Handle the start of a run with `total` turns, `already` of which are recorded."""

    def turn(self, record: TurnRecord) -> None:
        """Handle a stored turn."""

    def waiting(self, seconds: float, why: str) -> None:
        """Handle a pause of the run for `seconds`."""

    def retry_due(self, turn_id: str, attempt: int, attempts: int) -> None:
        """Handle a turn that is waiting for attempt `attempt` of at most `attempts`."""

    def retry_began(self, turn_id: str) -> None:
        """Handle the start of a turn's next attempt after a wait."""

    def note(self, text: str) -> None:
        """Handle a message for the user, such as the start of an outage."""
