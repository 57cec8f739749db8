"""Queue a run's remaining sessions, including those whose last attempt is undecided."""

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

_MAX_EXCUSED_CUTS = 2


@dataclass(slots=True, eq=False)
class DueSession:
    """A session to run.

    Args:
        due_ns: When the session is due in an open loop; None in a closed loop.
        patience: Limit on how long the session waits.
        tries: Number of counted attempts or, while `undecided` is set, of attempts to test for an outage.
        busy: Number of refusals because the endpoint had no free session.
        cut: Whether an attempt has lost contact and the endpoint has not responded since.
        cut_in: Numbers of the outages in which contact was lost.
        undecided: The last attempt's records, until it is decided whether an outage excuses it.
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

    def count(self, *, busy: bool, dialled: bool) -> None:
        """Count an attempt unless it tested for an outage."""
        if not self.undecided:
            self.busy += busy
            self.tries += dialled and not busy
            self.attempt += not busy

    def excuse(self, outage: int) -> bool:
        """Return whether an outage excuses the failed attempt; `outage` is its number in the run."""
        # A session that loses contact in every outage may be causing them, so the third outage does not
        # excuse it.
        if self.cut:
            self.cut_in.add(outage)
        excused = not self.cut or len(self.cut_in) <= _MAX_EXCUSED_CUTS
        self.cut = False
        if excused:
            self.tries, self.patience = 0, Patience(self.patience.seconds)
        return excused


class SessionQueue:
    """The queue of a run's sessions. Workers take a session with `next` and return it with `ended`.

    Args:
        opened_since: Function that returns whether a session dialled at or after a given time has been
            opened.
    """

    def __init__(
        self, sessions: Iterable[DueSession], opened_since: Callable[[int], bool], clock: Clock
    ) -> None:
        self._waiting = deque(sessions)  # undecided sessions last
        self._in_progress: list[DueSession] = []
        self._opened_since = opened_since
        self._clock = clock
        self._final: list[Sequence[TurnRecord]] = []
        self._changed = asyncio.Event()

    async def next(self, opens_ns: int = 0) -> DueSession | None:
        """Return the next session to run at `opens_ns` or later; None when no sessions remain.

        Waits as long as sessions in progress may decide an undecided one. If none are in progress, an
        undecided session is rerun to test for an outage.
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
        """Take back a session after its last attempt; return the records that are now final."""
        self._in_progress.remove(session)
        no_outage = False
        if session.undecided:
            session.tries += 1
            no_outage = undecided_since_ns is None or session.tries >= MISSES_OF_OUTAGE
            self._waiting.appendleft(session)
        elif undecided_since_ns is not None:
            session.undecided, session.undecided_ns, session.tries = records, undecided_since_ns, 0
            self._waiting.append(session)
        else:
            self._final.append(records)
        for each in [each for each in self._waiting if each.undecided]:
            if no_outage or self._opened_since(each.undecided_ns):
                self._final.append(each.undecided)
                self._waiting.remove(each)
        self.wake()
        final, self._final = self._final, []
        return final

    def excuse(self, outage: int) -> list[TurnRecord]:
        """Requeue undecided sessions that an outage excuses, and return their records."""
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
                self._final.append(records)
        self.wake()
        return excused

    def close(self) -> None:
        """Stop handing out sessions."""
        self._waiting.clear()
        self.wake()

    async def wait(self, until_ns: int | None = None) -> None:
        """Wait for a change, at most until `until_ns`."""
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
