"""Follow one step of a campaign: count the turns that end, and stop if the load cannot be sustained."""

from __future__ import annotations

import time
from collections import Counter

from live_eval.campaigns.latency.watch import LoadWatch, WallClockWatch
from live_eval.clock import SystemClock
from live_eval.errors import FailureKind, LiveEvalError
from live_eval.recording.record import TurnRecord
from live_eval.redaction import SECRETS
from live_eval.run.runner import Observer
from live_eval.text.wording import one_line
from live_eval.types import Failure

__all__ = ["OverloadError", "PointOutcomes", "StepWatch"]

_LONGEST_REASON = 300


class OverloadError(LiveEvalError):
    """The load of a condition cannot be sustained; the message says what could be."""


class PointOutcomes:
    """How many turns of a condition were captured, and why others failed, in both halves together."""

    def __init__(self) -> None:
        self.captured = 0
        self._failures: Counter[FailureKind] = Counter()
        self._last_message = ""

    @property
    def failed(self) -> int:
        """Number of failed turns."""
        return self._failures.total()

    def take(self, failure: Failure | None) -> None:
        """Count a turn that ended with `failure`, or was captured."""
        if failure is None:
            self.captured += 1
        else:
            self._failures[failure.kind] += 1
            self._last_message = failure.message

    def in_words(self) -> str:
        """Return the kinds of failure with their counts, the last reason, and whose fault they are."""
        kinds = ", ".join(f"{count} × {kind}" for kind, count in self._failures.most_common())
        reason = one_line(SECRETS.text(self._last_message))
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[:_LONGEST_REASON]}…"
        ours = self._failures.keys() == {FailureKind.PROCESS_DIED}
        return f"{kinds}{': ' if reason else ''}{reason}{'; the endpoint is not at fault' if ours else ''}"


class StepWatch(Observer):
    """An `Observer` of one step that stops it if the load cannot be sustained.

    Args:
        observer: Receives every call as well.
        load: Decides whether the load is sustained.
        ended: Counts the turns of the step's condition.
        holds_sessions: Whether the sessions run in this process.
    """

    def __init__(
        self, observer: Observer, load: LoadWatch, ended: PointOutcomes, *, holds_sessions: bool
    ) -> None:
        self._observer = observer
        self._ended = ended
        self._holds_sessions = holds_sessions
        self._load = load
        self._clock = SystemClock()
        self._wall_clock = WallClockWatch()
        self._began_ns = self._cpu_ns = 0
        self.steps_of_wall_clock: list[str] = []

    def preparing(self, done: int, total: int) -> None:
        """Forward the call."""
        self._observer.preparing(done, total)

    def running(self, total: int, already: int) -> None:
        """Note the processor time at which the turns begin."""
        self._began_ns, self._cpu_ns = self._clock.now_ns(), time.thread_time_ns()
        self._observer.running(total, already)

    def waiting(self, seconds: float, why: str) -> None:
        """Forward the call."""
        self._observer.waiting(seconds, why)

    def note(self, text: str) -> None:
        """Forward the call."""
        self._observer.note(text)

    def turn(self, record: TurnRecord) -> None:
        """Count a turn that has ended.

        Raises:
            OverloadError: The turns so far show that the load cannot be sustained.
        """
        self._observer.turn(record)
        self._ended.take(record.failure)
        step = self._wall_clock.take(record)
        if step is not None:
            self.steps_of_wall_clock.append(step)
        self._load.take(record)
        cpu_ns = time.thread_time_ns() - self._cpu_ns if self._holds_sessions else None
        why = self._load.overload(self._clock.now_ns() - self._began_ns, cpu_ns)
        if why is not None:
            raise OverloadError(why)
