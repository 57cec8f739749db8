"""Which sessions a fault strikes."""

from __future__ import annotations

import random
from collections import Counter

from live_eval.reference.faults.catalogue import FaultLayer
from live_eval.reference.faults.script import Fault, FaultScript

__all__ = ["FaultSchedule"]


class FaultSchedule:
    """Counts, for each fault, the connections or sessions that it could strike.

    Faults of the layer `FaultLayer.ACCEPT` count TCP connections, the others sessions.
    """

    def __init__(self) -> None:
        self._met: Counter[Fault] = Counter()

    def of_connection(self, script: FaultScript) -> FaultScript:
        """Return the faults that strike a new TCP connection."""
        return self._drawn(script, accepting=True)

    def of_session(self, script: FaultScript) -> FaultScript:
        """Return the faults that strike a new session."""
        return self._drawn(script, accepting=False)

    def _drawn(self, script: FaultScript, *, accepting: bool) -> FaultScript:
        could = [fault for fault in script if (fault.layer is FaultLayer.ACCEPT) is accepting]
        return FaultScript(tuple(each for each in could if self._strikes(each, script.seed)), script.seed)

    def _strikes(self, fault: Fault, seed: int) -> bool:
        self._met[fault] += 1
        number = self._met[fault]
        if fault.first is not None and number > fault.first:
            return False
        if fault.every is not None and number % fault.every:
            return False
        return fault.share is None or random.Random(f"{seed}/{fault}/{number}").random() < fault.share / 100
