"""Deltas of audio, or packets, that are sent twice, late or never. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from live_eval.reference.faults.catalogue import FaultName
from live_eval.reference.faults.script import FaultScript

__all__ = ["DeltaFaults"]

_T = TypeVar("_T")


class DeltaFaults(Generic[_T]):
    """Passes on what is sent, as the faults of a session say.

    Args:
        script: The faults.
    """

    def __init__(self, script: FaultScript) -> None:
        self._script = script
        self._number = 0
        self._held: list[_T] = []

    def __bool__(self) -> bool:
        return any(map(self._script.has, (FaultName.DUPLICATE, FaultName.MISSING, FaultName.REORDER)))

    def push(self, delta: Sequence[_T], turn: int | None = None) -> list[_T]:
        """Return what to send for the next delta, in order.

        Args:
            delta: What it consists of.
            turn: The reply that it belongs to, from 1; None for whichever.
        """
        self._number += 1
        if self._hits(FaultName.MISSING, turn):
            return []
        late, self._held = self._held, []
        if self._hits(FaultName.REORDER, turn):
            self._held = list(delta)
            return late
        times = 2 if self._hits(FaultName.DUPLICATE, turn) else 1
        return [*list(delta) * times, *late]

    def flush(self) -> list[_T]:
        """Return what is still held back: nothing follows that could overtake it."""
        late, self._held = self._held, []
        return late

    def _hits(self, name: FaultName, turn: int | None) -> bool:
        fault = self._script.get(name)
        if fault is None or (turn is not None and fault.turn not in (None, turn)):
            return False
        return self._number % fault.number == 0
