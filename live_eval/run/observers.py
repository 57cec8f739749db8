"""What follows a run: the progress bar, for example."""

from __future__ import annotations

from typing import Protocol

from live_eval.recording.record import TurnRecord

__all__ = ["Observer", "SilentObserver"]


class Observer(Protocol):
    """Follows a run; drives the progress bar."""

    def preparing(self, done: int, total: int) -> None:
        """Speech boundaries of `done` of `total` recordings are known."""
        ...

    def playing(self, total: int, already: int) -> None:
        """Playing begins: `total` turns, `already` of which an earlier session of the run has recorded."""
        ...

    def turn(self, record: TurnRecord) -> None:
        """A turn has been stored."""
        ...

    def waiting(self, seconds: float, why: str) -> None:
        """The run waits for `seconds`."""
        ...

    def note(self, text: str) -> None:
        """Something happened that the user should know: an outage begins or is over."""
        ...


class SilentObserver:
    """An `Observer` that does nothing: a base for those that follow only a part."""

    def preparing(self, done: int, total: int) -> None:
        """Do nothing."""

    def playing(self, total: int, already: int) -> None:
        """Do nothing."""

    def turn(self, record: TurnRecord) -> None:
        """Do nothing."""

    def waiting(self, seconds: float, why: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""
