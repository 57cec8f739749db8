"""Watch the turns of a condition for an unsustainable load and for steps of the wall clock."""

from __future__ import annotations

import itertools
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from live_eval.clock import SystemClock
from live_eval.errors import FailureKind, LiveEvalError
from live_eval.recording.record import TurnRecord
from live_eval.redaction import SECRETS
from live_eval.run.runner import Observer
from live_eval.text.wording import counted, one_line
from live_eval.timing import LAG_BOUND_NS
from live_eval.types import Failure

__all__ = ["LoadWatch", "OverloadError", "PointOutcomes", "StepWatch", "WallClockWatch", "queued"]

_LONGEST_REASON = 300
_LEAST_TURNS = 10
_LEAST_LATE_SECONDS = 5
_LATE_SHARE = 0.25
_LEAST_STARTS = 40
_LEAST_SPAN_NS = 30_000_000_000
_LEAST_DELAY_NS = 1_000_000_000
_QUEUED_NS = 100_000_000
_SAFE_LOAD = 0.4  # share of a CPU; the rest is for connection setup and turn ends
_SECOND_NS = 1_000_000_000
_STEP_NS = 100_000_000
_SLEW = 1e-3  # ten times the maximum clock slew


class LoadWatch:
    """Detect a load that cannot be sustained, from completed turns.

    A load cannot be sustained if frames are sent late: the p99 of the newest turns exceeds the bound for
    flagged turns, and late frames occur in a quarter of the seconds and in at least five seconds, not in a
    single pause. The same applies if the sessions of an open loop fall behind: over the newest 40 starts,
    spanning at least 30 s, each quarter is further behind schedule than the one before.

    Args:
        per_s: Sessions due per second; None in a closed loop.
        sustained: Largest number of sessions that an earlier condition sustained; None if there was none.
    """

    def __init__(self, concurrency: int, per_s: float | None, sustained: int | None) -> None:
        self._concurrency = concurrency
        self._per_s = per_s
        self._sustained = sustained
        self._late: deque[_Sent] = deque(maxlen=max(_LEAST_TURNS, concurrency))
        self._starts: deque[_Start] = deque()
        self._spoken_ns = 0

    def take(self, record: TurnRecord) -> None:
        """Record a completed turn."""
        trace = record.trace
        if len(trace.frame_sent_ns):
            due_ns = trace.frame_deadline_ns
            late_ns = trace.frame_sent_ns - due_ns
            self._late.append(_Sent(due_ns // _SECOND_NS, late_ns, int((late_ns > LAG_BOUND_NS).sum())))
            self._spoken_ns += int(trace.frame_sent_ns[-1] - trace.frame_deadline_ns[0])
        if trace.intended_ns is not None:
            self._starts.append(_Start(trace.intended_ns, trace.dial_ns))

    @property
    def late_p99_ns(self) -> int | None:
        """The p99 of frame lateness over the most recent turns, or None if there are too few."""
        if len(self._late) < _LEAST_TURNS:
            return None
        return int(np.percentile(np.concatenate([sent.late_ns for sent in self._late]), 99))

    def _often_late(self) -> bool:
        seconds = np.concatenate([sent.second for sent in self._late])
        late = np.concatenate([sent.late_ns for sent in self._late]) > LAG_BOUND_NS
        late_seconds = len(np.unique(seconds[late]))
        return late_seconds >= max(_LEAST_LATE_SECONDS, _LATE_SHARE * len(np.unique(seconds)))

    def overload(self, elapsed_ns: int, loop_cpu_ns: int | None) -> str | None:
        """Return why the load cannot be sustained, and which load can; None if the load is sustained.

        Args:
            loop_cpu_ns: Processor time of the event-loop thread since then; None if the sessions run in other
                processes.
        """
        # This runs on the event loop after every turn, so compute percentiles only if many frames were late.
        late = sum(sent.late for sent in self._late)
        late_ns = self.late_p99_ns if late * 100 > sum(len(sent.late_ns) for sent in self._late) else None
        if late_ns is not None and late_ns > LAG_BOUND_NS and self._often_late():
            return (
                f"this machine cannot sustain {counted(self._concurrency, 'concurrent session')}: frames of "
                f"the last {len(self._late)} turns were sent {late_ns / 1e6:.0f} ms late at p99 (bound: "
                f"{LAG_BOUND_NS / 1e6:.0f} ms); {self._sustainable(elapsed_ns, loop_cpu_ns)}"
            )
        return self._falling_behind()

    def _sustainable(self, elapsed_ns: int, loop_cpu_ns: int | None) -> str:
        if self._sustained is not None:
            return f"it sustained {self._sustained} within that bound"
        if loop_cpu_ns is None:
            return "lower the concurrency"
        busy = loop_cpu_ns / max(1, elapsed_ns)
        streaming = self._concurrency if self._per_s is None else self._spoken_ns / max(1, elapsed_ns)
        about = int(streaming * _SAFE_LOAD / max(busy, 1e-9))
        if busy < _SAFE_LOAD or about >= self._concurrency:
            return f"its event loop was busy only {busy:.0%} of the time, so other programs slow it down"
        return (
            f"by the CPU time of its event loop ({busy:.0%}), it could sustain at most about "
            f"{max(1, about)}, or fewer with other programs running: sweep from lower values"
        )

    def _falling_behind(self) -> str | None:
        starts = sorted(self._starts, key=lambda start: start.intended_ns)
        while (
            len(starts) > _LEAST_STARTS and starts[-1].intended_ns - starts[1].intended_ns >= _LEAST_SPAN_NS
        ):
            del starts[0]
        if len(starts) < _LEAST_STARTS or starts[-1].intended_ns - starts[0].intended_ns < _LEAST_SPAN_NS:
            return None
        self._starts = deque(starts)
        delays = [start.dialled_ns - start.intended_ns for start in starts]
        quarters = [float(np.median(quarter)) for quarter in np.array_split(delays, 4)]
        if quarters[0] < _LEAST_DELAY_NS or any(b <= a for a, b in itertools.pairwise(quarters)):
            return None
        span_s = (max(start.dialled_ns for start in starts) - min(start.dialled_ns for start in starts)) / 1e9
        served = (len(starts) - 1) / span_s
        return (
            f"{counted(self._concurrency, 'concurrent session')} cannot sustain {self._per_s:g} turns per "
            f"second: sessions begin {quarters[-1] / 1e9:.1f} s late, with increasing delay; the served rate "
            f"is {served:.2g} turns per second. Lower the rate, or raise the concurrency"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    second: NDArray[np.int64]
    late_ns: NDArray[np.int64]
    late: int  # number of frames later than the bound


@dataclass(frozen=True, slots=True)
class _Start:
    intended_ns: int
    dialled_ns: int


def queued(delays_ns: Sequence[int], concurrency: int) -> str | None:
    """Return a note on late session starts in an open loop; None if their p95 is at most 100 ms.

    `delays_ns` are the times from each session's due time to dialling.
    """
    late_ns = float(np.percentile(delays_ns, 95)) if delays_ns else 0.0
    if late_ns <= _QUEUED_NS:
        return None
    return (
        f"sessions were queued: they began {late_ns / 1e6:,.0f} ms after their due time at p95, with at most "
        f"{concurrency} concurrent; latencies from the due time include this delay"
    )


class WallClockWatch:
    """Detect wall-clock steps between the sessions of a campaign.

    Latencies use the monotonic clock and remain valid. Dates and kernel timestamps on the wall clock do not.
    """

    def __init__(self) -> None:
        self._last: TurnRecord | None = None

    def take(self, record: TurnRecord) -> str | None:
        """Record a session; return a note if the wall clock stepped, otherwise None.

        Later turns of a session are ignored because they share its anchor.
        """
        last = self._last
        if record.timing.connect.ns is None or (
            last is not None and record.trace.dial_ns < last.trace.dial_ns  # the session only took longer
        ):
            return None
        self._last = record
        if last is None:
            return None
        elapsed_ns = record.trace.dial_ns - last.trace.dial_ns
        step_ns = record.wall_ns - last.wall_ns - elapsed_ns
        if abs(step_ns) <= _STEP_NS + _SLEW * abs(elapsed_ns):
            return None
        return (
            f"the wall clock stepped by {step_ns / 1e9:+.3f} s between the turns {last.turn_id} and "
            f"{record.turn_id}; latencies use the monotonic clock, which is not affected"
        )


class OverloadError(LiveEvalError):
    """The load of a condition cannot be sustained. The message contains a sustainable load."""


class PointOutcomes:
    """Captured turns and failures by kind of a condition, counted over both halves."""

    def __init__(self) -> None:
        self.captured = 0
        self._failures: Counter[FailureKind] = Counter()
        self._last_message = ""

    @property
    def failed(self) -> int:
        """Number of failed turns."""
        return self._failures.total()

    def take(self, failure: Failure | None) -> None:
        """Count a turn that was captured or that ended with `failure`."""
        if failure is None:
            self.captured += 1
        else:
            self._failures[failure.kind] += 1
            self._last_message = failure.message

    def in_words(self) -> str:
        """Describe the failures: kinds with counts, the last reason, and whether the endpoint is to blame."""
        kinds = ", ".join(f"{count} × {kind}" for kind, count in self._failures.most_common())
        reason = one_line(SECRETS.text(self._last_message))
        if len(reason) > _LONGEST_REASON:
            reason = f"{reason[:_LONGEST_REASON]}…"
        ours = self._failures.keys() == {FailureKind.PROCESS_DIED}
        return f"{kinds}{': ' if reason else ''}{reason}{'; the endpoint is not at fault' if ours else ''}"


class StepWatch(Observer):
    """An `Observer` that stops a step if the load cannot be sustained.

    Args:
        in_process: Whether the sessions run in this process.
    """

    def __init__(
        self, observer: Observer, load: LoadWatch, ended: PointOutcomes, *, in_process: bool
    ) -> None:
        self._observer = observer
        self._ended = ended
        self._in_process = in_process
        self._load = load
        self._clock = SystemClock()
        self._wall_clock = WallClockWatch()
        self._began_ns = self._cpu_ns = 0
        self.steps_of_wall_clock: list[str] = []

    def preparing(self, done: int, total: int) -> None:
        """Forward the call."""
        self._observer.preparing(done, total)

    def running(self, total: int, already: int) -> None:
        """Record the CPU time at the start of the turns."""
        self._began_ns, self._cpu_ns = self._clock.now_ns(), time.thread_time_ns()
        self._observer.running(total, already)

    def waiting(self, seconds: float, why: str) -> None:
        """Forward the call."""
        self._observer.waiting(seconds, why)

    def retry_due(self, turn_id: str, attempt: int, attempts: int) -> None:
        """Forward the call."""
        self._observer.retry_due(turn_id, attempt, attempts)

    def retry_began(self, turn_id: str) -> None:
        """Forward the call."""
        self._observer.retry_began(turn_id)

    def note(self, text: str) -> None:
        """Forward the call."""
        self._observer.note(text)

    def turn(self, record: TurnRecord) -> None:
        """Count a completed turn.

        Raises:
            OverloadError: The turns so far show that the load cannot be sustained.
        """
        self._observer.turn(record)
        self._ended.take(record.failure)
        step = self._wall_clock.take(record)
        if step is not None:
            self.steps_of_wall_clock.append(step)
        self._load.take(record)
        cpu_ns = time.thread_time_ns() - self._cpu_ns if self._in_process else None
        why = self._load.overload(self._clock.now_ns() - self._began_ns, cpu_ns)
        if why is not None:
            raise OverloadError(why)
