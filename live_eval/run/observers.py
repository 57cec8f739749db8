"""Who follows a run, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from live_eval.recording.record import TurnRecord

__all__ = ["Observer", "RunOutcome", "SilentObserver"]


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


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended.

    Args:
        captured: Turns of the run that were captured.
        failed: Turns that failed.
        interrupted: Whether the user stopped it before its end.
        unreachable: Why it stopped by itself before its end, in words: the endpoint could not be reached for
            longer than the run's patience. Empty if it did not.
        reached: Whether the endpoint is known to have answered, in this run or before.
    """

    captured: int
    failed: int
    interrupted: bool
    unreachable: str = ""
    reached: bool = field(default=False, compare=False)

    @property
    def complete(self) -> bool:
        """Whether it came to its end."""
        return not (self.interrupted or self.unreachable)
