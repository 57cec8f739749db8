"""The remaining sessions of a run; a session with an undecided last attempt waits for other outcomes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from live_eval.clock import Clock
from live_eval.recording.record import TurnRecord
from live_eval.run.endpoint_health import MISSES_OF_OUTAGE
from live_eval.run.plan import Job
from live_eval.run.retries import PATIENCE_S, Patience

__all__ = ["DueSession", "SessionQueue"]

_MOST_CUTS = 2


@dataclass(slots=True, eq=False)
class DueSession:
    """A session to run.

    Args:
        due_ns: Due time in an open loop; None in a closed loop.
        attempt: Number of the next attempt.
        patience: Limit on the session's waits.
        tries: Number of attempts that count; while undecided, number of attempts that test for an outage.
        busy: Number of refusals because the endpoint had no free session.
        cut: Whether an attempt lost contact and the endpoint has not responded since.
        cut_in: Numbers of the outages in which contact was lost.
        undecided: Records of the last attempt while it is unknown whether the attempt counts.
        undecided_ns: End time of the undecided attempt.
    """

    jobs: Sequence[Job]
    due_ns: int | None
    attempt: int = 1
    patience: Patience = field(default_factory=lambda: Patience(PATIENCE_S))
    tries: int = 0
    busy: int = 0
    cut: bool = False
    cut_in: set[int] = field(default_factory=set)
    undecided: Sequence[TurnRecord] = ()
    undecided_ns: int = 0

    def excuse(self, outage: int) -> bool:
        """Return whether an outage, identified by its number in the run, excuses the failed attempt."""
        # A session that is in progress at every outage may cause them: the third outage counts.
        if self.cut:
            self.cut_in.add(outage)
        counts = self.cut and len(self.cut_in) > _MOST_CUTS
        self.cut = False
        if not counts:
            self.tries, self.patience = 0, Patience(self.patience.seconds)
        return not counts


class SessionQueue:
    """Distributes the sessions of a run to its workers; call `ended` for each session returned by `next`.

    Args:
        sessions: Sessions in order of their due times.
        opened_since: Returns whether a session dialled at or after a given time has been opened.
    """

    def __init__(
        self, sessions: Iterable[DueSession], opened_since: Callable[[int], bool], clock: Clock
    ) -> None:
        self._waiting = deque(sessions)  # undecided sessions last
        self._in_progress: list[DueSession] = []
        self._opened_since = opened_since
        self._clock = clock
        self._counted: list[Sequence[TurnRecord]] = []
        self._changed = asyncio.Event()

    async def next(self, opens_ns: int = 0) -> DueSession | None:
        """Return the next session to run, at `opens_ns` or later; None once no sessions remain.

        Waits while other workers may decide whether a session is retried. If no other session can show
        whether the endpoint is up, an undecided session is rerun for this purpose only.
        """
        while self._waiting:
            if self._clock.now_ns() < opens_ns:
                await self.wait(opens_ns)
            elif self._waiting[0].undecided and self._in_progress:
                await self.wait()
            else:
                self._in_progress.append(self._waiting.popleft())
                return self._in_progress[-1]
        return None

    def ended(
        self, session: DueSession, records: Sequence[TurnRecord], undecided_since_ns: int | None
    ) -> list[Sequence[TurnRecord]]:
        """Accept the last attempt of a session (see `FinalAttempt`); return all records that now count."""
        self._in_progress.remove(session)
        all_count = False  # none of the tests found an outage
        if session.undecided:
            session.tries += 1
            all_count = undecided_since_ns is None or session.tries >= MISSES_OF_OUTAGE
            self._waiting.appendleft(session)
        elif undecided_since_ns is not None:
            session.undecided, session.undecided_ns, session.tries = records, undecided_since_ns, 0
            self._waiting.append(session)
        else:
            self._counted.append(records)
        for each in [each for each in self._waiting if each.undecided]:
            if all_count or self._opened_since(each.undecided_ns):
                self._counted.append(each.undecided)
                self._waiting.remove(each)
        self.wake()
        counted, self._counted = self._counted, []
        return counted

    def excuse(self, outage: int) -> list[TurnRecord]:
        """Requeue undecided sessions excused by an outage (by number); return the excused records."""
        excused: list[TurnRecord] = []
        for session in [each for each in (*self._in_progress, *reversed(self._waiting)) if each.undecided]:
            records, session.undecided = session.undecided, ()
            if session in self._in_progress:
                excused += records
                continue
            self._waiting.remove(session)
            if session.excuse(outage):
                excused += records
                self._waiting.appendleft(session)
            else:
                self._counted.append(records)
        self.wake()
        return excused

    def close(self) -> None:
        """Stop distributing sessions."""
        self._waiting.clear()
        self.wake()

    async def wait(self, until_ns: int | None = None) -> None:
        """Wait for a change until `until_ns`."""
        if until_ns is None:
            await self._changed.wait()
            return
        timer = asyncio.ensure_future(self._clock.run_at(until_ns, self.wake))
        try:
            await self._changed.wait()
        finally:
            timer.cancel()

    def wake(self) -> None:
        """Wake waiting workers."""
        self._changed.set()
        self._changed = asyncio.Event()
